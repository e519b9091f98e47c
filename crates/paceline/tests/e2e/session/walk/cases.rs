//! The states, with the statements that create and show them.

/// The fate of a state, by the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The client finds it on any server connection.
    Followed,
    /// The client keeps its server connection until this statement ends that, or, without one, until the client disconnects.
    Pinned(Option<&'static str>),
    /// The client finds it on a server connection that is new; another client may find a trace of it on this one.
    Copied,
    /// It is gone when the transaction is over, or when another client has used the connection.
    Reset,
}

use Fate::{Copied, Followed, Pinned, Reset};

pub(super) struct Case {
    /// The name of its row in the table.
    pub(super) row: &'static str,
    pub(super) fate: Fate,
    /// The statements of the client, a transaction each, or parts of one.
    pub(super) said: &'static [&'static str],
    /// A query that shows the state.
    pub(super) look: &'static str,
}

/// A case of one row.
const fn case(
    row: &'static str,
    fate: Fate,
    said: &'static [&'static str],
    look: &'static str,
) -> Case {
    Case {
        row,
        fate,
        said,
        look,
    }
}

const FLAG: &str = "SELECT coalesce(current_setting('app.flag', true), '')";
const LOCKS: &str =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
const TEMPORARIES: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()";
const CHANNELS: &str = "SELECT count(*) FROM pg_listening_channels()";
const CURSORS: &str = "SELECT count(*) FROM pg_cursors WHERE is_holdable";

pub(super) const CASES: &[Case] = &[
    case(
        "settings",
        Followed,
        &["SET work_mem = '77kB'"],
        "SHOW work_mem",
    ),
    case(
        "settings",
        Followed,
        &["SELECT set_config('work_mem', '77kB', false)"],
        "SHOW work_mem",
    ),
    case(
        "settings",
        Followed,
        &["BEGIN", "SET LOCAL work_mem = '77kB'", "COMMIT"],
        "SHOW work_mem",
    ),
    case(
        "settings",
        Followed,
        &["SET datestyle = 'sql, dmy'", "SET datestyle = 'iso'"],
        "SELECT '01/02/2003'::date",
    ),
    case(
        "roles",
        Followed,
        &["SET ROLE paceline_walk"],
        "SELECT current_user, session_user",
    ),
    case(
        "roles",
        Followed,
        &["SET SESSION AUTHORIZATION paceline_walk"],
        "SELECT current_user, session_user",
    ),
    case(
        "roles",
        Followed,
        &["SET ROLE paceline_walk", "RESET ROLE"],
        "SELECT current_user, session_user",
    ),
    case(
        "settings that functions set",
        Reset,
        &["SELECT runs('SET work_mem = 77')"],
        "SHOW work_mem",
    ),
    case(
        "settings that functions set",
        Reset,
        &["DO 'BEGIN SET work_mem = 77; END'"],
        "SHOW work_mem",
    ),
    case(
        "settings that functions set",
        Followed,
        &["SELECT runs('SET application_name = walk')"],
        "SHOW application_name",
    ),
    case(
        "names of one's own",
        Followed,
        &["SET app.flag = 'x'"],
        FLAG,
    ),
    case(
        "names of one's own",
        Copied,
        &["SET app.flag = 'x'", "RESET app.flag"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["BEGIN", "SET LOCAL app.flag = 'x'", "COMMIT"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["SELECT set_config('app.flag', 'x', true)"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["BEGIN", "SET app.flag = 'x'", "ROLLBACK"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["SET app.flag = 'x'", "DISCARD ALL"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["SET app.flag = 'x'; SELECT 1/0"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["RESET app.flag"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["BEGIN; SAVEPOINT s; SET LOCAL app.flag = 'x'; ROLLBACK TO s; COMMIT"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &[
            "PREPARE p (text) AS SELECT set_config('app.flag', $1, true)",
            "EXECUTE p('x')",
        ],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["SELECT set_config('app.flag', relname, true) FROM pg_class WHERE relname = 'pg_class'"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "names of one's own",
        Copied,
        &["SELECT 1"],
        "SELECT current_setting('app.flag', true)",
    ),
    case(
        "sequences",
        Reset,
        &["INSERT INTO numbered DEFAULT VALUES"],
        "SELECT lastval()",
    ),
    case("sequences", Followed, &["SELECT 1"], "SELECT lastval()"),
    case(
        "sequences",
        Followed,
        &["SELECT 1"],
        "SELECT currval('numbered_id_seq')",
    ),
    case(
        "prepared statements",
        Followed,
        &["PREPARE p AS SELECT 'mine'"],
        "EXECUTE p",
    ),
    case(
        "prepared statements",
        Pinned(Some("DEALLOCATE ALL")),
        &["PREPARE p AS SELECT 'mine'; SELECT 1"],
        "EXECUTE p",
    ),
    case(
        "prepared statements",
        Pinned(Some("DEALLOCATE p")),
        &["DO $$ BEGIN EXECUTE 'PREPARE p AS SELECT 2'; END $$"],
        "EXECUTE p",
    ),
    case(
        "prepared statements that functions make",
        Reset,
        &["SELECT runs('PREPARE p AS SELECT 2')"],
        "EXECUTE p",
    ),
    case(
        "temporary objects",
        Pinned(Some("DROP TABLE mine")),
        &["CREATE TEMP TABLE mine (id int)"],
        "SELECT count(*) FROM mine",
    ),
    case(
        "temporary objects",
        Pinned(Some("DISCARD TEMP")),
        &["SELECT 1 AS a INTO TEMP mine"],
        "SELECT a FROM mine",
    ),
    case(
        "temporary objects",
        Pinned(Some("DROP FUNCTION pg_temp.f()")),
        &["CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 3'"],
        "SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()",
    ),
    case(
        "temporary objects",
        Pinned(Some("DISCARD TEMP")),
        &["DO 'BEGIN CREATE TEMP TABLE mine (id int); END'"],
        TEMPORARIES,
    ),
    case(
        "temporary objects that functions make",
        Reset,
        &["SELECT runs('CREATE TEMP TABLE mine (id int)')"],
        TEMPORARIES,
    ),
    case(
        "channels",
        Pinned(Some("UNLISTEN mine")),
        &["LISTEN mine"],
        CHANNELS,
    ),
    case(
        "channels",
        Pinned(Some("UNLISTEN *")),
        &["DO 'BEGIN LISTEN mine; END'"],
        CHANNELS,
    ),
    case(
        "channels that functions listen on",
        Reset,
        &["SELECT runs('LISTEN mine')"],
        CHANNELS,
    ),
    case(
        "cursors",
        Pinned(Some("CLOSE mine")),
        &["DECLARE mine CURSOR WITH HOLD FOR SELECT generate_series(1, 9)"],
        "FETCH 2 FROM mine",
    ),
    case(
        "cursors",
        Followed,
        &[
            "BEGIN",
            "DECLARE mine CURSOR FOR SELECT generate_series(1, 9)",
            "COMMIT",
        ],
        "FETCH 2 FROM mine",
    ),
    case(
        "cursors that functions hold",
        Reset,
        &["SELECT runs('DECLARE mine CURSOR WITH HOLD FOR SELECT 1')"],
        CURSORS,
    ),
    case(
        "advisory locks",
        Pinned(Some("SELECT pg_advisory_unlock(4801)")),
        &["SELECT pg_advisory_lock(4801)"],
        LOCKS,
    ),
    case(
        "advisory locks",
        Followed,
        &["SELECT pg_advisory_xact_lock(4801)"],
        LOCKS,
    ),
    case(
        "advisory locks",
        Pinned(Some("SELECT pg_advisory_unlock_all()")),
        &["DO 'BEGIN PERFORM pg_advisory_lock(4801); END'"],
        LOCKS,
    ),
    case(
        "advisory locks that functions take",
        Reset,
        &["SELECT runs('SELECT pg_advisory_lock(4801)')"],
        LOCKS,
    ),
    case(
        "seeds",
        Pinned(Some("DISCARD ALL")),
        &["SELECT setseed(0.5)"],
        "SELECT random(), random()",
    ),
    case(
        "seeds",
        Pinned(Some("DISCARD ALL")),
        &["SET seed = 0.25"],
        "SELECT random(), random()",
    ),
    case(
        "seeds",
        Pinned(Some("DISCARD ALL")),
        &["SELECT set_config('seed', '0.75', false)"],
        "SELECT random(), random()",
    ),
    case(
        "seeds",
        Pinned(Some("DISCARD ALL")),
        &["SELECT set_config('seed', '0.75', true)"],
        "SELECT random(), random()",
    ),
    case(
        "seeds",
        Pinned(Some("DISCARD ALL")),
        &["BEGIN", "SET LOCAL seed = 0.75", "COMMIT"],
        "SELECT random(), random()",
    ),
    case(
        "libraries",
        Pinned(Some("DISCARD ALL")),
        &["LOAD 'auto_explain'"],
        "SELECT count(*) FROM pg_settings WHERE name = 'auto_explain.log_analyze'",
    ),
    case(
        "large objects",
        Followed,
        &[
            "SELECT lo_open(lo_create(480100), 262144) >= 0",
            "SELECT lo_unlink(480100)",
        ],
        "SELECT lo_tell(0)",
    ),
    case(
        "transactions",
        Followed,
        &["BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "COMMIT"],
        "SHOW transaction_isolation",
    ),
    case(
        "transactions",
        Followed,
        &["BEGIN", "SET CONSTRAINTS ALL DEFERRED", "ROLLBACK"],
        "SHOW transaction_read_only",
    ),
    case(
        "replication origins",
        Pinned(None),
        &["SELECT pg_replication_origin_session_setup('paceline_walk')"],
        "SELECT pg_replication_origin_session_is_setup()",
    ),
];

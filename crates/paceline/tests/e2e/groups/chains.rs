//! Chains: the differences between one transaction for all and a transaction for each member. Deferred constraints, equal
//! notifications, settings that functions change.

use crate::harness::cluster::Cluster;
use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::{REASON, Target};
use crate::harness::{Gate, Reply, Stage, until};

const CLIENTS: usize = 6;

pub(super) fn stage(declared: &str) -> Stage {
    Stage::on_shared()
        .set("default_pool_size=1")
        .declare(declared)
        .open()
}

fn teach_once(stage: &Stage, unit: &[u8]) {
    let mut client = stage.client();
    client.ask(unit);
    // The only server connection is free when PostgreSQL has been asked.
    client.ok("BEGIN; COMMIT");
}

/// Runs each of these alone until it is known to be short.
fn teach(stage: &Stage, units: &[Vec<u8>]) {
    for unit in units {
        (0..5).for_each(|_| teach_once(stage, unit));
    }
}

/// Units that leave together if they may, behind the outsider's statements.
fn together(stage: &Stage, units: &[Vec<u8>], before: &str) -> Vec<Reply> {
    let mut clients = stage.clients(units.len());
    let mut gate = Gate::close(stage);
    stage.direct().ok(before);
    for (client, unit) in clients.iter_mut().zip(units) {
        gate.submit(client, unit);
    }
    gate.open();
    clients.iter_mut().map(RawClient::reply).collect()
}

/// Rounds of `units` until some have shared a transaction; `round` looks at the answers. On a busy machine no statement may
/// be short for a while.
fn until_chained(stage: &Stage, units: &[Vec<u8>], before: &str, mut round: impl FnMut(&[Reply])) {
    let chained = || stage.counters().groups;
    let start = chained();
    until("they share a transaction", || {
        teach(stage, units);
        round(&together(stage, units, before));
        stage.target() == Target::Bare || chained() > start
    });
}

/// The reason why a template runs alone, as its users see it.
fn reason(stage: &Stage, part: &str) -> String {
    let rows = stage.client().ok("SHOW GROUPS").rows();
    let row = rows
        .iter()
        .find(|row| row[0].as_ref().is_some_and(|t| t.contains(part)));
    let reason = row.and_then(|row| row[REASON].clone());
    reason.unwrap_or_default()
}

fn hinted(verb: &str, rest: &str) -> String {
    format!("{verb} /*+ COMMIT_ON_SUCCESS */ {rest}")
}

/// PostgreSQL refuses each of two rows that refer to one another, in either order.
#[test]
fn rows_that_need_one_another_are_refused() {
    let stage = stage("");
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE a (id int PRIMARY KEY, b int);
         CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a DEFERRABLE INITIALLY DEFERRED);
         ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b DEFERRABLE INITIALLY DEFERRED;
         CREATE TABLE c (id int, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED);
         BEGIN; INSERT INTO a VALUES (0, 0); INSERT INTO b VALUES (0, 0); COMMIT");
    let insert = |table: &str, id: i64, other: i64| {
        let sql = hinted("INSERT", &format!("INTO {table} SELECT $1::int, $2::int"));
        unit(&sql, &[Some(&id.to_string()), Some(&other.to_string())])
    };
    let unrelated = unit(&hinted("INSERT", "INTO c SELECT $1::int"), &[Some("1")]);
    let units = [
        insert("a", 1, 1),
        insert("b", 1, 1),
        unrelated.clone(),
        insert("a", 2, 2),
        insert("b", 2, 2),
    ];
    let mut lesson = 100;
    until("they share a transaction", || {
        for table in ["a", "b"] {
            for _ in 0..5 {
                lesson += 1;
                teach_once(&stage, &insert(table, lesson, 0));
            }
        }
        direct.ok("DELETE FROM c");
        teach_once(&stage, &unrelated);
        let before = stage.counters().members;
        for _ in 0..4 {
            direct.ok("DELETE FROM c");
            teach_once(&stage, &unrelated);
        }
        let replies = together(&stage, &units, "DELETE FROM c");
        let states: Vec<String> = replies.iter().map(Reply::sqlstate).collect();
        assert_eq!(states, ["23503", "23503", "", "23503", "23503"]);
        let all = units.len() as i64;
        stage.target() == Target::Bare || stage.counters().members >= before + all
    });
    let rows = direct.number(
        "SELECT (SELECT count(*) FROM a WHERE id < 100) + (SELECT count(*) FROM b WHERE id < 100)",
    );
    assert_eq!(rows, 2);
}

/// A function that inserts in the wrong order needs its constraints at its end only.
#[test]
fn a_function_that_relies_on_deferral_succeeds() {
    let stage = stage("[[group]]\nfunction = \"make_family\"\n");
    stage.direct().ok("CREATE TABLE parent (id int PRIMARY KEY);
         CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
         CREATE FUNCTION make_family(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO child VALUES (i); INSERT INTO parent VALUES (i); RETURN i; END $$");
    let units: Vec<_> = (0..CLIENTS)
        .map(|id| unit("SELECT make_family($1)", &[Some(&id.to_string())]))
        .collect();
    let clear = "DELETE FROM child; DELETE FROM parent";
    until_chained(&stage, &units, clear, |replies| {
        for (id, reply) in replies.iter().enumerate() {
            assert_eq!(reply.clone().expect_ok("family").value(), id.to_string());
        }
    });
}

const NOTIFYING: &str = "
    CREATE TABLE log (id int, note text);
    CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('told', 'same'); RETURN new; END $$;
    CREATE FUNCTION told() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('told', 'same'); RETURN 'told'; END $$";

/// The number of notifications since the last call.
pub(super) fn notifications(stage: &Stage, listener: &mut RawClient) -> usize {
    stage.direct().ok("NOTIFY told, 'end'");
    let (mut count, mut ended) = (0, false);
    until("the last notification has come", || {
        for message in listener.ok("SELECT 1").0 {
            let said = String::from_utf8_lossy(&message.body).into_owned();
            count += usize::from(message.tag == b'A' && said.contains("same"));
            ended |= message.tag == b'A' && said.contains("end");
        }
        ended
    });
    count
}

/// Each member's notification arrives, from a function, a trigger or a default.
#[test]
fn equal_notifications_arrive_one_by_one() {
    for (setup, sql) in [
        (
            "CREATE TRIGGER t AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION tell()",
            hinted("INSERT", "INTO log SELECT $1::int"),
        ),
        (
            "CREATE TABLE base (id int); CREATE TRIGGER t AFTER INSERT ON base FOR EACH ROW EXECUTE FUNCTION tell();
             CREATE RULE r AS ON INSERT TO log DO INSTEAD INSERT INTO base VALUES (new.id)",
            hinted("INSERT", "INTO log SELECT $1::int"),
        ),
        (
            "ALTER TABLE log ALTER note SET DEFAULT told()",
            hinted("INSERT", "INTO log (id) SELECT $1::int"),
        ),
        (
            "CREATE VIEW telling AS SELECT told() AS note",
            hinted("INSERT", "INTO log (id, note) SELECT $1::int, note FROM telling"),
        ),
        (
            "CREATE TABLE part (LIKE log); ALTER TABLE log RENAME TO old; CREATE TABLE log (id int, note text) PARTITION BY RANGE (id);
             ALTER TABLE log ATTACH PARTITION part FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
             CREATE TRIGGER t AFTER INSERT ON part FOR EACH ROW EXECUTE FUNCTION tell()",
            hinted("INSERT", "INTO log SELECT $1::int"),
        ),
        (
            "ALTER TABLE log ALTER note SET DEFAULT pg_notify('told', 'same')::text",
            hinted("INSERT", "INTO log (id) SELECT $1::int"),
        ),
        (
            "ALTER TABLE log ADD CHECK (pg_notify('told', 'same')::text = '')",
            hinted("INSERT", "INTO log SELECT $1::int"),
        ),
        (
            "CREATE DOMAIN telling AS text DEFAULT pg_notify('told', 'same')::text; ALTER TABLE log ALTER note TYPE telling",
            hinted("INSERT", "INTO log (id) SELECT $1::int"),
        ),
        (
            "CREATE DOMAIN telling AS int CHECK (pg_notify('told', 'same')::text = ''); ALTER TABLE log ALTER id TYPE telling",
            hinted("INSERT", "INTO log SELECT $1::int"),
        ),
        (
            // PostgreSQL 14 marks the copies of triggers in partitions as internal.
            "CREATE TABLE whole (LIKE log) PARTITION BY RANGE (id); ALTER TABLE whole ATTACH PARTITION log FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
             CREATE TRIGGER t AFTER INSERT ON whole FOR EACH ROW EXECUTE FUNCTION tell();
             UPDATE pg_trigger SET tgisinternal = true WHERE tgrelid = 'log'::regclass",
            hinted("INSERT", "INTO log SELECT $1::int"),
        ),
        (
            "ALTER TABLE log ALTER note SET DEFAULT pg_notify('told', 'same')::text || current_query()",
            hinted("INSERT", "INTO log (id) SELECT $1::int"),
        ),
        ("", hinted("INSERT", "INTO log (id, note) SELECT $1::int, told()")),
        ("", hinted("INSERT", "INTO log (id) SELECT $1::int WHERE pg_notify('told', 'same') IS NOT NULL")),
        ("", hinted("SELECT", "told(), $1::int")),
    ] {
        let stage = stage("");
        stage.direct().ok(NOTIFYING);
        stage.direct().ok(setup);
        let units: Vec<_> = (0..CLIENTS).map(|id| unit(&sql, &[Some(&id.to_string())])).collect();
        let mut listener = stage.direct();
        listener.ok("LISTEN told");
        teach(&stage, &units[..1]);
        notifications(&stage, &mut listener);
        for reply in together(&stage, &units, "") {
            reply.expect_ok(&sql);
        }
        assert_eq!(notifications(&stage, &mut listener), CLIENTS, "{setup}: {sql}");
        if stage.target() == Target::Paceline {
            let why = reason(&stage, "COMMIT_ON_SUCCESS");
            assert!(why.contains("no chain: "), "{sql}: {why:?}");
        }
    }
}

/// A trigger that is created after the analysis is found.
#[test]
fn a_trigger_that_is_made_later_is_found() {
    let later = "CREATE TRIGGER t AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION tell()";
    let below = "CREATE TRIGGER t AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION tell_old()";
    for (sql, change) in [
        (hinted("INSERT", "INTO log SELECT $1::int"), later),
        (hinted("DELETE", "FROM log WHERE id = $1::int + 0"), below),
    ] {
        let stage = stage("");
        let mut direct = stage.direct();
        direct.ok(NOTIFYING);
        direct.ok(
            "CREATE FUNCTION tell_old() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('told', 'same'); RETURN old; END $$;
             ALTER TABLE log ADD PRIMARY KEY (id); CREATE TABLE child (id int REFERENCES log ON DELETE CASCADE)",
        );
        let fill = match sql.starts_with("DELETE") {
            true => {
                "DELETE FROM log; INSERT INTO log SELECT generate_series(0, 5); INSERT INTO child TABLE (SELECT id FROM log)"
            }
            false => "DELETE FROM log",
        };
        let fill = fill.replace("TABLE (SELECT id FROM log)", "SELECT id FROM log");
        let units: Vec<_> = (0..CLIENTS)
            .map(|id| unit(&sql, &[Some(&id.to_string())]))
            .collect();
        let all_succeed = |replies: &[Reply]| {
            for reply in replies {
                reply.clone().expect_ok(&sql);
            }
        };
        until_chained(&stage, &units, &fill, all_succeed);
        let mut listener = stage.direct();
        listener.ok("LISTEN told");
        all_succeed(&together(&stage, &units, &format!("{fill}; {change}")));
        assert_eq!(notifications(&stage, &mut listener), CLIENTS, "{change}");
        all_succeed(&together(&stage, &units, &fill));
        assert_eq!(
            notifications(&stage, &mut listener),
            CLIENTS,
            "{change}, once it is known"
        );
    }
}

/// One that fits better than PostgreSQL's own.
#[test]
fn a_function_that_is_made_later_is_found() {
    let stage = stage("");
    let mut direct = stage.direct();
    direct.ok(NOTIFYING);
    let plain = hinted(
        "INSERT",
        "INTO log (id, note) SELECT $1::int, round($1::int)",
    );
    let units: Vec<_> = (0..CLIENTS)
        .map(|id| query(&plain.replace("$1", &id.to_string())))
        .collect();
    until_chained(&stage, &units, "DELETE FROM log", |replies| {
        for reply in replies {
            reply.clone().expect_ok("insert");
        }
    });
    let mut listener = stage.direct();
    listener.ok("LISTEN told");
    let change = "CREATE FUNCTION round(int) RETURNS text LANGUAGE sql AS 'SELECT told()'";
    for reply in together(&stage, &units, change) {
        reply.expect_ok("insert");
    }
    assert_eq!(notifications(&stage, &mut listener), CLIENTS);
}

/// A constant is read under the settings at the time of its text.
#[test]
fn a_constant_follows_the_settings_of_the_server() {
    let stage = Stage::on(Cluster::private())
        .set("default_pool_size=1")
        .open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE log (id int, day date)");
    let sql = hinted(
        "INSERT",
        "INTO log SELECT 1, $$01/02/03$$::date RETURNING day",
    );
    let units = vec![query(&sql); CLIENTS];
    for (style, day) in [("ISO, MDY", "2003-01-02"), ("ISO, DMY", "2003-02-01")] {
        direct.ok(&format!("ALTER SYSTEM SET DateStyle = '{style}'"));
        direct.ok("SELECT pg_reload_conf()");
        let mut client = stage.client();
        until("the reload has come", || {
            client.value("SHOW DateStyle") == style
        });
        until_chained(&stage, &units, "DELETE FROM log", |replies| {
            for reply in replies {
                assert_eq!(reply.clone().expect_ok("insert").value(), day);
            }
        });
    }
}

/// A function that changes a setting changes it for its client only.
#[test]
fn settings_of_functions_are_their_clients_own() {
    let stage = stage("");
    stage.direct().ok(
        "CREATE TABLE log (id int, note text);
         CREATE FUNCTION sets(int) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.x', coalesce(nullif(current_setting('app.x', true), '') || ',', '') || $1, true) $$;
         CREATE FUNCTION names(int) RETURNS text LANGUAGE sql AS $$ SELECT set_config('application_name', 'a' || $1, false) $$",
    );
    for (sql, expected) in [
        (
            hinted(
                "INSERT",
                "INTO log SELECT $1::int, sets($1::int) RETURNING note",
            ),
            "",
        ),
        (hinted("SELECT", "sets($1)"), ""),
        (hinted("SELECT", "names($1)"), "a"),
    ] {
        let units: Vec<_> = (0..CLIENTS)
            .map(|id| unit(&sql, &[Some(&id.to_string())]))
            .collect();
        teach(&stage, &units[..1]);
        let mut clients = stage.clients(CLIENTS);
        let mut gate = Gate::close(&stage);
        for (client, unit) in clients.iter_mut().zip(&units) {
            gate.submit(client, unit);
        }
        gate.open();
        for (id, client) in clients.iter_mut().enumerate() {
            let value = client.reply().expect_ok(&sql).value();
            assert_eq!(value, format!("{expected}{id}"), "{sql}");
            if expected == "a" {
                assert_eq!(client.value("SHOW application_name"), value);
            }
        }
    }
}

/// A declared function of a trigger may be chained.
#[test]
fn a_declared_function_of_a_trigger_shares_a_transaction() {
    let stage = stage("[[group]]\nfunction = \"noted\"\n");
    stage.direct().ok(
        "CREATE TABLE log (id int); CREATE TABLE notes (id int);
         CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO notes VALUES (new.id); RETURN new; END $$;
         CREATE TRIGGER t AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION noted()",
    );
    let sql = hinted("INSERT", "INTO log SELECT $1::int");
    let units: Vec<_> = (0..CLIENTS)
        .map(|id| unit(&sql, &[Some(&id.to_string())]))
        .collect();
    until_chained(
        &stage,
        &units,
        "DELETE FROM log; DELETE FROM notes",
        |replies| {
            for reply in replies {
                assert_eq!(reply.clone().expect_ok("insert").tag(), "INSERT 0 1");
            }
            assert_eq!(
                stage.direct().number("SELECT count(*) FROM notes"),
                CLIENTS as i64
            );
        },
    );
}

/// A transaction that sees one state of the data only is not shared.
#[test]
fn nothing_is_chained_but_under_read_committed() {
    let stage = stage("");
    let database = &stage.database;
    stage.direct().ok("CREATE TABLE log (id int)");
    stage.direct().ok(&format!(
        "ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'"
    ));
    let sql = hinted("INSERT", "INTO log SELECT $1::int");
    let units: Vec<_> = (0..CLIENTS)
        .map(|id| unit(&sql, &[Some(&id.to_string())]))
        .collect();
    teach(&stage, &units[..1]);
    for reply in together(&stage, &units, "") {
        reply.expect_ok("insert");
    }
    assert_eq!(stage.counters().groups, 0);
    if stage.target() == Target::Paceline {
        assert_eq!(
            reason(&stage, "INTO log"),
            "setting: transaction_isolation is repeatable read"
        );
    }
}

/// Alone, each has a later time than the one before it.
#[test]
fn what_the_time_decides_is_not_chained() {
    let no_default = "at timestamptz";
    for (at, sql) in [
        (
            no_default,
            "UPDATE t SET n = n + 1, at = now() WHERE id = $1::int AND at < now()",
        ),
        (
            no_default,
            "UPDATE t SET n = n + 1, at = now() WHERE id = $1::int AND at < (SELECT now())",
        ),
        (
            no_default,
            "INSERT INTO t SELECT $1::int, 5, now() ON CONFLICT (id) DO UPDATE SET n = t.n + 1, at = EXCLUDED.at WHERE t.at < EXCLUDED.at",
        ),
        (
            "at timestamptz DEFAULT CURRENT_TIMESTAMP",
            "INSERT INTO t (id) SELECT $1::int ON CONFLICT (id) DO UPDATE SET n = t.n + 1, at = EXCLUDED.at WHERE t.at < EXCLUDED.at",
        ),
        (
            "at timetz DEFAULT CURRENT_TIME",
            "INSERT INTO t (id) SELECT $1::int ON CONFLICT (id) DO UPDATE SET n = t.n + 1, at = EXCLUDED.at WHERE t.at < EXCLUDED.at",
        ),
        (
            "at timestamptz DEFAULT 'now'::text::timestamptz",
            "INSERT INTO t (id) SELECT $1::int ON CONFLICT (id) DO UPDATE SET n = t.n + 1, at = EXCLUDED.at WHERE t.at < EXCLUDED.at",
        ),
        (
            "at timestamptz DEFAULT now()",
            "INSERT INTO t (id) SELECT $1::int ON CONFLICT (id) DO UPDATE SET n = t.n + 1, at = EXCLUDED.at WHERE t.at < EXCLUDED.at",
        ),
    ] {
        let stage = stage("");
        let mut direct = stage.direct();
        direct.ok(&format!("CREATE TABLE t (id int PRIMARY KEY, n int, {at})"));
        let fill = "DELETE FROM t; INSERT INTO t (id, n) VALUES (7, 0); UPDATE t SET at = now() - '1 day'::interval WHERE at IS NULL";
        direct.ok(fill);
        let (verb, rest) = sql.split_once(' ').unwrap();
        let sql = hinted(verb, rest);
        let units = vec![unit(&sql, &[Some("7")]); CLIENTS];
        teach(&stage, &units[..1]);
        for reply in together(&stage, &units, fill) {
            reply.expect_ok(&sql);
        }
        assert_eq!(direct.number("SELECT n FROM t"), CLIENTS as i64, "{sql}");
        if stage.target() == Target::Paceline {
            let why = reason(&stage, "COMMIT_ON_SUCCESS");
            assert!(why.contains("the time"), "{sql}: {why:?}");
        }
    }
}

/// An application that checks by `xmin` whether a row has changed must see each version.
#[test]
fn each_version_of_a_row_has_a_number_of_its_own() {
    let stage = stage("");
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (7, 0)");
    let sql = hinted(
        "UPDATE",
        "t SET n = n + 1 WHERE id = $1::int RETURNING xmin",
    );
    let units = vec![unit(&sql, &[Some("7")]); CLIENTS];
    teach(&stage, &units[..1]);
    let replies = together(&stage, &units, "");
    let mut versions: Vec<_> = replies.iter().map(Reply::value).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), CLIENTS);
    if stage.target() == Target::Paceline {
        let why = reason(&stage, "COMMIT_ON_SUCCESS");
        assert!(why.contains("the number of a transaction"), "{why:?}");
    }
}

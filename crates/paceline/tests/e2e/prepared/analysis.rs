//! PostgreSQL analyses what a client parses, at that moment and in that client's session: names, types, privileges and columns
//! are those that the client would find alone, also if other clients have prepared statements before. Each scene runs on PostgreSQL itself
//! and through Paceline, in both pool modes, and the answers are compared.

use crate::harness::message::{
    bind, bind_formats, close, describe, execute, parse, query, sync, unit,
};
use crate::harness::raw::RawClient;
use crate::harness::{Reply, Stage, assert_same};

const MODES: [&str; 2] = ["transaction", "session"];

fn stage(mode: &str, servers: usize) -> Stage {
    Stage::on_shared()
        .set(&format!("pool_mode={mode}"))
        .set(&format!("default_pool_size={servers}"))
        .open()
}

fn prepare(name: &str, sql: &str) -> Vec<u8> {
    [parse(name, sql, &[]), sync()].concat()
}

fn prepare_and_describe(name: &str, sql: &str) -> Vec<u8> {
    [parse(name, sql, &[]), describe(b'S', name), sync()].concat()
}

fn run(name: &str, values: &[Option<&str>]) -> Vec<u8> {
    [bind("", name, values), execute("", 0), sync()].concat()
}

fn run_and_describe(name: &str) -> Vec<u8> {
    [
        bind("", name, &[]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]
    .concat()
}

/// A client has prepared and executed these statements and is gone; in transaction pooling its server connection has them.
fn warm(stage: &Stage, statements: &[&str]) {
    let mut early = stage.client();
    for (number, sql) in statements.iter().enumerate() {
        let name = format!("w{number}");
        let unit = [parse(&name, sql, &[]), describe(b'S', &name), sync()];
        early.ask(&unit.concat()).expect_ok(sql);
    }
    early.hang_up();
}

/// The same client on both sides.
struct Both {
    bare: RawClient,
    client: RawClient,
    what: String,
}

impl Both {
    fn new(stage: &Stage, what: &str) -> Self {
        Self {
            bare: stage.direct(),
            client: stage.client(),
            what: what.to_owned(),
        }
    }

    /// Both get the same answer, which is returned.
    fn ask(&mut self, bytes: &[u8]) -> Reply {
        let (bare, client) = (self.bare.ask(bytes), self.client.ask(bytes));
        assert_same(&self.what, &bare.0, &client.0);
        client
    }
}

fn in_both_modes(servers: usize, scene: impl Fn(&Stage, &str)) {
    for mode in MODES {
        scene(&stage(mode, servers), mode);
    }
}

/// The connection has had a temporary table before: PostgreSQL does not look names up again when it gets another.
fn had_temporaries(stage: &Stage) {
    let mut early = stage.client();
    early.ok("BEGIN");
    early.ok("CREATE TEMP TABLE earlier (id int) ON COMMIT DROP");
    early.ok("COMMIT");
    early.hang_up();
}

#[test]
fn a_statement_reads_the_temporary_table_of_its_transaction() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE q (id int); INSERT INTO q VALUES (1), (2)");
        had_temporaries(stage);
        warm(stage, &["SELECT * FROM q", "DELETE FROM q WHERE id = $1"]);
        let mut both = Both::new(stage, mode);
        for _ in 0..2 {
            for sql in [
                "BEGIN",
                "CREATE TEMP TABLE q (id int) ON COMMIT DROP",
                "INSERT INTO q VALUES (7), (1)",
            ] {
                both.ask(&query(sql)).expect_ok(sql);
            }
            let unit = [
                parse("s", "SELECT * FROM q", &[]),
                bind("", "s", &[]),
                execute("", 0),
                sync(),
            ];
            let rows = both.ask(&unit.concat()).expect_ok("select").rows();
            assert_eq!(rows.concat(), [Some("7".to_owned()), Some("1".to_owned())]);
            both.ask(&prepare("d", "DELETE FROM q WHERE id = $1"))
                .expect_ok("parse");
            both.ask(&run("d", &[Some("1")])).expect_ok("delete");
            both.ask(&query("COMMIT")).expect_ok("commit");
            both.ask(&[close(b'S', "s"), close(b'S', "d"), sync()].concat());
        }
        assert_eq!(direct.number("SELECT count(*) FROM q"), 2, "{mode}");
    });
}

/// The client has prepared the text before the temporary table existed.
#[test]
fn a_statement_of_before_reads_the_first_temporary_table_of_its_session() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE q (id int); INSERT INTO q VALUES (1), (2)");
        if mode == "transaction" {
            had_temporaries(stage);
        }
        warm(stage, &["SELECT * FROM q"]);
        let mut both = Both::new(stage, mode);
        both.ask(&prepare("s", "SELECT * FROM q"))
            .expect_ok("parse");
        both.ask(&run("s", &[])).expect_ok("the permanent one");
        for sql in [
            "BEGIN",
            "CREATE TEMP TABLE q (id int) ON COMMIT DROP",
            "INSERT INTO q VALUES (7)",
        ] {
            both.ask(&query(sql)).expect_ok(sql);
        }
        assert_eq!(both.ask(&run("s", &[])).expect_ok("temporary").value(), "7");
        both.ask(&query("COMMIT"));
        assert_eq!(both.ask(&run("s", &[])).expect_ok("again").rows().len(), 2);
    });
}

/// By one packet: the table is made, and the older statement executed, before anything is answered.
#[test]
fn a_statement_reads_the_temporary_table_that_its_own_unit_makes() {
    let stage = stage("transaction", 1);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE q (id int); INSERT INTO q VALUES (1), (2)");
    had_temporaries(&stage);
    let mut both = Both::new(&stage, "one unit");
    both.ask(&prepare("s", "SELECT * FROM q"))
        .expect_ok("parse");
    let unit = [
        parse("", "CREATE TEMP TABLE q AS SELECT 7 AS id", &[]),
        bind("", "", &[]),
        execute("", 0),
        bind("", "s", &[]),
        execute("", 0),
        sync(),
    ];
    let reply = both.ask(&unit.concat()).expect_ok("unit");
    assert_eq!(reply.value(), "7");
}

#[test]
fn a_new_client_reads_the_table_that_its_search_path_finds_now() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE SCHEMA late; CREATE SCHEMA early; CREATE TABLE late.t (a int); INSERT INTO late.t VALUES (1)");
        let path = [("search_path", "early, late")];
        let mut first = stage.client_with(&path);
        first
            .ask(&prepare("s", "SELECT * FROM t"))
            .expect_ok("parse");
        assert_eq!(first.ask(&run("s", &[])).value(), "1");
        first.hang_up();
        direct.ok("CREATE TABLE early.t (a int, b int); INSERT INTO early.t VALUES (2, 3)");
        let mut both = Both::new(stage, mode);
        both.bare.ok("SET search_path TO early, late");
        both.client = stage.client_with(&path);
        both.ask(&prepare_and_describe("s", "SELECT * FROM t"))
            .expect_ok("parse");
        assert_eq!(both.ask(&run_and_describe("s")).rows()[0].len(), 2);
        // Without a name, too, and by the client's own name for another statement.
        both.ask(&unit("SELECT * FROM t", &[])).expect_ok("unnamed");
        both.ask(&prepare("t", "SELECT * FROM t"))
            .expect_ok("another name");
        both.ask(&run("t", &[])).expect_ok("another name");
    });
}

#[test]
fn a_new_client_calls_the_function_that_fits_best_now() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE FUNCTION f(numeric) RETURNS text LANGUAGE sql AS 'SELECT ''numeric'''");
        warm(stage, &["SELECT f(1)"]);
        direct.ok("CREATE FUNCTION f(int) RETURNS text LANGUAGE sql AS 'SELECT ''int'''");
        let mut both = Both::new(stage, mode);
        both.ask(&prepare("s", "SELECT f(1)")).expect_ok("parse");
        assert_eq!(both.ask(&run("s", &[])).value(), "int");
    });
}

#[test]
fn a_constant_names_the_type_that_is_there_now() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TYPE colour AS ENUM ('red')");
        let texts = ["SELECT 'colour'::regtype::oid::text", "SELECT $1::colour"];
        warm(stage, &texts);
        direct.ok("DROP TYPE colour; CREATE TYPE colour AS ENUM ('red', 'blue')");
        let mut both = Both::new(stage, mode);
        both.ask(&prepare("a", texts[0])).expect_ok("parse");
        both.ask(&run("a", &[])).expect_ok("the type's OID");
        both.ask(&prepare_and_describe("b", texts[1]))
            .expect_ok("parse");
        both.ask(&run("b", &[Some("blue")]))
            .expect_ok("a value of it");
    });
}

#[test]
fn a_new_client_gets_the_current_parameter_type() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)");
        let sql = "UPDATE t SET n = $1 WHERE id = 1 RETURNING n";
        warm(stage, &[sql]);
        direct.ok("ALTER TABLE t ALTER COLUMN n TYPE bigint");
        let mut both = Both::new(stage, mode);
        both.ask(&prepare("s", sql)).expect_ok("parse");
        both.ask(&[describe(b'S', "s"), sync()].concat())
            .expect_ok("describe");
        both.ask(&run("s", &[Some("3000000000")]))
            .expect_ok("a bigint");
    });
}

#[test]
fn a_parse_fails_if_the_table_is_gone_and_takes_locks_if_it_is_there() {
    in_both_modes(2, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE gone (a int); CREATE TABLE there (a int)");
        warm(stage, &["SELECT * FROM gone", "SELECT * FROM there"]);
        direct.ok("DROP TABLE gone");
        let mut both = Both::new(stage, mode);
        both.ask(&prepare("g", "SELECT * FROM gone"))
            .expect_error("42P01");
        both.ask(&run("g", &[])).expect_error("26000");
        // The transaction's snapshot is taken by the Parse.
        for client in [&mut both.bare, &mut both.client] {
            client.ok("BEGIN ISOLATION LEVEL REPEATABLE READ");
            client
                .ask(&prepare("t", "SELECT * FROM there"))
                .expect_ok("parse");
        }
        let locks = "SELECT count(DISTINCT pid) FROM pg_locks WHERE relation = 'there'::regclass AND pid <> pg_backend_pid()";
        assert_eq!(direct.number(locks), 2, "{mode}");
        direct.ok("INSERT INTO there VALUES (1)");
        both.ask(&query("SELECT count(*) FROM there"));
        both.ask(&query("COMMIT"));
    });
}

/// asyncpg, pgx: the statement is described once, its rows are read by that.
#[test]
fn rows_of_other_columns_are_an_error_for_a_client_that_knows_the_columns() {
    in_both_modes(2, |stage, mode| {
        let mut direct = stage.direct();
        for (number, change) in [
            "ALTER COLUMN b TYPE real",
            "DROP COLUMN b",
            "ADD COLUMN c int",
            "RENAME COLUMN b TO d",
        ]
        .iter()
        .enumerate()
        {
            let table = format!("t{number}");
            direct.ok(&format!(
                "CREATE TABLE {table} (a int, b int); INSERT INTO {table} VALUES (1, 100)"
            ));
            let sql = format!("SELECT * FROM {table}");
            let mut taken = (mode == "transaction").then(|| OneTaken::new(stage));
            let mut both = Both::new(stage, &format!("{mode}: {change}"));
            both.ask(&prepare_and_describe("s", &sql))
                .expect_ok("parse");
            both.ask(&run("s", &[])).expect_ok("before");
            direct.ok(&format!("ALTER TABLE {table} {change}"));
            // On whatever server connection.
            for _ in 0..3 {
                both.ask(&run("s", &[])).expect_error("0A000");
                if let Some(taken) = &mut taken {
                    taken.swap();
                }
            }
            // As drivers do then.
            both.ask(&[close(b'S', "s"), sync()].concat());
            both.ask(&prepare_and_describe("s", &sql))
                .expect_ok("parse again");
            both.ask(&run("s", &[])).expect_ok("as it is now");
        }
    });
}

/// A client's own first Parse never uses the statements of others, and never gets an error of theirs.
#[test]
fn a_first_parse_never_gets_the_error_of_an_older_plan() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
        warm(stage, &["SELECT * FROM t"]);
        direct.ok("ALTER TABLE t ADD COLUMN b int");
        let mut both = Both::new(stage, mode);
        let unit = [
            parse("s", "SELECT * FROM t", &[]),
            describe(b'S', "s"),
            bind("", "s", &[]),
            execute("", 0),
            sync(),
        ];
        both.ask(&unit.concat()).expect_ok("one unit");
    });
}

/// pgx: values are sent in the type that the statement was described with, in binary format.
#[test]
fn values_keep_the_types_that_the_client_received() {
    let stage = stage("transaction", 2);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)");
    let mut taken = OneTaken::new(&stage);
    let mut both = Both::new(&stage, "types");
    let sql = "UPDATE t SET n = n + 1 WHERE id = $1";
    both.ask(&prepare_and_describe("s", sql)).expect_ok("parse");
    direct.ok("ALTER TABLE t ALTER COLUMN id TYPE bigint");
    let one = 1_i32.to_be_bytes().to_vec();
    let unit = [
        bind_formats("", "s", &[1], &[Some(one)], &[]),
        execute("", 0),
        sync(),
    ];
    for _ in 0..2 {
        both.ask(&unit.concat()).expect_ok("an int");
        taken.swap();
    }
}

/// Two names of one client for one text: each was analysed when it was parsed.
#[test]
fn two_names_for_one_text_are_two_statements() {
    let stage = stage("transaction", 1);
    let mut direct = stage.direct();
    direct.ok("CREATE FUNCTION f(numeric) RETURNS text LANGUAGE sql AS 'SELECT ''numeric'''");
    let mut client = stage.client();
    client.ask(&prepare("a", "SELECT f(1)")).expect_ok("parse");
    direct.ok("CREATE FUNCTION f(int) RETURNS text LANGUAGE sql AS 'SELECT ''int'''");
    client.ask(&prepare("b", "SELECT f(1)")).expect_ok("parse");
    assert_eq!(client.ask(&run("b", &[])).value(), "int");
    assert_eq!(client.ask(&run("a", &[])).value(), "numeric");
}

/// lib/pq: Parse and Describe in one unit, Bind in the next.
#[test]
fn the_unnamed_statement_keeps_the_types_that_its_client_received() {
    let stage = stage("transaction", 2);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let mut taken = OneTaken::new(&stage);
    let mut both = Both::new(&stage, "unnamed");
    both.ask(&prepare_and_describe("", "SELECT a FROM t"))
        .expect_ok("parse");
    direct.ok("ALTER TABLE t ALTER COLUMN a TYPE real");
    taken.swap();
    both.ask(&run("", &[])).expect_error("0A000");
}

/// Another client has one of two server connections, so the next request gets the other one.
struct OneTaken<'a> {
    stage: &'a Stage,
    holder: RawClient,
}

impl<'a> OneTaken<'a> {
    fn new(stage: &'a Stage) -> Self {
        let mut holder = stage.client();
        holder.ok("BEGIN");
        Self { stage, holder }
    }

    /// The other one is taken, and this one is free.
    fn swap(&mut self) {
        let mut next = self.stage.client();
        next.ok("BEGIN");
        self.holder.ok("COMMIT");
        self.holder = next;
    }
}

/// The first statement is gone when the second one fails.
#[test]
fn a_failed_unnamed_parse_forgets_the_older_statement() {
    in_both_modes(1, |stage, mode| {
        let mut both = Both::new(stage, mode);
        both.ask(&prepare("", "SELECT 1")).expect_ok("parse");
        both.ask(&prepare("", "SELECT nothing FROM nowhere"))
            .expect_error("42P01");
        both.ask(&run("", &[])).expect_error("26000");
        // One that the server skips leaves it.
        both.ask(&prepare("", "SELECT 2")).expect_ok("parse");
        let skipped = [bind("", "missing", &[]), parse("", "SELECT 3", &[]), sync()];
        both.ask(&skipped.concat()).expect_error("26000");
        assert_eq!(both.ask(&run("", &[])).value(), "2");
    });
}

#[test]
fn a_refused_duplicate_leaves_nothing_behind() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE DOMAIN mydomain AS int");
        let mut both = Both::new(stage, mode);
        for sql in [
            "PREPARE q1 AS SELECT 1",
            "PREPARE q1 AS SELECT 2",
            "DEALLOCATE q1",
            "PREPARE q1(mydomain) AS SELECT $1",
            "EXECUTE q1(3)",
            "DEALLOCATE q1",
        ] {
            both.ask(&query(sql));
        }
        both.ask(&prepare("twice", "SELECT 1")).expect_ok("first");
        let refused = both.ask(&prepare("twice", "SELECT 2"));
        let refused = refused.expect_error("42P05").error();
        assert!(
            refused.is_some_and(|error| error.text().contains("\"twice\"")),
            "{mode}"
        );
        both.ask(&run("twice", &[])).expect_ok("still there");
    });
}

/// A function drops all statements of its server connection: those of other clients exist again when they are needed.
#[test]
fn statements_survive_what_functions_of_others_drop() {
    let stage = stage("transaction", 1);
    stage.direct().ok(
        "CREATE FUNCTION drops() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DEALLOCATE ALL'; RETURN 1; END $$",
    );
    let [mut client, mut other] = [stage.client(), stage.client()];
    client.ask(&prepare("s", "SELECT 7")).expect_ok("parse");
    other.ok("SELECT drops()");
    assert_eq!(client.ask(&run("s", &[])).expect_ok("alone").value(), "7");
    other.ok("SELECT drops()");
    client.ok("BEGIN");
    assert_eq!(
        client
            .ask(&run("s", &[]))
            .expect_ok("in a transaction")
            .value(),
        "7"
    );
    client.ok("COMMIT");
}

#[test]
fn a_portal_that_deallocates_is_executed_once() {
    in_both_modes(1, |stage, mode| {
        let mut both = Both::new(stage, mode);
        for sql in ["DEALLOCATE s", "DEALLOCATE ALL", "PREPARE p AS SELECT 1"] {
            both.ask(&prepare("s", "SELECT 1"));
            let unit = [
                parse("", sql, &[]),
                bind("x", "", &[]),
                execute("x", 0),
                execute("x", 0),
                sync(),
            ];
            both.ask(&unit.concat()).expect_error("55000");
            both.ask(&run("s", &[]));
            both.ask(&query("DEALLOCATE ALL"));
        }
    });
}

/// In session pooling the server has the client's own names and texts.
#[test]
fn in_session_pooling_nothing_is_renamed() {
    let stage = stage("session", 1);
    stage
        .direct()
        .ok("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let mut both = Both::new(&stage, "session");
    let shown = query(
        "SELECT name, statement, parameter_types, from_sql FROM pg_prepared_statements ORDER BY name",
    );
    both.ask(&query("PREPARE a(int) AS SELECT $1 + a FROM t"))
        .expect_ok("prepare");
    both.ask(&prepare("b", "SELECT $1::text"))
        .expect_ok("parse");
    both.ask(&prepare_and_describe("paceline_1_0", "SELECT a FROM t"))
        .expect_ok("parse");
    both.ask(&shown).expect_ok("all three");
    for sql in [
        "EXECUTE a(2)",
        "EXECUTE b('x')",
        "DO $$ BEGIN EXECUTE 'EXECUTE a(3)'; END $$",
        "EXECUTE a('x')",
        "EXECUTE   missing(1)",
        "PREPARE a AS SELECT 1",
        "PREPARE c AS SELECT nothing",
        "EXPLAIN (COSTS OFF) EXECUTE a(1)",
        "DEALLOCATE b",
        "DEALLOCATE b",
    ] {
        both.ask(&query(sql));
    }
    let mut direct = stage.direct();
    for rename in ["a TO b", "b TO a"] {
        direct.ok(&format!("ALTER TABLE t RENAME COLUMN {rename}"));
        both.ask(&query("EXECUTE a(2)"));
    }
    both.ask(&run("a", &[Some("4")])).expect_ok("by message");
    both.ask(&run("b", &[Some("4")])).expect_error("26000");
    both.ask(&[close(b'S', "paceline_1_0"), sync()].concat());
    both.ask(&shown);
    both.ask(&query("DEALLOCATE ALL"));
    both.ask(&shown);
    // The next client finds none of it.
    both.ask(&prepare("b", "SELECT $1::text"))
        .expect_ok("parse");
    both.client.hang_up();
    let mut next = stage.client();
    assert_eq!(
        next.number("SELECT count(*) FROM pg_prepared_statements"),
        0
    );
}

/// Errors in what is prepared by SQL are at their places in the client's own text.
#[test]
fn errors_of_prepare_and_execute_are_where_the_client_has_written_them() {
    in_both_modes(1, |stage, mode| {
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE t (a int)");
        let mut both = Both::new(stage, mode);
        for sql in [
            "PREPARE  wrong AS SELECT nothing FROM t",
            "PREPARE s(int) AS SELECT a FROM t WHERE a = $1",
            "EXECUTE  s('x')",
            "/* é */ EXECUTE s(1, 2)",
            "EXECUTE s(nothing)",
            "PREPARE r AS SELECT a FROM t",
        ] {
            both.ask(&query(sql));
        }
        direct.ok("ALTER TABLE t RENAME COLUMN a TO b");
        both.ask(&query("EXECUTE r"));
        both.ask(&query("EXECUTE s(1)"));
        both.ask(&run("r", &[]));
    });
}

/// A FETCH that was prepared before its cursor existed has the cursor's columns, on another server connection, too.
#[test]
fn a_fetch_has_the_columns_of_its_cursor() {
    let stage = Stage::on_shared().set("default_pool_size=2").open();
    let mut client = stage.client();
    let fetch = parse("f", "FETCH ALL IN c", &[]);
    let described = client.ask(&[fetch, describe(b'S', "f"), sync()].concat());
    assert!(described.0.iter().any(|message| message.tag == b'n'));
    // The connection that has it is taken.
    let mut other = stage.client();
    other.ok("BEGIN");
    client.ok("BEGIN; DECLARE c CURSOR FOR SELECT 1 AS one, 'x' AS two");
    let run = [
        bind("", "f", &[]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]
    .concat();
    let reply = client.ask(&run).expect_ok("rows");
    assert_eq!(reply.rows(), [[Some("1".to_owned()), Some("x".to_owned())]]);
    client.ok("COMMIT");
    other.ok("COMMIT");
}

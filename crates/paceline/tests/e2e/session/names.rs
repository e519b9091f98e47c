//! Prepared statements by SQL and by message have one name space, on any server, and stale plans are replaced.

use crate::harness::message::{bind, close, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, assert_same};

fn stage(servers: usize) -> Stage {
    Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .open()
}

fn run(name: &str, values: &[Option<&str>]) -> Vec<u8> {
    [bind("", name, values), execute("", 0), sync()].concat()
}

/// The same units through Paceline, on one server and the other in turn, and on bare PostgreSQL, message by message.
fn check(units: &[Vec<u8>]) {
    let stage = stage(2);
    let (mut client, mut neighbour, mut bare) = (stage.client(), stage.client(), stage.direct());
    for (number, bytes) in units.iter().enumerate() {
        // The neighbour's transaction takes the server that the client used last.
        neighbour.ok("BEGIN");
        let replies = [bare.ask(bytes), client.ask(bytes)];
        assert_same(&format!("unit {number}"), &replies[0].0, &replies[1].0);
        if number % 2 == 0 {
            neighbour.ok("COMMIT");
        } else {
            neighbour.ok("ROLLBACK");
        }
        neighbour.simple("EXECUTE a").expect_error("26000");
    }
}

#[test]
fn statements_prepared_by_sql_move_between_servers() {
    check(
        &[
            "PREPARE a (int, text) AS SELECT $1 + 1, $2",
            "EXECUTE a(1, 'x')",
            "EXECUTE a(2, NULL)",
            "EXPLAIN (COSTS off) EXECUTE a(1, 'x')",
            "PREPARE a AS SELECT 2",
            "EXECUTE a(1)",
            "EXECUTE a('no number', 'x')",
            "BEGIN",
            "EXECUTE a(3, 'y')",
            "COMMIT",
            "PREPARE b AS SELECT 'b'",
            "EXECUTE b",
            "EXECUTE a(4, 'z')",
            "DEALLOCATE a",
            "EXECUTE a(4, 'z')",
            "DEALLOCATE a",
            "DISCARD PLANS",
            "EXECUTE b",
            "DEALLOCATE ALL",
            "EXECUTE b",
            "PREPARE b AS SELECT 'again'",
            "DISCARD ALL",
            "EXECUTE b",
            "PREPARE c AS SELECT nosuchcolumn",
            "EXECUTE c",
            "PREPARE d AS SELECT $1",
        ]
        .map(query),
    );
}

#[test]
fn names_are_the_same_for_sql_and_messages() {
    check(&[
        query("PREPARE a (int) AS SELECT $1 * 2"),
        run("a", &[Some("21")]),
        [parse("a", "SELECT 1", &[]), sync()].concat(),
        [parse("m", "SELECT $1::int * 3", &[]), sync()].concat(),
        query("EXECUTE m(4)"),
        query("PREPARE m AS SELECT 1"),
        unit("PREPARE e (int) AS SELECT $1 * 5", &[]),
        unit("EXECUTE e(2)", &[]),
        run("e", &[Some("3")]),
        [parse("x", "EXECUTE e(7)", &[]), sync()].concat(),
        run("x", &[]),
        unit("DEALLOCATE e", &[]),
        run("e", &[Some("3")]),
        query("DEALLOCATE m"),
        run("m", &[Some("3")]),
        query("EXECUTE a(1)"),
    ]);
}

/// PostgreSQL distinguishes names by their first 63 bytes, also those in messages.
#[test]
fn names_are_as_long_as_in_postgresql() {
    let (long, stored) = ("x".repeat(80), "x".repeat(63));
    check(&[
        [parse(&long, "SELECT 1", &[]), sync()].concat(),
        run(&long, &[]),
        run(&stored, &[]),
        query(&format!("EXECUTE {stored}")),
        query(&format!("PREPARE {stored} AS SELECT 2")),
        query(&format!("DEALLOCATE {stored}")),
        run(&long, &[]),
        query(&format!("PREPARE {stored} AS SELECT 3")),
        run(&long, &[]),
        [close(b'S', &format!("{stored}y")), sync()].concat(),
        run(&stored, &[]),
    ]);
}

/// A statement that Paceline cannot split pins its client until the statement is removed.
#[test]
fn a_prepare_that_cannot_move_keeps_its_server() {
    let stage = stage(1);
    stage.direct().ok("CREATE TYPE mine AS ENUM ('x')");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("PREPARE a (mine) AS SELECT $1");
    neighbour.send(&unit("SELECT 'served'", &[]));
    for _ in 0..3 {
        assert_eq!(client.value("EXECUTE a('x')"), "x");
    }
    client.ok("DEALLOCATE a");
    assert_eq!(neighbour.reply().value(), "served");
    neighbour.simple("EXECUTE a('x')").expect_error("26000");
}

/// A client cannot reach another client's statement by the name that Paceline gave it.
#[test]
fn no_client_reaches_the_statement_of_another() {
    let stage = stage(1);
    let mut client = stage.client();
    client.ok("PREPARE a AS SELECT 'secret'");
    let mut names = stage.client();
    let found = names.ok("SELECT name FROM pg_prepared_statements").rows();
    for row in found {
        let name = row[0].clone().unwrap();
        names
            .simple(&format!("EXECUTE {name}"))
            .expect_error("26000");
    }
}

/// Nor is the unnamed one, although an error has made the server skip the statement that would have replaced it.
#[test]
fn no_client_executes_the_unnamed_statement_of_another() {
    let lose = parse("", "DELETE FROM secret RETURNING *", &[]);
    let fails = [bind("", "", &[]), describe(b'P', "none")].concat();
    let replaces = parse("", "SELECT 1", &[]);
    let skipped = [lose.clone(), fails, replaces, sync()].concat();
    let finds = [describe(b'P', ""), execute("none", 0), sync()].concat();
    let runs = [bind("", "", &[]), execute("", 0), sync()].concat();
    for (mode, reset) in [
        ("transaction", "DISCARD ALL"),
        ("session", "DISCARD ALL"),
        ("session", ""),
    ] {
        let stage = Stage::on_shared()
            .set("default_pool_size=1")
            .set(&format!("pool_mode={mode}"))
            .set(&format!("server_reset_query={reset}"))
            .open();
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE secret (n int); INSERT INTO secret VALUES (1)");
        let mut client = stage.client();
        client.ask(&skipped).expect_error("34000");
        client.hang_up();
        let mut other = stage.client();
        other.ask(&runs).expect_error("26000");
        other.hang_up();
        let mut client = stage.client();
        client.ask(&[&lose[..], &sync()].concat());
        client.hang_up();
        let mut other = stage.client();
        other.ask(&finds).expect_error("34000");
        other.ask(&runs).expect_error("26000");
        // Of its own it has closed the last one, while an error was on the way.
        let own = [parse("", "SELECT 1", &[]), fails_late()].concat();
        other.ask(&own).expect_error("34000");
        other
            .ask(&[close(b'S', ""), runs.clone()].concat())
            .expect_error("26000");
        assert_eq!(direct.number("SELECT count(*) FROM secret"), 1);
    }
}

/// The request ends with an error after a `Parse` that the server has executed.
fn fails_late() -> Vec<u8> {
    [
        bind("other", "", &[]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]
    .concat()
}

#[test]
fn no_more_statements_are_kept_than_allowed() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("max_prepared_statements=2")
        .open();
    let mut client = stage.client();
    for number in 0..5 {
        client.ok(&format!("PREPARE s{number} AS SELECT {number}"));
    }
    for number in 0..5 {
        assert_eq!(
            client.value(&format!("EXECUTE s{number}")),
            number.to_string()
        );
    }
    if stage.target() == Target::Paceline {
        let kept = client.number("SELECT count(*) FROM pg_prepared_statements");
        assert!(kept <= 8, "{kept} statements are kept on the server");
    }
}

fn with_table() -> (Stage, RawClient, RawClient) {
    let stage = stage(1);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int); INSERT INTO t VALUES (1)");
    let mut client = stage.client();
    let prepare = [parse("s", "SELECT * FROM t", &[]), sync()].concat();
    client.ask(&prepare).expect_ok("parse");
    client.ask(&run("s", &[])).expect_ok("run");
    client.ok("PREPARE q AS SELECT *, 'q' FROM t");
    client.ok("EXECUTE q");
    (stage, client, direct)
}

#[test]
fn a_stale_plan_heals_unseen() {
    let (_stage, mut client, mut direct) = with_table();
    for (column, columns) in [("a", 2), ("b", 3)] {
        direct.ok(&format!("ALTER TABLE t ADD COLUMN {column} int"));
        let by_message = client.ask(&run("s", &[])).expect_ok("by message");
        assert_eq!(by_message.rows()[0].len(), columns);
        direct.ok(&format!("ALTER TABLE t ALTER COLUMN {column} TYPE text"));
        let by_sql = client.ok("EXECUTE q");
        assert_eq!(by_sql.rows()[0].len(), columns + 1);
    }
}

/// It would read the new rows with the columns of the old ones.
#[test]
fn a_client_that_knows_its_columns_gets_the_error_of_a_stale_plan() {
    for by_portal in [false, true] {
        let (stage, mut client, mut direct) = with_table();
        let mut bare = stage.direct();
        let learn = match by_portal {
            true => [bind("", "d", &[]), describe(b'P', ""), execute("", 0)].concat(),
            false => describe(b'S', "d"),
        };
        let prepare = [parse("d", "SELECT id FROM t", &[]), learn, sync()].concat();
        let both = |client: &mut RawClient, bare: &mut RawClient, bytes: &[u8]| {
            let replies = [bare.ask(bytes), client.ask(bytes)];
            assert_same("the stale plan", &replies[0].0, &replies[1].0);
            replies[1].sqlstate()
        };
        both(&mut client, &mut bare, &prepare);
        direct.ok("ALTER TABLE t ALTER COLUMN id TYPE text");
        assert_eq!(both(&mut client, &mut bare, &run("d", &[])), "0A000");
        // The usual reaction of drivers.
        let again = [
            close(b'S', "d"),
            parse("e", "SELECT id FROM t", &[]),
            describe(b'S', "e"),
            run("e", &[]),
        ];
        assert_eq!(both(&mut client, &mut bare, &again.concat()), "");
    }
}

/// Nor does it get the new rows from a server connection that does not have the statement.
#[test]
fn another_server_does_not_answer_with_other_columns() {
    let stage = stage(2);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int); INSERT INTO t VALUES (1)");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let prepare = [
        parse("d", "SELECT * FROM t", &[]),
        describe(b'S', "d"),
        sync(),
    ];
    for bare in [&mut direct, &mut client] {
        bare.ask(&prepare.concat()).expect_ok("prepare");
    }
    // The neighbour takes the server that has it.
    neighbour.ok("BEGIN");
    client.ask(&run("d", &[])).expect_ok("the same columns");
    neighbour.ok("ROLLBACK");
    stage.direct().ok("ALTER TABLE t ADD COLUMN a int");
    let mut third = stage.client();
    for _ in 0..2 {
        neighbour.ok("BEGIN");
        third.ok("BEGIN");
        third.ok("ROLLBACK");
        let replies = [direct.ask(&run("d", &[])), client.ask(&run("d", &[]))];
        assert_eq!(replies[0].sqlstate(), "0A000");
        assert_eq!(replies[1].sqlstate(), "0A000");
        neighbour.ok("ROLLBACK");
    }
}

/// A client that prepares again would have no stale plan of its own.
#[test]
fn a_fresh_parse_meets_no_stale_plan() {
    let (stage, mut client, mut direct) = with_table();
    let mut other = stage.client();
    direct.ok("ALTER TABLE t ADD COLUMN a int");
    let bytes = [parse("own", "SELECT * FROM t", &[]), run("own", &[])].concat();
    let replies = [direct.ask(&bytes), other.ask(&bytes)];
    assert_same("a fresh Parse", &replies[0].0, &replies[1].0);
    client
        .ask(&run("s", &[]))
        .expect_ok("the first client, too");
}

#[test]
fn inside_a_transaction_a_stale_plan_is_an_error_and_is_replaced_afterwards() {
    let (_stage, mut client, mut direct) = with_table();
    direct.ok("ALTER TABLE t ADD COLUMN a int");
    client.ok("BEGIN");
    client.ask(&run("s", &[])).expect_error("0A000");
    client.ok("ROLLBACK");
    client.ok("BEGIN");
    let healed = client.ask(&run("s", &[])).expect_ok("healthy");
    assert_eq!(healed.rows()[0].len(), 2);
    client.ok("COMMIT");
}

/// UESCAPE and its character belong to the name.
#[test]
fn a_name_may_be_written_with_escapes() {
    check(
        &[
            "PREPARE data AS SELECT 1",
            "EXECUTE U&\"d!0061ta\" UESCAPE '!'",
            "EXPLAIN (COSTS off) EXECUTE U&\"d!0061ta\" /* a comment */ UESCAPE\n'!'",
            "EXECUTE U&\"d\\0061ta\"",
            "PREPARE U&\"wi!0074h\" UESCAPE '!' (int) AS SELECT $1",
            "EXECUTE U&\"!0077ith\" UESCAPE '!' (1)",
            "DEALLOCATE U&\"d!0061ta\" UESCAPE '!'",
            "EXECUTE data",
        ]
        .map(query),
    );
}

//! Statements of a transaction: Paceline forwards most of them with little work. Whatever the answer is, it is PostgreSQL's.

use crate::harness::gate::lock_waiters;
use crate::harness::message::{
    bind, close, describe, execute, flush, parse, query, run, sync, unit,
};
use crate::harness::raw::RawClient;
use crate::harness::{Rng, Stage, assert_same, until};

const LONG: &str = "SELECT repeat('x', 300000) FROM generate_series(1, 5)";
const UPDATE: &str = "UPDATE t SET n = n + $1 WHERE id = $2 RETURNING n";

/// A table whose trigger raises a notice, an error or a change of a setting for some rows.
const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n < 1000));
    INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i;
    CREATE SEQUENCE s;
    CREATE FUNCTION speak() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF new.id = 2 THEN RAISE NOTICE 'row %', new.n; END IF;
        IF new.id = 3 THEN RAISE EXCEPTION 'not this row' USING ERRCODE = 'P0003'; END IF;
        IF new.id = 4 THEN SET LOCAL datestyle TO 'German'; END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER speak BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION speak();";

/// The requests of which transactions consist, with the number of answers that each gets.
fn requests() -> Vec<(Vec<u8>, usize)> {
    let mut requests: Vec<(Vec<u8>, usize)> = [
        "SELECT n FROM t WHERE id = 1",
        "SELECT * FROM t ORDER BY id",
        "SELECT * FROM t WHERE id = 'x'",
        "SELECT 1/0 FROM t",
        "SELECT E'a\\nb', 'ä', now() = transaction_timestamp()",
        "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n",
        "UPDATE t SET n = n + 1 WHERE id = 2",
        "UPDATE t SET n = n + 1 WHERE id = 3",
        "UPDATE t SET n = n + 1 WHERE id = 4",
        "UPDATE t SET n = n + 900",
        "DELETE FROM t WHERE id = 99",
        "INSERT INTO t VALUES (5, 1)",
        "INSERT INTO t VALUES (6, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1 RETURNING *",
        "SELECT nextval('s') > 0, lastval() > 0",
        "SELECT current_setting('datestyle'), current_setting('work_mem')",
        "SELECT set_config('work_mem', '5MB', true)",
        "SELECT n FROM t WHERE id = 1; SELECT n FROM t WHERE id = 2",
        "SELECT FROM t",
        "SAVEPOINT a",
        "ROLLBACK TO SAVEPOINT a",
        "SET LOCAL work_mem TO '6MB'",
        "SHOW work_mem",
        "COMMIT",
        "ROLLBACK",
        "COMMIT AND CHAIN",
        "BEGIN",
        "nonsense",
        "",
        LONG,
    ]
    .map(|sql| (query(sql), 1))
    .into();
    let bound = |values: &[Option<&str>]| [bind("", "u", values), execute("", 0), sync()].concat();
    requests.extend([
        (unit(UPDATE, &[Some("1"), Some("1")]), 1),
        (unit(UPDATE, &[Some("1"), Some("2")]), 1),
        (unit(UPDATE, &[Some("1"), Some("3")]), 1),
        (unit(UPDATE, &[Some("x"), Some("1")]), 1),
        (unit(LONG, &[]), 1),
        (bound(&[Some("1"), Some("1")]), 1),
        (bound(&[Some("1"), Some("2")]), 1),
        (bound(&[Some("1000"), Some("1")]), 1),
        (
            [
                bind("", "u", &[Some("1"), Some("1")]),
                describe(b'P', ""),
                execute("", 0),
                sync(),
            ]
            .concat(),
            1,
        ),
        // A portal with rows left. (PostgreSQL 15 may crash if a failed transaction executes the unnamed portal again.)
        ([bind("", "r", &[]), execute("", 2), sync()].concat(), 1),
        ([bind("p", "r", &[]), execute("p", 1), sync()].concat(), 1),
        ([execute("p", 1), sync()].concat(), 1),
        // The unnamed statement without another Parse.
        (
            [parse("", "SELECT n FROM t WHERE id = $1", &[23]), sync()].concat(),
            1,
        ),
        (
            [bind("", "", &[Some("1")]), execute("", 0), sync()].concat(),
            1,
        ),
        // Several requests at once, and one in pieces.
        ([query("SELECT 1"), query("SELECT 2")].concat(), 2),
        (
            [
                bound(&[Some("1"), Some("1")]),
                bound(&[Some("1"), Some("3")]),
            ]
            .concat(),
            2,
        ),
        (
            [run("SELECT 1", &[]), flush(), run("SELECT 2", &[]), sync()].concat(),
            1,
        ),
        (sync(), 1),
    ]);
    requests
}

/// Prepares the statements `u` and `r`.
fn prepare(client: &mut RawClient) {
    let close = [close(b'S', "u"), close(b'S', "r")].concat();
    let parse = [
        parse("u", UPDATE, &[23, 23]),
        parse("r", "SELECT * FROM t ORDER BY id", &[]),
    ]
    .concat();
    client
        .ask(&[close, parse, sync()].concat())
        .expect_ok("prepare");
}

#[test]
fn each_answer_is_postgresqls() {
    let mut rng = Rng::new(paceline_testing::seed());
    let stages = [Stage::on_shared().open(), Stage::on_shared().open()];
    stages
        .iter()
        .for_each(|stage| drop(stage.direct().ok(SCHEMA)));
    let mut bare = stages[0].direct();
    let mut ours = stages[1].client();
    let requests = requests();
    for number in 0..150 {
        for client in [&mut bare, &mut ours] {
            prepare(client);
            client.ok("BEGIN");
        }
        for step in 0..10 {
            let (request, answers) = rng.pick(&requests);
            let what = format!(
                "transaction {number}, step {step}: {:?}",
                request.escape_ascii().to_string()
            );
            println!("{what}");
            let got = [&mut bare, &mut ours].map(|client| {
                client.send(request);
                (0..*answers)
                    .flat_map(|_| client.reply().0)
                    .collect::<Vec<_>>()
            });
            assert_same(&what, &got[0], &got[1]);
        }
        let states = [&mut bare, &mut ours].map(|client| {
            client.simple("ROLLBACK");
            client
                .simple("SELECT * FROM t ORDER BY id; SHOW datestyle; SHOW work_mem")
                .0
        });
        assert_same("the state after the transaction", &states[0], &states[1]);
    }
}

const READ: &str = "SELECT n FROM t WHERE id = 2";
const BUMP: &str = "UPDATE t SET n = n + 1 WHERE id = 1";

/// A client, and another one that has locked row 1. Paceline knows the texts, so that it need not parse them.
fn clients(stage: &Stage) -> (RawClient, RawClient) {
    stage.direct().ok(SCHEMA);
    let mut client = stage.client();
    for sql in ["BEGIN", READ, BUMP, "ROLLBACK"] {
        client.ok(sql);
    }
    let mut holder = stage.direct();
    holder.ok("BEGIN; UPDATE t SET n = 7 WHERE id = 1");
    (holder, client)
}

/// The client waits for row 1.
fn wait_for_row(stage: &Stage, client: &mut RawClient) {
    client.send(&query(BUMP));
    let mut observer = stage.direct();
    until("the client waits for the row", || {
        lock_waiters(&mut observer) == 1
    });
}

/// A client in a transaction that waits for row 1, which another client has locked.
fn waiting(stage: &Stage) -> (RawClient, RawClient) {
    let (holder, mut client) = clients(stage);
    client.ok("BEGIN");
    client.ok(READ);
    wait_for_row(stage, &mut client);
    (holder, client)
}

#[test]
fn a_statement_that_waits_is_cancelled() {
    let stage = Stage::on_shared().open();
    let (mut holder, mut client) = waiting(&stage);
    client.cancel();
    let reply = client.reply().expect_error("57014");
    assert_eq!(reply.status(), 'E');
    client.ok("ROLLBACK");
    holder.ok("COMMIT");
    assert_eq!(client.value("SELECT n FROM t WHERE id = 1"), "7");
}

#[test]
fn a_statement_whose_server_ends_ends_with_its_error() {
    let stage = Stage::on_shared().open();
    let (mut holder, mut client) = waiting(&stage);
    holder.ok("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'");
    let messages = client.receive_to_end();
    let states: Vec<_> = messages
        .iter()
        .map(|message| message.fields().sqlstate().to_owned())
        .collect();
    assert_eq!(states, ["57P01"]);
    holder.ok("COMMIT");
    assert_eq!(stage.client().value("SELECT n FROM t WHERE id = 1"), "7");
}

/// The server connection is not reused: the statement may still run there.
#[test]
fn a_client_that_leaves_while_its_statement_waits_changes_nothing() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let (mut holder, client) = waiting(&stage);
    drop(client);
    holder.ok("COMMIT");
    let mut next = stage.client();
    assert_eq!(next.value("SELECT n FROM t WHERE id = 1"), "7");
    assert_eq!(next.value("SELECT count(*) FROM t WHERE n = 8"), "0");
}

/// The client has not read an answer when it disconnects, so its system resets the connection: Paceline cannot send the next answer.
#[test]
fn a_client_that_resets_its_connection_frees_its_server_connection() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let (mut holder, mut client) = clients(&stage);
    client.ok("BEGIN");
    client.send(&query(READ));
    let mut observer = stage.direct();
    let read = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query = '{READ}' AND state = 'idle in transaction'"
    );
    until("the answer has been sent", || observer.number(&read) == 1);
    // Paceline reads this request after it has sent the answer to the other one.
    wait_for_row(&stage, &mut client);
    drop(client);
    holder.ok("COMMIT");
    assert_eq!(stage.client().value("SELECT n FROM t WHERE id = 1"), "7");
}

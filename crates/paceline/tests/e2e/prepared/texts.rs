//! Texts that must find statements by the names in them: several statements in a text, and `DO`. Each scene runs on
//! PostgreSQL itself and through Paceline, and the answers are compared.

use crate::harness::message::{bind, execute, parse, query, sync};
use crate::harness::raw::RawClient;
use crate::harness::{Stage, assert_same};

/// Asks both sides; the neighbour lets no server connection stay the client's by chance.
fn same(stage: &Stage, messages: &[Vec<u8>]) {
    let (mut bare, mut client) = (stage.direct(), stage.client());
    let mut neighbour = stage.client();
    for (number, message) in messages.iter().enumerate() {
        let (expected, told) = (bare.ask(message), client.ask(message));
        assert_same(&format!("message {number}"), &expected.0, &told.0);
        neighbour.ok("SELECT 1");
    }
    for client in [&mut bare, &mut client] {
        client.ok("DISCARD ALL");
    }
    neighbour.hang_up();
    assert_unpinned(stage, client);
}

/// With one server connection, others are served while this client is idle.
fn assert_unpinned(stage: &Stage, client: RawClient) {
    let mut others: Vec<_> = (0..2).map(|_| stage.client()).collect();
    for other in &mut others {
        other.ok("BEGIN");
    }
    client.hang_up();
}

fn stage() -> Stage {
    Stage::on_shared().set("default_pool_size=2").open()
}

fn prepare(name: &str, sql: &str) -> Vec<u8> {
    [parse(name, sql, &[]), sync()].concat()
}

fn run(name: &str, values: &[Option<&str>]) -> Vec<u8> {
    [bind("", name, values), execute("", 0), sync()].concat()
}

fn run_text(sql: &str) -> Vec<u8> {
    [
        parse("", sql, &[]),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]
    .concat()
}

#[test]
fn a_text_of_several_statements_executes_by_name() {
    let stage = stage();
    same(
        &stage,
        &[
            query("PREPARE a(int) AS SELECT $1 + 1"),
            prepare("b", "SELECT $1::text"),
            query("EXECUTE a(1); EXECUTE b('x')"),
            query("EXECUTE b('y'); SELECT 1 / 0"),
            query("BEGIN; EXECUTE a(2)"),
            query("EXECUTE a(3); COMMIT"),
            query("EXECUTE a(4)"),
            run("b", &[Some("z")]),
            query("SELECT 1; EXPLAIN (COSTS OFF) EXECUTE a(1)"),
            query("CREATE TEMP TABLE t AS EXECUTE a(1); DROP TABLE t"),
            query("EXECUTE missing; SELECT 1"),
        ],
    );
}

/// The settings of the statement stay with the client, and no other client gets them.
#[test]
fn a_setting_of_a_statement_in_a_text_follows_its_client() {
    let stage = stage();
    let set = "SELECT set_config('search_path', 'one', false)";
    same(
        &stage,
        &[
            query(&format!("PREPARE a AS {set}")),
            query("SELECT 1; EXECUTE a; DEALLOCATE a; COMMIT; SELECT 1 / 0"),
            query("SHOW search_path"),
            prepare("b", "SELECT set_config('search_path', 'two', false)"),
            query("DO $$ BEGIN EXECUTE 'EXECUTE b'; END $$"),
            query("DEALLOCATE b"),
            query("SHOW search_path"),
        ],
    );
    for _ in 0..4 {
        let path = stage.client().value("SHOW search_path");
        assert!(path.contains("public"), "{path}");
    }
}

#[test]
fn a_text_of_several_statements_prepares_and_deallocates() {
    let stage = stage();
    same(
        &stage,
        &[
            query("PREPARE a AS SELECT 1"),
            prepare("b", "SELECT 2"),
            query("SELECT 0; PREPARE a AS SELECT 3"),
            query("EXECUTE a"),
            query("DEALLOCATE a; PREPARE a AS SELECT 4"),
            query("EXECUTE a"),
            query("SELECT 0; DEALLOCATE b"),
            run("b", &[]),
            query("SELECT 0; DEALLOCATE b"),
            prepare("b", "SELECT 5"),
            run("b", &[]),
            query("DEALLOCATE a; DEALLOCATE b; DEALLOCATE a"),
        ],
    );
}

#[test]
fn a_prepare_with_types_of_ones_own_finds_the_name_taken() {
    let stage = stage();
    stage.direct().ok("CREATE TYPE mood AS ENUM ('well')");
    same(
        &stage,
        &[
            query("PREPARE a AS SELECT 1"),
            query("PREPARE a(mood) AS SELECT $1"),
            query("EXECUTE a"),
        ],
    );
}

#[test]
fn a_do_block_executes_by_name() {
    let stage = stage();
    stage.direct().ok("CREATE TABLE done (by text)");
    same(
        &stage,
        &[
            query("PREPARE \"Adds\"(text) AS INSERT INTO done VALUES ($1)"),
            prepare("adds", "INSERT INTO done VALUES ('b')"),
            query("DO $$ BEGIN EXECUTE 'EXECUTE \"Adds\"(''a'')'; END $$"),
            run_text("DO $$ BEGIN EXECUTE 'EXECUTE ADDS'; END $$"),
            query("SELECT by FROM done ORDER BY by"),
            query("DO $$ BEGIN EXECUTE 'EXECUTE missing'; END $$"),
            query("DO $$ BEGIN EXECUTE 'DEALLOCATE adds'; END $$"),
            run("adds", &[]),
        ],
    );
}

/// The table that the statement reads does not exist any more: the text fails as it does alone, and no part of it has run.
#[test]
fn a_statement_that_is_no_longer_valid_fails_the_text() {
    let stage = stage();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE gone (a int); CREATE TABLE there (a int)");
    let (mut bare, mut client) = (stage.direct(), stage.client());
    bare.ok("PREPARE a AS SELECT * FROM gone");
    client.ok("PREPARE a AS SELECT * FROM there");
    direct.ok("DROP TABLE gone; DROP TABLE there");
    for one in [&mut bare, &mut client] {
        one.simple("EXECUTE a; SELECT 1").expect_error("42P01");
        one.ok("SELECT 1");
    }
}

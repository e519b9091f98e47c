//! The numbers that a client reads in a transaction or a pipeline after another client has drawn a number on the connection.

use super::{UNDEFINED, assert_own, stage};
use crate::harness::message::{bind, execute, parse, sync, unit};

/// In a failed transaction nothing could be discarded any more.
#[test]
fn a_text_that_ends_a_failed_transaction_reads_no_number_of_others() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for end in [
        "ROLLBACK; SELECT lastval()",
        "ROLLBACK TO s; SELECT lastval()",
    ] {
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        client.ok("BEGIN");
        client.ok("SAVEPOINT s");
        client.simple("SELECT 1 / 0").expect_error("22012");
        assert_eq!(client.simple(end).sqlstate(), UNDEFINED, "{end}");
        client.ok("ROLLBACK");
    }
}

/// Paceline's own statement within the request would make it a pipeline.
#[test]
fn utility_commands_by_the_extended_protocol_run_behind_a_neighbour() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for sql in [
        "VACUUM quiet",
        "CREATE INDEX CONCURRENTLY i ON quiet (n)",
        "REINDEX INDEX CONCURRENTLY i",
    ] {
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        client.ask(&unit(sql, &[])).expect_ok(sql);
    }
}

/// A statement of Paceline within the transaction would take its snapshot.
#[test]
fn a_transaction_chooses_its_isolation_behind_a_neighbour() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    neighbour.ok("INSERT INTO a (n) VALUES (1)");
    client.ok("BEGIN");
    client.ok("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM quiet");
    client.ok("COMMIT");
}

/// A view of the same name, in a schema that the transaction searches first.
#[test]
fn a_local_search_path_leads_to_no_number_of_others() {
    let stage = stage(1);
    stage.direct().ok(
        "CREATE SCHEMA b; CREATE TABLE v (number bigint); CREATE VIEW b.v AS SELECT lastval() AS number",
    );
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for _ in 0..3 {
        client.ok("SELECT * FROM v");
        stage.await_analysis();
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        client.ok("BEGIN");
        client.ok("SET LOCAL search_path = b, public");
        assert_eq!(client.simple("SELECT * FROM v").sqlstate(), UNDEFINED);
        client.ok("ROLLBACK");
    }
}

/// In a transaction, the first of several requests draws nothing, and a later one has several statements.
#[test]
fn a_pipeline_in_a_transaction_reads_its_own_number() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let step = |sql: &str| [parse("", sql, &[]), bind("", "", &[]), execute("", 0)].concat();
    for round in 0..6 {
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        match round % 2 {
            0 => client.ok("BEGIN"),
            _ => client.ask(&unit("BEGIN", &[])).expect_ok("begin"),
        };
        client
            .ask(&unit("SELECT n FROM quiet", &[]))
            .expect_ok("read");
        let both = [
            step("UPDATE quiet SET n = n"),
            step("INSERT INTO a (n) VALUES (2) RETURNING id"),
            step("SELECT lastval()"),
            sync(),
        ];
        assert_own(&client.ask(&both.concat()));
        client.ok("ROLLBACK");
        stage.await_analysis();
    }
}

/// PostgreSQL skips what follows an error, Paceline's own statement among it.
#[test]
fn after_an_error_no_number_of_others_is_read() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for _ in 0..3 {
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        let fails = [
            parse("", "SELECT 1 / 0", &[]),
            bind("", "", &[]),
            execute("", 0),
            parse("", "SELECT reads()", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        assert_eq!(client.ask(&fails.concat()).sqlstate(), "22012");
        assert_eq!(client.simple("SELECT lastval()").sqlstate(), UNDEFINED);
    }
}

//! When Paceline discards the numbers of others within a transaction or a pipeline.

use super::{UNDEFINED, assert_own, assert_own_or_none, stage};
use crate::harness::message::{bind, execute, parse, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::until;

/// The number of a neighbour is still there, so nothing was discarded.
#[test]
fn a_transaction_whose_tables_have_no_sequence_discards_nothing() {
    let stage = stage(1);
    if stage.target() == Target::Bare {
        return;
    }
    stage.direct().ok("INSERT INTO quiet VALUES (1, 1)");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let statements = [
        "BEGIN",
        "UPDATE quiet SET n = 2 WHERE id = 1",
        "SELECT n FROM quiet WHERE id = 1",
        "INSERT INTO quiet VALUES (3, 4)",
        "DELETE FROM quiet WHERE id = 3",
        "COMMIT",
    ];
    let transaction = |client: &mut RawClient, extended: bool| {
        for sql in statements {
            let reply = match extended {
                true => client.ask(&unit(sql, &[])),
                false => client.simple(sql),
            };
            reply.expect_ok(sql);
        }
    };
    for extended in [false, true] {
        // Each transaction has one of its statements analyzed.
        until("every statement is analyzed", || {
            let own = neighbour.value("INSERT INTO a (n) VALUES (1) RETURNING id");
            transaction(&mut client, extended);
            let read = neighbour.simple("SELECT lastval()");
            assert_own_or_none(&read, &own);
            read.sqlstate().is_empty()
        });
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

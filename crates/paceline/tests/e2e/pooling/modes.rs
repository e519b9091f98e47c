//! `pool_mode`: how long a client keeps its server.

use super::{assert_message, await_waiting, client_as, role, stage};
use crate::harness::message::{query, terminate, unit};
use crate::harness::raw::RawClient;
use crate::harness::until;

const PID: &str = "SELECT pg_backend_pid()";

#[test]
fn a_session_keeps_its_server_and_leaves_nothing_there() {
    let Some(stage) = stage(&["pool_mode=session", "default_pool_size=1"], "") else {
        return;
    };
    let mut first = stage.client();
    let pid = first.value(PID);
    let mut second = stage.client();
    second.send(&query(PID));
    await_waiting(&stage, 1);
    first.ok("CREATE TEMP TABLE mine (n int)");
    first.ok("SET work_mem TO '5MB'");
    first.ok("PREPARE p AS SELECT 1");
    first.ok("SELECT pg_advisory_lock(7)");
    assert_eq!(first.value("EXECUTE p"), "1");
    assert_eq!(first.value(PID), pid);
    assert_eq!(first.value("SELECT count(*) FROM mine"), "0");
    first.send(&terminate());
    assert_eq!(second.reply().expect_ok("the next session").value(), pid);
    assert_ne!(second.value("SHOW work_mem"), "5MB");
    assert_eq!(
        second.value("SELECT to_regclass('pg_temp.mine') IS NULL"),
        "t"
    );
    for left in [
        "pg_prepared_statements",
        "pg_locks WHERE locktype = 'advisory' AND objid = 7",
    ] {
        assert_eq!(
            second.number(&format!("SELECT count(*) FROM {left}")),
            0,
            "{left}"
        );
    }
}

/// A start-up parameter holds again after RESET and DISCARD ALL, as it does in PostgreSQL.
#[test]
fn a_session_has_its_own_defaults() {
    let Some(stage) = stage(&["pool_mode=session", "default_pool_size=1"], "") else {
        return;
    };
    let mut client = stage.client_with(&[("search_path", "mine")]);
    for reset in ["RESET search_path", "RESET ALL", "DISCARD ALL"] {
        client.ok("SET search_path TO other");
        client.ok(reset);
        assert_eq!(client.value("SHOW search_path"), "mine", "{reset}");
    }
    client.send(&terminate());
    assert_ne!(stage.client().value("SHOW search_path"), "mine");
}

#[test]
fn in_session_pooling_nothing_is_grouped() {
    let Some(stage) = stage(
        &[
            "pool_mode=session",
            "default_pool_size=1",
            "hotspot_for_autocommit=true",
        ],
        "",
    ) else {
        return;
    };
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 0)");
    let mut holder = stage.client();
    holder.ok("UPDATE t SET n = n + 1 WHERE id = 1");
    let mut clients = stage.clients(4);
    for (before, client) in clients.iter_mut().enumerate() {
        client.send(&query("UPDATE t SET n = n + 1 WHERE id = 1"));
        await_waiting(&stage, before as i64 + 1);
    }
    holder.send(&terminate());
    for client in &mut clients {
        client.reply().expect_ok("an update");
        client.send(&terminate());
    }
    assert_eq!(stage.counters().members, 0);
    assert_eq!(stage.direct().number("SELECT n FROM t"), 5);
}

#[test]
fn a_session_that_ends_in_a_transaction_is_rolled_back() {
    let Some(stage) = stage(&["pool_mode=session", "default_pool_size=1"], "") else {
        return;
    };
    stage.direct().ok("CREATE TABLE t (n int)");
    let mut first = stage.client();
    let pid = first.value(PID);
    first.ok("BEGIN");
    first.ok("INSERT INTO t VALUES (1)");
    first.send(&terminate());
    let mut second = stage.client();
    assert_ne!(second.value(PID), pid);
    assert_eq!(second.number("SELECT count(*) FROM t"), 0);
}

/// PostgreSQL executes what it has received before it notices that the client has left.
#[test]
fn a_request_of_a_session_that_ends_is_executed_to_its_end() {
    let Some(stage) = stage(&["pool_mode=session", "default_pool_size=1"], "") else {
        return;
    };
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (n int)");
    let mut first = stage.client();
    let pid = first.value(PID);
    let last_words = [
        query("INSERT INTO t SELECT 1 FROM pg_sleep(0.05)"),
        terminate(),
    ];
    first.send(&last_words.concat());
    assert_eq!(stage.client().value(PID), pid);
    assert_eq!(direct.number("SELECT count(*) FROM t"), 1);
}

#[test]
fn a_server_that_cannot_be_reset_is_not_used_again() {
    let Some(stage) = stage(
        &[
            "pool_mode=session",
            "default_pool_size=1",
            "server_reset_query=SELECT 1/0",
        ],
        "",
    ) else {
        return;
    };
    let mut first = stage.client();
    let pid = first.value(PID);
    first.send(&terminate());
    assert_ne!(stage.client().value(PID), pid);
}

/// A reset query other than DISCARD ALL leaves temporary tables: the connection of a client that has created some is closed.
#[test]
fn what_a_reset_would_leave_closes_the_connection() {
    let Some(stage) = stage(
        &[
            "pool_mode=session",
            "default_pool_size=1",
            "server_reset_query=SELECT 1",
        ],
        "",
    ) else {
        return;
    };
    let mut plain = stage.client();
    let pid = plain.value(PID);
    plain.ok("SET work_mem TO '5MB'");
    plain.send(&terminate());
    let mut untidy = stage.client();
    assert_eq!(untidy.value(PID), pid);
    assert_ne!(untidy.value("SHOW work_mem"), "5MB");
    untidy.ok("CREATE TEMP TABLE mine (n int)");
    untidy.send(&terminate());
    assert_ne!(stage.client().value(PID), pid);
}

fn refused_transaction(client: &mut RawClient, begin: &[u8]) {
    client.send(begin);
    let messages = client.receive_to_end();
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(last.tag, b'E', "{messages:?}");
    assert_message(
        &last.fields(),
        "transaction blocks not allowed in statement pooling mode",
    );
    assert!(
        before.iter().all(|message| message.tag != b'Z'),
        "{messages:?}"
    );
}

#[test]
fn statement_mode_has_no_transactions_of_several_statements() {
    let Some(stage) = stage(&["pool_mode=statement", "default_pool_size=1"], "") else {
        return;
    };
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (n int)");
    for begin in [
        query("BEGIN"),
        query("INSERT INTO t VALUES (1); BEGIN"),
        unit("BEGIN", &[]),
    ] {
        refused_transaction(&mut stage.client(), &begin);
    }
    let mut client = stage.client();
    client.ok("INSERT INTO t VALUES (2)");
    client.ok("BEGIN; INSERT INTO t VALUES (3); COMMIT");
    client
        .ask(&unit("INSERT INTO t VALUES ($1::int)", &[Some("4")]))
        .expect_ok("extended");
    assert_eq!(
        client.value("SELECT string_agg(n::text, ' ' ORDER BY n) FROM t"),
        "2 3 4"
    );
    until("no transaction is left open", || {
        direct.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'",
        ) == 0
    });
}

#[test]
fn a_user_may_have_a_mode_of_its_own() {
    role("mode_of_its_own", "");
    let Some(stage) = stage(
        &["default_pool_size=2"],
        "pool_mode = \"statement\"\n[users.mode_of_its_own]\npool_mode = \"session\"",
    ) else {
        return;
    };
    refused_transaction(&mut stage.client(), &query("BEGIN"));
    let mut client = client_as(&stage, "mode_of_its_own");
    client.ok("BEGIN");
    client.ok("COMMIT");
    let pid = client.value(PID);
    let mut other = client_as(&stage, "mode_of_its_own");
    assert_ne!(other.value(PID), pid);
    assert_eq!(client.value(PID), pid);
}

//! The limits of connections: of a pool, a database, a user.

use super::{assert_message, await_waiting, client_as, role, servers, stage};
use crate::harness::load::Load;
use crate::harness::message::{query, terminate};
use crate::harness::raw::RawClient;
use crate::harness::{Stage, until};
use std::collections::BTreeSet;

const PID: &str = "SELECT pg_backend_pid()";

#[track_caller]
fn refused(stage: &Stage, user: &str, message: &str) {
    let login = RawClient::try_connect(
        stage.port(),
        &[("user", user), ("database", &stage.database)],
    );
    assert_message(&login.err().unwrap(), message);
}

fn serves(stage: &Stage, user: &str) -> bool {
    RawClient::try_connect(
        stage.port(),
        &[("user", user), ("database", &stage.database)],
    )
    .is_ok()
}

#[test]
fn an_idle_connection_of_another_pool_of_the_database_gives_way() {
    role("gives_way", "");
    let Some(stage) = stage(&[], "max_db_connections = 1") else {
        return;
    };
    let mut direct = stage.direct();
    let mut one = stage.client();
    let mut other = client_as(&stage, "gives_way");
    for _ in 0..3 {
        assert_eq!(one.value("SELECT current_user"), "postgres");
        assert_eq!(other.value("SELECT current_user"), "gives_way");
    }
    until("one connection is left", || servers(&mut direct) == 1);
}

#[test]
fn a_pool_without_a_connection_waits_for_one_of_another() {
    role("waits_for_another", "");
    let Some(stage) = stage(&[], "max_db_connections = 1") else {
        return;
    };
    let mut other = client_as(&stage, "waits_for_another");
    let mut one = stage.client();
    one.ok("BEGIN");
    other.send(&query("SELECT current_user"));
    await_waiting(&stage, 1);
    one.ok("COMMIT");
    assert_eq!(
        other.reply().expect_ok("after the other").value(),
        "waits_for_another"
    );
}

/// Clients of one pool keep all its connections busy; those of the other pool are served, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_never_rests_gives_way_too() {
    role("comes_second", "");
    // One at a time: a group would contain all requests, and leave its connection idle.
    let Some(stage) = stage(&["hotspot=false"], "max_db_connections = 2") else {
        return;
    };
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
    let load = Load::start(&stage.url(), 48);
    load.progress(300).await;
    let mut other = client_as(&stage, "comes_second");
    for _ in 0..3 {
        assert_eq!(other.value("SELECT current_user"), "comes_second");
        load.progress(100).await;
    }
    let tally = load.stop().await;
    let refused = tally.refused.lock().unwrap();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_user_has_its_limit_in_all_databases_together() {
    role("in_all_databases", "");
    let Some(stage) = stage(&[], "[users.in_all_databases]\nmax_user_connections = 1") else {
        return;
    };
    let elsewhere = stage.cluster.database();
    let connect = |database: &str| {
        RawClient::connect(
            stage.port(),
            &[("user", "in_all_databases"), ("database", database)],
        )
    };
    let mut clients = [connect(&stage.database), connect(&elsewhere)];
    for _ in 0..2 {
        for (client, database) in clients.iter_mut().zip([&stage.database, &elsewhere]) {
            assert_eq!(client.value("SELECT current_database()"), *database);
        }
    }
    let mut direct = stage.direct();
    until("one connection is left", || {
        direct.number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'in_all_databases'")
            == 1
    });
}

#[test]
fn clients_of_a_database_and_of_a_user_are_limited() {
    role("one_at_a_time", "");
    let Some(stage) = stage(
        &[],
        "max_db_client_connections = 3\n[users.one_at_a_time]\nmax_user_client_connections = 1",
    ) else {
        return;
    };
    let mut first = client_as(&stage, "one_at_a_time");
    let of_users = "client connections exceeded (max_user_client_connections)";
    refused(&stage, "one_at_a_time", of_users);
    let mut others = stage.clients(2);
    refused(
        &stage,
        "postgres",
        "client connections exceeded (max_db_client_connections)",
    );
    first.send(&terminate());
    until("there is a place again", || serves(&stage, "one_at_a_time"));
    others
        .iter_mut()
        .for_each(|client| drop(client.ok("SELECT 1")));
}

#[test]
fn all_clients_together_are_limited() {
    let Some(mut stage) = stage(&["max_client_conn=1"], "") else {
        return;
    };
    let mut client = stage.client();
    refused(
        &stage,
        "postgres",
        "no more connections allowed (max_client_conn)",
    );
    let told = "pooler error: no more connections allowed (max_client_conn)";
    let log = stage.paceline().unwrap();
    until("the log has it", || log.heard(told) == 1);
    client.send(&terminate());
    until("there is a place again", || serves(&stage, "postgres"));
}

fn pids(direct: &mut RawClient) -> BTreeSet<Option<String>> {
    let rows = direct.ok(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    rows.rows().into_iter().flatten().collect()
}

#[test]
fn min_pool_size_is_opened_for_clients_and_stays_open() {
    let Some(stage) = stage(&["server_idle_timeout=100ms"], "min_pool_size = 3") else {
        return;
    };
    let mut direct = stage.direct();
    assert_eq!(servers(&mut direct), 0);
    let mut clients = stage.clients(5);
    until("three are kept", || servers(&mut direct) == 3);
    clients
        .iter_mut()
        .for_each(|client| drop(client.ok("BEGIN")));
    let five = pids(&mut direct);
    assert_eq!(five.len(), 5);
    clients
        .iter_mut()
        .for_each(|client| drop(client.ok("COMMIT")));
    until("three are left", || servers(&mut direct) == 3);
    assert!(pids(&mut direct).is_subset(&five), "they were opened again");
}

#[test]
fn the_reserve_is_for_clients_that_wait_for_long() {
    let Some(stage) = stage(
        &["default_pool_size=1", "reserve_pool_timeout=50ms"],
        "reserve_pool_size = 1",
    ) else {
        return;
    };
    let mut first = stage.client();
    let pid = first.value(PID);
    // The catalog analysis uses a connection, and may take longer than the reserve's time-out.
    stage.await_analysis();
    first.ok("BEGIN");
    let mut second = stage.client();
    second.ok("BEGIN");
    assert_ne!(second.value(PID), pid);
    let mut third = stage.client();
    third.send(&query(PID));
    await_waiting(&stage, 1);
    first.ok("COMMIT");
    assert_eq!(third.reply().expect_ok("the third").value(), pid);
}

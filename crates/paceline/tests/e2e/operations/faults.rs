//! Servers that die with groups in flight: nothing that was acknowledged is missing afterwards, members get the error that the
//! connection was lost, and Paceline serves again by itself.

use std::sync::Arc;

use crate::harness::caretaker::signal;
use crate::harness::cluster::Cluster;
use crate::harness::load::Load;
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

const BUMP: &str = "UPDATE t SET n = n + 1 WHERE id = 1";

fn stage(servers: usize) -> (Arc<Cluster>, Stage) {
    let cluster = Cluster::private();
    let stage = Stage::on(cluster.clone())
        .set(&format!("default_pool_size={servers}"))
        .set("hotspot_for_autocommit=true")
        .open();
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
         INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
    stage.client().ok("UPDATE t SET n = n + 1 WHERE id = 99");
    (cluster, stage)
}

/// A direct connection, as soon as the server takes one (again).
fn direct(stage: &Stage) -> RawClient {
    let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
    let mut client = None;
    until("the server takes connections", || {
        client = RawClient::try_connect(stage.cluster.port(), &parameters).ok();
        client.is_some()
    });
    client.unwrap()
}

/// SIGKILL to a backend that serves a client; PostgreSQL then restarts all of them.
fn kill_a_backend(stage: &Stage) {
    let pid = direct(stage).value(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1",
    );
    signal("KILL", pid.parse().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_backends_under_load() {
    let (_cluster, stage) = stage(2);
    let load = Load::start(&stage.url(), 16);
    for _ in 0..4 {
        load.progress(300).await;
        kill_a_backend(&stage);
    }
    load.progress(300).await;
    let tally = load.stop().await;
    tally.check(&mut direct(&stage));
    stage.assert_grouped(100, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_under_load() {
    let (cluster, stage) = stage(2);
    let load = Load::start(&stage.url(), 16);
    for _ in 0..3 {
        load.progress(300).await;
        cluster.kill();
        cluster.restart();
    }
    load.progress(300).await;
    let tally = load.stop().await;
    tally.check(&mut direct(&stage));
}

/// A session that PostgreSQL ends by command: only that one is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_backends_under_load() {
    let stage = Stage::on_shared().set("default_pool_size=3").open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
    let load = Load::start(&stage.url(), 16);
    for _ in 0..5 {
        load.progress(200).await;
        direct.ok("SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid() LIMIT 1");
    }
    load.progress(200).await;
    let tally = load.stop().await;
    tally.check(&mut direct);
}

/// A backend of a client that waits so; none may for a moment.
fn waiting_backend(observer: &mut RawClient, wait: &str) -> u32 {
    let sql = format!("SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE {wait}");
    let mut pid = 0;
    until("a backend waits", || {
        pid = observer.number(&sql);
        pid != 0
    });
    u32::try_from(pid).unwrap()
}

/// A group that waits for its commit to be confirmed when its server connection is lost.
fn group_in_flight(kill: impl Fn(&Cluster, u32)) {
    let (cluster, stage) = stage(1);
    if stage.target() == Target::Bare {
        return;
    }
    // Transactions that write nothing need no confirmation.
    let hold = "SELECT pg_advisory_xact_lock(1)";
    let mut gate = Gate::close_on(&stage, hold, &[hold.to_owned()]);
    let mut clients = stage.clients(8);
    for client in &mut clients {
        gate.submit(client, &query(BUMP));
    }
    let mut observer = stage.direct();
    set_standby(&mut observer, "nobody");
    gate.open();
    let pid = waiting_backend(&mut observer, "wait_event = 'SyncRep'");
    kill(&cluster, pid);
    // PostgreSQL ends every connection before it starts again.
    while observer.try_receive().is_ok() {}
    for client in &mut clients {
        assert_connection_lost(client);
    }
    set_standby(&mut direct(&stage), "");
    // It has committed, but no client may get that answer.
    assert_eq!(direct(&stage).number("SELECT n FROM t WHERE id = 1"), 8);
    until("Paceline serves again", || serves(&stage));
    assert_eq!(direct(&stage).number("SELECT n FROM t WHERE id = 1"), 9);
}

/// Commits wait for a standby of this name; for none if it is empty.
fn set_standby(superuser: &mut RawClient, name: &str) {
    superuser.ok(&format!(
        "ALTER SYSTEM SET synchronous_standby_names = '{name}'"
    ));
    superuser.ok("SELECT pg_reload_conf()");
    until("the server has read its configuration", || {
        superuser.value("SHOW synchronous_standby_names") == name
    });
}

#[test]
fn a_group_in_flight_when_its_backend_is_killed() {
    group_in_flight(|_, pid| signal("KILL", pid));
}

#[test]
fn a_group_in_flight_when_the_server_is_killed() {
    group_in_flight(|cluster, _| {
        cluster.kill();
        cluster.restart();
    });
}

/// Nothing of them was executed yet: each is executed once, or gets the error that its connection was lost.
#[test]
fn requests_that_wait_for_a_row_when_a_backend_is_killed() {
    let (_cluster, stage) = stage(1);
    if stage.target() == Target::Bare {
        return;
    }
    let mut clients = stage.clients(8);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE t SET n = 1000 WHERE id = 1");
    for client in &mut clients {
        client.send(&query(BUMP));
    }
    let pid = waiting_backend(&mut stage.direct(), "wait_event_type = 'Lock'");
    signal("KILL", pid);
    // PostgreSQL ends every connection before it starts again.
    while outsider.try_receive().is_ok() {}
    // A client whose server stays away for some seconds gets a notice first.
    let answer = |client: &mut RawClient| {
        loop {
            match client.try_receive() {
                Ok(message) if message.tag == b'N' => {}
                other => return other,
            }
        }
    };
    let answers = clients.iter_mut().map(answer);
    let served = answers.filter(|answer| answer.as_ref().is_ok_and(|first| first.tag == b'C'));
    let served = i64::try_from(served.count()).unwrap();
    assert_eq!(
        direct(&stage).number("SELECT n FROM t WHERE id = 1"),
        served
    );
    until("Paceline serves again", || serves(&stage));
    assert_eq!(
        direct(&stage).number("SELECT n FROM t WHERE id = 1"),
        served + 1
    );
}

/// The client got the error of a lost connection: an error of class 08 or 57, or the end of the connection.
#[track_caller]
fn assert_connection_lost(client: &mut RawClient) {
    while let Ok(message) = client.try_receive() {
        match message.tag {
            b'E' => {
                let state = message.fields().sqlstate().to_owned();
                assert!(
                    state.starts_with("08") || state.starts_with("57"),
                    "{message:?}"
                );
                return;
            }
            b'C' | b'Z' => panic!("acknowledged: {message:?}"),
            _ => {}
        }
    }
}

/// One update on a new connection; true when it was acknowledged. Nothing was changed when it was not.
fn serves(stage: &Stage) -> bool {
    let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
    match RawClient::try_connect(stage.port(), &parameters) {
        Err(_) => false,
        Ok(mut client) => {
            client.send(&query(BUMP));
            client
                .try_receive()
                .is_ok_and(|message| message.tag == b'C')
        }
    }
}

/// While the server does not run, clients wait; they are served when it runs again.
#[test]
fn a_server_that_is_away() {
    let (cluster, stage) = stage(2);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = stage.client();
    cluster.kill();
    client.send(&query(BUMP));
    cluster.restart();
    client.reply().expect_ok("served");
    assert_eq!(direct(&stage).number("SELECT n FROM t WHERE id = 1"), 1);
}

/// Units that wait for mates when no server connection is left: one is opened for them.
#[test]
fn requests_that_wait_for_members_are_executed_although_no_connection_is_left() {
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("hotspot_update_max_wait_time=20ms")
        .set("server_idle_timeout=100ms")
        .open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 0)");
    let mut clients = stage.clients(4);
    clients[0].ok(BUMP);
    until("the server connections are closed", || {
        stage.target() == Target::Bare
            || direct.number(
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            ) == 0
    });
    for client in &mut clients {
        client.send(&query(BUMP));
    }
    for client in &mut clients {
        client.reply().expect_ok("held for mates");
    }
    assert_eq!(direct.number("SELECT n FROM t"), 5);
}

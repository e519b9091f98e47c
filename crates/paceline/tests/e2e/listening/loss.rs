//! The shared connection is lost, or a client does not read: clients get an error.

use super::{connections, payloads, receive, rest};
use crate::harness::cluster::Cluster;
use crate::harness::{Stage, until};

fn stage(lost: &str) -> Stage {
    Stage::on_shared()
        .set("listen_mode=shared")
        .set(&format!("listen_lost={lost}"))
        .set("server_login_retry=200ms")
        .open()
}

const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
    WHERE application_name = 'paceline: LISTEN' AND datname = current_database()";

#[test]
fn listeners_get_an_error_if_their_connection_is_lost() {
    let mut stage = stage("error");
    let (mut idle, mut busy, mut observer) = (stage.client(), stage.client(), stage.direct());
    let mut other = stage.client();
    idle.ok("LISTEN a");
    busy.ok("LISTEN a");
    busy.ok("BEGIN");
    observer.ok(CUT);
    let last = idle.receive_to_end().pop().unwrap().fields();
    assert_eq!(last.sqlstate(), "08006");
    assert!(last.text().contains("listens for this client"), "{last:?}");
    // A transaction continues to its end.
    busy.ok("SELECT 1");
    busy.ok("COMMIT");
    let last = busy.receive_to_end().pop().unwrap().fields();
    assert_eq!((last.get('S'), last.sqlstate()), ("FATAL", "08006"));
    // A client that does not listen is not concerned, and may begin to.
    other.ok("SELECT 1");
    other.ok("LISTEN a");
    observer.ok("NOTIFY a, 'again'");
    assert_eq!(payloads(&receive(&mut other, 1)), ["again"]);
    if let Some(paceline) = stage.paceline() {
        assert!(paceline.logged("the connection that listens for clients is lost"));
    }
}

#[test]
fn listeners_may_stay_and_the_log_tells() {
    let mut stage = stage("log");
    let (mut client, mut observer) = (stage.client(), stage.direct());
    client.ok("LISTEN a; LISTEN b");
    for round in 1..=3 {
        observer.ok(CUT);
        until("another connection listens", || {
            connections(&mut observer) == 1
        });
        // When the new connection has executed this, it listens on the earlier channels, too.
        client.ok("LISTEN c");
        observer.ok("NOTIFY a, 'a'; NOTIFY b, 'b'; NOTIFY c, 'c'");
        assert_eq!(payloads(&rest(&mut client)), ["a", "b", "c"], "{round}");
    }
    if let Some(paceline) = stage.paceline() {
        assert!(paceline.logged("notifications may have been missed"));
    }
}

/// The server is away for a while, and the listener with it.
#[test]
fn listeners_outlast_a_server_that_restarts() {
    let cluster = Cluster::private();
    let stage = Stage::on(cluster)
        .set("listen_mode=shared")
        .set("listen_lost=log")
        .set("server_login_retry=200ms")
        .open();
    let mut client = stage.client();
    client.ok("LISTEN a");
    stage.cluster.restart();
    let mut observer = stage.direct();
    until("another connection listens", || {
        connections(&mut observer) == 1
    });
    client.ok("LISTEN b");
    observer.ok("NOTIFY a, 'after'");
    assert_eq!(payloads(&receive(&mut client, 1)), ["after"]);
}

/// 64 MB of notifications for a client that reads none: it is sent away, and the others get all of them.
#[test]
fn a_client_that_does_not_read_is_sent_away() {
    let mut stage = stage("error");
    let (mut slow, mut reader) = (stage.client(), stage.client());
    slow.ok("LISTEN a");
    reader.ok("LISTEN a");
    let mut notifier = stage.direct();
    const ROUNDS: usize = 80;
    const EACH: usize = 100;
    for _ in 0..ROUNDS {
        notifier.ok(&format!(
            "SELECT pg_notify('a', repeat('x', 7900) || g) FROM generate_series(1, {EACH}) g"
        ));
        assert_eq!(receive(&mut reader, EACH).len(), EACH);
    }
    if let Some(paceline) = stage.paceline() {
        until("it is sent away", || {
            paceline.logged("it does not read its notifications")
        });
        let peak = paceline.memory_kib("VmHWM");
        assert!(peak < 128 * 1024, "{peak} KiB");
    }
    let received = slow.receive_to_end();
    assert!(received.len() < ROUNDS * EACH);
}

//! Rarer orders of events in a failover.

use super::{ADD, Pair, SETUP, client, shown, start};
use crate::failover::patroni_api::Patroni;
use crate::harness::cluster::Cluster;
use crate::harness::message::{self, query};
use crate::harness::paceline::Paceline;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::until;

const N: &str = "SELECT n FROM t WHERE id = 1";

/// Patroni names its leader before PostgreSQL has ended its recovery.
#[test]
fn a_leader_that_is_not_promoted_yet_gets_no_request() {
    let primary = Cluster::private();
    primary.client("postgres").ok(SETUP);
    let Some(replica) = primary.replica() else {
        return;
    };
    let patroni = Patroni::start(Some(primary.port()));
    let paceline = start(&[&primary, &replica], &[&patroni.setting()]);
    let mut one = client(&paceline);
    one.ok(ADD);
    until("the replica has the update", || {
        replica.client("postgres").number(N) == 1
    });
    patroni.set_leader(Some(replica.port()));
    until("Paceline has noticed", || {
        paceline.logged("the primary is lost")
    });
    one.send(&query(ADD));
    let role = || shown(&paceline, replica.port(), &["role"]);
    assert_eq!(role(), "replica");
    replica.client("postgres").ok("SELECT pg_promote()");
    one.reply().expect_ok("after the promotion");
    assert_eq!(role(), "primary");
    let mut promoted = replica.client("postgres");
    assert_eq!(promoted.number(N), 2);
}

/// Patroni cannot be reached from the beginning: the servers decide.
#[test]
fn without_an_answer_of_patroni_the_servers_decide() {
    let primary = Cluster::private();
    primary.client("postgres").ok(SETUP);
    let patroni = Patroni::start(None);
    let paceline = start(&[&primary], &[&patroni.setting()]);
    client(&paceline).ok(ADD);
}

/// The old primary becomes a replica of the new one, and then the primary again.
#[test]
fn the_servers_exchange_their_roles_and_exchange_them_again() {
    let Some(pair) = Pair::start(&["reads=session"]) else {
        return;
    };
    let mut one = pair.client();
    one.ok(ADD);
    pair.primary.kill();
    pair.promote();
    one.ok(ADD);
    pair.primary.follow(&pair.replica);
    until("the old primary may serve reads", || {
        shown(
            &pair.paceline,
            pair.primary.port(),
            &["role", "serves_reads"],
        ) == "replica 1"
    });
    assert_eq!(one.number(N), 2);
    pair.replica.kill();
    pair.primary.client("postgres").ok("SELECT pg_promote()");
    one.ok(ADD);
    assert_eq!(one.number(N), 3);
    let role = shown(&pair.paceline, pair.primary.port(), &["role", "timeline"]);
    assert_eq!(role, "primary 3");
}

/// The monitor is connected already.
#[test]
fn a_replica_that_rejects_logins_serves_no_reads() {
    let Some(pair) = Pair::start(&["reads=session"]) else {
        return;
    };
    pair.await_readable();
    let mut replica = pair.replica.client("postgres");
    let hba = replica.value("SHOW hba_file");
    std::fs::write(hba, "host all all all reject\n").unwrap();
    replica.ok("SELECT pg_reload_conf()");
    until("logins are rejected", || {
        let parameters = [("user", "postgres"), ("database", "postgres")];
        let mut client = RawClient::open(pair.replica.port());
        client.send(&message::startup(PROTOCOL, &parameters));
        client
            .receive_until(b"ER")
            .last()
            .is_some_and(|message| message.tag == b'E')
    });
    let mut one = pair.client();
    for n in 1..=5 {
        one.ok(ADD);
        assert_eq!(one.number(N), n);
    }
    assert_eq!(shown(&pair.paceline, pair.replica.port(), &["reads"]), "0");
}

/// `localhost` is `::1`, where no server listens, and `127.0.0.1`.
#[test]
fn each_address_of_a_host_name_is_tried() {
    let primary = Cluster::private();
    primary.client("postgres").ok(SETUP);
    let Some(replica) = primary.replica() else {
        return;
    };
    let hosts = format!("localhost:{},localhost:{}", replica.port(), primary.port());
    let url = format!("postgres://postgres@{hosts}/postgres");
    let paceline = Paceline::start(&url).spawn();
    client(&paceline).ok(ADD);
    until("the replica is known", || {
        shown(&paceline, replica.port(), &["role"]) == "replica"
    });
}

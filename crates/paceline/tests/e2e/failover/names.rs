//! Host names that lead to another server later, as in a failover by DNS.

use std::sync::Arc;

use super::{ADD, SETUP, before, client, console, end_of, shown_of};
use crate::harness::cluster::Cluster;
use crate::harness::message::query;
use crate::harness::names::Names;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::remote::{PORT, Remote};
use crate::harness::until;

const N: &str = "SELECT n FROM t WHERE id = 1";

/// The columns role and reason for a server of another cluster.
const FOREIGN: &str = "the server belongs to another cluster";

/// A server with an address of its own. All of them listen on the same port.
struct Machine {
    server: Arc<Cluster>,
    remote: Remote,
}

impl Machine {
    fn of(server: Arc<Cluster>) -> Option<Self> {
        let remote = Remote::start(&server)?;
        Some(Self { server, remote })
    }

    fn primary() -> Option<Self> {
        let server = Cluster::private();
        server.client("postgres").ok(SETUP);
        Self::of(server)
    }

    fn replica(&self) -> Option<Self> {
        Self::of(self.server.replica()?)
    }

    fn client(&self) -> RawClient {
        self.server.client("postgres")
    }

    fn promote(&self) {
        self.client().ok("SELECT pg_promote()");
    }

    /// Returns when the server has replayed what `primary` has written.
    fn catch_up(&self, primary: &Self) {
        let written = primary.client().value("SELECT pg_current_wal_insert_lsn()");
        let replayed = format!("SELECT (pg_last_wal_replay_lsn() >= '{written}')::int");
        until("the replica has replayed", || {
            self.client().number(&replayed) == 1
        });
    }
}

/// Names, and Paceline in front of them.
struct Named {
    names: Names,
    paceline: Paceline,
}

impl Named {
    fn start(names: &[(&str, &Machine)], settings: &[&str]) -> Option<Self> {
        let hosts: Vec<String> = names
            .iter()
            .map(|(name, _)| format!("{name}:{PORT}"))
            .collect();
        let names = Names::new(&addresses(names))?;
        let paceline = before(&hosts, settings).by(names.starter()).spawn();
        Some(Self { names, paceline })
    }

    fn lead(&self, names: &[(&str, &Machine)]) {
        self.names.lead(&addresses(names));
    }

    fn client(&self) -> RawClient {
        client(&self.paceline)
    }

    fn shown(&self, name: &str, columns: &[&str]) -> String {
        shown_of(&self.paceline, ("host", name), columns)
    }
}

fn addresses<'a>(names: &[(&'a str, &Machine)]) -> Vec<(&'a str, std::net::Ipv4Addr)> {
    let pairs = names
        .iter()
        .map(|(name, machine)| (*name, machine.remote.address()));
    pairs.collect()
}

/// A primary, its replica and a server of another cluster; the names `one` and `two` lead to the first two.
fn with_foreign() -> Option<([Machine; 3], Named)> {
    let primary = Machine::primary()?;
    let replica = primary.replica()?;
    let foreign = Machine::primary()?;
    let named = Named::start(&[("one", &primary), ("two", &replica)], &[])?;
    Some(([primary, replica, foreign], named))
}

/// The old server is gone.
#[test]
fn a_single_host_whose_name_moves_is_reached_at_its_new_address() {
    let Some(old) = Machine::primary() else {
        return;
    };
    let Some(new) = old.replica() else { return };
    let Some(named) = Named::start(&[("db", &old)], &[]) else {
        return;
    };
    let mut one = named.client();
    one.ok(ADD);
    new.catch_up(&old);
    old.server.kill();
    new.promote();
    named.lead(&[("db", &new)]);
    one.ok(ADD);
    named.client().ok(ADD);
    assert_eq!(new.client().number(N), 3);
}

/// The server at the old address continues to run, and has the statement.
#[test]
fn a_cancel_request_goes_where_the_connection_leads() {
    let Some(old) = Machine::primary() else {
        return;
    };
    let Some(new) = Machine::primary() else {
        return;
    };
    let Some(named) = Named::start(&[("db", &old)], &[]) else {
        return;
    };
    let mut one = named.client();
    one.send(&query("SELECT pg_sleep(3600)"));
    let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)' AND state = 'active'";
    until("the statement runs", || old.client().number(running) == 1);
    named.lead(&[("db", &new)]);
    one.cancel();
    assert_eq!(one.reply().error().unwrap().sqlstate(), "57014");
}

/// After a failover the name of the old primary leads to a server of another cluster.
#[test]
fn a_name_that_moves_to_another_cluster_is_rejected() {
    let Some(([old, new, foreign], named)) = with_foreign() else {
        return;
    };
    let mut one = named.client();
    one.ok(ADD);
    new.catch_up(&old);
    old.server.kill();
    new.promote();
    named.lead(&[("one", &foreign), ("two", &new)]);
    one.ok(ADD);
    until("the other cluster is seen", || {
        named.shown("one", &["reason"]).contains(FOREIGN)
    });
    assert_eq!(named.shown("two", &["role", "timeline"]), "primary 2");
    named.client().ok(ADD);
    assert_eq!(new.client().number(N), 3);
    assert_eq!(foreign.client().number(N), 0);
}

/// The monitor has a connection to the server at the old address, which continues to run.
#[test]
fn a_new_connection_does_not_lead_to_another_cluster() {
    let Some(([old, replica, foreign], named)) = with_foreign() else {
        return;
    };
    let (mut one, mut two) = (named.client(), named.client());
    one.ok("BEGIN; UPDATE t SET n = n + 1 WHERE id = 2");
    named.lead(&[("one", &foreign), ("two", &replica)]);
    two.send(&query(ADD));
    until("the other cluster is seen", || {
        named.shown("one", &["reason"]).contains(FOREIGN)
    });
    named.lead(&[("one", &old), ("two", &replica)]);
    two.reply().expect_ok("after the name leads back");
    assert_eq!(old.client().number(N), 1);
    assert_eq!(foreign.client().number(N), 0);
}

/// The old primary continues to run at its address, and would take writes.
#[test]
fn connections_to_the_old_address_are_cut_when_the_name_leads_to_a_promoted_server() {
    let Some(old) = Machine::primary() else {
        return;
    };
    let (Some(replica), Some(new)) = (old.replica(), old.replica()) else {
        return;
    };
    let names = [("one", &old), ("two", &replica)];
    let Some(named) = Named::start(&names, &["listen_mode=shared"]) else {
        return;
    };
    let (mut one, mut two, mut listening) = (named.client(), named.client(), named.client());
    listening.ok("LISTEN c");
    two.ok(ADD);
    one.ok("BEGIN; UPDATE t SET n = n + 1 WHERE id = 2");
    new.catch_up(&old);
    new.promote();
    named.lead(&[("one", &new), ("two", &replica)]);
    until("the promoted server is seen", || {
        named.shown("one", &["role", "timeline"]) == "primary 2"
    });
    assert_eq!(end_of(one), "08006");
    assert_eq!(end_of(listening), "08006");
    for n in 2..5 {
        two.ok(ADD);
        assert_eq!(two.number(N), n);
    }
    assert_eq!(new.client().number(N), 4);
    assert_eq!(old.client().number("SELECT sum(n) FROM t"), 1);
}

/// The name of a replica leads to a replica that is behind, then to a standby of another cluster whose log is longer. The servers at the
/// old addresses continue to run.
#[test]
fn no_read_is_stale_when_the_name_of_a_replica_moves() {
    let Some(primary) = Machine::primary() else {
        return;
    };
    let (Some(fresh), Some(behind), Some(foreign)) =
        (primary.replica(), primary.replica(), Machine::primary())
    else {
        return;
    };
    let mut direct = foreign.client();
    for _ in 0..10 {
        direct.ok("UPDATE t SET n = -1");
        direct.ok("SELECT pg_switch_wal()");
    }
    foreign.server.go_into_recovery();
    let settings = ["reads=session", "admin_users=postgres"];
    let Some(named) = Named::start(&[("one", &primary), ("rep", &fresh)], &settings) else {
        return;
    };
    let mut one = named.client();
    await_reads(&named, &mut one);
    behind.client().ok("SELECT pg_wal_replay_pause()");
    for machine in [&behind, &foreign] {
        named.lead(&[("one", &primary), ("rep", machine)]);
        console(&named.paceline).ok("RECONNECT");
        for _ in 0..20 {
            one.ok(ADD);
            let n = primary.client().number(N);
            assert_eq!(one.number(N), n);
        }
    }
    assert!(
        named.paceline.logged(FOREIGN),
        "no connection to it was tried"
    );
    behind.client().ok("SELECT pg_wal_replay_resume()");
    named.lead(&[("one", &primary), ("rep", &behind)]);
    await_reads(&named, &mut one);
    assert_eq!(one.number(N), 40);
}

/// Reads until the replica answers.
fn await_reads(named: &Named, client: &mut RawClient) {
    let reads = || named.shown("rep", &["reads"]);
    let before = reads();
    until("the replica answers", || {
        client.ok(N);
        reads() != before
    });
}

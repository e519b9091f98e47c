//! Reads on two replicas, one of which follows the other.

use super::READ;
use super::pairs::{Way, prepared, read};
use crate::failover::{SETUP, client, shown, start};
use crate::harness::cluster::Cluster;
use crate::harness::paceline::Paceline;
use crate::harness::{Rng, until};
use paceline_testing::seed;
use std::sync::Arc;

/// A primary, its replica, a replica of that replica, and Paceline in front of them, in this order.
pub(super) struct Chain {
    pub(super) servers: [Arc<Cluster>; 3],
    pub(super) paceline: Paceline,
}

impl Chain {
    /// `None`: the machine cannot make a replica.
    pub(super) fn start(settings: &[&str]) -> Option<Self> {
        let primary = Cluster::private();
        primary.client("postgres").ok(SETUP);
        let replica = primary.replica()?;
        let cascaded = replica.replica()?;
        let servers = [primary, replica, cascaded];
        let paceline = start(&servers.each_ref(), settings);
        let chain = Self { servers, paceline };
        for replica in [1, 2] {
            until("the replicas may serve reads", || {
                chain.shown(replica, "serves_reads") == "1"
            });
        }
        Some(chain)
    }

    fn shown(&self, server: usize, column: &str) -> String {
        shown(&self.paceline, self.servers[server].port(), &[column])
    }

    pub(super) fn reads(&self, server: usize) -> i64 {
        self.reads_at(&self.servers[server])
    }

    pub(super) fn reads_at(&self, server: &Cluster) -> i64 {
        let reads = shown(&self.paceline, server.port(), &["reads"]);
        reads.parse().unwrap()
    }
}

#[test]
fn replicas_of_the_same_zone_serve_reads_first() {
    let Some(chain) = Chain::start(&["reads=session", "zone=near", "zones=near,far,near"]) else {
        return;
    };
    assert_eq!(chain.shown(1, "zone"), "far");
    let mut client = client(&chain.paceline);
    until("the near replica answers", || {
        client.ok(READ);
        chain.reads(2) > 0
    });
    // It has what it has shown to the client.
    let before = chain.reads(1);
    for _ in 0..20 {
        client.ok(READ);
    }
    assert_eq!(chain.reads(1), before);
    chain.servers[2].kill();
    until("the far replica answers", || {
        client.ok(READ);
        chain.reads(1) > before
    });
}

/// The replica in the middle pauses again and again: both are behind then.
#[test]
fn reads_on_a_chain_of_replicas_are_not_stale() {
    let Some(chain) = Chain::start(&["reads=session"]) else {
        return;
    };
    let mut rng = Rng::new(seed());
    let mut client = prepared(client(&chain.paceline));
    let mut middle = chain.servers[1].client("postgres");
    for n in 1..300 {
        if n % 20 == 0 {
            let sql = match n % 40 {
                0 => "SELECT pg_wal_replay_resume()",
                _ => "SELECT pg_wal_replay_pause()",
            };
            middle.ok(sql);
        }
        client.ok(&format!("UPDATE t SET n = {n} WHERE id = 1"));
        for _ in 0..2 {
            let way = *rng.pick(&Way::ALL);
            assert_eq!(read(way, &mut client, 1), n);
        }
    }
    middle.ok("SELECT pg_wal_replay_resume()");
    for replica in [1, 2] {
        let before = chain.reads(replica);
        until("each replica answers", || {
            client.ok(READ);
            chain.reads(replica) > before
        });
    }
}

//! The faults of a run.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::Scene;
use crate::harness::Rng;
use crate::harness::caretaker::signal;
use crate::harness::cluster::Cluster;
use crate::harness::network::{Network, Traffic};
use crate::harness::raw::RawClient;
use crate::harness::until;

/// More than the server allows.
const CONNECTIONS: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    KillServer,
    KillBackend,
    KillPaceline,
    CutClients,
    CutServer,
    SlowClients,
    SlowServer,
    HoldClients,
    HoldServer,
    DiskFull,
    TooManyConnections,
}

pub(crate) const FAULTS: [Fault; 11] = [
    Fault::KillServer,
    Fault::KillBackend,
    Fault::KillPaceline,
    Fault::CutClients,
    Fault::CutServer,
    Fault::SlowClients,
    Fault::SlowServer,
    Fault::HoldClients,
    Fault::HoldServer,
    Fault::DiskFull,
    Fault::TooManyConnections,
];

/// Makes the fault, and ends it.
pub(crate) async fn strike(fault: Fault, scene: &mut Scene, rng: &mut Rng) {
    let lasting = Duration::from_millis(rng.below(150) as u64);
    let loses = rng.chance(50);
    match fault {
        Fault::KillServer => {
            let cluster = scene.cluster.clone();
            let restarted = move || {
                cluster.kill();
                cluster.restart();
            };
            tokio::task::spawn_blocking(restarted).await.unwrap();
        }
        Fault::KillBackend => {
            let pids = backends(&scene.cluster).unwrap_or_default();
            if !pids.is_empty() {
                signal("KILL", *rng.pick(&pids));
            }
        }
        Fault::KillPaceline => {
            let place = rng.below(scene.pacelines.len());
            scene.restart_paceline(place).await;
        }
        Fault::CutClients => scene.clients.iter().for_each(Network::cut),
        Fault::CutServer => scene.server.cut(),
        Fault::SlowClients => disturb(&scene.clients, Traffic::Slow, lasting, loses).await,
        Fault::HoldClients => disturb(&scene.clients, Traffic::Held, lasting, loses).await,
        Fault::SlowServer => {
            disturb(
                std::slice::from_ref(&scene.server),
                Traffic::Slow,
                lasting,
                loses,
            )
            .await;
        }
        Fault::HoldServer => {
            disturb(
                std::slice::from_ref(&scene.server),
                Traffic::Held,
                lasting,
                loses,
            )
            .await;
        }
        Fault::DiskFull => {
            let pids = backends(&scene.cluster).unwrap_or_default();
            let struck = tokio::task::spawn_blocking(move || fill_disk_of(&pids));
            struck.await.unwrap();
        }
        Fault::TooManyConnections => {
            let parameters = [("user", "postgres"), ("database", "postgres")];
            let port = scene.cluster.port();
            let fill = move || -> Vec<RawClient> {
                (0..CONNECTIONS)
                    .filter_map(|_| RawClient::try_connect(port, &parameters).ok())
                    .collect()
            };
            let held = tokio::task::spawn_blocking(fill).await.unwrap();
            assert!(held.len() < CONNECTIONS, "none was refused");
            if loses {
                scene.server.cut();
            }
            tokio::time::sleep(lasting).await;
            drop(held);
        }
    }
}

/// For a while; `loses`: bytes in flight are lost with their connection.
async fn disturb(networks: &[Network], traffic: Traffic, lasting: Duration, loses: bool) {
    for network in networks {
        network.set(traffic);
    }
    tokio::time::sleep(lasting).await;
    for network in networks {
        if loses {
            network.cut();
        }
        network.set(Traffic::Clear);
    }
}

/// The processes that serve clients. `None` while the server accepts none.
fn backends(cluster: &Arc<Cluster>) -> Option<Vec<u32>> {
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut client = RawClient::try_connect(cluster.port(), &parameters).ok()?;
    let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let rows = client.simple(sql).rows();
    let pids = rows.iter().flatten().flatten();
    Some(pids.map(|pid| pid.parse().unwrap()).collect())
}

/// From now on these processes cannot write files: to them, the disk is full. Returns when one of them has ended, because it could not
/// write the log of transactions; PostgreSQL then ends all of them and recovers.
fn fill_disk_of(pids: &[u32]) {
    for pid in pids {
        let mut limit = Command::new("prlimit");
        let status = limit
            .args(["--pid", &pid.to_string(), "--fsize=0:"])
            .output();
        assert!(status.is_ok(), "prlimit does not run");
    }
    let gone = |pid: &u32| !Path::new("/proc").join(pid.to_string()).exists();
    until("a process could not write", || {
        pids.is_empty() || pids.iter().any(gone)
    });
}

/// A direct connection, as soon as the server accepts one.
pub(crate) fn direct(cluster: &Cluster) -> RawClient {
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut client = None;
    until("the server accepts connections", || {
        client = RawClient::try_connect(cluster.port(), &parameters).ok();
        client.is_some()
    });
    client.unwrap()
}

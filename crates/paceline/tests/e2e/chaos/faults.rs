//! The faults of a run.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
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
        Fault::SlowServer => disturb(server(scene), Traffic::Slow, lasting, loses).await,
        Fault::HoldServer => disturb(server(scene), Traffic::Held, lasting, loses).await,
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

fn server(scene: &Scene) -> &[Network] {
    std::slice::from_ref(&scene.server)
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

/// Limits the size of files of these processes to zero: their writes fail as on a full disk. Returns when all of them have ended, because
/// one could not write the write-ahead log and PostgreSQL then ends them all and recovers.
fn fill_disk_of(pids: &[u32]) {
    let process = |pid: u32| Path::new("/proc").join(pid.to_string());
    let mut limited = pids.to_vec();
    for pid in pids {
        let Ok(owner) = std::fs::metadata(process(*pid)) else {
            continue;
        };
        // As the owner of the process: a root without CAP_SYS_RESOURCE may not limit processes of others.
        let mut limit = Command::new("prlimit");
        limit.uid(owner.uid()).gid(owner.gid());
        limit.args(["--pid", &pid.to_string(), "--fsize=0:"]);
        let done = limit.output().unwrap();
        let gone = !process(*pid).exists();
        assert!(done.status.success() || gone, "{done:?}");
    }
    until("the processes that could not write have ended", || {
        limited.retain(|pid| process(*pid).exists());
        limited.is_empty()
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

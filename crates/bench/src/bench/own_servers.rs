//! The servers of a run that starts its own, a primary and two replicas, and how the clients of its targets reach them.

use crate::hosts::{self, HostReads};
use crate::paceline::Paceline;
use crate::record::ReadsResult;
use crate::replicated_servers::{DATABASE, REPLICAS, ReplicatedServers};
use crate::target::Target;
use crate::work::Work;
use crate::workload::CheckedReads;
use crate::workload::failover::Replication;
use anyhow::Context;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit for Paceline to find out that all replicas may serve reads.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The targets of a failover: clients that look for the primary by themselves, and clients of Paceline.
const FAILOVER: [(&str, Access); 2] = [
    ("direct", Access::AllServers),
    ("paceline", Access::Paceline { reads: "session" }),
];
/// The targets of the variants on replicas: all requests on the primary, without Paceline and with it, and reads on replicas.
const ON_REPLICAS: [(&str, Access); 3] = [
    ("direct", Access::Primary),
    ("primary", Access::Paceline { reads: "primary" }),
    ("session", Access::Paceline { reads: "session" }),
];

/// How the clients of a target reach the servers.
#[derive(Debug, Clone, Copy)]
enum Access {
    /// They connect to the primary.
    Primary,
    /// They know all servers, and look for the primary.
    AllServers,
    /// They connect to a Paceline in front of all servers.
    Paceline {
        /// The setting `reads`.
        reads: &'static str,
    },
}

/// The targets of a work by name; none if it starts no servers.
fn named(work: &Work) -> &'static [(&'static str, Access)] {
    match work {
        Work::Failover(_) => &FAILOVER,
        Work::OnReplicas(_) => &ON_REPLICAS,
        Work::Variant(_) | Work::Script(_) => &[],
    }
}

/// The targets of a work that starts its own servers; empty for any other. Their ports are not known before the run.
pub(super) fn targets(work: &Work) -> Vec<Arc<Target>> {
    let target = |name| Arc::new(Target::on_loopback(name, 0, "postgres", DATABASE));
    named(work).iter().map(|(name, _)| target(*name)).collect()
}

fn access(work: &Work, target: &Target) -> Option<Access> {
    let mut named = named(work).iter();
    let (_, access) = named.find(|(name, _)| *name == target.name)?;
    Some(*access)
}

/// The address of the target in results.
pub(super) fn address(work: &Work, target: &Target) -> String {
    match access(work, target) {
        None => target.to_string(),
        Some(Access::Primary | Access::AllServers) => "servers of the run".to_owned(),
        Some(Access::Paceline { reads }) => format!("servers of the run, reads={reads}"),
    }
}

/// The servers of a run.
pub(super) struct OwnServers {
    /// Dropped before the servers, so that Paceline ends first.
    paceline: Option<Paceline>,
    pub(super) replicated: ReplicatedServers,
    /// What the clients connect to.
    pub(super) target: Arc<Target>,
}

impl OwnServers {
    /// Starts the servers for this number of clients, and Paceline if the target is one of those that have it.
    pub(super) async fn start(
        replication: Replication,
        work: &Work,
        target: &Target,
        clients: usize,
    ) -> anyhow::Result<Self> {
        let access =
            access(work, target).context("the run starts servers, but has no such target")?;
        let name = target.name.clone();
        let replicated = ReplicatedServers::start(replication, clients).await?;
        let mut target = replicated.primary();
        let mut paceline = None;
        match access {
            Access::Primary => {}
            Access::AllServers => target = replicated.all(),
            Access::Paceline { reads } => {
                let program =
                    std::env::current_exe().context("cannot find the program paceline")?;
                let (url, setting) = (replicated.url(), format!("reads={reads}"));
                let start = move || Paceline::start(&program, &url, &[&setting]);
                let started = tokio::task::spawn_blocking(start).await??;
                target.port = started.port();
                paceline = Some(started);
            }
        }
        target.name = name;
        Ok(Self {
            paceline,
            replicated,
            target: Arc::new(target),
        })
    }

    /// Returns when the replicas have what the primary has, and Paceline, if there is one, knows that they may serve reads.
    pub(super) async fn await_replicas(&self) -> anyhow::Result<()> {
        self.replicated.await_replay().await?;
        let deadline = Instant::now() + DISCOVERY_LIMIT;
        while let Some(reads) = self.host_reads().await? {
            if reads.serving == REPLICAS {
                break;
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "Paceline does not let the replicas serve reads"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// What Paceline says about reads on replicas; `None` without Paceline.
    async fn host_reads(&self) -> anyhow::Result<Option<HostReads>> {
        Ok(match &self.paceline {
            Some(_) => Some(hosts::reads(&self.target).await?),
            None => None,
        })
    }

    /// The result of the reads of a run, with the number of those that replicas have answered. Without Paceline there are none.
    pub(super) async fn reads(&self, reads: &CheckedReads) -> ReadsResult {
        let answered = match self.host_reads().await {
            Ok(hosts) => Some(hosts.map_or(0, |hosts| hosts.answered)),
            Err(_) => None,
        };
        ReadsResult {
            on_replicas: answered,
            ..reads.result()
        }
    }
}

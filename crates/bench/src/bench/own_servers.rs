//! The servers of a run that starts its own, a primary and two replicas or a coordinator and two shards, and how the clients of its
//! targets reach them.

use crate::connection::Connection;
use crate::hosts::{self, HostReads};
use crate::paceline::Paceline;
use crate::record::ReadsResult;
use crate::replicated_servers::{REPLICAS, ReplicatedServers};
use crate::sharded_servers::ShardedServers;
use crate::target::Target;
use crate::temporary_server::DATABASE;
use crate::work::Work;
use crate::workload::failover::Replication;
use crate::workload::{CheckedReads, SCHEMA};
use anyhow::Context;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit for Paceline to find out that all replicas may serve reads.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The targets of a failover: clients that look for the primary by themselves, and clients of Paceline.
const FAILOVER: [(&str, Access); 2] = [
    ("direct", Access::AllServers),
    (
        "paceline",
        Access::Paceline {
            setting: "reads=session",
        },
    ),
];
/// The targets of the variants on replicas: all requests on the primary, without Paceline and with it, and reads on replicas.
const ON_REPLICAS: [(&str, Access); 3] = [
    ("direct", Access::Primary),
    (
        "primary",
        Access::Paceline {
            setting: "reads=primary",
        },
    ),
    (
        "session",
        Access::Paceline {
            setting: "reads=session",
        },
    ),
];
/// The targets of the variants on shards: all requests on the coordinator, without Paceline, and those by key on shards.
const ON_SHARDS: [(&str, Access); 2] = [
    ("coordinator", Access::Primary),
    (
        "paceline",
        Access::Paceline {
            setting: "shards=auto",
        },
    ),
];

/// The access of a target's clients to the servers.
#[derive(Debug, Clone, Copy)]
enum Access {
    /// They connect to the primary, or to the coordinator.
    Primary,
    /// They know all servers, and look for the primary.
    AllServers,
    /// They connect to a Paceline in front of all servers.
    Paceline {
        /// Its setting.
        setting: &'static str,
    },
}

/// The targets of a work by name; none if it starts no servers.
fn named(work: &Work) -> &'static [(&'static str, Access)] {
    match work {
        Work::Failover(_) => &FAILOVER,
        Work::OnReplicas(_) => &ON_REPLICAS,
        Work::OnShards(_) => &ON_SHARDS,
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
        Some(Access::Paceline { setting }) => format!("servers of the run, {setting}"),
    }
}

/// The servers of a run.
pub(super) struct OwnServers {
    /// Dropped before the servers, so that Paceline ends first.
    paceline: Option<Paceline>,
    servers: Servers,
    /// The server or proxy to which the clients connect.
    pub(super) target: Arc<Target>,
}

/// The PostgreSQL servers.
enum Servers {
    Replicated(ReplicatedServers),
    Sharded(ShardedServers),
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
        let (servers, url, all) = match work {
            Work::OnShards(_) => {
                let sharded = ShardedServers::start(clients).await?;
                let (url, all) = (sharded.url(), sharded.coordinator());
                (Servers::Sharded(sharded), url, all)
            }
            _ => {
                let replicated = ReplicatedServers::start(replication, clients).await?;
                let (url, all) = (replicated.url(), replicated.all());
                (Servers::Replicated(replicated), url, all)
            }
        };
        let mut own = Self {
            paceline: None,
            servers,
            target: Arc::new(Target::clone(target)),
        };
        let mut target = match access {
            Access::Primary | Access::Paceline { .. } => own.primary(),
            Access::AllServers => all,
        };
        if let Access::Paceline { setting } = access {
            let program = std::env::current_exe().context("cannot find the program paceline")?;
            let is_sharded = matches!(own.servers, Servers::Sharded(_));
            let start = move || match is_sharded {
                true => Paceline::start_for(&program, DATABASE, &url, &[setting]),
                false => Paceline::start(&program, &url, &[setting]),
            };
            let started = tokio::task::spawn_blocking(start).await??;
            target.port = started.port();
            own.paceline = Some(started);
        }
        target.name = name;
        own.target = Arc::new(target);
        Ok(own)
    }

    /// The primary, or the coordinator.
    pub(super) fn primary(&self) -> Target {
        match &self.servers {
            Servers::Replicated(replicated) => replicated.primary(),
            Servers::Sharded(sharded) => sharded.coordinator(),
        }
    }

    /// The primary and its replicas; `None` if these are shards.
    pub(super) fn replicated(&self) -> Option<&ReplicatedServers> {
        match &self.servers {
            Servers::Replicated(replicated) => Some(replicated),
            Servers::Sharded(_) => None,
        }
    }

    /// Lets a replica take the place of the primary.
    ///
    /// # Errors
    /// As for [`ReplicatedServers::fail_over`]; or these are shards.
    pub(super) async fn fail_over(&mut self) -> anyhow::Result<()> {
        match &mut self.servers {
            Servers::Replicated(replicated) => replicated.fail_over().await,
            Servers::Sharded(_) => anyhow::bail!("shards have no replicas"),
        }
    }

    /// Brings the tables of a work to their places: shards those that have a key, or waits for the replicas.
    pub(super) async fn distribute(&self, work: &Work) -> anyhow::Result<()> {
        match (&self.servers, work) {
            (Servers::Sharded(sharded), Work::OnShards(variant)) => {
                for (table, key) in variant.keys {
                    sharded.shard(SCHEMA, table, key).await?;
                    self.await_shard(table, key).await?;
                }
                Ok(())
            }
            _ => self.await_replicas().await,
        }
    }

    /// Returns when Paceline, if there is one, sends reads of this table to a shard. It starts with each run, so no other statement
    /// counts.
    async fn await_shard(&self, table: &str, key: &str) -> anyhow::Result<()> {
        if self.paceline.is_none() {
            return Ok(());
        }
        let read = format!("SELECT {key} FROM {SCHEMA}.{table} WHERE {key} = 1 LIMIT 1");
        let mut conn = Connection::open(&self.target).await?;
        let deadline = Instant::now() + DISCOVERY_LIMIT;
        loop {
            conn.value(&read).await?;
            let (columns, rows) = conn.table("SHOW GROUPS").await?;
            let place = |name: &str| columns.iter().position(|column| column == name);
            let of = |row: &[Option<String>], name: &str| row.get(place(name)?)?.clone();
            // Other tables may be on shards already.
            let is_read = |row: &&Vec<Option<String>>| {
                let template = of(row, "template").unwrap_or_default();
                template.contains(&format!(".{table} "))
            };
            let values = |name: &str| {
                let rows = rows.iter().filter(is_read);
                rows.filter_map(|row| of(row, name)).collect::<Vec<_>>()
            };
            if !values("on_shards").is_empty() {
                break;
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "Paceline sends no statement to a shard: {}",
                values("coordinator_reason").join(", ")
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        conn.close().await;
        Ok(())
    }

    /// Returns when the replicas have what the primary has, and Paceline, if there is one, knows that they may serve reads.
    pub(super) async fn await_replicas(&self) -> anyhow::Result<()> {
        if let Some(replicated) = self.replicated() {
            replicated.await_replay().await?;
        }
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

    /// The reads on replicas that Paceline reports; `None` without Paceline.
    async fn host_reads(&self) -> anyhow::Result<Option<HostReads>> {
        Ok(match &self.paceline {
            Some(_) if self.replicated().is_some() => Some(hosts::reads(&self.target).await?),
            _ => None,
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

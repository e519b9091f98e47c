//! A primary and two streaming replicas of the lab, on loopback and in temporary folders, and the actions of an operator if the
//! primary is lost: promote a replica, and let the other one follow it. Dropping the value ends the servers and removes the
//! folders.

use crate::connection::{Connection, Result};
use crate::target::Target;
use crate::temporary_server::{DATABASE, TemporaryServer, connections_for};
use crate::workload::failover::Replication;
use anyhow::Context;
use std::thread;
use std::time::{Duration, Instant};

/// A commit waits for one of the two replicas, whichever is faster.
const SYNCHRONOUS: &str = "ANY 1 (*)";
/// The state of a replica that the primary waits for.
const SYNCHRONOUS_STATE: &str = "quorum";
/// Limit for the replicas to follow the primary.
const FOLLOW_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of replicas.
pub(crate) const REPLICAS: usize = 2;

/// The servers.
#[derive(Debug)]
pub(crate) struct ReplicatedServers {
    primary: TemporaryServer,
    replicas: [TemporaryServer; REPLICAS],
    /// The port of the primary, which changes in a failover.
    primary_port: u16,
}

impl ReplicatedServers {
    /// Starts the servers for this number of clients. Returns when the replicas follow the primary.
    ///
    /// # Errors
    /// A server does not start or cannot be copied. No server is left running.
    pub(crate) async fn start(replication: Replication, clients: usize) -> anyhow::Result<Self> {
        let connections = connections_for(clients);
        let start = move || TemporaryServer::start(connections);
        let primary = tokio::task::spawn_blocking(start).await??;
        if replication == Replication::Synchronous {
            // The replicas copy the setting, and it is in force on the one that is promoted.
            let setting = format!("ALTER SYSTEM SET synchronous_standby_names = '{SYNCHRONOUS}'");
            primary.connect().await?.execute(&setting).await?;
        }
        let copy = move || {
            let replicas = replicas_of(&primary, connections)?;
            anyhow::Ok((primary, replicas))
        };
        let (primary, replicas) = tokio::task::spawn_blocking(copy).await??;
        let servers = Self {
            primary_port: primary.server.port(),
            primary,
            replicas,
        };
        servers.await_replicas(replication).await?;
        Ok(servers)
    }

    /// Makes the primary wait for its replicas if that is asked for, and returns when both replicas follow it.
    async fn await_replicas(&self, replication: Replication) -> anyhow::Result<()> {
        let mut conn = self.primary.connect().await?;
        conn.execute("SELECT pg_reload_conf()").await?;
        let state = match replication {
            Replication::Asynchronous => "true".to_owned(),
            Replication::Synchronous => format!("sync_state = '{SYNCHRONOUS_STATE}'"),
        };
        let following = format!(
            "SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE state = 'streaming' AND {state}"
        );
        let deadline = Instant::now() + FOLLOW_LIMIT;
        while usize::try_from(conn.number(&following).await?).is_ok_and(|count| count < REPLICAS) {
            anyhow::ensure!(
                Instant::now() < deadline,
                "the replicas do not follow the primary"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns when the replicas have replayed what the primary has committed.
    pub(crate) async fn await_replay(&self) -> anyhow::Result<()> {
        let mut primary = Connection::open(&self.primary()).await?;
        let end = primary.value("SELECT pg_current_wal_lsn()").await?;
        let end = end.context("the primary has no position")?;
        let behind = format!("SELECT (pg_last_wal_replay_lsn() < '{end}')::int");
        let deadline = Instant::now() + FOLLOW_LIMIT;
        for replica in &self.replicas {
            let mut conn = replica.connect().await?;
            while conn.number(&behind).await? > 0 {
                anyhow::ensure!(
                    Instant::now() < deadline,
                    "a replica does not replay what the primary has sent"
                );
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// The processor time of the processes of the primary that was started; `None` if that is lost, or unknown on this system.
    pub(crate) fn primary_cpu_time(&self) -> Option<Duration> {
        self.primary.server.cpu_time()
    }

    /// The server that is the primary now.
    pub(crate) fn primary(&self) -> Target {
        self.primary.target("primary", self.primary_port)
    }

    /// All servers, for clients that look for the primary by themselves.
    pub(crate) fn all(&self) -> Target {
        let ports = self.replicas.each_ref().map(|one| one.server.port());
        Target {
            other_ports: ports.to_vec(),
            ..self.primary.target("all", self.primary.server.port())
        }
    }

    /// The URL of all servers, for Paceline.
    pub(crate) fn url(&self) -> String {
        let servers = std::iter::once(&self.primary).chain(&self.replicas);
        let hosts = servers.map(|one| format!("127.0.0.1:{}", one.server.port()));
        let hosts: Vec<String> = hosts.collect();
        let user = self.primary.server.superuser();
        format!("postgres://{user}@{}/{DATABASE}", hosts.join(","))
    }

    /// Kills the primary, promotes the replica that has received more of its log, and lets the other one follow that.
    ///
    /// # Errors
    /// The primary cannot be killed, or a replica does not execute a command.
    pub(crate) async fn fail_over(&mut self) -> anyhow::Result<()> {
        let [one, other] = &self.replicas;
        // Before clients look for a primary and occupy all connections.
        let (mut one_conn, mut other_conn) = (one.connect().await?, other.connect().await?);
        self.primary.server.kill()?;
        let received = [
            received_at_end(&mut one_conn).await?,
            received_at_end(&mut other_conn).await?,
        ];
        let (promoted, mut promoted_conn, mut follower) = match received {
            [first, second] if second > first => (other, other_conn, one_conn),
            _ => (one, one_conn, other_conn),
        };
        self.primary_port = promoted.server.port();
        let user = promoted.server.superuser();
        let follow = format!(
            "ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port={} user={user}'",
            self.primary_port
        );
        let following = async {
            follower.execute(&follow).await?;
            follower.execute("SELECT pg_reload_conf()").await
        };
        let promotion = promoted_conn.value("SELECT pg_promote()");
        let (promotion, following) = tokio::join!(promotion, following);
        following?;
        anyhow::ensure!(
            promotion?.as_deref() == Some("t"),
            "the replica is not promoted"
        );
        Ok(())
    }
}

/// The number of bytes of log that a replica has received when its connection to the primary has ended.
async fn received_at_end(replica: &mut Connection) -> Result<i64> {
    const STREAMING: &str =
        "SELECT count(*) FROM pg_catalog.pg_stat_wal_receiver WHERE status = 'streaming'";
    while replica.number(STREAMING).await? > 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let received = "SELECT (pg_last_wal_receive_lsn() - '0/0')::bigint";
    replica.number(received).await
}

/// Makes both replicas at the same time.
fn replicas_of(
    primary: &TemporaryServer,
    connections: usize,
) -> anyhow::Result<[TemporaryServer; REPLICAS]> {
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| primary.replica(connections));
        let other = primary.replica(connections);
        (one.join(), other)
    });
    let one = one.map_err(|_| anyhow::anyhow!("a thread that makes a replica has ended"))?;
    Ok([one?, other?])
}

//! The tasks that probe the hosts of a database: one per host, and one for Patroni.

use super::asker::answer_questions;
use super::lookup::Lookup;
use super::probe::{self, MonitorConn};
use super::subscriber::watch_subscriber;
use super::{DatabaseHosts, PROBE_EVERY, patroni};
use crate::clock;
use crate::shared::Shared;
use paceline_cluster::{HostId, Observation, ProbeError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time between two questions to Patroni while there is no primary.
const ASK_PATRONI_OFTEN: Duration = Duration::from_millis(250);

/// Minimum time between two probes of a host: each lost connection of a pool asks for one.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Time between two questions to the primary for its position, while it acknowledges commits.
const POSITION_EVERY: Duration = Duration::from_millis(100);

/// Starts the tasks. They end when the hosts are dropped.
pub(crate) fn start(hosts: &Arc<DatabaseHosts>, shared: &Arc<Shared>) {
    for id in 0..hosts.config.monitored.len() {
        if hosts.config.subscriber(HostId(id)).is_some() {
            let shared = Arc::clone(shared);
            tokio::spawn(watch_subscriber(Arc::downgrade(hosts), shared, HostId(id)));
            continue;
        }
        let task = Monitor::new(hosts, shared);
        tokio::spawn(task.probe_host(HostId(id)));
        let questions = answer_questions(Arc::downgrade(hosts), Arc::clone(shared), HostId(id));
        tokio::spawn(questions);
    }
    if !hosts.config.patroni.is_empty() {
        tokio::spawn(Monitor::new(hosts, shared).ask_patroni());
    }
}

/// The state of one task of the monitor.
struct Monitor {
    hosts: Weak<DatabaseHosts>,
    shared: Arc<Shared>,
    now: watch::Receiver<()>,
}

impl Monitor {
    fn new(hosts: &Arc<DatabaseHosts>, shared: &Arc<Shared>) -> Self {
        Self {
            hosts: Arc::downgrade(hosts),
            shared: Arc::clone(shared),
            now: hosts.probe_now.subscribe(),
        }
    }

    async fn probe_host(mut self, id: HostId) {
        let mut conn: Option<MonitorConn> = None;
        let mut lookup = Lookup::new();
        while let Some(hosts) = self.hosts.upgrade() {
            let Some(address) = hosts.config.monitored.get(id.0).cloned() else {
                return;
            };
            let location = hosts.monitored_at_location(id, &address);
            let missing = hosts.lock().wanted_history();
            let limit = hosts.config.connect_timeout;
            let asked = hosts.ask_position(id);
            // If tasks held the hosts while they wait for servers, each could keep the others from ending.
            drop(hosts);
            let mut target = &address;
            if let Some(addresses) = lookup.addresses(&address.upstream, conn.is_some()).await {
                if addresses.is_empty() {
                    // The resolver may be away, and the server not.
                    target = &location;
                }
                let Some(hosts) = self.hosts.upgrade() else {
                    return;
                };
                let connected = conn.as_ref().and_then(MonitorConn::address);
                if hosts.looked_up(id, &addresses, connected.map(|at| at.ip().to_canonical())) {
                    conn = None;
                }
            }
            let probed =
                probe::probe(&mut conn, target, &location, limit, missing, &self.shared).await;
            let Some(hosts) = self.hosts.upgrade() else {
                return;
            };
            if let Some(history) = probed.history {
                hosts.lock().add_history(history);
            }
            if let Some(conn) = &conn {
                hosts.located(id, conn.address());
            }
            let refused = probed.seen == Observation::Failed(ProbeError::LoginRefused);
            let position = match &probed.seen {
                Observation::Answered(report) => report.end_of_log(),
                Observation::Failed(_) => None,
            };
            hosts.observed(id, probed.seen);
            if let Some(position) = position {
                if let Some(asked) = asked {
                    hosts.position_answered(id, &asked, position);
                }
                hosts.compare_failover(id);
            }
            let pause = match refused {
                // Only an operator can change that, and the server logs each attempt.
                true => PROBE_EVERY,
                false => hosts.pause(),
            };
            drop(hosts);
            self.follow_position(id, &mut conn, pause).await;
        }
    }

    /// Waits until the next probe is due, or is asked for. Meanwhile asks the primary for its position while it acknowledges commits:
    /// the shorter the time between two positions, the closer are the bounds for what a promotion has lost.
    async fn follow_position(
        &mut self,
        id: HostId,
        conn: &mut Option<MonitorConn>,
        pause: Duration,
    ) {
        let until = clock::now() + pause;
        while !self.rest(until.min(clock::now() + POSITION_EVERY)).await && clock::now() < until {
            // As above, the hosts are not held.
            let hosts = self.hosts.upgrade().filter(|_| conn.is_some());
            let Some(asked) = hosts.and_then(|hosts| hosts.ask_if_new(id)) else {
                continue;
            };
            let position = probe::end_of_log(conn).await;
            let Some(hosts) = self.hosts.upgrade() else {
                return;
            };
            match position {
                Ok(Some(position)) => hosts.position_answered(id, &asked, position),
                Ok(None) => return,
                Err(error) => return hosts.observed(id, Observation::Failed(error)),
            }
        }
    }

    async fn ask_patroni(mut self) {
        while let Some(hosts) = self.hosts.upgrade() {
            let urls = hosts.config.patroni.clone();
            drop(hosts);
            let answer = patroni::ask_any(&urls).await;
            let Some(hosts) = self.hosts.upgrade() else {
                return;
            };
            hosts.patroni_answered(answer);
            let pause = hosts.pause().max(ASK_PATRONI_OFTEN);
            drop(hosts);
            self.rest(clock::now() + pause).await;
        }
    }

    /// Waits until this time, or until a probe is asked for. Returns whether one is, or the hosts have been dropped.
    async fn rest(&mut self, until: Instant) -> bool {
        tokio::time::sleep(PAUSE_MIN).await;
        let asked = tokio::time::timeout_at(until.into(), self.now.changed());
        asked.await.is_ok()
    }
}

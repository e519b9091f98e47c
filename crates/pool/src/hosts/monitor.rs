//! The tasks that probe the hosts of a database: one per host, and one for Patroni.

use super::asker::answer_questions;
use super::probe::{self, PROBE_LIMIT};
use super::{DatabaseHosts, PROBE_EVERY, patroni};
use crate::shared::Shared;
use paceline_cluster::{HostId, Observation, ProbeError};
use paceline_config::Host;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// Time between two questions to Patroni while there is no primary.
const ASK_PATRONI_OFTEN: Duration = Duration::from_millis(250);

/// Minimum time between two probes of a host: each lost connection of a pool asks for one.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Starts the tasks. They end when the hosts are dropped.
pub(crate) fn start(hosts: &Arc<DatabaseHosts>, shared: &Arc<Shared>) {
    for id in 0..hosts.config.monitored.len() {
        let task = Monitor::new(hosts, shared);
        tokio::spawn(task.probe_host(HostId(id)));
        let questions = answer_questions(Arc::downgrade(hosts), Arc::clone(shared), HostId(id));
        tokio::spawn(questions);
    }
    if !hosts.config.patroni.is_empty() {
        tokio::spawn(Monitor::new(hosts, shared).ask_patroni());
    }
}

/// What each task has.
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
        let mut conn = None;
        while let Some(hosts) = self.hosts.upgrade() {
            let Some(address) = hosts.config.monitored.get(id.0).cloned() else {
                return;
            };
            let missing = hosts.lock().wanted_history();
            let limit = hosts.config.connect_timeout;
            // If tasks held the hosts while they wait for servers, each could keep the others from ending.
            drop(hosts);
            let resolved = match &address.upstream.host {
                Host::Tcp(host) if conn.is_none() => {
                    Some(resolve(host, address.upstream.port).await)
                }
                _ => None,
            };
            let probed = probe::probe(&mut conn, &address, limit, missing, &self.shared).await;
            let Some(hosts) = self.hosts.upgrade() else {
                return;
            };
            if let Some(resolved) = resolved {
                hosts.lock().resolved(id, resolved);
            }
            if let Some(history) = probed.history {
                hosts.lock().add_history(history);
            }
            let refused = probed.seen == Observation::Failed(ProbeError::LoginRefused);
            hosts.observed(id, probed.seen);
            let pause = match refused {
                // Only an operator can change that, and the server logs each attempt.
                true => PROBE_EVERY,
                false => hosts.pause(),
            };
            drop(hosts);
            self.rest(pause).await;
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
            self.rest(pause).await;
        }
    }

    /// Waits until the next probe is due, or is asked for.
    async fn rest(&mut self, pause: Duration) {
        tokio::time::sleep(PAUSE_MIN).await;
        let asked = tokio::time::timeout(pause.saturating_sub(PAUSE_MIN), self.now.changed());
        // If the hosts have been dropped, the caller ends.
        drop(asked.await);
    }
}

/// The addresses of a host name, by which Patroni may call the host. None if the name is not known now.
async fn resolve(host: &str, port: u16) -> Vec<String> {
    let found = tokio::time::timeout(PROBE_LIMIT, tokio::net::lookup_host((host, port))).await;
    match found {
        Ok(Ok(addresses)) => addresses.map(|address| address.ip().to_string()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

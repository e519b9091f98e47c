//! Stories of hosts, and random orders of events.

use crate::*;
use std::time::{Duration, Instant};

mod failover;
mod random;
mod replicas;

const SYSTEM: SystemId = SystemId(7);
const SECOND: Duration = Duration::from_secs(1);

/// A cluster and its clock.
struct Scene {
    cluster: Cluster,
    now: Instant,
}

fn settings() -> ClusterSettings {
    ClusterSettings {
        failover_timeout: SECOND * 30,
        patroni: false,
    }
}

fn address(number: usize) -> HostAddress {
    HostAddress {
        host: format!("pg{number}"),
        port: 5432,
    }
}

fn report(in_recovery: bool, timeline: u32, lsn: u64) -> HostReport {
    let (written, replayed) = match in_recovery {
        true => (None, Some(Lsn(lsn))),
        false => (Some(Lsn(lsn)), None),
    };
    HostReport {
        in_recovery,
        system: Some(SYSTEM),
        timeline: Some(Timeline(timeline)),
        written,
        replayed,
        replay_age: Some(Duration::ZERO),
        ..HostReport::default()
    }
}

fn primary(timeline: u32, lsn: u64) -> Observation {
    Observation::Answered(report(false, timeline, lsn))
}

fn replica(timeline: u32, lsn: u64) -> Observation {
    Observation::Answered(report(true, timeline, lsn))
}

fn history(timeline: u32, text: &str) -> TimelineHistory {
    TimelineHistory::parse(Timeline(timeline), text).unwrap()
}

/// Patroni's answer with this leader.
fn view(leader: usize, timeline: u32) -> PatroniView {
    let body = format!(
        r#"{{"members": [{{"name": "node{leader}", "role": "leader", "state": "running",
            "host": "pg{leader}", "port": 5432, "timeline": {timeline}}}]}}"#
    );
    PatroniView::parse(body.as_bytes()).unwrap()
}

impl Scene {
    fn new(hosts: usize, settings: ClusterSettings) -> Self {
        let spec = |number| HostSpec {
            address: address(number),
        };
        let now = Instant::now();
        Self {
            cluster: Cluster::new((0..hosts).map(spec).collect(), settings, now),
            now,
        }
    }

    /// A primary and two replicas, all in use.
    fn usual() -> Self {
        let mut scene = Self::new(3, settings());
        scene.see(0, primary(1, 100));
        scene.see(1, replica(1, 100));
        scene.see(2, replica(1, 90));
        scene
    }

    fn see(&mut self, host: usize, seen: Observation) -> Vec<Event> {
        self.cluster.observe(HostId(host), seen, self.now)
    }

    fn fail(&mut self, host: usize, error: ProbeError) -> Vec<Event> {
        self.see(host, Observation::Failed(error))
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn primary(&self) -> Option<usize> {
        self.cluster.primary().map(|host| host.0)
    }

    fn target(&self) -> PrimaryTarget {
        self.cluster.write_target(self.now)
    }

    fn reason(&self, host: usize) -> Option<Reason> {
        let statuses = self.cluster.statuses();
        statuses.into_iter().nth(host).unwrap().reason
    }

    fn role(&self, host: usize) -> HostRole {
        self.cluster.statuses()[host].role
    }
}

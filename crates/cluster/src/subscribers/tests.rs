//! The conditions under which a subscriber serves reads, and its lag.

use super::*;
use crate::subscription::tests::{report, tables};
use crate::{
    ClusterSettings, HostAddress, HostReport, Lag, Lsn, Observation, Reason, SystemId, Timeline,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const PRIMARY: HostId = HostId(0);
const SUBSCRIBER: HostId = HostId(1);

struct Scene {
    cluster: Cluster,
    now: Instant,
}

fn address(host: &str) -> HostAddress {
    HostAddress {
        host: host.to_owned(),
        port: 5432,
    }
}

impl Scene {
    /// A primary and a subscriber that has not been probed.
    fn new() -> Self {
        let settings = ClusterSettings {
            failover_timeout: SECOND,
            patroni: false,
        };
        let host = HostSpec {
            address: address("pg"),
        };
        let subscriber = SubscriberSpec {
            address: address("sub"),
            slot: "slot".to_owned(),
            tables: tables().to_vec(),
        };
        let now = Instant::now();
        let cluster = Cluster::new(vec![host], settings, now).with_subscribers(vec![subscriber]);
        let mut scene = Self { cluster, now };
        scene.see_primary(7);
        scene
    }

    fn see_primary(&mut self, system: u64) {
        let report = HostReport {
            system: Some(SystemId(system)),
            timeline: Some(Timeline(1)),
            ..HostReport::default()
        };
        let seen = Observation::Answered(report);
        self.cluster.observe(PRIMARY, seen, self.now);
    }

    fn see(&mut self, report: SubscriberReport) -> Vec<Event> {
        let seen = Ok((PRIMARY, report));
        self.cluster.observe_subscriber(SUBSCRIBER, seen, self.now)
    }

    /// A probe at which the primary has written this, and the subscriber applied that.
    fn see_positions(&mut self, written: u64, confirmed: u64) -> Lag {
        let mut report = report();
        report.written = Some(Lsn(written));
        if let Some(slot) = &mut report.slot {
            slot.confirmed = Some(Lsn(confirmed));
        }
        self.see(report);
        self.status().lag
    }

    fn status(&self) -> HostStatus {
        self.cluster.statuses().pop().unwrap()
    }

    fn serves(&self) -> bool {
        let readable = self.cluster.readable_subscribers();
        let serves = readable.iter().any(|found| found.replica.id == SUBSCRIBER);
        assert_eq!(self.status().reads == Some(Ok(())), serves);
        assert!(self.cluster.readable().is_empty(), "it is no replica");
        serves
    }
}

#[test]
fn a_subscriber_serves_reads_while_its_probes_are_good() {
    let mut scene = Scene::new();
    assert!(!scene.serves());
    assert_eq!(scene.status().role, HostRole::Subscriber);
    assert_eq!(scene.see(report()), [Event::Returned(SUBSCRIBER)]);
    assert!(scene.serves());
    let mut disabled = report();
    disabled.subscription = None;
    assert!(matches!(
        scene.see(disabled).as_slice(),
        [Event::Removed {
            host: SUBSCRIBER,
            reason: Reason::Subscriber(_)
        }]
    ));
    assert!(!scene.serves());
    scene.see(report());
    assert!(
        scene.serves(),
        "a reason that is over does not keep it away"
    );
}

#[test]
fn a_lost_subscriber_returns_after_a_series() {
    let mut scene = Scene::new();
    scene.see(report());
    let lost = Err(ProbeError::Refused);
    let events = scene
        .cluster
        .observe_subscriber(SUBSCRIBER, lost, scene.now);
    assert_eq!((events.len(), scene.serves()), (1, false));
    for _ in 0..5 {
        scene.see(report());
        assert!(!scene.serves());
        scene.now += SECOND;
    }
    scene.see(report());
    assert!(scene.serves());
}

#[test]
fn it_serves_the_reads_of_the_primary_that_was_asked() {
    let mut scene = Scene::new();
    scene.see(report());
    let lost = Observation::Failed(ProbeError::Refused);
    scene.cluster.observe(PRIMARY, lost, scene.now);
    assert!(!scene.serves(), "there is no primary");
    scene.see_primary(7);
    assert!(scene.serves());
    let mut other = report();
    other.primary.system = Some(SystemId(9));
    scene.see(other);
    assert!(matches!(
        scene.status().reason,
        Some(Reason::OtherSystem { .. })
    ));
    let mut other = report();
    other.own.answer_settings = "TimeZone=UTC".to_owned();
    scene.see(other);
    assert_eq!(scene.status().reason, Some(Reason::OtherSettings));
}

/// The system identifier of a subscriber is its own, and makes no server of another cluster one of the hosts.
#[test]
fn a_host_of_another_cluster_is_still_refused() {
    let mut scene = Scene::new();
    scene.see(report());
    scene.see_primary(8);
    let host = scene.cluster.statuses().swap_remove(0);
    assert!(matches!(host.reason, Some(Reason::OtherSystem { .. })));
    assert_eq!(scene.cluster.system(), Some(SystemId(7)));
}

#[test]
fn the_lag_in_time_is_that_of_the_last_end_of_the_log_that_was_applied() {
    let mut scene = Scene::new();
    let lag = |bytes, time| Lag {
        bytes: Some(bytes),
        time,
    };
    assert_eq!(scene.see_positions(100, 90), lag(10, None), "not known yet");
    scene.now += SECOND;
    assert_eq!(scene.see_positions(200, 100), lag(100, Some(SECOND)));
    scene.now += SECOND;
    assert_eq!(scene.see_positions(300, 150), lag(150, Some(SECOND * 2)));
    scene.now += SECOND;
    assert_eq!(scene.see_positions(400, 200), lag(200, Some(SECOND * 2)));
    scene.now += SECOND;
    assert_eq!(scene.see_positions(400, 400), lag(0, Some(Duration::ZERO)));
    scene.now += SECOND;
    // Another primary.
    assert_eq!(scene.see_positions(50, 20), lag(30, None));
}

#[test]
fn a_lag_that_is_not_known_is_within_no_limit() {
    let mut scene = Scene::new();
    scene.see_positions(100, 90);
    let found = scene.cluster.readable_subscribers().pop().unwrap();
    assert!(!found.replica.is_within(SECOND * 100, scene.now));
    assert!(
        found.replica.is_within(Duration::ZERO, scene.now),
        "no limit"
    );
    scene.now += SECOND;
    scene.see_positions(100, 100);
    let found = scene.cluster.readable_subscribers().pop().unwrap();
    assert!(found.replica.is_within(SECOND, scene.now));
    assert!(!found.replica.is_within(SECOND, scene.now + SECOND * 2));
}

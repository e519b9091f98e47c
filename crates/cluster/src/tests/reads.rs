//! Which replica serves a read.

use super::*;

const ANY: Freshness = Freshness::Any;

fn contains(position: Position) -> Freshness {
    Freshness::Contains(position)
}

#[test]
fn a_read_goes_to_a_replica_that_has_replayed_its_position() {
    let mut scene = Scene::usual();
    assert_eq!(
        scene.read(contains(at(1, 90))),
        ReadTarget::Replica(HostId(1))
    );
    assert_eq!(
        scene.read(contains(at(1, 100))),
        ReadTarget::Replica(HostId(1))
    );
    assert_eq!(scene.read(contains(at(1, 101))), ReadTarget::WaitForReplay);
    let late = scene
        .cluster
        .read_target(contains(at(1, 101)), false, |_| 0, scene.now);
    assert_eq!(late, ReadTarget::Primary(PrimaryTarget::Host(HostId(0))));
    scene.cluster.replayed(HostId(2), Lsn(101));
    assert_eq!(
        scene.read(contains(at(1, 101))),
        ReadTarget::Replica(HostId(2))
    );
    let elsewhere = Position {
        system: SystemId(8),
        ..at(1, 1)
    };
    assert_eq!(
        scene.read(contains(elsewhere)),
        ReadTarget::Primary(PrimaryTarget::Host(HostId(0)))
    );
}

#[test]
fn the_fewest_outstanding_requests_decide() {
    let mut scene = Scene::usual();
    let load = |id: HostId| [0, 5, 4].into_iter().nth(id.0).unwrap();
    let chosen = |scene: &Scene| scene.cluster.read_target(ANY, true, load, scene.now);
    assert_eq!(chosen(&scene), ReadTarget::Replica(HostId(2)));
    scene.cluster.settings.balance = Balance::InOrder;
    assert_eq!(chosen(&scene), ReadTarget::Replica(HostId(1)));
}

#[test]
fn near_replicas_come_before_idle_ones() {
    let mut scene = Scene::usual();
    scene.cluster.settings.zone = Some("a".to_owned());
    scene.cluster.hosts[2].spec.zone = Some("a".to_owned());
    let busy = |id: HostId| if id == HostId(2) { 99 } else { 0 };
    let chosen = |scene: &Scene, need| scene.cluster.read_target(need, true, busy, scene.now);
    assert_eq!(chosen(&scene, ANY), ReadTarget::Replica(HostId(2)));
    assert_eq!(
        chosen(&scene, contains(at(1, 95))),
        ReadTarget::Replica(HostId(1)),
        "only the far one is fresh"
    );
    scene.fail(2, ProbeError::TimedOut);
    assert_eq!(chosen(&scene, ANY), ReadTarget::Replica(HostId(1)));
}

#[test]
fn a_removed_replica_returns_after_a_series() {
    let mut scene = Scene::usual();
    let events = scene.fail(2, ProbeError::Refused);
    assert_eq!(events.len(), 1);
    for probes in 1..5 {
        scene.wait(SECOND);
        assert!(scene.see(2, replica(1, 100)).is_empty());
        assert_eq!(scene.reason(2), Some(Reason::Returning(probes)));
    }
    scene.wait(SECOND * 2);
    assert_eq!(scene.see(2, replica(1, 100)), [Event::Returned(HostId(2))]);
}

#[test]
fn a_replica_that_lags_is_removed() {
    let mut scene = Scene::usual();
    let lagging = HostReport {
        replay_age: Some(SECOND * 11),
        ..report(true, 1, 99)
    };
    let events = scene.see(2, Observation::Answered(lagging.clone()));
    let reason = Reason::Lags(SECOND * 11);
    assert_eq!(
        events,
        [Event::Removed {
            host: HostId(2),
            reason
        }]
    );
    let lag = scene.cluster.statuses()[2].lag;
    assert_eq!(
        lag,
        Lag {
            bytes: Some(1),
            time: Some(SECOND * 11)
        }
    );
    // The primary has been idle: nothing is left to replay.
    let idle = HostReport {
        replayed: Some(Lsn(100)),
        ..lagging
    };
    scene.see(1, Observation::Answered(idle));
    assert_eq!(scene.reason(1), None);
    let none = Freshness::Within(Duration::ZERO);
    assert_eq!(scene.read(none), ReadTarget::Replica(HostId(1)));
}

#[test]
fn a_replica_of_unknown_lag_serves_no_limited_read() {
    let mut scene = Scene::usual();
    for host in [1, 2] {
        let unknown = HostReport {
            replay_age: None,
            replayed: None,
            ..report(true, 1, 0)
        };
        scene.see(host, Observation::Answered(unknown));
    }
    let primary = ReadTarget::Primary(PrimaryTarget::Host(HostId(0)));
    assert_eq!(scene.read(Freshness::Within(SECOND)), primary);
    assert_eq!(scene.read(contains(at(1, 1))), primary);
    assert_eq!(scene.read(ANY), ReadTarget::Replica(HostId(1)));
}

#[test]
fn without_replicas_the_operator_decides() {
    let mut scene = Scene::usual();
    scene.fail(1, ProbeError::Refused);
    scene.fail(2, ProbeError::StartingUp);
    assert_eq!(
        scene.read(ANY),
        ReadTarget::Primary(PrimaryTarget::Host(HostId(0)))
    );
    scene.cluster.settings.replicas_gone = ReplicasGone::Error;
    assert_eq!(scene.read(ANY), ReadTarget::ReplicasGone);
}

/// A restarted replica may show less than before.
#[test]
fn a_failure_forgets_what_was_replayed() {
    let mut scene = Scene::usual();
    scene.fail(1, ProbeError::Refused);
    scene.cluster.replayed(HostId(1), Lsn(500));
    for _ in 0..6 {
        scene.wait(SECOND);
        scene.see(1, replica(1, 95));
    }
    assert_eq!(scene.reason(1), None);
    assert_eq!(scene.read(contains(at(1, 96))), ReadTarget::WaitForReplay);
}

#[test]
fn replicas_serve_while_there_is_no_primary() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::Refused);
    assert_eq!(
        scene.read(contains(at(1, 95))),
        ReadTarget::Replica(HostId(1))
    );
}

#[test]
fn a_replica_beyond_the_switch_point_serves_nothing() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::Refused);
    scene.see(2, primary(2, 95));
    assert!(
        matches!(scene.reason(1), Some(Reason::OlderTimeline { .. })),
        "the switch point is unknown"
    );
    scene.cluster.add_history(history(2, "1 0/5A"));
    scene.see(1, replica(1, 100));
    assert!(matches!(
        scene.reason(1),
        Some(Reason::Diverged {
            shared: Lsn(90),
            ..
        })
    ));
    scene.see(1, replica(1, 85));
    assert_eq!(
        scene.read(contains(at(1, 80))),
        ReadTarget::Replica(HostId(1))
    );
    assert_eq!(scene.read(contains(at(2, 95))), ReadTarget::WaitForReplay);
    scene.see(1, replica(2, 95));
    assert_eq!(
        scene.read(contains(at(2, 95))),
        ReadTarget::Replica(HostId(1))
    );
}

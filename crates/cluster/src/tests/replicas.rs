//! The replicas in use, and their lag.

use super::*;

fn lag(scene: &Scene, host: usize) -> Lag {
    scene.cluster.statuses()[host].lag
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
fn the_lag_is_in_bytes_and_in_time() {
    let mut scene = Scene::usual();
    let behind = HostReport {
        replay_age: Some(SECOND * 11),
        ..report(true, 1, 99)
    };
    assert!(
        scene
            .see(2, Observation::Answered(behind.clone()))
            .is_empty()
    );
    let expected = Lag {
        bytes: Some(1),
        time: Some(SECOND * 11),
    };
    assert_eq!(lag(&scene, 2), expected);
    // The primary has been idle: nothing is left to replay.
    let idle = HostReport {
        replayed: Some(Lsn(100)),
        ..behind
    };
    scene.see(1, Observation::Answered(idle));
    let none = Lag {
        bytes: Some(0),
        time: Some(Duration::ZERO),
    };
    assert_eq!((lag(&scene, 1), lag(&scene, 0)), (none, Lag::default()));
}

#[test]
fn a_replica_of_unknown_lag_is_in_use() {
    let mut scene = Scene::usual();
    let unknown = HostReport {
        replay_age: None,
        replayed: None,
        ..report(true, 1, 0)
    };
    scene.see(1, Observation::Answered(unknown));
    assert_eq!((lag(&scene, 1), scene.reason(1)), (Lag::default(), None));
}

#[test]
fn replicas_stay_in_use_while_there_is_no_primary() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::Refused);
    assert_eq!([1, 2].map(|host| scene.reason(host)), [None, None]);
    let behind = lag(&scene, 2).bytes;
    assert_eq!(behind, Some(10), "behind the last primary");
}

#[test]
fn a_replica_beyond_the_switch_point_is_not_in_use() {
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
    assert_eq!(lag(&scene, 1).bytes, None, "not comparable");
    scene.see(1, replica(1, 85));
    assert_eq!((scene.reason(1), lag(&scene, 1).bytes), (None, Some(10)));
    scene.see(1, replica(2, 95));
    assert_eq!((scene.reason(1), lag(&scene, 1).bytes), (None, Some(0)));
}

/// A replica of either of them has this timeline.
#[test]
fn no_replica_serves_reads_while_two_primaries_have_one_timeline() {
    let mut scene = Scene::usual();
    let readable = |scene: &Scene| scene.cluster.readable().len();
    assert_eq!(readable(&scene), 2);
    scene.see(1, primary(1, 100));
    assert_eq!(readable(&scene), 0);
    let reads = scene.cluster.statuses()[2].reads.clone();
    assert!(matches!(reads, Some(Err(Reason::SecondPrimary { .. }))));
    scene.fail(1, ProbeError::Refused);
    assert_eq!(readable(&scene), 0, "its replicas may live on");
    for _ in 0..9 {
        scene.wait(SECOND);
        scene.see(1, replica(1, 100));
    }
    assert_eq!(readable(&scene), 2);
}

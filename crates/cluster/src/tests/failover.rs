//! The choice of the primary.

use super::*;

#[test]
fn roles_are_discovered_when_every_host_was_probed() {
    let mut scene = Scene::new(3, settings());
    assert!(scene.see(0, primary(1, 100)).is_empty());
    assert!(scene.see(1, replica(1, 90)).is_empty());
    assert_eq!(
        (scene.primary(), scene.reason(1)),
        (None, Some(Reason::Unprobed))
    );
    scene.wait(SECOND);
    let events = scene.fail(2, ProbeError::TimedOut);
    let found = Event::PrimaryFound {
        host: HostId(0),
        timeline: Some(Timeline(1)),
        before: None,
        waited: SECOND,
    };
    assert!(
        events.contains(&found) && events.contains(&Event::Returned(HostId(1))),
        "{events:?}"
    );
    assert_eq!(scene.target(), PrimaryTarget::Host(HostId(0)));
    assert_eq!(
        [0, 1, 2].map(|host| scene.role(host)),
        [HostRole::Primary, HostRole::Replica, HostRole::Unknown]
    );
    assert_eq!(scene.reason(2), Some(ProbeError::TimedOut.into()));
}

/// The old primary answers first after a start of Paceline.
#[test]
fn the_highest_timeline_decides_at_the_start() {
    let mut scene = Scene::new(2, settings());
    scene.see(0, primary(1, 500));
    scene.see(1, primary(2, 100));
    assert_eq!(scene.primary(), Some(1));
    let older = Reason::OlderTimeline {
        own: Timeline(1),
        highest: Timeline(2),
    };
    assert_eq!(
        (scene.reason(0), scene.role(0)),
        (Some(older), HostRole::RejectedPrimary)
    );
}

#[test]
fn a_failover_waits_and_finds_the_new_primary() {
    let mut scene = Scene::usual();
    let events = scene.fail(0, ProbeError::Refused);
    assert!(matches!(
        events[0],
        Event::PrimaryLost {
            host: HostId(0),
            reason: Reason::Failed(ProbeError::Refused)
        }
    ));
    let lost = scene.now;
    scene.wait(SECOND * 29);
    let (since, until) = (lost, lost + SECOND * 30);
    assert_eq!(scene.target(), PrimaryTarget::Wait { since, until });
    let events = scene.see(1, primary(2, 105));
    let found = Event::PrimaryFound {
        host: HostId(1),
        timeline: Some(Timeline(2)),
        before: Some(Timeline(1)),
        waited: SECOND * 29,
    };
    assert!(events.contains(&found), "{events:?}");
    assert_eq!(scene.target(), PrimaryTarget::Host(HostId(1)));
}

#[test]
fn a_failover_that_takes_too_long_is_given_up() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::TimedOut);
    let since = scene.now;
    scene.wait(SECOND * 30);
    assert_eq!(scene.target(), PrimaryTarget::GaveUp { since });
    scene.see(0, primary(1, 101));
    assert_eq!(
        scene.target(),
        PrimaryTarget::Host(HostId(0)),
        "one good probe suffices"
    );
}

#[test]
fn an_old_primary_that_comes_back_gets_nothing() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::Refused);
    scene.see(1, primary(2, 105));
    scene.see(0, primary(1, 900));
    assert_eq!(scene.primary(), Some(1));
    scene.fail(1, ProbeError::Refused);
    scene.see(0, primary(1, 901));
    assert_eq!(scene.primary(), None);
}

/// A replica that follows the new primary is enough to know that the old one is old.
#[test]
fn a_replica_on_a_higher_timeline_ends_the_old_primary() {
    let mut scene = Scene::usual();
    let events = scene.see(2, replica(2, 100));
    assert!(events.contains(&Event::TimelineRose(Timeline(2))));
    assert_eq!(scene.primary(), None);
}

#[test]
fn a_full_server_and_a_rejected_monitor_are_no_loss() {
    let mut scene = Scene::usual();
    for error in [ProbeError::Overloaded, ProbeError::LoginRefused] {
        assert!(scene.fail(0, error).is_empty());
        assert_eq!(scene.primary(), Some(0));
    }
    assert!(scene.fail(1, ProbeError::Overloaded).is_empty());
    assert!(!scene.fail(1, ProbeError::LoginRefused).is_empty());
    let mut scene = Scene::new(1, settings());
    scene.fail(0, ProbeError::LoginRefused);
    assert_eq!(scene.primary(), None, "it never said what it is");
}

#[test]
fn a_primary_that_rejects_writes_is_lost() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::ReadOnly);
    assert_eq!(scene.primary(), None);
    let report = HostReport {
        read_only: true,
        ..report(false, 1, 100)
    };
    scene.see(0, Observation::Answered(report));
    assert_eq!(
        (scene.primary(), scene.reason(0)),
        (None, Some(Reason::ReadOnly))
    );
}

#[test]
fn two_primaries_of_one_timeline_are_never_exchanged() {
    let mut scene = Scene::usual();
    scene.see(1, primary(1, 120));
    assert_eq!(scene.primary(), Some(0));
    let second = Reason::SecondPrimary {
        other: address(0),
        timeline: Timeline(1),
    };
    assert_eq!(scene.reason(1), Some(second));
    scene.fail(0, ProbeError::Refused);
    scene.see(1, primary(1, 130));
    assert_eq!(
        scene.primary(),
        None,
        "the lost one may hold what clients were told"
    );
    scene.see(0, primary(1, 140));
    assert_eq!(scene.primary(), Some(0));

    let mut start = Scene::new(2, settings());
    start.see(0, primary(1, 100));
    start.see(1, primary(1, 100));
    assert_eq!(start.primary(), None, "which one is not known");
    start.see(1, replica(1, 100));
    assert_eq!(start.primary(), Some(0));
}

#[test]
fn a_server_of_another_cluster_is_rejected() {
    let mut scene = Scene::new(3, settings());
    let foreign = |in_recovery| HostReport {
        system: Some(SystemId(8)),
        ..report(in_recovery, 9, 900)
    };
    scene.see(0, Observation::Answered(foreign(true)));
    scene.see(1, primary(1, 100));
    scene.see(2, replica(1, 100));
    assert_eq!(
        scene.primary(),
        Some(1),
        "the primary decides, not the first answer"
    );
    let other = Reason::OtherSystem {
        own: SystemId(8),
        expected: SYSTEM,
    };
    assert_eq!(
        (scene.reason(0), scene.role(0)),
        (Some(other), HostRole::Unknown)
    );
    scene.fail(1, ProbeError::Refused);
    scene.see(0, Observation::Answered(foreign(false)));
    assert_eq!(scene.primary(), None);
    assert_eq!(scene.cluster.highest_timeline(), Some(Timeline(1)));
    assert!(
        scene
            .reason(0)
            .unwrap()
            .to_string()
            .contains("belongs to another cluster")
    );
}

#[test]
fn without_its_timeline_only_a_single_host_is_the_primary() {
    let unknown = || {
        Observation::Answered(HostReport {
            timeline: None,
            system: None,
            ..report(false, 1, 100)
        })
    };
    let mut single = Scene::new(1, settings());
    single.see(0, unknown());
    assert_eq!(single.primary(), Some(0));
    let mut two = Scene::new(2, settings());
    two.see(0, unknown());
    two.see(1, replica(1, 100));
    assert_eq!(
        (two.primary(), two.reason(0)),
        (None, Some(Reason::TimelineUnknown))
    );
}

fn with_patroni() -> Scene {
    let settings = ClusterSettings {
        patroni: true,
        ..settings()
    };
    let mut scene = Scene::new(2, settings);
    scene.see(0, primary(1, 100));
    scene.see(1, replica(1, 100));
    scene
}

#[test]
fn patroni_must_agree() {
    let mut scene = with_patroni();
    assert_eq!(scene.primary(), None, "the answer is awaited");
    scene.cluster.observe_patroni(Some(view(0, 1)), scene.now);
    assert_eq!(scene.primary(), Some(0));
    // Patroni names the new leader before PostgreSQL has been promoted.
    scene.cluster.observe_patroni(Some(view(1, 1)), scene.now);
    assert_eq!(
        (scene.primary(), scene.reason(0)),
        (
            None,
            Some(Reason::PatroniDisagrees(Some("node1".to_owned())))
        )
    );
    scene.see(1, primary(2, 101));
    assert_eq!(scene.primary(), Some(1));
    // PostgreSQL has been promoted before Patroni names it.
    scene.fail(1, ProbeError::Refused);
    scene.see(0, primary(3, 102));
    assert_eq!(scene.primary(), None);
    scene.cluster.observe_patroni(Some(view(0, 3)), scene.now);
    assert_eq!(scene.primary(), Some(0));
}

#[test]
fn an_unreachable_patroni_keeps_its_last_answer() {
    let mut scene = with_patroni();
    scene.cluster.observe_patroni(None, scene.now);
    assert_eq!(
        scene.primary(),
        Some(0),
        "it never answered: PostgreSQL's word decides"
    );
    scene.cluster.observe_patroni(Some(view(0, 1)), scene.now);
    scene.wait(SECOND * 7);
    scene.cluster.observe_patroni(None, scene.now);
    assert_eq!(scene.primary(), Some(0));
    scene.fail(0, ProbeError::Refused);
    scene.see(1, primary(2, 101));
    assert_eq!(
        scene.primary(),
        Some(1),
        "its timeline is younger than the answer"
    );
}

#[test]
fn patroni_may_know_a_host_by_its_address() {
    let mut scene = with_patroni();
    let mut answer = view(0, 1);
    answer.members[0].address.as_mut().unwrap().host = "10.0.0.1".to_owned();
    scene
        .cluster
        .observe_patroni(Some(answer.clone()), scene.now);
    assert_eq!(scene.primary(), None);
    scene
        .cluster
        .resolved(HostId(0), vec!["10.0.0.1".to_owned()]);
    scene
        .cluster
        .observe_patroni(Some(answer.clone()), scene.now);
    assert_eq!(scene.primary(), Some(0));
    // The resolver does not answer.
    scene.cluster.resolved(HostId(0), Vec::new());
    scene.cluster.observe_patroni(Some(answer), scene.now);
    assert_eq!(scene.primary(), Some(0));
}

#[test]
fn the_history_of_a_new_timeline_is_wanted_once() {
    let mut scene = Scene::usual();
    scene.fail(0, ProbeError::Refused);
    scene.see(1, primary(2, 105));
    assert_eq!(scene.cluster.wanted_history(), Some(Timeline(2)));
    scene.cluster.add_history(history(2, "1 0/5F"));
    assert_eq!(scene.cluster.wanted_history(), None);
}

#[test]
fn a_changed_list_of_hosts_does_not_return_an_old_primary() {
    let mut before = Scene::usual();
    before.fail(0, ProbeError::Refused);
    before.see(1, primary(2, 110));
    let mut after = Scene::new(2, settings());
    after.cluster.inherit(&before.cluster);
    after.see(0, primary(1, 120));
    after.fail(1, ProbeError::TimedOut);
    assert_eq!(after.primary(), None);
    after.see(1, primary(2, 120));
    assert_eq!(after.primary(), Some(1));
}

//! Random orders of events against a simple model of what the cluster was shown.

use super::*;
use proptest::prelude::*;

const HOSTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Seen(usize, HostReport),
    Failed(usize, ProbeError),
    Patroni(Option<(usize, u32)>),
    /// The history of the timeline, with these switch points.
    History(u32, u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let host = 0..HOSTS;
    let seen = (0..HOSTS, any::<bool>(), 1u32..4, 0u64..100, 0u8..8).prop_map(
        |(host, in_recovery, timeline, lsn, odd)| {
            let mut report = report(in_recovery, timeline, lsn);
            match odd {
                0 => report.system = Some(SystemId(8)),
                1 => report.timeline = None,
                2 => report.read_only = true,
                3 => report.replay_age = Some(SECOND * 20),
                _ => {}
            }
            Step::Seen(host, report)
        },
    );
    let error = prop_oneof![
        Just(ProbeError::Refused),
        Just(ProbeError::TimedOut),
        Just(ProbeError::LoginRefused),
        Just(ProbeError::Overloaded),
    ];
    let step = prop_oneof![
        6 => seen,
        2 => (host.clone(), error).prop_map(|(host, error)| Step::Failed(host, error)),
        1 => prop::option::of((host, 1u32..4)).prop_map(Step::Patroni),
        1 => (2u32..4, 10u64..90).prop_map(|(timeline, lsn)| Step::History(timeline, lsn)),
        2 => (0u64..4).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..80)
}

/// The steps for each host since its last failure.
#[derive(Default)]
struct Shown {
    reports: [Option<HostReport>; HOSTS],
    failures: [Option<ProbeError>; HOSTS],
    /// The highest timeline of hosts whose system is known to be ours.
    highest: u32,
    switches: [Option<u64>; 4],
}

impl Shown {
    fn note(&mut self, step: &Step, system: Option<SystemId>) {
        match step {
            Step::Seen(host, report) => {
                self.reports[*host] = Some(report.clone());
                self.failures[*host] = None;
            }
            Step::Failed(host, error) => self.failures[*host] = Some(error.clone()),
            _ => {}
        }
        let ours = self
            .reports
            .iter()
            .flatten()
            .filter(|report| system.is_some() && report.system == system);
        let highest = ours
            .filter_map(|report| report.timeline)
            .map(|timeline| timeline.0)
            .max();
        self.highest = self.highest.max(highest.unwrap_or(0));
    }

    /// Each timeline left the one before it.
    fn shared(&self, low: u32, high: u32) -> Option<u64> {
        let mut switches = (low + 1..=high).map(|timeline| self.switches[timeline as usize]);
        switches.try_fold(u64::MAX, |least, switch| Some(least.min(switch?)))
    }

    /// Checks a replica in use: its last answer, its log, and its lag behind the host that is the primary.
    fn check_replica(&self, scene: &Scene, status: &HostStatus) {
        let host = status.id.0;
        let report = self.reports[host].as_ref().unwrap();
        assert!(report.in_recovery, "{status:?}");
        let failure = &self.failures[host];
        assert!(
            matches!(failure, None | Some(ProbeError::Overloaded)),
            "{status:?}"
        );
        let (Some(timeline), Some(highest)) = (report.timeline, scene.cluster.highest_timeline())
        else {
            return;
        };
        let shared = self.shared(timeline.0, highest.0);
        let replayed = report.replayed.unwrap();
        assert!(
            shared.is_some_and(|shared| replayed.0 <= shared),
            "{status:?}"
        );
        let of_primary = scene.primary().and_then(|id| self.reports[id].as_ref());
        let of_primary = of_primary.filter(|report| report.timeline == Some(timeline));
        if let Some(end) = of_primary.and_then(|report| report.written) {
            let bytes = end.0.saturating_sub(replayed.0);
            let time = match bytes {
                0 => Some(Duration::ZERO),
                _ => report.replay_age,
            };
            let expected = Lag {
                bytes: Some(bytes),
                time,
            };
            assert_eq!(status.lag, expected, "{status:?}");
        }
    }
}

/// Checks what must hold at any time.
fn check(scene: &Scene, shown: &Shown) {
    let statuses = scene.cluster.statuses();
    let primaries = statuses
        .iter()
        .filter(|status| status.role == HostRole::Primary);
    assert!(primaries.count() <= 1);
    for status in &statuses {
        assert_eq!(status.in_use, status.reason.is_none());
        if status.in_use {
            assert!(
                status
                    .system
                    .is_none_or(|system| Some(system) == scene.cluster.system())
            );
        }
        if status.in_use && scene.primary() != Some(status.id.0) {
            shown.check_replica(scene, status);
        }
    }
    if let Some(host) = scene.primary() {
        assert_eq!(scene.target(), PrimaryTarget::Host(HostId(host)));
        let report = shown.reports[host].as_ref().unwrap();
        assert!(!report.in_recovery && !report.read_only, "{report:?}");
        assert!(
            report
                .timeline
                .is_some_and(|timeline| timeline.0 >= shown.highest),
            "{report:?}"
        );
        let dead = matches!(
            shown.failures[host],
            Some(ProbeError::Refused | ProbeError::TimedOut)
        );
        assert!(!dead);
    }
}

fn run(steps: &[Step], patroni: bool) {
    let mut scene = Scene::new(
        HOSTS,
        ClusterSettings {
            patroni,
            ..settings()
        },
    );
    let mut shown = Shown::default();
    for step in steps {
        match step.clone() {
            Step::Seen(host, report) => drop(scene.see(host, Observation::Answered(report))),
            Step::Failed(host, error) => drop(scene.fail(host, error)),
            Step::Patroni(answer) => {
                let answer = answer.map(|(leader, timeline)| view(leader, timeline));
                scene.cluster.observe_patroni(answer, scene.now);
            }
            Step::History(timeline, lsn) => add_history(&mut scene, &mut shown, timeline, lsn),
            Step::Wait(seconds) => scene.wait(SECOND * u32::try_from(seconds).unwrap()),
        }
        shown.note(step, scene.cluster.system());
        check(&scene, &shown);
    }
}

/// Adds the history of a timeline whose ancestors' histories are known.
fn add_history(scene: &mut Scene, shown: &mut Shown, timeline: u32, lsn: u64) {
    let known = |timeline: u32| shown.switches[timeline as usize];
    let before = match timeline {
        2 => Some(0),
        _ => known(2),
    };
    let Some(before) = before.filter(|_| known(timeline).is_none()) else {
        return;
    };
    let lsn = lsn.max(before);
    let earlier = match timeline {
        2 => String::new(),
        _ => format!("1 {}\n", Lsn(before)),
    };
    let text = format!("{earlier}{} {}", timeline - 1, Lsn(lsn));
    scene.cluster.add_history(history(timeline, &text));
    shown.switches[timeline as usize] = Some(lsn);
}

proptest! {
    #![proptest_config(paceline_testing::cases(512))]

    #[test]
    fn any_order_of_events_is_safe(steps in steps(), patroni: bool) {
        run(&steps, patroni);
    }
}

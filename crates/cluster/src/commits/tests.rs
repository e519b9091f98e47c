//! Stories, and random histories against a model that knows the position of each commit.

use super::*;
use proptest::prelude::*;

const OLD: Timeline = Timeline(1);
const NEW: Timeline = Timeline(2);

fn position(lsn: u64) -> WalPosition {
    WalPosition {
        inserted: Lsn(lsn),
        flushed: Lsn(lsn),
    }
}

/// A log with the counter of one database.
struct Scene {
    log: CommitLog,
    app: Arc<CommitCounter>,
}

impl Scene {
    fn new() -> Self {
        let mut log = CommitLog::default();
        assert!(log.primary_found(OLD).is_none());
        let app = log.counter("app");
        Self { log, app }
    }

    fn commit(&self, possible: u64, certain: u64) {
        self.app.acknowledged(self.app.now(), possible, certain);
    }

    fn observe(&mut self, lsn: u64) {
        let asked = self.log.ask();
        self.log.answered(&asked, position(lsn));
    }

    fn promote(&mut self) -> ReplacedTimeline {
        let replaced = self.log.primary_found(NEW).unwrap();
        self.log.followed();
        replaced
    }
}

fn lost(replaced: &ReplacedTimeline, at_least: u64, at_most: u64) -> (u64, u64) {
    let switch = SwitchPoint {
        at_least: Lsn(at_least),
        at_most: Lsn(at_most),
    };
    match replaced.lost(switch).as_slice() {
        [(_, lost)] => (lost.at_least, lost.at_most),
        _ => (0, 0),
    }
}

#[test]
fn commits_between_two_positions_may_be_lost_and_later_ones_are() {
    let mut scene = Scene::new();
    scene.commit(1, 1);
    scene.observe(10);
    scene.commit(20, 15);
    scene.observe(20);
    scene.commit(300, 200);
    let replaced = scene.promote();
    assert_eq!(replaced.timeline, OLD);
    assert_eq!(lost(&replaced, 9, 9), (215, 321));
    assert_eq!(lost(&replaced, 10, 10), (215, 320));
    assert_eq!(lost(&replaced, 11, 11), (200, 320));
    assert_eq!(lost(&replaced, 20, 20), (200, 300));
    assert_eq!(lost(&replaced, 21, 21), (0, 300));
    assert_eq!(lost(&replaced, 10, 20), (200, 320));
}

#[test]
fn a_commit_that_was_under_way_while_a_position_arrived_may_lie_on_either_side() {
    let mut scene = Scene::new();
    scene.observe(10);
    let sent_at = scene.app.now();
    let asked = scene.log.ask();
    scene.app.acknowledged(scene.app.now(), 1, 1);
    scene.log.answered(&asked, position(20));
    scene.app.acknowledged(sent_at, 1, 1);
    scene.observe(30);
    // Two positions have arrived.
    scene.app.acknowledged(sent_at, 1, 1);
    let replaced = scene.promote();
    assert_eq!(lost(&replaced, 20, 20), (0, 3));
    assert_eq!(lost(&replaced, 10, 10), (2, 3));
}

#[test]
fn what_the_new_primary_acknowledges_is_not_lost() {
    let mut scene = Scene::new();
    scene.observe(10);
    let sent_at = scene.app.now();
    scene.commit(2, 2);
    let asked = scene.log.ask();
    let replaced = scene.promote();
    scene.commit(50, 50);
    // The old primary answers late.
    scene.app.acknowledged(sent_at, 1, 1);
    scene.log.answered(&asked, position(5));
    assert_eq!(lost(&replaced, 10, 10), (2, 3));
    scene.observe(100);
    let third = scene.log.primary_found(Timeline(3)).unwrap();
    assert_eq!(lost(&third, 100, 100), (0, 0));
    assert_eq!(lost(&third, 99, 99), (0, 50));
}

#[test]
fn a_primary_that_comes_back_on_its_timeline_has_lost_nothing() {
    let mut scene = Scene::new();
    scene.commit(1, 1);
    assert!(scene.log.primary_found(OLD).is_none());
}

/// Positions that were inserted, but not flushed, are used again after a crash of the server.
#[test]
fn a_commit_after_a_crash_is_not_taken_for_a_later_one() {
    let mut scene = Scene::new();
    let asked = scene.log.ask();
    let (inserted, flushed) = (Lsn(20), Lsn(10));
    let position = WalPosition { inserted, flushed };
    scene.log.answered(&asked, position);
    scene.commit(1, 1);
    let replaced = scene.promote();
    assert_eq!(lost(&replaced, 15, 15), (0, 1));
    assert_eq!(lost(&replaced, 10, 10), (1, 1));
}

#[test]
fn each_database_has_its_own_bounds_and_unused_ones_are_dropped() {
    let mut scene = Scene::new();
    let other = scene.log.counter("other");
    drop(scene.log.counter("unused"));
    scene.commit(1, 1);
    scene.observe(10);
    other.acknowledged(other.now(), 2, 2);
    assert_eq!(scene.log.databases.len(), 2);
    let replaced = scene.promote();
    let lost = replaced.lost(SwitchPoint::exactly(Lsn(10)));
    let bounds = |at_least, at_most| LostCommits { at_least, at_most };
    let expected = [("app", bounds(0, 0)), ("other", bounds(2, 2))];
    assert_eq!(lost, expected.map(|(name, lost)| (name.to_owned(), lost)));
}

const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Send(usize, Kind),
    Insert(usize),
    Acknowledge(usize),
    Noise(u64),
    Flush,
    Ask,
    Evaluate,
    Answer,
    Crash,
    /// The number of bytes of the log that the replica lost, and the errors of its known limits, in bytes.
    Promote(u64, [u64; 2]),
    Follow,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Certain,
    /// It may have written, and has or has not.
    Possible(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        3 => Just(Kind::Certain),
        1 => any::<bool>().prop_map(Kind::Possible),
    ];
    let client = 0..CLIENTS;
    prop_oneof![
        8 => (client.clone(), kind).prop_map(|(client, kind)| Step::Send(client, kind)),
        8 => client.clone().prop_map(Step::Insert),
        8 => client.prop_map(Step::Acknowledge),
        3 => (1u64..20).prop_map(Step::Noise),
        4 => Just(Step::Flush),
        4 => Just(Step::Ask),
        4 => Just(Step::Evaluate),
        4 => Just(Step::Answer),
        3 => Just(Step::Crash),
        1 => (0u64..30, prop::array::uniform2(0u64..5)).prop_map(|(lost, slack)| Step::Promote(lost, slack)),
        2 => Just(Step::Follow),
    ]
}

/// A commit of a client.
#[derive(Debug, Clone, Copy)]
struct Commit {
    sent_at: SentAt,
    kind: Kind,
    /// The timeline of the server that got it.
    timeline: u32,
    /// The end of its record.
    at: Option<u64>,
    crashed: bool,
}

struct Question {
    asked: AskedAt,
    timeline: u32,
    answer: Option<WalPosition>,
}

/// A promotion, to be compared with the truth at the end.
struct Replaced {
    commits: ReplacedTimeline,
    switch: u64,
    slack: [u64; 2],
}

struct Model {
    log: CommitLog,
    app: Arc<CommitCounter>,
    inserted: u64,
    flushed: u64,
    /// The server that gets requests; the highest timeline is one more between a promotion and its discovery by the pools.
    timeline: u32,
    promoted: Option<u64>,
    clients: [Option<Commit>; CLIENTS],
    acknowledged: Vec<Commit>,
    question: Option<Question>,
    replaced: Vec<Replaced>,
}

impl Model {
    fn new() -> Self {
        let Scene { log, app } = Scene::new();
        Self {
            log,
            app,
            inserted: 1,
            flushed: 1,
            timeline: 1,
            promoted: None,
            clients: [None; CLIENTS],
            acknowledged: Vec::new(),
            question: None,
            replaced: Vec::new(),
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Send(client, kind) if self.clients[client].is_none() => {
                self.clients[client] = Some(Commit {
                    sent_at: self.app.now(),
                    kind,
                    timeline: self.timeline,
                    at: None,
                    crashed: false,
                });
            }
            Step::Insert(client) => {
                let end = &mut self.inserted;
                if let Some(commit) = &mut self.clients[client]
                    && commit.timeline == self.timeline
                    && commit.at.is_none()
                {
                    *end += 1;
                    commit.at = Some(*end);
                }
            }
            Step::Acknowledge(client) => {
                if let Some(commit) = self.clients[client].take_if(|commit| commit.at.is_some()) {
                    let certain = matches!(commit.kind, Kind::Certain);
                    self.app.acknowledged(commit.sent_at, 1, u64::from(certain));
                    self.acknowledged.push(commit);
                }
            }
            Step::Noise(bytes) => self.inserted += bytes,
            Step::Flush => self.flushed = self.inserted,
            Step::Ask if self.question.is_none() => {
                self.question = Some(Question {
                    asked: self.log.ask(),
                    timeline: self.timeline,
                    answer: None,
                });
            }
            Step::Evaluate => {
                let position = WalPosition {
                    inserted: Lsn(self.inserted),
                    flushed: Lsn(self.flushed),
                };
                if let Some(question) = &mut self.question
                    && question.timeline == self.timeline
                {
                    question.answer = Some(position);
                }
            }
            Step::Answer => {
                if let Some(question) = self.question.take()
                    && let Some(position) = question.answer
                {
                    self.log.answered(&question.asked, position);
                }
            }
            Step::Crash => self.crash(),
            Step::Promote(lost, slack) if self.promoted.is_none() => {
                let switch = self.inserted.saturating_sub(lost).max(1);
                let timeline = Timeline(self.timeline + 1);
                if let Some(commits) = self.log.primary_found(timeline) {
                    self.replaced.push(Replaced {
                        commits,
                        switch,
                        slack,
                    });
                    self.promoted = Some(switch);
                }
            }
            Step::Follow => {
                if let Some(switch) = self.promoted.take() {
                    self.timeline += 1;
                    (self.inserted, self.flushed) = (switch, switch);
                    self.log.followed();
                }
            }
            Step::Send(..) | Step::Ask | Step::Promote(..) => {}
        }
    }

    /// The server loses what is not flushed, and the commits under way.
    fn crash(&mut self) {
        self.inserted = self.flushed;
        self.question = None;
        let present = self.timeline;
        for commit in &mut self.acknowledged {
            let is_lost = commit.timeline == present && commit.at > Some(self.flushed);
            commit.crashed |= is_lost;
        }
        for client in &mut self.clients {
            client.take_if(|commit| commit.timeline == present);
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for replaced in &self.replaced {
            let [below, above] = replaced.slack;
            let (at_least, at_most) = lost(
                &replaced.commits,
                replaced.switch.saturating_sub(below),
                replaced.switch + above,
            );
            let all = self.acknowledged.iter();
            let missing = all.filter(|commit| {
                commit.timeline == replaced.commits.timeline.0
                    && commit.at > Some(replaced.switch)
                    && matches!(commit.kind, Kind::Certain | Kind::Possible(true))
            });
            let with_crashes = missing.clone().count() as u64;
            let without = missing.filter(|commit| !commit.crashed).count() as u64;
            prop_assert!(
                at_least <= with_crashes,
                "{at_least} reported, {with_crashes} missing"
            );
            prop_assert!(without <= at_most, "{without} missing, {at_most} reported");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(paceline_testing::cases(500))]

    #[test]
    fn the_number_of_lost_commits_is_within_the_bounds(steps in prop::collection::vec(step(), 1..300)) {
        let mut model = Model::new();
        for step in &steps {
            model.run(step);
        }
        model.check()?;
    }
}

//! Generated histories of queues: late commits, rollbacks, priorities, retries with older keys, other programs that take
//! rows or give them back, groups that fail or overlap. In each group, no row that has been there for `queue_reorder_time`
//! is passed over, and if consumers get too few rows, none is left.

use super::{Position, QUEUES_MAX, QueuePass, QueueStarts, QueueValues};
use proptest::prelude::*;
use std::time::{Duration, Instant};

const REORDER_TIME: Duration = Duration::from_millis(100);

/// A step of a history. Numbers select among what exists at that moment.
#[derive(Debug, Clone)]
enum Step {
    /// A transaction inserts a row with this priority and number.
    Insert(i8, i8),
    /// The transaction of a row commits, or rolls back.
    Commit(usize),
    RollBack(usize),
    /// Another program locks a row, gives it back, or takes it.
    Lock(usize),
    GiveBack(usize),
    TakeOutside(usize),
    /// A group for this many rows begins. It overlaps with those that have not ended.
    Begin(usize),
    /// A group commits; its rows with set bits return to the queue under this lower number.
    End(usize, u8, i8),
    /// A group fails, and its rows return.
    Fail(usize),
    /// This many milliseconds pass.
    Pass(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowState {
    Uncommitted,
    /// Any consumer may take it, since then.
    Free(Instant),
    Locked,
    InGroup,
}

#[derive(Debug, Clone)]
struct Row {
    priority: i64,
    number: i64,
    state: RowState,
}

impl Row {
    /// Its place in `ORDER BY priority DESC, number, …`; the last part makes it unique.
    fn order(&self, id: usize) -> (i64, i64, usize) {
        (-self.priority, self.number, id)
    }

    fn position(&self) -> Position {
        let values = [self.priority, self.number];
        values.map(|value| value.to_be_bytes().to_vec()).to_vec()
    }

    fn is_before(&self, position: &Position) -> bool {
        let [priority, number] = position.as_slice() else {
            panic!("a position of two columns");
        };
        let value = |bytes: &Vec<u8>| i64::from_be_bytes(bytes.as_slice().try_into().unwrap());
        (-self.priority, self.number) < (-value(priority), value(number))
    }
}

struct Group {
    pass: QueuePass,
    rows: Vec<usize>,
}

struct History {
    starts: QueueStarts,
    now: Instant,
    rows: Vec<Option<Row>>,
    groups: Vec<Group>,
    overlapping: bool,
    /// Before the last committed pass of the whole queue.
    whole_pass: Option<Instant>,
}

impl History {
    fn new(overlapping: bool) -> Self {
        Self {
            starts: QueueStarts::default(),
            now: Instant::now(),
            rows: Vec::new(),
            groups: Vec::new(),
            overlapping,
            whole_pass: None,
        }
    }

    fn take(&mut self, step: &Step) {
        let free = RowState::Free(self.now);
        match *step {
            Step::Insert(priority, number) => self.rows.push(Some(Row {
                priority: priority.into(),
                number: number.into(),
                state: RowState::Uncommitted,
            })),
            Step::Commit(which) => self.change(which, RowState::Uncommitted, Some(free)),
            Step::RollBack(which) => self.change(which, RowState::Uncommitted, None),
            Step::Lock(which) => {
                if let Some(id) = self.pick(which, |state| matches!(state, RowState::Free(_))) {
                    self.set(id, Some(RowState::Locked));
                }
            }
            Step::GiveBack(which) => self.change(which, RowState::Locked, Some(free)),
            Step::TakeOutside(which) => self.change(which, RowState::Locked, None),
            Step::Begin(limit) => self.begin(limit),
            Step::End(which, again, number) => self.end(which, again, number.into()),
            Step::Fail(which) => {
                for id in self
                    .remove_group(which)
                    .map_or(Vec::new(), |group| group.rows)
                {
                    self.set(id, Some(free));
                }
            }
            Step::Pass(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn pick(&self, which: usize, state: impl Fn(RowState) -> bool) -> Option<usize> {
        let rows = self.rows.iter().enumerate();
        let fit = rows.filter(|(_, row)| row.as_ref().is_some_and(|row| state(row.state)));
        let ids: Vec<usize> = fit.map(|(id, _)| id).collect();
        ids.get(which % ids.len().max(1)).copied()
    }

    fn change(&mut self, which: usize, from: RowState, to: Option<RowState>) {
        if let Some(id) = self.pick(which, |state| state == from) {
            self.set(id, to);
        }
    }

    fn set(&mut self, id: usize, state: Option<RowState>) {
        let row = self.rows[id].take();
        self.rows[id] = row.zip(state).map(|(row, state)| Row { state, ..row });
    }

    /// The free rows in the queue's order, each with the time since which it is free.
    fn free(&self) -> Vec<(usize, Instant)> {
        let rows = self.rows.iter().enumerate();
        let mut free: Vec<_> = rows
            .filter_map(|(id, row)| match row.as_ref()?.state {
                RowState::Free(since) => Some((id, since)),
                _ => None,
            })
            .collect();
        free.sort_by_key(|(id, _)| self.row(*id).order(*id));
        free
    }

    fn row(&self, id: usize) -> &Row {
        self.rows[id].as_ref().expect("a row")
    }

    /// Executes the statement of a group as PostgreSQL does.
    fn begin(&mut self, limit: usize) {
        if !self.overlapping && !self.groups.is_empty() {
            return;
        }
        let pass = self
            .starts
            .next_pass(self.now, REORDER_TIME, &QueueValues::new());
        let free = self.free();
        let ids = free.iter().map(|(id, _)| *id);
        let picked: Vec<usize> = match &pass {
            QueuePass::Whole(_) => ids.take(limit).collect(),
            QueuePass::From { position, .. } => {
                let (earlier, later): (Vec<usize>, Vec<usize>) =
                    ids.partition(|id| self.row(*id).is_before(position));
                let later: Vec<usize> = later.into_iter().take(limit).collect();
                let missing = limit - later.len();
                earlier.into_iter().take(missing).chain(later).collect()
            }
        };
        self.check(&free, &picked, limit);
        for id in &picked {
            self.set(*id, Some(RowState::InGroup));
        }
        self.groups.push(Group { pass, rows: picked });
    }

    fn check(&self, free: &[(usize, Instant)], picked: &[usize], limit: usize) {
        let left = || free.iter().filter(|(id, _)| !picked.contains(id));
        assert!(
            picked.len() == limit || left().count() == 0,
            "too few rows although some are left"
        );
        let last = picked.iter().map(|id| self.row(*id).order(*id)).max();
        for (id, since) in left() {
            let passed_over = last.is_some_and(|last| self.row(*id).order(*id) < last);
            assert!(
                !passed_over || *since + REORDER_TIME > self.now,
                "a row was passed over that has been there for longer than the limit"
            );
            let seen = self.whole_pass.is_some_and(|whole| *since < whole);
            assert!(
                !passed_over || !seen,
                "a row was passed over that was there at the last pass of the whole queue"
            );
        }
    }

    fn remove_group(&mut self, which: usize) -> Option<Group> {
        let count = self.groups.len();
        (count > 0).then(|| self.groups.remove(which % count))
    }

    fn end(&mut self, which: usize, again: u8, number: i64) {
        let Some(Group { pass, rows }) = self.remove_group(which) else {
            return;
        };
        let first = rows.first().map(|id| self.row(*id).position());
        if let QueuePass::Whole(began) = pass {
            self.whole_pass = self.whole_pass.max(Some(began));
        }
        self.starts.committed(QueueValues::new(), &pass, first);
        for (bit, id) in rows.into_iter().enumerate() {
            let row = self.rows[id].take().expect("a row of a group");
            if bit < 8 && again >> bit & 1 == 1 {
                self.rows.push(Some(Row {
                    number: row.number.min(number),
                    state: RowState::Free(self.now),
                    ..row
                }));
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![3 => Just(0), 1 => -1..=1_i8];
    prop_oneof![
        6 => (priority, any::<i8>()).prop_map(|(priority, number)| Step::Insert(priority, number)),
        6 => any::<usize>().prop_map(Step::Commit),
        1 => any::<usize>().prop_map(Step::RollBack),
        2 => any::<usize>().prop_map(Step::Lock),
        2 => any::<usize>().prop_map(Step::GiveBack),
        1 => any::<usize>().prop_map(Step::TakeOutside),
        6 => (1..6_usize).prop_map(Step::Begin),
        5 => (any::<usize>(), any::<u8>(), any::<i8>())
            .prop_map(|(which, again, number)| Step::End(which, again & 0x11, number)),
        1 => any::<usize>().prop_map(Step::Fail),
        4 => (0..60_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(paceline_testing::cases(2_000))]

    #[test]
    fn no_row_is_passed_over_for_longer_than_the_limit(
        overlapping in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut history = History::new(overlapping);
        steps.iter().for_each(|step| history.take(step));
    }
}

fn position(number: u8) -> Position {
    vec![vec![number]]
}

fn from(number: u8, whole_pass: Instant) -> QueuePass {
    QueuePass::From {
        position: position(number),
        whole_pass,
    }
}

fn queue(number: usize) -> QueueValues {
    vec![(false, Some(number.to_string().into_bytes()))]
}

#[test]
fn each_group_starts_where_the_last_one_has_found_a_row() {
    let mut starts = QueueStarts::default();
    let now = Instant::now();
    let whole = starts.next_pass(now, REORDER_TIME, &queue(1));
    assert_eq!(whole, QueuePass::Whole(now));
    starts.committed(queue(1), &whole, Some(position(5)));
    let later = now + REORDER_TIME - Duration::from_millis(1);
    let next = starts.next_pass(later, REORDER_TIME, &queue(1));
    assert_eq!(next, from(5, now));
    starts.committed(queue(1), &next, Some(position(7)));
    let next = starts.next_pass(later, REORDER_TIME, &queue(1));
    assert_eq!(next, from(7, now));
    // It has found nothing in the whole queue.
    starts.committed(queue(1), &next, None);
    let next = starts.next_pass(later, REORDER_TIME, &queue(1));
    assert_eq!(next, from(7, now));
    let due = now + REORDER_TIME;
    let next = starts.next_pass(due, REORDER_TIME, &queue(1));
    assert_eq!(next, QueuePass::Whole(due));
}

#[test]
fn a_pass_that_overlaps_with_a_later_pass_of_the_whole_queue_does_not_count() {
    let mut starts = QueueStarts::default();
    let now = Instant::now();
    let due = now + REORDER_TIME;
    starts.committed(queue(1), &QueuePass::Whole(now), Some(position(5)));
    let short = starts.next_pass(now, REORDER_TIME, &queue(1));
    let whole = starts.next_pass(due, REORDER_TIME, &queue(1));
    starts.committed(queue(1), &whole, Some(position(2)));
    starts.committed(queue(1), &short, Some(position(6)));
    starts.committed(queue(1), &QueuePass::Whole(now), Some(position(7)));
    let next = starts.next_pass(due, REORDER_TIME, &queue(1));
    assert_eq!(next, from(2, due));
}

#[test]
fn queues_have_positions_of_their_own() {
    let mut starts = QueueStarts::default();
    let now = Instant::now();
    starts.committed(queue(1), &QueuePass::Whole(now), Some(position(1)));
    let other = starts.next_pass(now, REORDER_TIME, &queue(2));
    assert_eq!(other, QueuePass::Whole(now));
    let binary = vec![(true, Some(b"1".to_vec()))];
    let other = starts.next_pass(now, REORDER_TIME, &binary);
    assert_eq!(other, QueuePass::Whole(now));
}

#[test]
fn a_queue_too_many_takes_the_place_of_the_oldest() {
    let mut starts = QueueStarts::default();
    let begin = Instant::now();
    let time = |number: usize| begin + Duration::from_micros(number as u64);
    for number in 0..=QUEUES_MAX {
        let pass = QueuePass::Whole(time(number));
        starts.committed(queue(number), &pass, Some(position(1)));
    }
    assert_eq!(starts.queues.len(), QUEUES_MAX);
    let now = time(QUEUES_MAX);
    let first = starts.next_pass(now, REORDER_TIME, &queue(0));
    assert_eq!(first, QueuePass::Whole(now));
    let second = starts.next_pass(now, REORDER_TIME, &queue(1));
    assert_eq!(second, from(1, time(1)));
    // A pass of the queue without a place.
    starts.committed(queue(0), &from(2, time(0)), Some(position(3)));
    assert_eq!(starts.queues.len(), QUEUES_MAX);
}

#[test]
fn a_position_that_is_too_long_is_not_kept() {
    let mut starts = QueueStarts::default();
    let now = Instant::now();
    let pass = QueuePass::Whole(now);
    starts.committed(queue(1), &pass, Some(position(1)));
    starts.committed(queue(1), &pass, Some(vec![vec![0; 1_000], vec![0; 25]]));
    assert_eq!(starts.next_pass(now, REORDER_TIME, &queue(1)), pass);
}

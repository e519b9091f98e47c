//! Counts commits while they are acknowledged: two atomic operations for each request that writes, and no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time at which a request was sent, by the primary that got it and the positions that had arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentAt {
    /// The number of the primary.
    term: u32,
    /// The number of the next question for its position. It continues from primary to primary.
    question: u32,
}

/// The present time in these terms.
#[derive(Debug, Default)]
pub(super) struct Present(AtomicU64);

/// Counts the acknowledged commits of one database.
#[derive(Debug)]
pub struct CommitCounter {
    present: Arc<Present>,
    /// Commits that may have written, of the present primary and of the one before it, whose last ones may be counted late.
    acknowledged: [AtomicU64; 2],
    /// The number of a question, and the number of commits that have certainly written and were sent between that question and the one
    /// before it; for the last two questions.
    certain: [AtomicU64; 2],
}

impl SentAt {
    pub(super) fn term(self) -> u32 {
        self.term
    }

    pub(super) fn next_question(self) -> Self {
        Self {
            question: self.question.wrapping_add(1),
            ..self
        }
    }

    /// No request has the numbers of the two questions in between.
    pub(super) fn next_term(self) -> Self {
        Self {
            term: self.term.wrapping_add(1),
            question: self.question.wrapping_add(3),
        }
    }
}

impl Present {
    pub(super) fn load(&self) -> SentAt {
        let [term, question] = halves(self.0.load(Ordering::SeqCst));
        SentAt { term, question }
    }

    pub(super) fn store(&self, present: SentAt) {
        let value = whole(present.term, present.question);
        self.0.store(value, Ordering::SeqCst);
    }
}

impl CommitCounter {
    pub(super) fn new(present: &Arc<Present>) -> Self {
        let counter = Self {
            present: Arc::clone(present),
            acknowledged: Default::default(),
            certain: Default::default(),
        };
        let now = present.load();
        counter.take_certain(now);
        counter.take_certain(now.next_question());
        counter
    }

    /// The present time. A request that is sent later gets it.
    #[must_use]
    pub fn now(&self) -> SentAt {
        self.present.load()
    }

    /// Counts commits that the server has acknowledged, before the clients know: those that may have written, and those among them
    /// that certainly have.
    pub fn acknowledged(&self, sent_at: SentAt, possible: u64, certain: u64) {
        if possible > 0 {
            of(&self.acknowledged, sent_at.term).fetch_add(possible, Ordering::SeqCst);
        }
        if certain > 0 {
            self.add_certain(sent_at.question, certain);
        }
    }

    /// A commit that was under way while two positions arrived is not counted.
    fn add_certain(&self, question: u32, more: u64) {
        let add = |value| {
            let [since, count] = halves(value);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            (since == question).then(|| whole(since, count.saturating_add(more)))
        };
        // Fails if the count has ended.
        let _ = of(&self.certain, question).fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    }

    /// Begins the count of the commits that are sent between the last question and this one, and ends the count that has its place:
    /// returns it.
    pub(super) fn take_certain(&self, next: SentAt) -> u64 {
        let slot = of(&self.certain, next.question);
        let [_, count] = halves(slot.swap(whole(next.question, 0), Ordering::SeqCst));
        count.into()
    }

    pub(super) fn acknowledged_in(&self, term: u32) -> u64 {
        of(&self.acknowledged, term).load(Ordering::SeqCst)
    }
}

fn of([even, odd]: &[AtomicU64; 2], number: u32) -> &AtomicU64 {
    match number % 2 {
        0 => even,
        _ => odd,
    }
}

fn whole(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

#[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, value as u32]
}

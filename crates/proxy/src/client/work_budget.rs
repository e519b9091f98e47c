//! Limits how much work a task does for one client before it yields. A task yields only where it waits, and a client whose next
//! messages have already arrived waits for nothing.

use paceline_wire::frontend::tag;

/// Work in a turn, in about nanoseconds: a fraction of a millisecond.
const WORK_MAX: usize = 256 * 1024;

/// Work of a message …
const MESSAGE: usize = 512;
/// … and of one with a text, which is looked up.
const TEXT: usize = 4 * 1024;
/// Bytes that are copied per unit of work.
const BYTES: usize = 4;

/// The work done in a client's present turn.
#[derive(Debug, Default)]
pub(super) struct WorkBudget {
    work: usize,
}

impl WorkBudget {
    /// Counts a message of the client.
    pub(super) fn message(&mut self, kind: u8, len: usize) {
        let cost = match kind {
            tag::QUERY | tag::PARSE => TEXT + len,
            _ => MESSAGE + len / BYTES,
        };
        self.work = self.work.saturating_add(cost);
    }

    /// Counts copied bytes.
    pub(super) fn bytes(&mut self, len: usize) {
        self.work = self.work.saturating_add(MESSAGE + len / BYTES);
    }

    /// Counts work that takes a whole turn.
    pub(super) fn exhaust(&mut self) {
        self.work = WORK_MAX;
    }

    /// Counts the work of another part of the turn.
    pub(super) fn add(&mut self, other: Self) {
        self.work = self.work.saturating_add(other.work);
    }

    /// Whether the task must yield.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work >= WORK_MAX
    }

    /// Yields to other tasks; a new turn begins.
    pub(super) async fn yield_now(&mut self) {
        self.work = 0;
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_ends_after_a_bounded_amount_of_work() {
        for (kind, len, about) in [
            (tag::BIND, 60, 500),
            (tag::QUERY, 60, 60),
            (tag::QUERY, WORK_MAX, 1),
            (tag::COPY_DATA, 64 * 1024, 16),
        ] {
            let mut budget = WorkBudget::default();
            let mut count = 0;
            while !budget.is_exhausted() {
                budget.message(kind, len);
                count += 1;
            }
            assert!(count >= about / 2 && count <= about * 2, "{count}");
            budget.yield_now().await;
            assert!(!budget.is_exhausted());
        }
    }
}

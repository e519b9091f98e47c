//! The queue of expected answers. By a pipeline without a Sync, a client can make it long. Therefore counters answer
//! questions about the whole queue, and a walk removes the entries that it passes.

use super::expect::Expect;
use crate::server::StatementKey;
use std::collections::VecDeque;

/// The expected answers, in the order in which the messages were sent.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    queue: VecDeque<Expect>,
    /// Number of entries that end with ReadyForQuery.
    boundaries: usize,
    /// Number of `Sync`s.
    syncs: usize,
    /// Number of entries that may change settings, see [`Expect::carries_out`].
    carried_out: usize,
    /// Number of `Describe`s of the client.
    describes: usize,
    /// Number of ends of copies that may not have begun.
    copy_ends: usize,
    /// Number of shared statements for which a `Parse` has been sent.
    parses_sent: u64,
    /// Number of those whose entries have left the queue.
    parses_done: u64,
    /// The statements of the entries in the queue, with their numbers. [`Expectations::take_parses`] removes them.
    parses: VecDeque<(u64, StatementKey)>,
}

/// The effect of a copy that begins on the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyBegun {
    /// The end of the copy has been sent already.
    pub(super) has_ended: bool,
    /// A `Sync` that the server skips has been sent.
    pub(super) skips_sync: bool,
}

/// The statement that the server parses for this entry, if other clients may use it, too.
fn parsed(expect: &Expect) -> Option<StatementKey> {
    match expect {
        Expect::Parse { key, .. } | Expect::InjectedParse { key } => *key,
        _ => None,
    }
}

impl Expectations {
    /// The entry that is answered next.
    pub(super) fn front(&self) -> Option<&Expect> {
        self.queue.front()
    }

    /// The caller must not change the kind of the entry.
    pub(super) fn front_mut(&mut self) -> Option<&mut Expect> {
        self.queue.front_mut()
    }

    /// Whether the server owes no answer.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of answers that the server owes.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether an entry ends with ReadyForQuery.
    pub(super) fn owe_boundary(&self) -> bool {
        self.boundaries > 0
    }

    /// Whether an entry may change settings.
    pub(super) fn may_change_settings(&self) -> bool {
        self.carried_out > 0
    }

    /// Whether an entry is a `Describe` of the client.
    pub(super) fn describe(&self) -> bool {
        self.describes > 0
    }

    /// Whether an entry is a `Sync`.
    pub(super) fn owe_sync(&self) -> bool {
        self.syncs > 0
    }

    fn count(&mut self, expect: &Expect, by: isize) {
        let add = |count: &mut usize| *count = count.saturating_add_signed(by);
        if expect.is_boundary() {
            add(&mut self.boundaries);
        }
        if expect.carries_out() {
            add(&mut self.carried_out);
        }
        match expect {
            Expect::Describe(_) => add(&mut self.describes),
            Expect::Sync => add(&mut self.syncs),
            Expect::CopyEnd => add(&mut self.copy_ends),
            _ => {}
        }
    }

    pub(super) fn push_back(&mut self, expect: Expect) {
        // Of two ends of a copy in a row, the server skips the second in any case.
        if matches!(
            (&expect, self.queue.back()),
            (Expect::CopyEnd, Some(Expect::CopyEnd))
        ) {
            return;
        }
        self.count(&expect, 1);
        if let Some(key) = parsed(&expect) {
            self.parses.push_back((self.parses_sent, key));
            self.parses_sent += 1;
        }
        self.queue.push_back(expect);
    }

    /// Adds an answer to a message of Paceline's own that precedes all others. The message parses no statement.
    pub(super) fn push_front(&mut self, expect: Expect) {
        self.count(&expect, 1);
        self.queue.push_front(expect);
    }

    pub(super) fn pop_front(&mut self) -> Option<Expect> {
        let expect = self.queue.pop_front()?;
        self.count(&expect, -1);
        if parsed(&expect).is_some() {
            if self.parses.front().map(|(number, _)| *number) == Some(self.parses_done) {
                self.parses.pop_front();
            }
            self.parses_done += 1;
        }
        Some(expect)
    }

    /// Takes the statements that the server has yet to parse.
    pub(super) fn take_parses(&mut self) -> impl Iterator<Item = StatementKey> + use<> {
        let parses = std::mem::take(&mut self.parses);
        parses.into_iter().map(|(_, key)| key)
    }

    /// The server reads CopyData now. Removes each `Sync` up to the end of the copy, because the server skips it.
    pub(super) fn copy_begins(&mut self) -> CopyBegun {
        let has_ended = self.copy_ends > 0;
        if !has_ended && self.syncs == 0 {
            return CopyBegun {
                has_ended,
                skips_sync: false,
            };
        }
        let is_end = |expect: &Expect| matches!(expect, Expect::CopyEnd);
        let end = self.queue.iter().position(is_end);
        let inside = end.map_or(self.queue.len(), |at| at + 1);
        let mut inside: Vec<Expect> = self.queue.drain(..inside).collect();
        let is_skipped = |expect: &mut Expect| matches!(expect, Expect::Sync | Expect::CopyEnd);
        let skipped: Vec<Expect> = inside.extract_if(.., is_skipped).collect();
        for expect in inside.into_iter().rev() {
            self.queue.push_front(expect);
        }
        skipped.iter().for_each(|expect| self.count(expect, -1));
        CopyBegun {
            has_ended,
            skips_sync: skipped.iter().any(|e| matches!(e, Expect::Sync)),
        }
    }
}

impl Extend<Expect> for Expectations {
    fn extend<T: IntoIterator<Item = Expect>>(&mut self, more: T) {
        more.into_iter().for_each(|expect| self.push_back(expect));
    }
}

impl<const N: usize> From<[Expect; N]> for Expectations {
    fn from(expect: [Expect; N]) -> Self {
        let mut queue = Self::default();
        queue.extend(expect);
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect::Execution;
    use super::*;
    use crate::server::{Preparable, ServerSide};
    use crate::settings::SettingsInterner;
    use bytes::BytesMut;

    fn execute() -> Expect {
        Expect::Execute(Execution::default())
    }

    fn own_parse(key: StatementKey) -> Expect {
        Expect::InjectedParse { key: Some(key) }
    }

    fn keys<const N: usize>() -> [StatementKey; N] {
        let mut server = ServerSide::new(SettingsInterner::default().none(), N);
        let mut id = 0;
        [(); N].map(|()| {
            id += 1;
            let statement = Preparable {
                id,
                text: "SELECT 1",
                types: &[0, 0],
            };
            server.ensure(statement, &mut BytesMut::new()).key
        })
    }

    /// The counters agree with the entries.
    #[track_caller]
    fn check(queue: &Expectations) {
        let count = |is: fn(&Expect) -> bool| queue.queue.iter().filter(|e| is(e)).count();
        assert_eq!(queue.boundaries, count(Expect::is_boundary));
        assert_eq!(queue.syncs, count(|e| matches!(e, Expect::Sync)));
        assert_eq!(queue.copy_ends, count(|e| matches!(e, Expect::CopyEnd)));
        let parses = count(|e| parsed(e).is_some()) as u64;
        assert_eq!(queue.parses_sent - queue.parses_done, parses);
    }

    #[test]
    fn the_counters_agree_with_the_queue() {
        let [one, other] = keys();
        let mut queue = Expectations::from([own_parse(one), execute(), Expect::Sync]);
        check(&queue);
        queue.extend([
            own_parse(other),
            Expect::CopyEnd,
            Expect::CopyEnd,
            execute(),
        ]);
        queue.push_front(Expect::InjectedQuery);
        check(&queue);
        assert_eq!(queue.len(), 7, "one end of a copy is as good as two");
        while queue.pop_front().is_some() {
            check(&queue);
        }
        assert!(!queue.owe_boundary() && !queue.owe_sync());
    }

    #[test]
    fn each_statement_to_be_parsed_is_returned_once() {
        let [one, two, three] = keys();
        let mut queue = Expectations::from([own_parse(one), execute(), own_parse(two)]);
        queue.pop_front();
        assert_eq!(queue.take_parses().collect::<Vec<_>>(), [two]);
        assert_eq!(queue.take_parses().count(), 0);
        queue.push_back(own_parse(three));
        queue.pop_front();
        queue.pop_front();
        check(&queue);
        assert_eq!(queue.take_parses().collect::<Vec<_>>(), [three]);
    }

    #[test]
    fn a_copy_removes_what_the_server_skips_up_to_its_end() {
        let mut queue = Expectations::from([
            execute(),
            Expect::Sync,
            Expect::CopyEnd,
            execute(),
            Expect::Sync,
            Expect::CopyEnd,
        ]);
        let begun = queue.copy_begins();
        assert!(begun.has_ended && begun.skips_sync);
        check(&queue);
        assert_eq!(queue.len(), 4);
        queue.pop_front();
        let begun = queue.copy_begins();
        assert!(begun.has_ended && begun.skips_sync);
        check(&queue);
        assert_eq!(queue.len(), 1);
        let begun = queue.copy_begins();
        assert!(!begun.has_ended && !begun.skips_sync);
    }

    /// Not a measurement. If each answer costs a walk, the test does not end.
    #[test]
    fn a_long_queue_costs_no_more_than_a_short_one() {
        const LONG: usize = 300_000;
        let [key] = keys();
        let mut queue = Expectations::default();
        for _ in 0..LONG {
            queue.extend([own_parse(key), execute(), Expect::CopyEnd]);
            assert!(!queue.owe_boundary() && !queue.owe_sync());
        }
        for _ in 0..LONG {
            queue.pop_front();
            assert!(queue.copy_begins().has_ended);
            queue.take_parses().for_each(drop);
            queue.pop_front();
            assert!(!queue.owe_boundary());
        }
        assert!(queue.is_empty());
    }
}

//! The queue of expectations. A client can make it long, by a pipeline without a Sync: no query about it as a whole walks
//! through it, and what walks takes off what it has passed.

use super::expect::Expect;
use crate::server::StatementKey;
use std::collections::VecDeque;

/// What the server owes, in the order sent.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    queue: VecDeque<Expect>,
    /// How many of them end with ReadyForQuery.
    boundaries: usize,
    /// How many are `Sync`s.
    syncs: usize,
    /// How many may change settings, see [`Expect::carries_out`].
    carried_out: usize,
    /// How many are `Describe`s of the client.
    describes: usize,
    /// How many are ends of copies that may not have begun.
    copy_ends: usize,
    /// How many statements that are shared on the server have been sent to it, …
    parses_sent: u64,
    /// … and how many of them are no longer in the queue.
    parses_done: u64,
    /// Of those in the queue, which, with their numbers; without those that were taken by [`Expectations::take_parses`].
    parses: VecDeque<(u64, StatementKey)>,
}

/// What a copy that begins has made of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyBegun {
    /// Its end has been sent already.
    pub(super) has_ended: bool,
    /// A `Sync` that the server skips has been sent.
    pub(super) skips_sync: bool,
}

/// The statement that is parsed on the server when this is answered, if other clients may use it, too.
fn parsed(expect: &Expect) -> Option<StatementKey> {
    match expect {
        Expect::Parse { key, .. } | Expect::OwnParse { key } => *key,
        _ => None,
    }
}

impl Expectations {
    /// The one that is answered next.
    pub(super) fn front(&self) -> Option<&Expect> {
        self.queue.front()
    }

    /// The same; what it is must stay.
    pub(super) fn front_mut(&mut self) -> Option<&mut Expect> {
        self.queue.front_mut()
    }

    /// Nothing is owed.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many answers are owed.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// One of them ends with ReadyForQuery.
    pub(super) fn owe_boundary(&self) -> bool {
        self.boundaries > 0
    }

    /// One of them is that to what may change settings.
    pub(super) fn may_change_settings(&self) -> bool {
        self.carried_out > 0
    }

    /// One of them is a description that the client asks for.
    pub(super) fn describe(&self) -> bool {
        self.describes > 0
    }

    /// One of them is that to a `Sync`.
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
        // The server skips the second of two ends of a copy, whether or not the first ends one.
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

    /// Something of Paceline's own that is answered before all others; no statement is parsed by it.
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

    /// Statements that the server has yet to parse; each once.
    pub(super) fn take_parses(&mut self) -> impl Iterator<Item = StatementKey> + use<> {
        let parses = std::mem::take(&mut self.parses);
        parses.into_iter().map(|(_, key)| key)
    }

    /// The server reads CopyData now: it has skipped or will skip each `Sync` up to the end of the copy.
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
    use super::*;
    use crate::server::{Preparable, ServerSide};
    use crate::settings::SettingsInterner;
    use bytes::BytesMut;
    use paceline_sql::Hints;

    fn execute() -> Expect {
        Expect::Execute {
            changes: Vec::new().into(),
            hints: Hints::default(),
        }
    }

    fn own_parse(key: StatementKey) -> Expect {
        Expect::OwnParse { key: Some(key) }
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

    /// The counts are what a walk would find.
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
    fn what_is_counted_is_in_the_queue() {
        let [one, other] = keys();
        let mut queue = Expectations::from([own_parse(one), execute(), Expect::Sync]);
        check(&queue);
        queue.extend([
            own_parse(other),
            Expect::CopyEnd,
            Expect::CopyEnd,
            execute(),
        ]);
        queue.push_front(Expect::OwnQuery);
        check(&queue);
        assert_eq!(queue.len(), 7, "one end of a copy is as good as two");
        while queue.pop_front().is_some() {
            check(&queue);
        }
        assert!(!queue.owe_boundary() && !queue.owe_sync());
    }

    #[test]
    fn each_statement_that_is_to_be_parsed_is_named_once() {
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
    fn a_copy_takes_what_the_server_skips_up_to_its_end() {
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

    /// Not a measurement: where each answer costs a walk, this does not end.
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

//! Searches an order of execution, one at a time, with the same result as Paceline's. Tries it on bare PostgreSQL, step by step, in a
//! transaction whose savepoints undo the steps that were wrong.

use std::collections::BTreeSet;

use super::queue;
use super::takes::{Case, Dealt, Outcome};
use crate::harness::raw::RawClient;
use crate::harness::reply::transcript;
use crate::harness::together::sorted;
use crate::harness::{Message, Reply, Stage};

/// An order of all visits that keeps that of each of `queues`, and in which every consumer gets the answer that `together` has.
pub(super) fn find(
    case: &Case,
    stage: &Stage,
    queues: &[Vec<usize>],
    together: &Outcome,
    dealt: &Dealt,
) -> Option<Vec<usize>> {
    let mut bare = stage.direct();
    let _holder = case.begin_again(stage, &mut bare);
    bare.ok("BEGIN");
    let mut search = Search {
        case,
        queues,
        together,
        dealt,
        bare,
        order: Vec::new(),
        places: BTreeSet::new(),
    };
    search.goes_on().then_some(search.order)
}

struct Search<'a> {
    case: &'a Case,
    queues: &'a [Vec<usize>],
    together: &'a Outcome,
    dealt: &'a Dealt,
    bare: RawClient,
    /// The steps that were right so far.
    order: Vec<usize>,
    /// The states that it has reached: the visits so far, and the contents of the tables.
    places: BTreeSet<(BTreeSet<usize>, queue::Content)>,
}

impl Search<'_> {
    fn goes_on(&mut self) -> bool {
        let content = self.case.queue.content(&mut self.bare);
        let taken_stay = self.case.taken_stay();
        let mut for_good = content
            .iter()
            .filter(|row| queue::is_for_good(row, taken_stay));
        if !for_good.all(|row| self.together.left.contains(row)) {
            return false;
        }
        let come: BTreeSet<usize> = self.order.iter().copied().collect();
        let waiting = |queue: &Vec<usize>| queue.iter().copied().find(|n| !come.contains(n));
        let mut next: Vec<usize> = self.queues.iter().filter_map(waiting).collect();
        if next.is_empty() {
            return content == self.together.left;
        }
        next.sort_unstable();
        let new = self.places.insert((come, content));
        new && next.into_iter().any(|number| self.steps(number))
    }

    /// Is it this one's turn?
    fn steps(&mut self, number: usize) -> bool {
        self.bare.ok("SAVEPOINT step");
        let alone = self.case.visit(number, &mut self.bare, self.dealt);
        let failed = alone.error().is_some();
        if failed {
            self.bare.ok("ROLLBACK TO SAVEPOINT step");
        }
        let together = self.together.replies[number].as_ref();
        if together.is_some_and(|together| says(together) == says(&alone)) {
            self.order.push(number);
            if self.goes_on() {
                return true;
            }
            self.order.pop();
        }
        self.bare.ok("ROLLBACK TO SAVEPOINT step; RELEASE step");
        false
    }
}

/// The part of a reply that is certain. If a statement inserts several rows whose keys exist, PostgreSQL may name any of them.
pub(super) fn certain(reply: &Reply) -> Vec<Message> {
    let mut messages = sorted(reply);
    for error in messages.iter_mut().filter(|message| message.tag == b'E') {
        let mut fields: Vec<&[u8]> = error.body.split(|byte| *byte == 0).collect();
        if fields.contains(&b"C23505".as_slice()) {
            fields.retain(|field| !field.starts_with(b"D"));
        }
        error.body = fields.join(&0);
    }
    messages
}

/// The same without the state of the transaction.
fn says(reply: &Reply) -> Vec<String> {
    let mut messages = certain(reply);
    messages.retain(|message| message.tag != b'Z');
    transcript(&messages)
}

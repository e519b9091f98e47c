//! Deliberate faults. Each makes the server see, or the clients get, what a fault of Paceline would: a test checks that each is found.

use crate::postgres::execute::Outcome;
use crate::postgres::value::{ANALYZED_AT, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A fault, as if Paceline …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// … gave a member the answer of another one.
    AnswersSwapped,
    /// … executed the members of a row in reverse order.
    MembersReversed,
    /// … sent one member's parameters in place of another's.
    MemberReplaced,
    /// … sent a write twice.
    WriteTwice,
    /// … sent a write again after its commit was lost.
    CommitRepeated,
    /// … answered before the commit.
    AnswerBeforeCommit,
    /// … answered although the group was rolled back.
    CommitLost,
    /// … answered a read with an earlier result.
    StaleRead,
    /// … forgot a request.
    Forgotten,
    /// … took a job for two clients.
    JobTakenTwice,
    /// … lost a row of a group of INSERTs, and told its client that it is there.
    InsertLost,
    /// … let a request wait for a row that it would not change.
    NeedlessWait,
}

impl Mutation {
    pub(crate) const ALL: [Self; 12] = [
        Self::AnswersSwapped,
        Self::MembersReversed,
        Self::MemberReplaced,
        Self::WriteTwice,
        Self::CommitRepeated,
        Self::AnswerBeforeCommit,
        Self::CommitLost,
        Self::StaleRead,
        Self::Forgotten,
        Self::JobTakenTwice,
        Self::InsertLost,
        Self::NeedlessWait,
    ];
}

/// Groups that the server has executed.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Groups {
    pub(crate) folds: u64,
    pub(crate) merges: u64,
    pub(crate) takes: u64,
    pub(crate) others: u64,
    pub(crate) members: u64,
}

impl Groups {
    pub(crate) fn add(&mut self, other: Self) {
        self.folds += other.folds;
        self.merges += other.merges;
        self.takes += other.takes;
        self.others += other.others;
        self.members += other.members;
    }
}

/// Looks at the statements of the server, and applies a mutation.
#[derive(Debug, Default)]
pub(crate) struct Mutator {
    mutation: Option<Mutation>,
    pub(crate) groups: Cell<Groups>,
    earlier: RefCell<Option<EarlierRead>>,
}

/// The parameters and the rows of an earlier read of a list.
type EarlierRead = (Vec<Value>, Vec<Vec<Value>>);

/// Whether Paceline has generated the statement for a group.
fn is_group(text: &str) -> bool {
    text.contains("facts AS MATERIALIZED")
}

fn is_fold(text: &str) -> bool {
    text.starts_with("WITH RECURSIVE facts")
}

fn array(value: &Value) -> Option<&Rc<Vec<Value>>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

impl Mutator {
    pub(crate) fn of(mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
            ..Self::default()
        }
    }

    pub(crate) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Parameters of a statement that a client or Paceline has sent.
    pub(crate) fn bound(&self, text: &str, parameters: &mut [Value]) {
        if !is_group(text) {
            return;
        }
        self.count(text, parameters);
        let Some(Value::Array(last)) = parameters.last_mut() else {
            return;
        };
        if last.len() < 2 {
            return;
        }
        match self.mutation {
            Some(Mutation::MembersReversed) if is_fold(text) => Rc::make_mut(last).reverse(),
            Some(Mutation::MemberReplaced) => {
                let items = Rc::make_mut(last);
                items[0] = items[1].clone();
            }
            _ => {}
        }
    }

    fn count(&self, text: &str, parameters: &[Value]) {
        let mut groups = self.groups.get();
        let kind = match text {
            text if is_fold(text) => &mut groups.folds,
            text if text.contains("INSERT INTO") => &mut groups.merges,
            text if text.contains("DELETE FROM") => &mut groups.takes,
            _ => &mut groups.others,
        };
        *kind += 1;
        let longest = parameters
            .iter()
            .filter_map(array)
            .map(|items| items.len())
            .max();
        groups.members += longest.unwrap_or(0) as u64;
        self.groups.set(groups);
    }

    /// Whether to undo the last change of a statement. Its client gets the answer of a change that was made.
    pub(crate) fn undoes(&self, text: &str) -> bool {
        match self.mutation {
            Some(Mutation::JobTakenTwice) => text.contains("DELETE FROM"),
            Some(Mutation::InsertLost) => is_group(text) && text.contains("INSERT INTO"),
            _ => false,
        }
    }

    /// The result of a statement.
    pub(crate) fn executed(&self, text: &str, parameters: &[Value], outcome: &mut Outcome) {
        match self.mutation {
            Some(Mutation::AnswersSwapped) if is_group(text) => swap(&mut outcome.rows, false),
            // The answers belong to the members as Paceline has sent them.
            Some(Mutation::MembersReversed) if is_fold(text) => swap(&mut outcome.rows, true),
            Some(Mutation::NeedlessWait) if text.contains("met.pos") => {
                let members = parameters
                    .iter()
                    .filter_map(array)
                    .map(|items| items.len())
                    .max();
                let row = |number| vec![Value::Int8(ANALYZED_AT), Value::Int4(number)];
                let members = i32::try_from(members.unwrap_or(0)).unwrap();
                outcome.rows = (1..=members).map(row).collect();
            }
            Some(Mutation::StaleRead) if text.starts_with("SELECT elements") => {
                let mut earlier = self.earlier.borrow_mut();
                match &*earlier {
                    Some((of, rows)) if of == parameters => outcome.rows.clone_from(rows),
                    _ => *earlier = Some((parameters.to_vec(), outcome.rows.clone())),
                }
            }
            _ => {}
        }
    }
}

/// Exchanges the numbers of members in a group's result: those of the first two, or the whole order.
fn swap(rows: &mut [Vec<Value>], all: bool) {
    let numbered: Vec<usize> = (0..rows.len())
        .filter(|row| rows[*row].get(1).is_some_and(|n| !n.is_null()))
        .collect();
    let count = if all {
        numbered.len() / 2
    } else {
        numbered.len().min(2) / 2
    };
    for pair in 0..count {
        let other = if all { numbered.len() - 1 - pair } else { 1 };
        let (one, other) = (numbered[pair], numbered[other]);
        let number = rows[one][1].clone();
        rows[one][1] = std::mem::replace(&mut rows[other][1], number);
    }
}

//! What clients were told of every edge, and whether the table agrees: the newest write wins. Pure; it asks no database.

use crate::connection::Failure;
use crate::show;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who is connected with whom: `id` and `target`.
pub(super) type Edge = (i64, i64);

/// Status of an edge that is set; any other is not.
pub(super) const SET: i64 = 0;
/// Status of one that is not.
pub(super) const UNSET: i64 = 1;

/// What is written of an edge. The later one wins; no two have the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) unixnano: i64,
    pub(super) status: i64,
}

impl Write {
    /// Whether it sets the edge.
    pub(super) fn is_set(self) -> bool {
        self.status == SET
    }
}

/// Shared by all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Verifier(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    edges: HashMap<Edge, Told>,
    acknowledged: u64,
}

/// What clients were told of one edge.
#[derive(Debug, Default)]
struct Told {
    newest: Option<Write>,
    /// Sent, and not answered: they may have been done.
    open: Vec<Write>,
}

impl Verifier {
    /// Of a table in which this is written already.
    pub(super) fn starting(writes: impl IntoIterator<Item = (Edge, Write)>) -> Self {
        let mut book = Book::default();
        for (edge, write) in writes {
            book.edges.entry(edge).or_default().acknowledge(write);
        }
        Self(Mutex::new(book))
    }

    /// What it would have the table hold.
    pub(super) fn newest(&self) -> Vec<(Edge, Write)> {
        let book = self.book();
        let newest = |(edge, told): (&Edge, &Told)| Some((*edge, told.newest?));
        book.edges.iter().filter_map(newest).collect()
    }

    /// A client is about to send a write. Whatever becomes of it, it is open until it is [answered](Self::answered).
    pub(super) fn sends(&self, edge: Edge, write: Write) {
        let mut book = self.book();
        book.edges.entry(edge).or_default().open.push(write);
    }

    /// The client was told; if not even that is certain, the write stays open.
    pub(super) fn answered(&self, edge: Edge, write: Write, answer: &Result<(), Failure>) {
        if answer.as_ref().is_err_and(Failure::is_in_doubt) {
            return;
        }
        let mut book = self.book();
        book.acknowledged += u64::from(answer.is_ok());
        let told = book.edges.entry(edge).or_default();
        told.open.retain(|open| *open != write);
        if answer.is_ok() {
            told.acknowledge(write);
        }
    }

    /// Ends the book, to be compared with the rows of the table.
    pub(super) fn audit(&self) -> Audit {
        Audit {
            book: std::mem::take(&mut self.book()),
            rows: 0,
            known: 0,
            other: 0,
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing is half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn acknowledge(&mut self, write: Write) {
        self.newest = self.newest.max(Some(write));
    }

    /// Whether the row may say so when all is over.
    fn allows(&self, found: Write) -> bool {
        let may_be_newest = self.newest.is_none_or(|newest| found > newest);
        self.newest == Some(found) || (may_be_newest && self.open.contains(&found))
    }
}

/// The comparison of a book with the rows of the table.
#[derive(Debug)]
pub(super) struct Audit {
    book: Book,
    rows: u64,
    /// Rows of edges of which a write was acknowledged.
    known: u64,
    /// Rows that are not what they must be.
    other: u64,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) rows: u64,
    pub(super) acknowledged: u64,
    /// Writes that may have been done.
    pub(super) open: u64,
    /// Rows that are not the newest that was acknowledged.
    pub(super) other: u64,
    /// Edges of which a write was acknowledged, and that are not there.
    pub(super) missing: u64,
}

impl Audit {
    /// A row of the table; each must come once.
    pub(super) fn row(&mut self, edge: Edge, found: Write) {
        let told = self.book.edges.get(&edge);
        self.rows += 1;
        self.known += u64::from(told.is_some_and(|told| told.newest.is_some()));
        self.other += u64::from(!told.is_some_and(|told| told.allows(found)));
    }

    /// After the last row.
    pub(super) fn end(self) -> Findings {
        let edges = || self.book.edges.values();
        let written = edges().filter(|told| told.newest.is_some()).count() as u64;
        Findings {
            rows: self.rows,
            acknowledged: self.book.acknowledged,
            open: edges().map(|told| told.open.len() as u64).sum(),
            other: self.other,
            missing: written.saturating_sub(self.known),
        }
    }
}

impl Findings {
    /// Whether every edge is the newest.
    pub(super) fn hold(&self) -> bool {
        self.other == 0 && self.missing == 0
    }

    /// In a sentence, with the figures.
    pub(super) fn says(&self) -> String {
        let count = show::count;
        let (rows, acknowledged) = (count(self.rows), count(self.acknowledged));
        let open = match self.open {
            0 => String::new(),
            open => format!(
                ", {} more may have been written when their connection was lost",
                count(open)
            ),
        };
        let head = format!("{rows} edges after {acknowledged} writes");
        if self.hold() {
            return format!("{head}, each at its newest{open}");
        }
        format!(
            "{head}: {} are not at their newest, {} are missing{open}",
            count(self.other),
            count(self.missing)
        )
    }
}

#[cfg(test)]
mod tests;

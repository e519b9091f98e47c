//! Verifies the table of edges: every edge must hold its newest acknowledged write. Has no access to the database.

use crate::connection::Failure;
use crate::show;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An edge: `id` and `target`.
pub(super) type Edge = (i64, i64);

/// Status of a set edge; any other status means that it is not set.
pub(super) const SET: i64 = 0;
/// Status of an edge that is not set.
pub(super) const UNSET: i64 = 1;

/// A write to an edge. The one with the later time applies; times are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) unixnano: i64,
    pub(super) status: i64,
}

impl Write {
    /// Whether the write sets the edge.
    pub(super) fn is_set(self) -> bool {
        self.status == SET
    }
}

/// Records the writes of all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Verifier(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    edges: HashMap<Edge, EdgeWrites>,
    acknowledged: u64,
}

/// The writes to one edge.
#[derive(Debug, Default)]
struct EdgeWrites {
    newest: Option<Write>,
    /// Writes that were sent and not answered; they may have been executed.
    open: Vec<Write>,
}

impl Verifier {
    /// Starts with a table that contains these writes.
    pub(super) fn starting(writes: impl IntoIterator<Item = (Edge, Write)>) -> Self {
        let mut recorded = Recorded::default();
        for (edge, write) in writes {
            recorded.edges.entry(edge).or_default().acknowledge(write);
        }
        Self(Mutex::new(recorded))
    }

    /// The expected contents of the table.
    pub(super) fn newest(&self) -> Vec<(Edge, Write)> {
        let recorded = self.recorded();
        let newest = |(edge, edge_writes): (&Edge, &EdgeWrites)| Some((*edge, edge_writes.newest?));
        recorded.edges.iter().filter_map(newest).collect()
    }

    /// Records a write before a client sends it. It is open until it is [answered](Self::answered).
    pub(super) fn sent(&self, edge: Edge, write: Write) {
        let mut recorded = self.recorded();
        recorded.edges.entry(edge).or_default().open.push(write);
    }

    /// Records the answer to a write. If the result is in doubt, the write remains open.
    pub(super) fn answered(&self, edge: Edge, write: Write, answer: &Result<(), Failure>) {
        if answer.as_ref().is_err_and(Failure::is_in_doubt) {
            return;
        }
        let mut recorded = self.recorded();
        recorded.acknowledged += u64::from(answer.is_ok());
        let edge_writes = recorded.edges.entry(edge).or_default();
        edge_writes.open.retain(|open| *open != write);
        if answer.is_ok() {
            edge_writes.acknowledge(write);
        }
    }

    /// Takes the recorded writes, to compare them with the rows of the table.
    pub(super) fn audit(&self) -> Audit {
        Audit {
            recorded: std::mem::take(&mut self.recorded()),
            rows: 0,
            known: 0,
            other: 0,
        }
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        // A panic under this lock leaves no inconsistent state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EdgeWrites {
    fn acknowledge(&mut self, write: Write) {
        self.newest = self.newest.max(Some(write));
    }

    /// Whether the row may have these contents at the end of a run.
    fn allows(&self, found: Write) -> bool {
        let may_be_newest = self.newest.is_none_or(|newest| found > newest);
        self.newest == Some(found) || (may_be_newest && self.open.contains(&found))
    }
}

/// The comparison with the rows of the table.
#[derive(Debug)]
pub(super) struct Audit {
    recorded: Recorded,
    rows: u64,
    /// Rows of edges with an acknowledged write.
    known: u64,
    /// Rows with wrong contents.
    other: u64,
}

/// The result of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) rows: u64,
    pub(super) acknowledged: u64,
    /// Number of writes in doubt.
    pub(super) open: u64,
    /// Number of rows that do not hold the newest acknowledged write.
    pub(super) other: u64,
    /// Number of edges with an acknowledged write and without a row.
    pub(super) missing: u64,
}

impl Audit {
    /// Compares a row of the table; call it once per row.
    pub(super) fn row(&mut self, edge: Edge, found: Write) {
        let edge_writes = self.recorded.edges.get(&edge);
        self.rows += 1;
        self.known +=
            u64::from(edge_writes.is_some_and(|edge_writes| edge_writes.newest.is_some()));
        self.other += u64::from(!edge_writes.is_some_and(|edge_writes| edge_writes.allows(found)));
    }

    /// Ends the comparison after the last row.
    pub(super) fn end(self) -> Findings {
        let edges = || self.recorded.edges.values();
        let written = edges()
            .filter(|edge_writes| edge_writes.newest.is_some())
            .count() as u64;
        Findings {
            rows: self.rows,
            acknowledged: self.recorded.acknowledged,
            open: edges()
                .map(|edge_writes| edge_writes.open.len() as u64)
                .sum(),
            other: self.other,
            missing: written.saturating_sub(self.known),
        }
    }
}

impl Findings {
    /// Whether every edge holds its newest write.
    pub(super) fn hold(&self) -> bool {
        self.other == 0 && self.missing == 0
    }

    /// The result in one sentence, with the figures.
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

//! Verifies the table of edges: every edge must hold its newest acknowledged write. Has no access to the database.

use crate::connection::{Failure, Result};
use crate::show;
use std::collections::HashMap;

/// An edge: `id` and `target`.
pub(in crate::workload) type Edge = (i64, i64);

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
pub(super) struct Verifier {
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
        let mut verifier = Self::default();
        for (edge, write) in writes {
            verifier.edges.entry(edge).or_default().acknowledge(write);
        }
        verifier
    }

    /// The expected contents of the table.
    pub(super) fn newest(&self) -> Vec<(Edge, Write)> {
        let newest = |(edge, writes): (&Edge, &EdgeWrites)| Some((*edge, writes.newest?));
        self.edges.iter().filter_map(newest).collect()
    }

    /// Records a write before a client sends it. It is open until it is [answered](Self::answered).
    pub(super) fn sent(&mut self, edge: Edge, write: Write) {
        self.edges.entry(edge).or_default().open.push(write);
    }

    /// Records the answer to a write. If the result is in doubt, the write remains open.
    pub(super) fn answered(&mut self, edge: Edge, write: Write, answer: &Result<()>) {
        if answer.as_ref().is_err_and(Failure::is_in_doubt) {
            return;
        }
        let writes = self.edges.entry(edge).or_default();
        writes.open.retain(|open| *open != write);
        if answer.is_ok() {
            writes.acknowledge(write);
            self.acknowledged += 1;
        }
    }

    /// Takes the recorded writes, to compare them with the rows of the table.
    pub(super) fn audit(&mut self) -> Audit {
        Audit {
            findings: Findings {
                acknowledged: self.acknowledged,
                ..Findings::default()
            },
            unseen: std::mem::take(&mut self.edges),
        }
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
    /// The edges whose row has not been compared yet.
    unseen: HashMap<Edge, EdgeWrites>,
    findings: Findings,
}

/// The result of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
        let writes = self.unseen.remove(&edge).unwrap_or_default();
        self.findings.rows += 1;
        self.findings.open += writes.open.len() as u64;
        self.findings.other += u64::from(!writes.allows(found));
    }

    /// Ends the comparison after the last row.
    pub(super) fn end(mut self) -> Findings {
        for writes in self.unseen.into_values() {
            self.findings.open += writes.open.len() as u64;
            self.findings.missing += u64::from(writes.newest.is_some());
        }
        self.findings
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
        let open = match self.open {
            0 => String::new(),
            open => format!(
                ", {} more may have been written when their connection was lost",
                count(open)
            ),
        };
        let result = if self.hold() {
            ", each at its newest".to_owned()
        } else {
            let (other, missing) = (count(self.other), count(self.missing));
            format!(": {other} are not at their newest, {missing} are missing")
        };
        let (rows, acknowledged) = (count(self.rows), count(self.acknowledged));
        format!("{rows} edges after {acknowledged} writes{result}{open}")
    }
}

#[cfg(test)]
mod tests;

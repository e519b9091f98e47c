//! Findings, as `--format json` prints them.

use serde::Serialize;
use std::fmt;

/// An overload pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Sessions wait for the lock of the same row.
    HotRow,
    /// Consumers take rows from a table.
    Queue,
    /// Rows are inserted if they are not there, else updated.
    UpsertStore,
    /// More sessions execute statements than the server can run.
    Storm,
    /// The rows of a key are distributed over many blocks.
    ScatteredRead,
    /// Something keeps vacuum from removing dead rows.
    PinnedHorizon,
}

impl Pattern {
    /// The name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::HotRow => "hot-row",
            Self::Queue => "queue",
            Self::UpsertStore => "upsert-store",
            Self::Storm => "storm",
            Self::ScatteredRead => "scattered-read",
            Self::PinnedHorizon => "pinned-horizon",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The severity of a pattern, by its share of the database's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// From 5 % on.
    Low,
    /// From 20 % on.
    Medium,
    /// From 50 % on.
    High,
}

impl Severity {
    pub(crate) fn of(share: f64) -> Self {
        match share {
            share if share >= 0.5 => Self::High,
            share if share >= 0.2 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// The name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A number that supports a finding, and the query by which it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// The sentence with the number.
    pub fact: String,
    /// The SQL, which shows the present value; counters are compared over the time of the observation.
    pub query: String,
}

/// Whether `--apply` may carry an advice out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Apply {
    /// No: it is a decision about the application or the server.
    No,
    /// Yes, after a question: a setting of one table, or an index that is built without blocking writes.
    Safe,
    /// Only with `--allow-cluster`: it rewrites the table under ACCESS EXCLUSIVE.
    Cluster,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The action, in one sentence.
    pub what: String,
    /// The SQL, if it is done by SQL.
    pub sql: Option<String>,
    /// Lines for a `paceline.toml`, if it is done by the front end.
    pub configuration: Option<String>,
    /// The expected gain, computed from the measured values.
    pub gain: String,
    /// The risk, and the operations that the action blocks.
    pub risk: String,
    /// The way to undo it: SQL if it begins with a command, else a sentence.
    pub undo: String,
    /// Whether `--apply` may do it.
    pub apply: Apply,
}

/// A pattern that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The pattern.
    pub pattern: Pattern,
    /// By its share.
    pub severity: Severity,
    /// The part of the time of all sessions that it costs, 0 to 1. Of a pinned horizon: the part of the dead rows in its tables that
    /// vacuum cannot remove, as far as it is known.
    pub share: f64,
    /// The finding in one line.
    pub summary: String,
    /// The table, if the pattern has one: `schema.name`.
    pub table: Option<String>,
    /// The statement that costs most, with parameters in place of values, if there is one.
    pub statement: Option<String>,
    /// The numbers.
    pub evidence: Vec<Evidence>,
    /// The recommended actions, the best first.
    pub advice: Vec<Advice>,
}

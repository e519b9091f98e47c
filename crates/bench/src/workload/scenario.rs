//! Definition of a scenario: its variants, the tables and clients of a run, and the check that nothing was lost. A variant is
//! one way to do the work of the scenario.

use super::client::{Client, Pending};
use crate::connection::{Connection, Failure};
use crate::statement::Protocol;
use rand::rngs::StdRng;

/// Maximum number of rows of a table in any scenario.
pub(super) const ROWS_MAX: u64 = 1_000_000_000;

/// A scenario with all its variants.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Name on the command line: `hot-row`.
    pub name: &'static str,
    /// Title of tables: `Hot row: a flash sale`.
    pub title: &'static str,
    /// One sentence that says which client does what.
    pub about: &'static str,
    /// Plural name of a unit of work: `updates`.
    pub unit: &'static str,
    /// The variants; the demonstration runs the first.
    pub variants: &'static [Variant],
    /// Default numbers of clients.
    pub clients: &'static [usize],
    /// Default numbers of clients with `--full`.
    pub clients_full: &'static [usize],
    /// Minimum and maximum of `--rows`; `None` if the scenario has no such choice.
    pub rows: Option<(u64, u64)>,
}

/// One way to do the work of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Name on the command line: `hinted`.
    pub name: &'static str,
    /// How it differs from the other variants.
    pub about: &'static str,
    /// Creates the workload of one run.
    pub(crate) build: fn(&Sizes) -> Box<dyn Workload>,
}

/// The size of the tables, and how statements are sent.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Rows of the table of the scenario; `None` selects its small size or, with `full`, the size of its source.
    pub rows: Option<u64>,
    /// Use the sizes of the sources (SCENARIOS): 1,000,000 orders, 5,000,000 rows, …
    pub full: bool,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Sizes {
    /// The requested number of rows; if there is none, `small`, or `full` for the sizes of the sources.
    pub(super) fn rows(&self, small: u64, full: u64) -> u64 {
        self.rows.unwrap_or(if self.full { full } else { small })
    }
}

/// The work of one run.
pub(crate) trait Workload: Send + Sync {
    /// Brings the tables into the state in which a run starts. Does no more than necessary.
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>>;

    /// Creates the client with this number, counted from 0. All its random numbers come from `rng`.
    fn client(&self, number: usize, rng: StdRng) -> Box<dyn Client>;

    /// The number of clients, out of `clients`, that do units of work. A fixed rate is divided among them.
    fn active_clients(&self, clients: usize) -> usize {
        clients
    }

    /// The number of connections that all clients share, each for one turn at a time, as the workers of an application share
    /// its pool; `None` gives each client its own.
    fn shared_connections(&self) -> Option<usize> {
        None
    }

    /// Compares the tables with the answers that clients received.
    fn check<'a>(
        &'a self,
        conn: &'a mut Connection,
        outcome: Outcome,
    ) -> Pending<'a, Result<Check, Failure>>;
}

/// The answers that clients received in a whole run, including the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Number of acknowledged turns.
    pub(crate) acknowledged: u64,
    /// Number of turns with an unknown result ([`Failure::is_in_doubt`]).
    pub(crate) unknown: u64,
}

impl Outcome {
    /// Whether `done` turns are possible with these answers.
    pub(super) fn explains(&self, done: u64) -> bool {
        (self.acknowledged..=self.acknowledged + self.unknown).contains(&done)
    }

    /// A clause for messages about the turns with an unknown result; empty if there are none.
    pub(super) fn in_doubt(&self) -> String {
        match self.unknown {
            0 => String::new(),
            unknown => {
                format!(", {unknown} more may have been done when their connection was lost")
            }
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Whether nothing was lost and nothing was done twice.
    pub(crate) holds: bool,
    /// The result in one sentence, with the figures.
    pub(crate) says: String,
}

//! What a workload is: tables, clients that take turns, and a check that nothing was lost. One file per scenario; a
//! variant is a way to do the same work.

pub(crate) mod edges;
pub(crate) mod hot_row;
pub(crate) mod keyed_read;
mod occupant;
pub(crate) mod queue;
pub(crate) mod storm;
pub(crate) mod tables;
#[cfg(test)]
mod tests;

use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::statement::Protocol;
use rand::rngs::StdRng;
use std::pin::Pin;

/// The most rows of a table, whatever the scenario.
const ROWS_MAX: u64 = 1_000_000_000;

/// What comes later, on the thread that asks for it.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The scenarios, in the order in which they run.
pub const SCENARIOS: [Scenario; 5] = [
    hot_row::SCENARIO,
    queue::SCENARIO,
    edges::SCENARIO,
    storm::SCENARIO,
    keyed_read::SCENARIO,
];

/// One of the five systems, with all its variants.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// As on the command line: `hot-row`.
    pub name: &'static str,
    /// As over a table: `Hot row: a flash sale`.
    pub title: &'static str,
    /// One sentence: who does what.
    pub about: &'static str,
    /// What a unit of work is called: `updates`.
    pub unit: &'static str,
    /// The ways to do it; the first is the one of the demonstration.
    pub variants: &'static [Variant],
    /// Clients when nobody says how many.
    pub clients: &'static [usize],
    /// The same with the sizes of its source.
    pub clients_full: &'static [usize],
    /// The fewest and the most rows that it can be asked to have; `None`: there are none to choose.
    pub rows: Option<(u64, u64)>,
}

/// A way to do the work of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// As on the command line: `hinted`.
    pub name: &'static str,
    /// What is different about it.
    pub about: &'static str,
    /// Makes the workload of one run.
    pub(crate) build: fn(&Sizes) -> Box<dyn Workload>,
}

/// How large the tables are and how statements travel.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Rows of the scenario's table; `None`: its own size, small or (`full`) that of its source.
    pub rows: Option<u64>,
    /// The sizes of the sources (SCENARIOS): 1,000,000 orders, 5,000,000 rows, …
    pub full: bool,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Seeds everything that is drawn.
    pub seed: u64,
}

impl Sizes {
    /// Rows as asked for, else `small`, else those of the source.
    pub(crate) fn rows(&self, small: u64, full: u64) -> u64 {
        self.rows.unwrap_or(if self.full { full } else { small })
    }
}

/// The work of one run.
pub(crate) trait Workload: Send + Sync {
    /// Brings the tables into the state from which a run starts, with as little work as that takes.
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>>;

    /// The client with this number, from 0; all that it draws comes from `rng`.
    fn client(&self, number: usize, rng: StdRng) -> Box<dyn Client>;

    /// How many of so many clients do units of work: a rate of units is theirs alone.
    fn workers(&self, clients: usize) -> usize {
        clients
    }

    /// Connections that all clients share, each for the time of a turn, as the workers of an application do with its pool;
    /// `None`: each client has its own.
    fn shared_connections(&self) -> Option<usize> {
        None
    }

    /// Compares the tables with what clients were told.
    fn check<'a>(
        &'a self,
        conn: &'a mut Connection,
        outcome: Outcome,
    ) -> Pending<'a, Result<Check, Failure>>;
}

/// One client of a run.
pub(crate) trait Client {
    /// Does one unit of work.
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>>;

    /// Whether it opens its connections itself, turn by turn; else one is there before the run begins.
    fn comes_and_goes(&self) -> bool {
        false
    }
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A unit of work was done.
    Done,
    /// There was nothing to do; it does not count.
    Idle,
    /// There is nothing to do for this client but to stay connected until the end.
    Stays,
    /// There is nothing left to do for this client.
    Finished,
}

/// What clients were told in the whole of a run, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Turns that were done.
    pub(crate) acknowledged: u64,
    /// Turns whose end is in doubt ([`Failure::is_in_doubt`]): they may have been done.
    pub(crate) unknown: u64,
}

impl Outcome {
    /// Whether so many may have been done.
    pub(crate) fn explains(&self, done: u64) -> bool {
        (self.acknowledged..=self.acknowledged + self.unknown).contains(&done)
    }

    /// Said behind the acknowledged ones, if there are others.
    pub(crate) fn besides(&self) -> String {
        match self.unknown {
            0 => String::new(),
            unknown => {
                format!(", {unknown} more may have been done when their connection was lost")
            }
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Nothing was lost, nothing done twice.
    pub(crate) holds: bool,
    /// In a sentence, with the figures.
    pub(crate) says: String,
}

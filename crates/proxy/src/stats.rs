//! What a pool counts of its work: PgBouncer's statistics, how long things took, and errors by SQLSTATE.
//!
//! Whoever has served a unit counts it here, by a few relaxed additions: no lock, no allocation, and times that were taken
//! anyway. A unit that is a transaction of its own, alone or as a member of a group, is counted once for both.

mod averages;
mod durations;
mod errors;
mod prepared;
#[cfg(test)]
mod tests;
mod totals;

pub(crate) use averages::Periods;
pub(crate) use durations::{BOUNDS_MICROS, Durations};
#[cfg(test)]
pub(crate) use errors::CODES_MAX;
pub(crate) use errors::{SqlState, first_state, first_words, state_of};
pub(crate) use prepared::Prepared;
pub(crate) use totals::{PGBOUNCER_TOTALS, TOTALS, Totals};

use durations::DurationCounts;
use errors::ErrorCounts;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counts of one pool since it began.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Units that were a transaction each.
    single: DurationCounts,
    /// Units of all others,
    queries: DurationCounts,
    /// and their transactions.
    transactions: DurationCounts,
    /// How long units stood in the line; those that did not have waited for no time.
    waits: DurationCounts,
    /// Connections that units were given, each alone or with its group.
    assignments: AtomicU64,
    /// Connections that clients have kept beyond a transaction.
    pins: AtomicU64,
    /// Bytes from clients.
    received: AtomicU64,
    /// Bytes to clients.
    sent: AtomicU64,
    client_parses: AtomicU64,
    server_parses: AtomicU64,
    binds: AtomicU64,
    /// Clients that have logged in.
    logins: AtomicU64,
    errors: ErrorCounts,
    /// What had been counted when the last two periods began.
    marks: Mutex<averages::Marks>,
}

fn add(counter: &AtomicU64, more: u64) {
    if more > 0 {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Stats {
    /// `units` units, each a transaction of its own, took so long each.
    pub(crate) fn served_single(&self, units: u64, each: Duration) {
        self.single.count(units, micros(each));
    }

    /// `units` units that were not alone in their transactions took so long together.
    pub(crate) fn served_queries(&self, units: u64, together: Duration) {
        let each = micros(together).checked_div(units);
        self.queries.count(units, each.unwrap_or(0));
    }

    /// The transactions of such units took so long together.
    pub(crate) fn served_transactions(&self, transactions: u64, together: Duration) {
        let each = micros(together).checked_div(transactions);
        self.transactions.count(transactions, each.unwrap_or(0));
    }

    /// A unit got a connection at once.
    pub(crate) fn seated_at_once(&self) {
        add(&self.assignments, 1);
        self.waits.count(1, 0);
    }

    /// Units leave the line together on one connection, after these waits.
    pub(crate) fn departed(&self, waits: impl Iterator<Item = Duration>) {
        let mut units = 0_u64;
        for wait in waits {
            units += 1;
            self.waits.count(1, micros(wait));
        }
        add(&self.assignments, units.min(1));
    }

    /// A client has logged in.
    pub(crate) fn logged_in(&self) {
        add(&self.logins, 1);
    }

    /// A client keeps its connection beyond its transaction.
    pub(crate) fn pinned(&self) {
        add(&self.pins, 1);
    }

    /// How often clients have kept their connections.
    pub(crate) fn pins(&self) -> u64 {
        load(&self.pins)
    }

    /// Bytes went to and fro between Paceline and clients.
    pub(crate) fn moved(&self, received: u64, sent: u64) {
        add(&self.received, received);
        add(&self.sent, sent);
    }

    /// Clients sent these messages about named statements.
    pub(crate) fn prepared(&self, prepared: Prepared) {
        add(&self.client_parses, prepared.parses);
        add(&self.binds, prepared.binds);
    }

    /// Paceline prepared so many statements on a server.
    pub(crate) fn server_parsed(&self, statements: u64) {
        add(&self.server_parses, statements);
    }

    /// A client was told of an error.
    pub(crate) fn failed(&self, state: SqlState) {
        self.errors.count(state);
    }

    /// Errors by SQLSTATE; only those that there were.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        self.errors.read()
    }

    /// How long units took.
    pub(crate) fn query_durations(&self) -> Durations {
        self.single.read() + self.queries.read()
    }

    /// How long transactions took.
    pub(crate) fn transaction_durations(&self) -> Durations {
        self.single.read() + self.transactions.read()
    }

    /// How long units waited in the line.
    pub(crate) fn wait_durations(&self) -> Durations {
        self.waits.read()
    }
}

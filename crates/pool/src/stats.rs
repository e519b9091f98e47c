//! What a pool counts of its work: PgBouncer's statistics, how long things took, and errors by SQLSTATE.
//!
//! Whoever has served a unit counts it here, by a few relaxed additions: no lock, no allocation, and times that were taken
//! anyway. A unit that is a transaction of its own, alone or as a member of a group, is counted once for both.

mod averages;
mod counter;
mod durations;
mod errors;
mod marks;
mod prepared;
#[cfg(test)]
mod tests;
mod totals;

pub use averages::Periods;
pub use counter::micros;
pub use durations::{BOUNDS_MICROS, Durations};
pub use errors::{CODES_MAX, SqlState, first_state, first_words, state_of};
pub use prepared::Prepared;
pub use totals::{PGBOUNCER_TOTALS, TOTALS, Totals};

use counter::{add, load};
use durations::DurationCounts;
use errors::ErrorCounts;
use marks::Marks;
use paceline_batch::strategy::Strategy;
use paceline_batch::template_stats::GroupSizes;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The counts of one pool since it began.
#[derive(Debug, Default)]
pub struct Stats {
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
    /// Transactions and requests that got a server connection of their own.
    own: AtomicU64,
    /// SizeHistogram of groups.
    pub sizes: GroupSizes,
    /// The counts at the beginnings of the last two periods.
    marks: Mutex<Marks>,
}

impl Stats {
    /// `units` units, each a transaction of its own, took so long each.
    pub fn served_single(&self, units: u64, each: Duration) {
        self.single.count(units, micros(each));
    }

    /// `units` units that were not alone in their transactions took so long together.
    pub fn served_queries(&self, units: u64, together: Duration) {
        let each = micros(together).checked_div(units);
        self.queries.count(units, each.unwrap_or(0));
    }

    /// The transactions of such units took so long together.
    pub fn served_transactions(&self, transactions: u64, together: Duration) {
        let each = micros(together).checked_div(transactions);
        self.transactions.count(transactions, each.unwrap_or(0));
    }

    /// A unit got a connection at once.
    pub fn assigned_at_once(&self) {
        add(&self.assignments, 1);
        self.waits.count(1, 0);
    }

    /// Units leave the line together on one connection, after these waits.
    pub fn assigned(&self, waits: impl Iterator<Item = Duration>) {
        let mut units = 0_u64;
        for wait in waits {
            units += 1;
            self.waits.count(1, micros(wait));
        }
        add(&self.assignments, units.min(1));
    }

    /// A transaction, or a request that is neither a single read nor a single write, got a server connection.
    pub fn began_own(&self) {
        add(&self.own, 1);
    }

    /// How often [`Stats::began_own`] was called.
    pub fn transactions_begun(&self) -> u64 {
        load(&self.own)
    }

    /// A client has logged in.
    pub fn logged_in(&self) {
        add(&self.logins, 1);
    }

    /// A client keeps its connection beyond its transaction.
    pub fn pinned(&self) {
        add(&self.pins, 1);
    }

    /// How often clients have kept their connections.
    pub fn pins(&self) -> u64 {
        load(&self.pins)
    }

    /// Bytes went to and fro between Paceline and clients.
    pub fn moved(&self, received: u64, sent: u64) {
        add(&self.received, received);
        add(&self.sent, sent);
    }

    /// Clients sent these messages about named statements.
    pub fn prepared(&self, prepared: Prepared) {
        add(&self.client_parses, prepared.parses);
        add(&self.binds, prepared.binds);
    }

    /// Paceline prepared so many statements on a server.
    pub fn server_parsed(&self, statements: u64) {
        add(&self.server_parses, statements);
    }

    /// A client was told of an error.
    pub fn failed(&self, state: SqlState) {
        self.errors.count(state);
    }

    /// Errors by SQLSTATE; only those that there were.
    pub fn errors(&self) -> Vec<(String, u64)> {
        self.errors.read()
    }

    /// How long units took.
    pub fn query_durations(&self) -> Durations {
        self.single.read() + self.queries.read()
    }

    /// How long transactions took.
    pub fn transaction_durations(&self) -> Durations {
        self.single.read() + self.transactions.read()
    }

    /// How long units waited in the line.
    pub fn wait_durations(&self) -> Durations {
        self.waits.read()
    }
}

impl Stats {
    /// All counts so far.
    pub fn totals(&self) -> Totals {
        let sizes = Strategy::ALL.into_iter().filter_map(|s| self.sizes.of(s));
        let (groups, grouped) = sizes.fold((0, 0), |(groups, requests), sizes| {
            (
                groups + sizes.groups.iter().sum::<u64>(),
                requests + sizes.requests,
            )
        });
        let (transactions, queries) = (self.transaction_durations(), self.query_durations());
        let waits = self.wait_durations();
        Totals {
            values: [
                load(&self.assignments),
                transactions.count(),
                queries.count(),
                load(&self.received),
                load(&self.sent),
                transactions.micros,
                queries.micros,
                waits.micros,
                load(&self.client_parses),
                load(&self.server_parses),
                load(&self.binds),
                load(&self.logins),
                groups,
                grouped,
            ],
            waits: waits.count(),
        }
    }
}

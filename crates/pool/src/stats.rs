//! The statistics of a pool: PgBouncer's columns, durations, and errors by SQLSTATE.
//!
//! The task that has served a request counts it, with a few relaxed additions and without locks, allocations or further readings
//! of the clock. A request that is a transaction of its own, relayed or in a group, is counted once as both.

mod averages;
mod counter;
mod durations;
mod errors;
mod marks;
mod prepared;
#[cfg(test)]
mod tests;
mod totals;

pub(crate) use averages::Periods;
pub use counter::micros;
pub use durations::{BOUNDS_MICROS, Durations};
pub use errors::{CODES_MAX, SqlState, first_state, first_words, state_of};
pub use prepared::PreparedCounts;
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

/// The counts of one pool since it was created.
#[derive(Debug, Default)]
pub struct Stats {
    /// Requests that were a transaction each.
    single: DurationCounts,
    /// All other requests …
    queries: DurationCounts,
    /// … and their transactions.
    transactions: DurationCounts,
    /// Waits of requests in the line; a request that did not wait counts as a wait of no time.
    waits: DurationCounts,
    /// Number of times that a server connection was assigned to a request or a group.
    assignments: AtomicU64,
    /// Number of times that a client kept its server connection beyond a transaction.
    pins: AtomicU64,
    /// Bytes from clients.
    received: AtomicU64,
    /// Bytes to clients.
    sent: AtomicU64,
    client_parses: AtomicU64,
    server_parses: AtomicU64,
    binds: AtomicU64,
    /// Number of logins.
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
    /// Counts requests that were a transaction each and took `each`.
    pub fn served_single(&self, requests: u64, each: Duration) {
        self.single.count(requests, micros(each));
    }

    /// Counts requests that were part of longer transactions and took `together` in sum.
    pub fn served_queries(&self, requests: u64, together: Duration) {
        let each = micros(together).checked_div(requests);
        self.queries.count(requests, each.unwrap_or(0));
    }

    /// Counts the transactions of such requests, which took `together` in sum.
    pub fn served_transactions(&self, transactions: u64, together: Duration) {
        let each = micros(together).checked_div(transactions);
        self.transactions.count(transactions, each.unwrap_or(0));
    }

    /// Counts a request that got a server connection at once.
    pub(crate) fn assigned_at_once(&self) {
        add(&self.assignments, 1);
        self.waits.count(1, 0);
    }

    /// Counts requests that left the line together for one server connection, with their waits.
    pub fn assigned(&self, waits: impl Iterator<Item = Duration>) {
        let mut requests = 0_u64;
        for wait in waits {
            requests += 1;
            self.waits.count(1, micros(wait));
        }
        add(&self.assignments, requests.min(1));
    }

    /// Counts a transaction, or a request that is neither a single read nor a single write, that got a server connection.
    pub fn began_own(&self) {
        add(&self.own, 1);
    }

    /// Number of calls of [`Stats::began_own`].
    pub fn transactions_begun(&self) -> u64 {
        load(&self.own)
    }

    /// Counts a login.
    pub fn logged_in(&self) {
        add(&self.logins, 1);
    }

    /// Counts a client that keeps its server connection beyond its transaction.
    pub fn pinned(&self) {
        add(&self.pins, 1);
    }

    /// Number of times that clients kept their server connections.
    pub fn pins(&self) -> u64 {
        load(&self.pins)
    }

    /// Counts bytes from and to clients.
    pub fn moved(&self, received: u64, sent: u64) {
        add(&self.received, received);
        add(&self.sent, sent);
    }

    /// Counts messages of clients about named statements.
    pub fn prepared(&self, prepared: PreparedCounts) {
        add(&self.client_parses, prepared.parses);
        add(&self.binds, prepared.binds);
    }

    /// Counts statements that Paceline prepared on servers.
    pub fn server_parsed(&self, statements: u64) {
        add(&self.server_parses, statements);
    }

    /// Counts an error that a client got.
    pub fn failed(&self, state: SqlState) {
        self.errors.count(state);
    }

    /// The number of errors by SQLSTATE; SQLSTATEs without errors are left out.
    pub fn errors(&self) -> Vec<(String, u64)> {
        self.errors.read()
    }

    /// Durations of requests.
    pub fn query_durations(&self) -> Durations {
        self.single.read() + self.queries.read()
    }

    /// Durations of transactions.
    pub fn transaction_durations(&self) -> Durations {
        self.single.read() + self.transactions.read()
    }

    /// Durations of waits in the line.
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

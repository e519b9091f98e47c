//! The counts of a pool as an array in the order of PgBouncer's columns.

use std::fmt;
use std::ops::AddAssign;

/// Number of columns that PgBouncer has; they are the first ones.
pub const PGBOUNCER_TOTALS: usize = 12;

/// Number of columns of `SHOW STATS`.
pub const TOTALS: usize = PGBOUNCER_TOTALS + 2;

/// Server assignments, transactions, queries, bytes received, bytes sent, microseconds in transactions, in queries and in waits,
/// parses of clients, parses on servers, binds, logins; groups, and the queries in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// The values, in that order.
    pub values: [u64; TOTALS],
    /// Number of requests that the waits belong to.
    pub(super) waits: u64,
}

/// The divisor by which a total becomes an average.
#[derive(Debug, Clone, Copy)]
pub(super) enum Per {
    Second,
    /// Per transaction, query or wait.
    Transaction,
    Query,
    Wait,
}

/// The kind of average of each column.
pub(super) const PER: [Per; TOTALS] = [
    Per::Second,
    Per::Second,
    Per::Second,
    Per::Second,
    Per::Second,
    Per::Transaction,
    Per::Query,
    Per::Wait,
    Per::Second,
    Per::Second,
    Per::Second,
    Per::Second,
    Per::Second,
    Per::Second,
];

impl Totals {
    /// Number of times that a server connection was assigned to a client or group.
    pub fn assignments(&self) -> u64 {
        self.values[0]
    }

    /// Bytes from clients.
    pub fn received(&self) -> u64 {
        self.values[3]
    }

    /// Bytes to clients.
    pub fn sent(&self) -> u64 {
        self.values[4]
    }

    pub(super) fn transactions(&self) -> u64 {
        self.values[1]
    }

    pub(super) fn queries(&self) -> u64 {
        self.values[2]
    }

    /// The difference to `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let of = |values: &[u64; TOTALS], column: usize| values.get(column).copied().unwrap_or(0);
        let more = |column| of(&self.values, column).saturating_sub(of(&earlier.values, column));
        Self {
            values: std::array::from_fn(more),
            waits: self.waits.saturating_sub(earlier.waits),
        }
    }
}

/// Averages, as PgBouncer logs them (`log_stats`).
impl fmt::Display for Totals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, xacts, queries, received, sent, xact, query, wait, ..] = self.values;
        let [.., client_parses, server_parses, binds, _, _] = self.values;
        write!(
            out,
            "stats: {xacts} xacts/s, {queries} queries/s, {client_parses} client parses/s, \
             {server_parses} server parses/s, {binds} binds/s, in {received} B/s, out {sent} B/s, \
             xact {xact} us, query {query} us, wait {wait} us"
        )
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        for (value, more) in self.values.iter_mut().zip(other.values) {
            *value += more;
        }
        self.waits += other.waits;
    }
}

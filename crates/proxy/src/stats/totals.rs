//! The counts of a pool as numbers in the order of PgBouncer's columns, so that whole rows can be added and compared.

use super::{Stats, load};
use crate::pool::Pool;
use paceline_batch::strategy::Strategy;
use std::fmt;
use std::ops::AddAssign;

/// The counts that PgBouncer has, too; they come first.
pub(crate) const PGBOUNCER_TOTALS: usize = 12;

/// All that `SHOW STATS` shows.
pub(crate) const TOTALS: usize = PGBOUNCER_TOTALS + 2;

/// Server assignments, transactions, queries, bytes received, bytes sent, microseconds in transactions, in queries and in waits,
/// parses of clients, parses on servers, binds, logins; groups, and the queries in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// In that order.
    pub(crate) values: [u64; TOTALS],
    /// Over how many units the waits are spread.
    pub(super) waits: u64,
}

/// How an average is made of a total.
#[derive(Debug, Clone, Copy)]
pub(super) enum Per {
    Second,
    /// Per transaction, query or wait.
    Transaction,
    Query,
    Wait,
}

/// For each total.
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
    /// Times that a server connection was given to a client or group.
    pub(crate) fn assignments(&self) -> u64 {
        self.values[0]
    }

    /// Bytes from clients.
    pub(crate) fn received(&self) -> u64 {
        self.values[3]
    }

    /// Bytes to clients.
    pub(crate) fn sent(&self) -> u64 {
        self.values[4]
    }

    pub(super) fn transactions(&self) -> u64 {
        self.values[1]
    }

    pub(super) fn queries(&self) -> u64 {
        self.values[2]
    }

    /// What has come since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let of = |values: &[u64; TOTALS], place: usize| values.get(place).copied().unwrap_or(0);
        let more = |place| of(&self.values, place).saturating_sub(of(&earlier.values, place));
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

impl Pool {
    /// What it has counted.
    pub(crate) fn totals(&self) -> Totals {
        let (groups, grouped) = self.groups_so_far();
        self.stats.totals(groups, grouped)
    }

    /// Groups that have answered somebody, and whom.
    fn groups_so_far(&self) -> (u64, u64) {
        let sizes = Strategy::ALL.into_iter().filter_map(|s| self.sizes.of(s));
        sizes.fold((0, 0), |(groups, units), sizes| {
            (
                groups + sizes.groups.iter().sum::<u64>(),
                units + sizes.requests,
            )
        })
    }
}

impl Stats {
    fn totals(&self, groups: u64, grouped: u64) -> Totals {
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

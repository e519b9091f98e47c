//! The tables that `SHOW` returns, one file for each or for a few that belong together. [`super::table`] says how to add a
//! table, `CONTRIBUTING.md` how to add a column.

mod config;
mod databases;
mod failovers;
mod grouping;
mod hosts;
mod named_pools;
mod pools;
mod process;
mod sockets;
mod stats;
mod utc;

#[cfg(test)]
pub(super) use utc::format_utc;

use super::table::AnyTable;

static TABLES: [&dyn AnyTable; 24] = [
    &config::CONFIG,
    &databases::DATABASES,
    &databases::USERS,
    &failovers::FAILOVERS,
    &grouping::GROUPING,
    &hosts::HOSTS,
    &pools::GROUPS,
    &pools::POOLS,
    &process::DNS_HOSTS,
    &process::DNS_ZONES,
    &process::LISTS,
    &process::MEM,
    &process::PEER_POOLS,
    &process::PEERS,
    &process::STATE,
    &process::VERSION_TABLE,
    &sockets::ACTIVE_SOCKETS,
    &sockets::CLIENTS,
    &sockets::SERVERS,
    &sockets::SOCKETS,
    &stats::STATS,
    &stats::STATS_AVERAGES,
    &stats::STATS_TOTALS,
    &stats::TOTALS,
];

/// All tables.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static dyn AnyTable> {
    TABLES.into_iter()
}

/// The table of this name, which is in lower case.
pub(crate) fn find(name: &str) -> Option<&'static dyn AnyTable> {
    TABLES.into_iter().find(|table| table.name() == name)
}

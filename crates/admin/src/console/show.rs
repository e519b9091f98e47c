//! `SHOW`: every table of the console, with PgBouncer's columns; those of Paceline's own come behind them.

mod config;
mod databases;
mod named_pools;
mod pools;
mod process;
mod sockets;
mod stats;

#[cfg(test)]
pub(super) use sockets::utc;

use super::table::{Column, Row};
use paceline_proxy::proxy::Proxy;

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    ActiveSockets,
    Clients,
    Config,
    Databases,
    DnsHosts,
    DnsZones,
    Groups,
    Lists,
    Mem,
    PeerPools,
    Peers,
    Pools,
    Servers,
    Sockets,
    State,
    Stats,
    StatsAverages,
    StatsTotals,
    Totals,
    Users,
    Version,
}

impl Show {
    /// Each, and what operators call it.
    pub(super) const NAMES: [(Self, &str); 21] = [
        (Self::ActiveSockets, "active_sockets"),
        (Self::Clients, "clients"),
        (Self::Config, "config"),
        (Self::Databases, "databases"),
        (Self::DnsHosts, "dns_hosts"),
        (Self::DnsZones, "dns_zones"),
        (Self::Groups, "groups"),
        (Self::Lists, "lists"),
        (Self::Mem, "mem"),
        (Self::PeerPools, "peer_pools"),
        (Self::Peers, "peers"),
        (Self::Pools, "pools"),
        (Self::Servers, "servers"),
        (Self::Sockets, "sockets"),
        (Self::State, "state"),
        (Self::Stats, "stats"),
        (Self::StatsAverages, "stats_averages"),
        (Self::StatsTotals, "stats_totals"),
        (Self::Totals, "totals"),
        (Self::Users, "users"),
        (Self::Version, "version"),
    ];

    /// The one of this name, which is in small letters.
    pub(super) fn named(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(show, _)| *show)
    }

    /// Its columns.
    pub(super) fn columns(self) -> Vec<Column> {
        match self {
            Self::Stats => stats::COLUMNS.columns(),
            Self::StatsTotals => stats::TOTALS_COLUMNS.columns(),
            Self::StatsAverages => stats::AVERAGES_COLUMNS.columns(),
            Self::Totals => stats::SUM_COLUMNS.columns(),
            Self::Pools => pools::COLUMNS.columns(),
            Self::Groups => pools::GROUPS_COLUMNS.columns(),
            Self::Clients => sockets::CLIENT_COLUMNS.columns(),
            Self::Servers => sockets::COLUMNS.columns(),
            Self::Sockets | Self::ActiveSockets => sockets::DEBUG_COLUMNS.columns(),
            Self::Databases => databases::COLUMNS.columns(),
            Self::Users => databases::USERS_COLUMNS.columns(),
            Self::Config => config::COLUMNS.columns(),
            Self::Lists => process::LISTS_COLUMNS.columns(),
            Self::Mem => process::MEM_COLUMNS.columns(),
            Self::State => process::STATE_COLUMNS.columns(),
            Self::Version => process::VERSION_COLUMNS.columns(),
            Self::Peers => process::PEERS_COLUMNS.columns(),
            Self::PeerPools => process::PEER_POOLS_COLUMNS.columns(),
            Self::DnsHosts => process::DNS_HOSTS_COLUMNS.columns(),
            Self::DnsZones => process::DNS_ZONES_COLUMNS.columns(),
        }
    }

    /// Its rows now.
    pub(super) fn rows(self, proxy: &Proxy) -> Vec<Row> {
        match self {
            Self::Stats => stats::stats(proxy),
            Self::StatsTotals => stats::totals(proxy),
            Self::StatsAverages => stats::averages(proxy),
            Self::Totals => stats::sum(proxy),
            Self::Pools => pools::pools(proxy),
            Self::Groups => pools::groups(proxy),
            Self::Clients => sockets::clients(proxy),
            Self::Servers => sockets::servers(proxy),
            Self::Sockets => sockets::sockets(proxy),
            Self::ActiveSockets => sockets::active_sockets(proxy),
            Self::Databases => databases::databases(proxy),
            Self::Users => databases::users(proxy),
            Self::Config => config::config(proxy),
            Self::Lists => process::lists(proxy),
            Self::Mem => process::mem(proxy),
            Self::State => process::state(proxy),
            Self::Version => process::version(),
            Self::Peers => process::peers(proxy),
            Self::PeerPools => process::peer_pools(proxy),
            // No DNS cache is kept.
            Self::DnsHosts | Self::DnsZones => Vec::new(),
        }
    }
}

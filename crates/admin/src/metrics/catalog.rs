//! Every metric: its name, its kind, its labels and what it says. The values come from the sheet.

use prometheus_client::metrics::MetricType;

/// A metric.
#[derive(Debug)]
pub(super) struct Metric {
    /// Without what its kind adds: `_total`, `_info`.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) labels: &'static [&'static str],
    /// In one sentence without its full stop.
    pub(super) meaning: &'static str,
}

const TRIP: &[&str] = &["database", "user", "strategy", "template"];
const POOL: &[&str] = &["database", "user"];
const POOL_STATE: &[&str] = &["database", "user", "state"];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricType::Counter,
        labels,
        meaning,
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric {
        kind: MetricType::Gauge,
        ..counter(name, labels, meaning)
    }
}

pub(super) const UNITS: Metric = counter(
    "paceline_units",
    TRIP,
    "Units, by the strategy that carried them out in the end; solo: alone, lease: transactions and what is not one read or write",
);
pub(super) const GROUPS: Metric = counter(
    "paceline_groups",
    TRIP,
    "Groups that answered at least one unit of the template",
);
pub(super) const LARGEST_GROUP: Metric = gauge(
    "paceline_largest_group_units",
    TRIP,
    "Most units of the template in one group since the start",
);
pub(super) const ROWS_WRITTEN: Metric = counter(
    "paceline_rows_written",
    TRIP,
    "Row versions written by the statements of groups; only fold, take and merge",
);
pub(super) const COMMITS_SAVED: Metric = counter(
    "paceline_commits_saved",
    TRIP,
    "Units less commits, of groups of writes that succeeded",
);
pub(super) const FALLBACKS: Metric = counter(
    "paceline_fallbacks",
    &["database", "user", "strategy", "template", "reason"],
    "Units that left with a group and came back, to be counted again where they went next",
);
pub(super) const MISSED: Metric = counter(
    "paceline_would_have_grouped",
    &["database", "user", "template"],
    "Units that had to wait and could have travelled with others if they had a hint or hotspot_for_autocommit were on",
);
pub(super) const GROUP_SIZE: Metric = Metric {
    name: "paceline_group_size_units",
    kind: MetricType::Histogram,
    labels: &["database", "user", "strategy"],
    meaning: "Units that a group answered, whatever their templates",
};
pub(super) const POOL_UNITS: Metric = counter(
    "paceline_pool_units",
    POOL,
    "Units that the pool has served, by any strategy",
);
pub(super) const POOL_CLIENTS: Metric = gauge(
    "paceline_pool_clients",
    POOL_STATE,
    "Clients of the pool; waiting: for a server connection, active: all others, at work or idle",
);
pub(super) const POOL_SERVERS: Metric = gauge(
    "paceline_pool_servers",
    POOL_STATE,
    "Server connections of the pool; active, idle, or opening: not yet logged in",
);
pub(super) const POOL_SERVERS_MAX: Metric = gauge(
    "paceline_pool_servers_max",
    POOL,
    "Most server connections that the pool opens",
);
const fn seconds(name: &'static str, meaning: &'static str) -> Metric {
    Metric {
        kind: MetricType::Histogram,
        ..counter(name, POOL, meaning)
    }
}

pub(super) const WAIT: Metric = seconds(
    "paceline_wait_seconds",
    "How long units stood in the line; those that got a connection at once waited for 0 seconds",
);
pub(super) const QUERY: Metric = seconds(
    "paceline_query_seconds",
    "How long units took on a server connection, members of groups until they were answered",
);
pub(super) const TRANSACTION: Metric = seconds(
    "paceline_transaction_seconds",
    "How long transactions took, with the times in which the client had nothing to do",
);
pub(super) const ERRORS: Metric = counter(
    "paceline_errors",
    &["database", "user", "sqlstate"],
    "Errors that clients were told of",
);
pub(super) const RECEIVED: Metric = counter(
    "paceline_received_bytes",
    POOL,
    "Bytes of units that came from clients",
);
pub(super) const SENT: Metric = counter(
    "paceline_sent_bytes",
    POOL,
    "Bytes of answers that went to clients",
);
pub(super) const ASSIGNMENTS: Metric = counter(
    "paceline_server_assignments",
    POOL,
    "Times that a server connection was given to a client, or to a group",
);
pub(super) const PINS: Metric = counter(
    "paceline_pins",
    POOL,
    "Times that a client has kept its server connection beyond a transaction, for state that cannot follow it",
);
pub(super) const ACCEPTED: Metric = counter(
    "paceline_clients_accepted",
    &[],
    "Connections accepted from clients, whatever came of them",
);
pub(super) const CLIENTS: Metric = gauge(
    "paceline_clients",
    &[],
    "Clients that have sent their start-up packet, those who are logging in among them",
);
pub(super) const CLIENTS_MAX: Metric = gauge(
    "paceline_clients_max",
    &[],
    "Clients that there may be (max_client_conn)",
);
pub(super) const STARTED: Metric = gauge(
    "process_start_time_seconds",
    &[],
    "When the process began, since 1970-01-01 UTC",
);
pub(super) const BUILD: Metric = Metric {
    name: "paceline_build",
    kind: MetricType::Info,
    labels: &["version"],
    meaning: "Always 1; which Paceline this is",
};

/// All of them.
#[cfg(test)]
pub(super) const ALL: [&Metric; 25] = [
    &UNITS,
    &GROUPS,
    &LARGEST_GROUP,
    &ROWS_WRITTEN,
    &COMMITS_SAVED,
    &FALLBACKS,
    &MISSED,
    &GROUP_SIZE,
    &POOL_UNITS,
    &POOL_CLIENTS,
    &POOL_SERVERS,
    &POOL_SERVERS_MAX,
    &WAIT,
    &QUERY,
    &TRANSACTION,
    &ERRORS,
    &RECEIVED,
    &SENT,
    &ASSIGNMENTS,
    &PINS,
    &ACCEPTED,
    &CLIENTS,
    &CLIENTS_MAX,
    &STARTED,
    &BUILD,
];

//! Every metric: its name, its type, its labels, its help text, and the function that reads its values.
//!
//! # Adding a metric
//! Add an entry to [`METRICS`] and a row to the table in `docs/metrics.md`; a test compares both. A metric of pools reads a
//! [`PoolSample`]. If the sample does not have the value, add a field in `pool_sample.rs`.

use super::pool_sample::PoolSample;
use super::series::{Number, PoolSeries};
use paceline_cluster::{HostRole, HostStatus};
use paceline_pool::hosts::FailoverTotals;
use paceline_proxy::proxy::Proxy;
use prometheus_client::metrics::MetricType;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

#[derive(Debug)]
pub(super) struct Metric {
    /// Without the suffix of the type: `_total`, `_info`.
    pub(super) name: &'static str,
    pub(super) metric_type: MetricType,
    pub(super) labels: &'static [&'static str],
    /// One sentence without its full stop.
    pub(super) help: &'static str,
    pub(super) source: MetricSource,
}

/// The source of the values of a metric.
#[derive(Debug)]
pub(super) enum MetricSource {
    /// One value of the process.
    Process(fn(&Proxy) -> Number),
    /// The function is called for each pool and adds to the series. Its arguments are the values of the labels after database and
    /// user.
    Pools(fn(&PoolSample<'_>, &mut PoolSeries<'_>)),
    /// The value for each host of a database that has several; `None` if it is not known.
    Hosts(fn(&HostStatus) -> Option<Number>),
    /// The value for each database with several hosts.
    Failovers(fn(&FailoverTotals) -> u64),
    /// The value for each side and direction of compressed connections. The arguments are the bytes before compression, and those that
    /// are transmitted.
    Compression(fn(u64, u64) -> u64),
    /// Always 1; this is the value of the only label.
    Info(&'static str),
}

const STRATEGY_AND_TEMPLATE: &[&str] = &["database", "user", "strategy", "template"];
const POOL: &[&str] = &["database", "user"];
const HOST: &[&str] = &["database", "host", "shard"];
const DATABASE: &[&str] = &["database"];
const LINK: &[&str] = &["side", "direction"];
const POOL_STATE: &[&str] = &["database", "user", "state"];
const POOL_REASON: &[&str] = &["database", "user", "reason"];

pub(super) static METRICS: [Metric; 41] = [
    Metric {
        name: "paceline_units",
        metric_type: MetricType::Counter,
        labels: STRATEGY_AND_TEMPLATE,
        help: "Units by the strategy that executed them; solo: alone, lease: transactions, and requests that are not one read or write",
        source: MetricSource::Pools(|pool, series| {
            for group in &pool.groups {
                series.add(&[group.strategy, &group.template], group.counted.requests);
            }
            for template in pool.templates.iter().filter(|template| template.solo > 0) {
                series.add(&["solo", &template.name], template.solo);
            }
            if pool.leases > 0 {
                series.add(&["lease", ""], pool.leases);
            }
        }),
    },
    Metric {
        name: "paceline_groups",
        metric_type: MetricType::Counter,
        labels: STRATEGY_AND_TEMPLATE,
        help: "Groups that answered at least one unit of the template",
        source: MetricSource::Pools(|pool, series| {
            for group in &pool.groups {
                series.add(&[group.strategy, &group.template], group.counted.groups);
            }
        }),
    },
    Metric {
        name: "paceline_largest_group_units",
        metric_type: MetricType::Gauge,
        labels: STRATEGY_AND_TEMPLATE,
        help: "Maximum number of units of the template in one group since the start",
        source: MetricSource::Pools(|pool, series| {
            for group in &pool.groups {
                series.raise(
                    &[group.strategy, &group.template],
                    group.counted.largest_group,
                );
            }
        }),
    },
    Metric {
        name: "paceline_rows_written",
        metric_type: MetricType::Counter,
        labels: STRATEGY_AND_TEMPLATE,
        help: "Row versions written by the statements that execute a group; 0 if the statements of its units run",
        source: MetricSource::Pools(|pool, series| {
            for group in &pool.groups {
                if let Some(rows) = group.counted.rows_written {
                    series.add(&[group.strategy, &group.template], rows);
                }
            }
        }),
    },
    Metric {
        name: "paceline_commits_saved",
        metric_type: MetricType::Counter,
        labels: STRATEGY_AND_TEMPLATE,
        help: "Units less commits, of groups of writes that succeeded",
        source: MetricSource::Pools(|pool, series| {
            for group in &pool.groups {
                if let Some(commits) = group.counted.commits_saved {
                    series.add(&[group.strategy, &group.template], commits);
                }
            }
        }),
    },
    Metric {
        name: "paceline_fallbacks",
        metric_type: MetricType::Counter,
        labels: &["database", "user", "strategy", "template", "reason"],
        help: "Units that a group returned without an answer; each counts again where it runs next",
        source: MetricSource::Pools(|pool, series| {
            for group in &pool.groups {
                for (reason, requests) in &group.counted.fallbacks {
                    series.add(&[group.strategy, &group.template, reason], *requests);
                }
            }
        }),
    },
    Metric {
        name: "paceline_would_have_grouped",
        metric_type: MetricType::Counter,
        labels: &["database", "user", "template"],
        help: "Units that waited and could have been grouped with a hint or with hotspot_for_autocommit",
        source: MetricSource::Pools(|pool, series| {
            for template in pool.templates.iter().filter(|template| template.missed > 0) {
                series.add(&[&template.name], template.missed);
            }
        }),
    },
    Metric {
        name: "paceline_group_size_units",
        metric_type: MetricType::Histogram,
        labels: &["database", "user", "strategy"],
        help: "Units that a group answered, whatever their templates",
        source: MetricSource::Pools(|pool, series| {
            for (strategy, sizes) in &pool.sizes {
                series.add_sizes(&[strategy], sizes);
            }
        }),
    },
    Metric {
        name: "paceline_pool_units",
        metric_type: MetricType::Counter,
        labels: POOL,
        help: "Units that the pool has served, by any strategy",
        source: MetricSource::Pools(|pool, series| {
            let of_templates: u64 = pool
                .templates
                .iter()
                .map(|template| template.requests)
                .sum();
            series.add(&[], pool.leases + of_templates);
        }),
    },
    Metric {
        name: "paceline_pool_clients",
        metric_type: MetricType::Gauge,
        labels: POOL_STATE,
        help: "Clients of the pool; waiting: for a server connection, active: all others, busy or idle",
        source: MetricSource::Pools(|pool, series| {
            series.add(&["active"], pool.load.clients_active);
            series.add(&["waiting"], pool.load.clients_waiting);
        }),
    },
    Metric {
        name: "paceline_pool_servers",
        metric_type: MetricType::Gauge,
        labels: POOL_STATE,
        help: "Server connections of the pool; active, idle, or opening: not yet logged in",
        source: MetricSource::Pools(|pool, series| {
            series.add(&["active"], pool.load.servers_active);
            series.add(&["idle"], pool.load.servers_idle);
            series.add(&["opening"], pool.load.servers_opening);
        }),
    },
    Metric {
        name: "paceline_pool_servers_max",
        metric_type: MetricType::Gauge,
        labels: POOL,
        help: "Maximum number of server connections of the pool",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.load.servers_max)),
    },
    Metric {
        name: "paceline_pool_groups_max",
        metric_type: MetricType::Gauge,
        labels: POOL_REASON,
        help: "Maximum number of groups that the pool executes at once; reason: configured, initial, searching or found",
        source: MetricSource::Pools(|pool, series| {
            let (groups, reason) = pool.load.groups_max;
            series.add(&[reason.as_str()], groups);
        }),
    },
    Metric {
        name: "paceline_wait_seconds",
        metric_type: MetricType::Histogram,
        labels: POOL,
        help: "Time that units waited in the line; 0 seconds for units that got a connection at once",
        source: MetricSource::Pools(|pool, series| {
            series.add_durations(pool.stats.wait_durations())
        }),
    },
    Metric {
        name: "paceline_query_seconds",
        metric_type: MetricType::Histogram,
        labels: POOL,
        help: "Time that units took on a server connection; for members of groups, until they were answered",
        source: MetricSource::Pools(|pool, series| {
            series.add_durations(pool.stats.query_durations())
        }),
    },
    Metric {
        name: "paceline_transaction_seconds",
        metric_type: MetricType::Histogram,
        labels: POOL,
        help: "Time that transactions took, including idle times of the client",
        source: MetricSource::Pools(|pool, series| {
            series.add_durations(pool.stats.transaction_durations());
        }),
    },
    Metric {
        name: "paceline_errors",
        metric_type: MetricType::Counter,
        labels: &["database", "user", "sqlstate"],
        help: "Errors sent to clients",
        source: MetricSource::Pools(|pool, series| {
            for (sqlstate, errors) in pool.stats.errors() {
                series.add(&[&sqlstate], errors);
            }
        }),
    },
    Metric {
        name: "paceline_received_bytes",
        metric_type: MetricType::Counter,
        labels: POOL,
        help: "Bytes of units received from clients",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.totals.received())),
    },
    Metric {
        name: "paceline_sent_bytes",
        metric_type: MetricType::Counter,
        labels: POOL,
        help: "Bytes of answers sent to clients",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.totals.sent())),
    },
    Metric {
        name: "paceline_server_assignments",
        metric_type: MetricType::Counter,
        labels: POOL,
        help: "Assignments of a server connection to a client or to a group",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.totals.assignments())),
    },
    Metric {
        name: "paceline_pins",
        metric_type: MetricType::Counter,
        labels: POOL,
        help: "Times that a client kept its server connection after a transaction because of state that cannot follow it to another",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.stats.pins())),
    },
    Metric {
        name: "paceline_requests_refused",
        metric_type: MetricType::Counter,
        labels: POOL,
        help: "Requests that were refused because too many waited (max_queued)",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.refused)),
    },
    Metric {
        name: "paceline_requests_throttled",
        metric_type: MetricType::Gauge,
        labels: POOL,
        help: "Requests that wait for their turn (max_requests_per_second)",
        source: MetricSource::Pools(|pool, series| series.add(&[], pool.load.clients_throttled)),
    },
    Metric {
        name: "paceline_clients_accepted",
        metric_type: MetricType::Counter,
        labels: &[],
        help: "Connections accepted from clients, including those that did not log in",
        source: MetricSource::Process(|proxy| {
            Number::Whole(proxy.accepted.load(Ordering::Relaxed))
        }),
    },
    Metric {
        name: "paceline_clients",
        metric_type: MetricType::Gauge,
        labels: &[],
        help: "Clients that have sent their start-up packet, including those that are logging in",
        source: MetricSource::Process(|proxy| {
            Number::Whole(proxy.clients.load(Ordering::Relaxed) as u64)
        }),
    },
    Metric {
        name: "paceline_clients_max",
        metric_type: MetricType::Gauge,
        labels: &[],
        help: "Maximum number of clients (max_client_conn)",
        source: MetricSource::Process(|proxy| {
            Number::Whole(proxy.config().paceline.pooling.max_client_conn as u64)
        }),
    },
    Metric {
        name: "paceline_host_primary",
        metric_type: MetricType::Gauge,
        labels: HOST,
        help: "Whether the host is the primary of its database: 1 or 0; only for databases with several hosts",
        source: MetricSource::Hosts(|host| Some(flag(host.role == HostRole::Primary))),
    },
    Metric {
        name: "paceline_host_lag_bytes",
        metric_type: MetricType::Gauge,
        labels: HOST,
        help: "Log that the replica has not replayed yet, or the subscriber not confirmed",
        source: MetricSource::Hosts(|host| host.lag.bytes.map(Number::Whole)),
    },
    Metric {
        name: "paceline_host_lag_seconds",
        metric_type: MetricType::Gauge,
        labels: HOST,
        help: "Time since the last commit that the replica has replayed; 0 if nothing is left to replay. Time by which a subscriber is behind, at most",
        source: MetricSource::Hosts(|host| Some(Number::Seconds(host.lag.time?.as_secs_f64()))),
    },
    Metric {
        name: "paceline_host_serves_reads",
        metric_type: MetricType::Gauge,
        labels: HOST,
        help: "Whether the host may serve reads as a replica or as a subscriber: 1 or 0",
        source: MetricSource::Hosts(|host| Some(flag(matches!(host.reads, Some(Ok(())))))),
    },
    Metric {
        name: "paceline_host_timeline",
        metric_type: MetricType::Gauge,
        labels: HOST,
        help: "Timeline of the host at its last answer",
        source: MetricSource::Hosts(|host| Some(Number::Whole(host.timeline?.0.into()))),
    },
    Metric {
        name: "paceline_failovers",
        metric_type: MetricType::Counter,
        labels: DATABASE,
        help: "Promotions after which the acknowledged commits were compared with the new timeline",
        source: MetricSource::Failovers(|totals| totals.failovers),
    },
    Metric {
        name: "paceline_missing_commits_min",
        metric_type: MetricType::Counter,
        labels: DATABASE,
        help: "Acknowledged commits that promotions have lost, lower bound",
        source: MetricSource::Failovers(|totals| totals.missing.at_least),
    },
    Metric {
        name: "paceline_missing_commits_max",
        metric_type: MetricType::Counter,
        labels: DATABASE,
        help: "Acknowledged commits that promotions have lost, upper bound",
        source: MetricSource::Failovers(|totals| totals.missing.at_most),
    },
    Metric {
        name: "paceline_compression_plain_bytes",
        metric_type: MetricType::Counter,
        labels: LINK,
        help: "Bytes on compressed connections of clients and to servers, sent or received, as they are without compression",
        source: MetricSource::Compression(|plain, _| plain),
    },
    Metric {
        name: "paceline_compression_transmitted_bytes",
        metric_type: MetricType::Counter,
        labels: LINK,
        help: "The same bytes as they are transmitted, without what TLS adds",
        source: MetricSource::Compression(|_, transmitted| transmitted),
    },
    Metric {
        name: "paceline_spans_sent",
        metric_type: MetricType::Counter,
        labels: &[],
        help: "Spans that the collector of traces has accepted",
        source: MetricSource::Process(|proxy| Number::Whole(proxy.shared.traces.sent())),
    },
    Metric {
        name: "paceline_spans_dropped",
        metric_type: MetricType::Counter,
        labels: &[],
        help: "Spans that were dropped because the collector of traces did not accept them, or not in time",
        source: MetricSource::Process(|proxy| Number::Whole(proxy.shared.traces.dropped())),
    },
    Metric {
        name: "paceline_worker_threads",
        metric_type: MetricType::Gauge,
        labels: &[],
        help: "Threads that serve client and server sockets",
        source: MetricSource::Process(|proxy| Number::Whole(proxy.worker_threads as u64)),
    },
    Metric {
        name: "process_start_time_seconds",
        metric_type: MetricType::Gauge,
        labels: &[],
        help: "Start time of the process, since 1970-01-01 UTC",
        source: MetricSource::Process(|proxy| {
            let started = proxy.started.duration_since(SystemTime::UNIX_EPOCH);
            Number::Seconds(started.unwrap_or_default().as_secs_f64())
        }),
    },
    Metric {
        name: "paceline_build",
        metric_type: MetricType::Info,
        labels: &["version"],
        help: "Always 1; the version of Paceline",
        source: MetricSource::Info(env!("CARGO_PKG_VERSION")),
    },
];

/// 1 for true, 0 for false.
fn flag(value: bool) -> Number {
    Number::Whole(value.into())
}

//! `SHOW STATS`, `STATS_TOTALS`, `STATS_AVERAGES` and `TOTALS`.

use super::named_pools::by_database;
use crate::console::table::{Columns, Row, Value};
use paceline_pool::pool::Pool;
use paceline_pool::stats::{PGBOUNCER_TOTALS, TOTALS, Totals};
use paceline_proxy::proxy::Proxy;
use std::sync::Arc;

pub(super) const COLUMNS: Columns = Columns {
    kinds: "sNNNNNNNNNNNNNNNNNNNNNNNNNNNN",
    names: &[
        "database",
        "total_server_assignment_count",
        "total_xact_count",
        "total_query_count",
        "total_received",
        "total_sent",
        "total_xact_time",
        "total_query_time",
        "total_wait_time",
        "total_client_parse_count",
        "total_server_parse_count",
        "total_bind_count",
        "total_client_login_count",
        "avg_server_assignment_count",
        "avg_xact_count",
        "avg_query_count",
        "avg_recv",
        "avg_sent",
        "avg_xact_time",
        "avg_query_time",
        "avg_wait_time",
        "avg_client_parse_count",
        "avg_server_parse_count",
        "avg_bind_count",
        "avg_client_login_count",
        "total_group_count",
        "total_grouped_query_count",
        "avg_group_count",
        "avg_grouped_query_count",
    ],
};

pub(super) const TOTALS_COLUMNS: Columns = Columns {
    kinds: "sNNNNNNNNNNNNNN",
    names: &[
        "database",
        "server_assignment_count",
        "xact_count",
        "query_count",
        "bytes_received",
        "bytes_sent",
        "xact_time",
        "query_time",
        "wait_time",
        "client_parse_count",
        "server_parse_count",
        "bind_count",
        "client_login_count",
        "group_count",
        "grouped_query_count",
    ],
};

pub(super) const AVERAGES_COLUMNS: Columns = Columns {
    kinds: "sNNNNNNNNNNNNNN",
    names: &[
        "database",
        "server_assignment_count",
        "xact_count",
        "query_count",
        "bytes_received",
        "bytes_sent",
        "xact_time",
        "query_time",
        "wait_time",
        "avg_client_parse_count",
        "avg_server_parse_count",
        "avg_bind_count",
        "avg_client_login_count",
        "avg_group_count",
        "avg_grouped_query_count",
    ],
};

pub(super) const SUM_COLUMNS: Columns = Columns {
    kinds: "sN",
    names: &["name", "value"],
};

/// What the rows of `SHOW TOTALS` are called, behind `total_` and `avg_`.
const SUM_NAMES: [&str; TOTALS] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
    "group_count",
    "grouped_query_count",
];

pub(super) fn stats(proxy: &Proxy) -> Vec<Row> {
    let databases = by_database(proxy).into_iter();
    let row = |(database, pools): (String, Vec<Arc<Pool>>)| {
        let (totals, averages) = (together(&pools), average(proxy, &pools));
        let (theirs, ours) = totals.values.split_at(PGBOUNCER_TOTALS);
        let (their_averages, our_averages) = averages.values.split_at(PGBOUNCER_TOTALS);
        let values = [theirs, their_averages, ours, our_averages].concat();
        named(database, &values)
    };
    databases.map(row).collect()
}

pub(super) fn totals(proxy: &Proxy) -> Vec<Row> {
    let databases = by_database(proxy).into_iter();
    databases
        .map(|(database, pools)| named(database, &together(&pools).values))
        .collect()
}

pub(super) fn averages(proxy: &Proxy) -> Vec<Row> {
    let databases = by_database(proxy).into_iter();
    databases
        .map(|(database, pools)| named(database, &average(proxy, &pools).values))
        .collect()
}

pub(super) fn sum(proxy: &Proxy) -> Vec<Row> {
    let pools = proxy.pools.all();
    let named = |kind: &str, totals: Totals| -> Vec<Row> {
        let rows = SUM_NAMES.iter().zip(totals.values);
        let row = |(name, value): (&&str, u64)| vec![format!("{kind}_{name}").into(), value.into()];
        rows.map(row).collect()
    };
    let (totals, averages) = (together(&pools), average(proxy, &pools));
    [named("total", totals), named("avg", averages)].concat()
}

fn together(pools: &[Arc<Pool>]) -> Totals {
    let mut all = Totals::default();
    pools.iter().for_each(|pool| all += pool.stats.totals());
    all
}

fn average(proxy: &Proxy, pools: &[Arc<Pool>]) -> Totals {
    proxy.pools.averages(pools)
}

fn named(database: String, values: &[u64]) -> Row {
    let values = values.iter().map(|value| Value::from(*value));
    [Value::from(database)].into_iter().chain(values).collect()
}

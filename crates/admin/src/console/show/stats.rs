//! `SHOW STATS`, `STATS_TOTALS`, `STATS_AVERAGES` and `TOTALS`.
//!
//! The values are those of [`Totals`]: `total::<N>` and `average::<N>` read the Nth. To add one, append it to [`Totals`], and add
//! a line to each of the four lists below.

use super::named_pools::by_database;
use crate::console::table::ColumnType::{Numeric, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable, ConsoleValue};
use paceline_pool::pool::Pool;
use paceline_pool::stats::{TOTALS as COUNTS, Totals};
use paceline_proxy::proxy::Proxy;
use std::sync::Arc;

pub(super) static STATS: ConsoleTable<DatabaseStats> =
    ConsoleTable::new("stats", &[STATS_COLUMNS], by_databases);

pub(super) static STATS_TOTALS: ConsoleTable<DatabaseStats> =
    ConsoleTable::new("stats_totals", &[STATS_TOTALS_COLUMNS], by_databases);

pub(super) static STATS_AVERAGES: ConsoleTable<DatabaseStats> =
    ConsoleTable::new("stats_averages", &[STATS_AVERAGES_COLUMNS], by_databases);

pub(super) static TOTALS: ConsoleTable<TotalRecord> =
    ConsoleTable::new("totals", &[TOTALS_COLUMNS], totals);

const STATS_COLUMNS: &[ConsoleColumn<DatabaseStats>] = &[
    ("database", Text, |r| r.database.clone().into()),
    ("total_server_assignment_count", Numeric, total::<0>),
    ("total_xact_count", Numeric, total::<1>),
    ("total_query_count", Numeric, total::<2>),
    ("total_received", Numeric, total::<3>),
    ("total_sent", Numeric, total::<4>),
    ("total_xact_time", Numeric, total::<5>),
    ("total_query_time", Numeric, total::<6>),
    ("total_wait_time", Numeric, total::<7>),
    ("total_client_parse_count", Numeric, total::<8>),
    ("total_server_parse_count", Numeric, total::<9>),
    ("total_bind_count", Numeric, total::<10>),
    ("total_client_login_count", Numeric, total::<11>),
    ("avg_server_assignment_count", Numeric, average::<0>),
    ("avg_xact_count", Numeric, average::<1>),
    ("avg_query_count", Numeric, average::<2>),
    ("avg_recv", Numeric, average::<3>),
    ("avg_sent", Numeric, average::<4>),
    ("avg_xact_time", Numeric, average::<5>),
    ("avg_query_time", Numeric, average::<6>),
    ("avg_wait_time", Numeric, average::<7>),
    ("avg_client_parse_count", Numeric, average::<8>),
    ("avg_server_parse_count", Numeric, average::<9>),
    ("avg_bind_count", Numeric, average::<10>),
    ("avg_client_login_count", Numeric, average::<11>),
    ("total_group_count", Numeric, total::<12>),
    ("total_grouped_query_count", Numeric, total::<13>),
    ("avg_group_count", Numeric, average::<12>),
    ("avg_grouped_query_count", Numeric, average::<13>),
];

const STATS_TOTALS_COLUMNS: &[ConsoleColumn<DatabaseStats>] = &[
    ("database", Text, |r| r.database.clone().into()),
    ("server_assignment_count", Numeric, total::<0>),
    ("xact_count", Numeric, total::<1>),
    ("query_count", Numeric, total::<2>),
    ("bytes_received", Numeric, total::<3>),
    ("bytes_sent", Numeric, total::<4>),
    ("xact_time", Numeric, total::<5>),
    ("query_time", Numeric, total::<6>),
    ("wait_time", Numeric, total::<7>),
    ("client_parse_count", Numeric, total::<8>),
    ("server_parse_count", Numeric, total::<9>),
    ("bind_count", Numeric, total::<10>),
    ("client_login_count", Numeric, total::<11>),
    ("group_count", Numeric, total::<12>),
    ("grouped_query_count", Numeric, total::<13>),
];

const STATS_AVERAGES_COLUMNS: &[ConsoleColumn<DatabaseStats>] = &[
    ("database", Text, |r| r.database.clone().into()),
    ("server_assignment_count", Numeric, average::<0>),
    ("xact_count", Numeric, average::<1>),
    ("query_count", Numeric, average::<2>),
    ("bytes_received", Numeric, average::<3>),
    ("bytes_sent", Numeric, average::<4>),
    ("xact_time", Numeric, average::<5>),
    ("query_time", Numeric, average::<6>),
    ("wait_time", Numeric, average::<7>),
    ("avg_client_parse_count", Numeric, average::<8>),
    ("avg_server_parse_count", Numeric, average::<9>),
    ("avg_bind_count", Numeric, average::<10>),
    ("avg_client_login_count", Numeric, average::<11>),
    ("avg_group_count", Numeric, average::<12>),
    ("avg_grouped_query_count", Numeric, average::<13>),
];

const TOTALS_COLUMNS: &[ConsoleColumn<TotalRecord>] = &[
    ("name", Text, |r| r.name.clone().into()),
    ("value", Numeric, |r| r.value.into()),
];

/// The names of the rows of `SHOW TOTALS`, without `total_` and `avg_`.
const TOTALS_NAMES: [&str; COUNTS] = [
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

pub(super) struct DatabaseStats {
    database: String,
    totals: Totals,
    averages: Totals,
}

pub(super) struct TotalRecord {
    name: String,
    value: u64,
}

fn total<const INDEX: usize>(stats: &DatabaseStats) -> ConsoleValue {
    cell(&stats.totals, INDEX)
}

fn average<const INDEX: usize>(stats: &DatabaseStats) -> ConsoleValue {
    cell(&stats.averages, INDEX)
}

fn cell(totals: &Totals, index: usize) -> ConsoleValue {
    let value = totals.values.get(index).copied();
    value.unwrap_or_default().into()
}

fn by_databases(proxy: &Proxy) -> Vec<DatabaseStats> {
    let record = |(database, pools): (String, Vec<Arc<Pool>>)| DatabaseStats {
        database,
        totals: sum(&pools),
        averages: proxy.pools.averages(&pools),
    };
    by_database(proxy).into_iter().map(record).collect()
}

fn totals(proxy: &Proxy) -> Vec<TotalRecord> {
    let mut pools = proxy.pools.all();
    // The pool of the coordinator or primary counts the answers of its shards and replicas, so their pools have no rows here.
    pools.retain(|pool| !pool.is_beside());
    let named = |prefix: &str, values: Totals| -> Vec<TotalRecord> {
        let record = |(name, value): (&str, u64)| TotalRecord {
            name: format!("{prefix}_{name}"),
            value,
        };
        TOTALS_NAMES
            .into_iter()
            .zip(values.values)
            .map(record)
            .collect()
    };
    let mut records = named("total", sum(&pools));
    records.extend(named("avg", proxy.pools.averages(&pools)));
    records
}

fn sum(pools: &[Arc<Pool>]) -> Totals {
    let mut all = Totals::default();
    pools.iter().for_each(|pool| all += pool.stats.totals());
    all
}

//! `SHOW POOLS` and `SHOW GROUPS`.

use super::named_pools::named_pools;
use crate::console::table::ColumnType::{Float8, Int4, Int8, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable, ConsoleValue, null, zero};
use paceline_batch::template_stats::TemplateNaming;
use paceline_pool::pool::{Pool, PoolLoad, PoolName};
use paceline_proxy::proxy::Proxy;
use std::collections::HashMap;

pub(super) static POOLS: ConsoleTable<PoolRecord> =
    ConsoleTable::new("pools", &[POOL_COLUMNS], pools);

pub(super) static GROUPS: ConsoleTable<GroupRecord> =
    ConsoleTable::new("groups", &[GROUP_COLUMNS], groups);

const POOL_COLUMNS: &[ConsoleColumn<PoolRecord>] = &[
    ("database", Text, |r| r.name.database.clone().into()),
    ("user", Text, |r| r.name.user.clone().into()),
    ("cl_active", Int4, |r| r.load.clients_active.into()),
    ("cl_waiting", Int4, |r| r.load.clients_waiting.into()),
    ("cl_active_cancel_req", Int4, |r| r.cancel_requests.into()),
    ("cl_waiting_cancel_req", Int4, zero),
    ("sv_active", Int4, |r| r.load.servers_active.into()),
    ("sv_active_cancel", Int4, |r| r.cancel_requests.into()),
    ("sv_being_canceled", Int4, zero),
    ("sv_idle", Int4, |r| r.load.servers_idle.into()),
    ("sv_used", Int4, zero),
    ("sv_tested", Int4, |r| r.load.servers_tested.into()),
    ("sv_login", Int4, |r| r.load.servers_opening.into()),
    ("maxwait", Int4, |r| r.load.longest_wait.as_secs().into()),
    ("maxwait_us", Int4, |r| {
        r.load.longest_wait.subsec_micros().into()
    }),
    ("pool_mode", Text, |r| r.mode.into()),
    ("load_balance_hosts", Text, null),
    ("groups", Int8, |r| r.groups.into()),
    ("grouped_queries", Int8, |r| r.grouped_queries.into()),
    ("max_groups_in_flight", Int4, |r| r.load.groups_max.0.into()),
    ("max_groups_reason", Text, |r| {
        r.load.groups_max.1.as_str().into()
    }),
    ("cl_throttled", Int4, |r| r.load.clients_throttled.into()),
    ("refused", Int8, |r| r.refused.into()),
];

const GROUP_COLUMNS: &[ConsoleColumn<GroupRecord>] = &[
    ("database", Text, |r| r.name.database.clone().into()),
    ("user", Text, |r| r.name.user.clone().into()),
    ("template", Text, |r| r.text("template")),
    ("strategy", Text, |r| r.text("strategy")),
    ("units", Int8, |r| r.number("units")),
    ("groups", Int8, |r| r.number("groups")),
    ("mean_group", Float8, |r| r.float("mean_group")),
    ("largest_group", Int8, |r| r.number("largest_group")),
    ("travelled_together", Float8, |r| {
        r.float("travelled_together")
    }),
    ("rows_written", Int8, |r| r.number("rows_written")),
    ("commits_saved", Int8, |r| r.number("commits_saved")),
    ("fallbacks", Text, |r| r.text("fallbacks")),
    ("would_have_grouped", Int8, |r| {
        r.number("would_have_grouped")
    }),
    ("reason", Text, |r| r.text("reason")),
    ("on_shards", Int8, |r| r.number("on_shards")),
    ("coordinator_reason", Text, |r| r.text("coordinator_reason")),
    ("mean_ms", Float8, |r| r.float("mean_ms")),
];

pub(super) struct PoolRecord {
    name: PoolName,
    load: PoolLoad,
    /// Cancel requests of its clients that are on their way.
    cancel_requests: usize,
    mode: &'static str,
    groups: u64,
    grouped_queries: u64,
    /// Requests that `max_queued` has refused.
    refused: u64,
}

fn pools(proxy: &Proxy) -> Vec<PoolRecord> {
    let clients = proxy.cancel_keys.all();
    let cancels_in = |pool: &Pool| -> usize {
        let of_pool = clients.iter().map(|(_, client)| client);
        let of_pool = of_pool.filter(|client| std::ptr::eq(&*client.info.pool, pool));
        of_pool.map(|client| client.cancels()).sum()
    };
    let pools = named_pools(proxy).into_iter();
    pools
        .map(|(name, pool)| pool_record(name, &pool, cancels_in(&pool)))
        .collect()
}

fn pool_record(name: PoolName, pool: &Pool, cancel_requests: usize) -> PoolRecord {
    let (load, _) = pool.load();
    let [.., groups, grouped_queries] = pool.stats.totals().values;
    PoolRecord {
        name,
        load,
        cancel_requests,
        mode: pool.settings().pooling.pool_mode.name(),
        groups,
        grouped_queries,
        refused: pool.refused(),
    }
}

/// A row of the table that clients get for `SHOW GROUPS`: texts by the name of the column.
pub(super) struct GroupRecord {
    name: PoolName,
    texts: HashMap<String, Option<String>>,
}

impl GroupRecord {
    fn value(&self, column: &str) -> Option<&String> {
        self.texts.get(column)?.as_ref()
    }

    fn text(&self, column: &str) -> ConsoleValue {
        self.value(column).cloned().into()
    }

    fn number(&self, column: &str) -> ConsoleValue {
        let number = self.value(column).and_then(|text| text.parse().ok());
        number.map_or(ConsoleValue::Null, ConsoleValue::Number)
    }

    fn float(&self, column: &str) -> ConsoleValue {
        let number = self.value(column).and_then(|text| text.parse().ok());
        number.map_or(ConsoleValue::Null, ConsoleValue::Float)
    }
}

fn groups(proxy: &Proxy) -> Vec<GroupRecord> {
    let mut records = Vec::new();
    for (name, pool) in named_pools(proxy) {
        let table = pool.groups(TemplateNaming::MetricName);
        records.extend(table.rows.into_iter().map(|row| GroupRecord {
            name: name.clone(),
            texts: table.columns.iter().cloned().zip(row).collect(),
        }));
    }
    records
}

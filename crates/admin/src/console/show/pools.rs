//! `SHOW POOLS` and `SHOW GROUPS`.

use super::named_pools::named_pools;
use crate::console::table::{Columns, Row, Value};
use paceline_batch::template_stats::TemplateNaming;
use paceline_pool::pool::{Pool, PoolName};
use paceline_pool::stats::micros;
use paceline_proxy::proxy::Proxy;

pub(super) const COLUMNS: Columns = Columns {
    kinds: "ssiiiiiiiiiiiiissqq",
    names: &[
        "database",
        "user",
        "cl_active",
        "cl_waiting",
        "cl_active_cancel_req",
        "cl_waiting_cancel_req",
        "sv_active",
        "sv_active_cancel",
        "sv_being_canceled",
        "sv_idle",
        "sv_used",
        "sv_tested",
        "sv_login",
        "maxwait",
        "maxwait_us",
        "pool_mode",
        "load_balance_hosts",
        "groups",
        "grouped_queries",
    ],
};

/// What `SHOW GROUPS` shows of one pool (docs/groups.md), behind its name.
pub(super) const GROUPS_COLUMNS: Columns = Columns {
    kinds: "ssssqqfqfqqsqs",
    names: &[
        "database",
        "user",
        "template",
        "strategy",
        "units",
        "groups",
        "mean_group",
        "largest_group",
        "travelled_together",
        "rows_written",
        "commits_saved",
        "fallbacks",
        "would_have_grouped",
        "reason",
    ],
};

const MICROS: u64 = 1_000_000;

pub(super) fn pools(proxy: &Proxy) -> Vec<Row> {
    let clients = proxy.cancel_keys.all();
    let cancels_in = |pool: &Pool| -> usize {
        let of_it = clients.iter().map(|(_, client)| client);
        let of_it = of_it.filter(|client| std::ptr::eq(&*client.info.pool, pool));
        of_it.map(|client| client.cancels()).sum()
    };
    let pools = named_pools(proxy).into_iter();
    pools
        .map(|(name, pool)| row(name, &pool, cancels_in(&pool)))
        .collect()
}

fn row(name: PoolName, pool: &Pool, cancels: usize) -> Row {
    let (load, _) = pool.load();
    let longest = micros(load.longest_wait);
    let totals = pool.stats.totals();
    let [.., groups, grouped] = totals.values;
    vec![
        name.database.into(),
        name.user.into(),
        load.clients_active.into(),
        load.clients_waiting.into(),
        cancels.into(),
        0_u64.into(),
        load.servers_active.into(),
        cancels.into(),
        0_u64.into(),
        load.servers_idle.into(),
        0_u64.into(),
        load.servers_tested.into(),
        load.servers_opening.into(),
        (longest / MICROS).into(),
        (longest % MICROS).into(),
        pool.settings().pooling.pool_mode.name().into(),
        Value::Null,
        groups.into(),
        grouped.into(),
    ]
}

pub(super) fn groups(proxy: &Proxy) -> Vec<Row> {
    let kinds = GROUPS_COLUMNS.kinds.chars().skip(2);
    let mut rows = Vec::new();
    for (name, pool) in named_pools(proxy) {
        for shown in pool.groups(TemplateNaming::MetricName).rows {
            let named = [name.database.clone().into(), name.user.clone().into()];
            let values = shown.into_iter().zip(kinds.clone());
            let values = values.map(|(value, kind)| typed(value, kind));
            rows.push(named.into_iter().chain(values).collect());
        }
    }
    rows
}

/// Numbers were shown as text.
fn typed(value: Option<String>, kind: char) -> Value {
    let Some(text) = value else {
        return Value::Null;
    };
    match kind {
        'q' => text.parse().map_or(Value::Null, Value::Number),
        'f' => text.parse().map_or(Value::Null, Value::Float),
        _ => Value::Text(text),
    }
}

//! One sample of the page's contents, from the same counters as the console and the metrics.

use super::rates::{Rates, approximate};
use super::table_json::{JsonRow, number, rows, text};
use crate::metrics::PoolSample;
use paceline_batch::template_stats::{SIZE_BOUNDS, SizeHistogram};
use paceline_pool::hot_rows::HotRow;
use paceline_pool::pool::{Pool, PoolState};
use paceline_pool::stats::Durations;
use paceline_proxy::proxy::Proxy;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

/// Maximum number of templates, of pools, of servers and of rows.
const TEMPLATES_MAX: usize = 20;
const POOLS_MAX: usize = 50;
const SERVERS_MAX: usize = 50;
const HOT_ROWS_MAX: usize = 10;

const POOL_COLUMNS: [&str; 12] = [
    "database",
    "user",
    "cl_active",
    "cl_waiting",
    "sv_active",
    "sv_idle",
    "sv_login",
    "maxwait",
    "maxwait_us",
    "pool_mode",
    "max_groups_in_flight",
    "max_groups_reason",
];
const SERVER_COLUMNS: [&str; 8] = [
    "database",
    "addr",
    "port",
    "state",
    "role",
    "lag_bytes",
    "lag_ms",
    "host_state",
];
const HOST_COLUMNS: [&str; 8] = [
    "database",
    "host",
    "port",
    "role",
    "reason",
    "lag_bytes",
    "lag_ms",
    "reads",
];
const GROUPING_COLUMNS: [&str; 4] = ["database", "target", "decision", "source"];
const DATABASE_COLUMNS: [&str; 3] = ["name", "paused", "disabled"];

/// The contents of the page.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    version: &'static str,
    /// Milliseconds since 1970.
    time: u64,
    started: u64,
    /// As in `SHOW STATE`.
    state: &'static str,
    clients: usize,
    clients_max: usize,
    /// Units per second by strategy.
    units: BTreeMap<&'static str, f64>,
    groups: Groups,
    /// Commits, and so waits for row locks, that groups have saved.
    saved: Growth,
    /// Mean times in milliseconds since the last sample; `None` without requests.
    wait_ms: Option<f64>,
    query_ms: Option<f64>,
    errors: Vec<SqlstateErrors>,
    templates: Vec<TemplateRow>,
    hot_rows: Vec<HotRowEntry>,
    pools: Vec<JsonRow>,
    pools_found: usize,
    servers: Vec<JsonRow>,
    hosts: Vec<JsonRow>,
    databases: Vec<JsonRow>,
    /// As in `SHOW GROUPING`.
    grouping: Vec<JsonRow>,
}

/// Groups since the last sample.
#[derive(Debug, Serialize)]
struct Groups {
    per_second: f64,
    mean: Option<f64>,
    /// Groups by size; the bounds are `bounds`, and the last has none.
    sizes: Vec<u64>,
    bounds: &'static [u64],
}

#[derive(Debug, Serialize)]
struct Growth {
    total: u64,
    per_second: f64,
}

#[derive(Debug, Serialize)]
struct SqlstateErrors {
    sqlstate: String,
    #[serde(flatten)]
    growth: Growth,
}

#[derive(Debug, Serialize)]
struct TemplateRow {
    database: String,
    user: String,
    template: String,
    units: Growth,
    grouped: Growth,
    largest: u64,
    strategies: BTreeSet<&'static str>,
    would_have_grouped: Growth,
    #[serde(skip)]
    grown: u64,
}

#[derive(Debug, Serialize)]
struct HotRowEntry {
    database: String,
    user: String,
    template: String,
    /// Identifies the row, without its values.
    row: String,
    waiting: u64,
}

/// Identifies a counter.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Counter {
    Units(&'static str),
    GroupSize(usize),
    GroupUnits,
    Saved,
    Waits,
    WaitMicros,
    Queries,
    QueryMicros,
    Errors(String),
    /// Of a template: all units, grouped ones, and those that would have been grouped.
    Template([String; 3], u8),
}

/// Takes samples, and remembers the last one for the rates.
#[derive(Debug, Default)]
pub(super) struct SnapshotReader {
    rates: Rates<Counter>,
}

/// Sums over all pools.
#[derive(Default)]
struct Sums {
    units: BTreeMap<&'static str, u64>,
    sizes: SizeHistogram,
    saved: u64,
    waits: Durations,
    queries: Durations,
    errors: BTreeMap<String, u64>,
    templates: BTreeMap<[String; 3], TemplateSums>,
    hot_rows: Vec<HotRowEntry>,
}

#[derive(Default)]
struct TemplateSums {
    units: u64,
    grouped: u64,
    missed: u64,
    largest: u64,
    strategies: BTreeSet<&'static str>,
}

impl Sums {
    fn add(&mut self, pool: &Pool) {
        let (Some(sample), Some(name)) = (PoolSample::by_template(pool), pool.name.get()) else {
            return;
        };
        let key = |template: &str| [&name.database, &name.user, template].map(ToOwned::to_owned);
        for template in &sample.templates {
            *self.units.entry("solo").or_default() += template.solo;
            let sums = self.templates.entry(key(&template.name)).or_default();
            sums.units += template.requests;
            sums.missed += template.missed;
        }
        for group in &sample.groups {
            let counted = &group.counted;
            *self.units.entry(group.strategy).or_default() += counted.requests;
            self.saved += counted.commits_saved.unwrap_or(0);
            let sums = self.templates.entry(key(&group.template)).or_default();
            sums.grouped += counted.requests;
            sums.largest = sums.largest.max(counted.largest_group);
            sums.strategies.insert(group.strategy);
        }
        *self.units.entry("lease").or_default() += sample.leases;
        for (_, sizes) in &sample.sizes {
            self.sizes.add(sizes);
        }
        self.waits = self.waits + sample.stats.wait_durations();
        self.queries = self.queries + sample.stats.query_durations();
        for (sqlstate, errors) in sample.stats.errors() {
            *self.errors.entry(sqlstate).or_default() += errors;
        }
        let entry = |row: HotRow| HotRowEntry {
            database: name.database.clone(),
            user: name.user.clone(),
            template: row.template,
            row: format!("{:04x}", row.key & 0xffff),
            waiting: row.waiting,
        };
        self.hot_rows.extend(pool.hot_rows().into_iter().map(entry));
    }
}

impl SnapshotReader {
    /// Takes a sample.
    pub(super) fn read(&mut self, proxy: &Proxy) -> Snapshot {
        self.rates.begin(Instant::now());
        let mut sums = Sums::default();
        proxy.pools.all().iter().for_each(|pool| sums.add(pool));
        let mut hot_rows = std::mem::take(&mut sums.hot_rows);
        hot_rows.sort_by_key(|row| Reverse(row.waiting));
        hot_rows.truncate(HOT_ROWS_MAX);
        let mut pools = rows(proxy, "pools", &POOL_COLUMNS);
        let pools_found = pools.len();
        pools.sort_by_key(|row| Reverse((number(row, "cl_waiting"), number(row, "sv_active"))));
        pools.truncate(POOLS_MAX);
        let units = sums.units.iter();
        let units = units.map(|(strategy, total)| {
            let growth = self.grow(Counter::Units(strategy), *total);
            (*strategy, growth.per_second)
        });
        Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            time: milliseconds(SystemTime::now()),
            started: milliseconds(proxy.started),
            state: match proxy.pools.state_of(None) {
                PoolState::Paused => "paused",
                PoolState::Suspended => "suspended",
                _ => "active",
            },
            clients: proxy.clients.load(Ordering::Relaxed),
            clients_max: proxy.config().paceline.pooling.max_client_conn,
            units: units.collect(),
            groups: self.groups(&sums.sizes),
            saved: self.grow(Counter::Saved, sums.saved),
            wait_ms: self.mean(sums.waits, Counter::Waits, Counter::WaitMicros),
            query_ms: self.mean(sums.queries, Counter::Queries, Counter::QueryMicros),
            errors: self.errors(sums.errors),
            templates: self.templates(sums.templates),
            hot_rows,
            pools,
            pools_found,
            servers: servers(proxy),
            hosts: rows(proxy, "hosts", &HOST_COLUMNS),
            databases: rows(proxy, "databases", &DATABASE_COLUMNS),
            grouping: rows(proxy, "grouping", &GROUPING_COLUMNS),
        }
    }

    fn grow(&mut self, counter: Counter, total: u64) -> Growth {
        let growth = self.rates.growth(counter, total);
        Growth {
            total,
            per_second: self.rates.per_second(growth),
        }
    }

    fn groups(&mut self, sizes: &SizeHistogram) -> Groups {
        let by_size = sizes.groups.iter().enumerate();
        let grown = by_size.map(|(index, groups)| {
            let counter = Counter::GroupSize(index);
            self.rates.growth(counter, *groups)
        });
        let grown: Vec<u64> = grown.collect();
        let units = self.rates.growth(Counter::GroupUnits, sizes.requests);
        let count = grown.iter().sum();
        Groups {
            per_second: self.rates.per_second(count),
            mean: (count > 0).then(|| approximate(units) / approximate(count)),
            sizes: grown,
            bounds: &SIZE_BOUNDS,
        }
    }

    /// The mean of the durations since the last sample, in milliseconds.
    fn mean(&mut self, durations: Durations, count: Counter, micros: Counter) -> Option<f64> {
        let count = self.rates.growth(count, durations.count());
        let micros = self.rates.growth(micros, durations.micros);
        (count > 0).then(|| approximate(micros) / approximate(count) / 1_000.0)
    }

    fn errors(&mut self, errors: BTreeMap<String, u64>) -> Vec<SqlstateErrors> {
        let mut all: Vec<SqlstateErrors> = Vec::new();
        for (sqlstate, total) in errors {
            let growth = self.grow(Counter::Errors(sqlstate.clone()), total);
            all.push(SqlstateErrors { sqlstate, growth });
        }
        all.sort_by_key(|errors| Reverse(errors.growth.total));
        all
    }

    /// The templates with the most units since the last sample; among equals, those with the most since the start.
    fn templates(&mut self, sums: BTreeMap<[String; 3], TemplateSums>) -> Vec<TemplateRow> {
        let mut all: Vec<TemplateRow> = Vec::with_capacity(sums.len());
        for (key, sums) in sums.into_iter().filter(|(_, sums)| sums.units > 0) {
            let grown = self
                .rates
                .growth(Counter::Template(key.clone(), 0), sums.units);
            let grouped = Counter::Template(key.clone(), 1);
            let missed = Counter::Template(key.clone(), 2);
            let [database, user, template] = key;
            all.push(TemplateRow {
                database,
                user,
                template,
                units: Growth {
                    total: sums.units,
                    per_second: self.rates.per_second(grown),
                },
                grouped: self.grow(grouped, sums.grouped),
                largest: sums.largest,
                strategies: sums.strategies,
                would_have_grouped: self.grow(missed, sums.missed),
                grown,
            });
        }
        all.sort_by_key(|row| Reverse((row.grown, row.units.total)));
        all.truncate(TEMPLATES_MAX);
        all
    }
}

/// The server connections by database and host.
fn servers(proxy: &Proxy) -> Vec<JsonRow> {
    let mut hosts: BTreeMap<(String, String, u64), (JsonRow, [u64; 2])> = BTreeMap::new();
    for row in rows(proxy, "servers", &SERVER_COLUMNS) {
        let is_active = text(&row, "state") == "active";
        let [database, address] = ["database", "addr"].map(|column| text(&row, column).to_owned());
        let key = (database, address, number(&row, "port"));
        let (_, [active, idle]) = hosts.entry(key).or_insert_with(|| (row, [0; 2]));
        *if is_active { active } else { idle } += 1;
    }
    let counted = hosts.into_values().map(|(mut row, [active, idle])| {
        row.remove("state");
        row.insert("active".to_owned(), active.into());
        row.insert("idle".to_owned(), idle.into());
        row
    });
    counted.take(SERVERS_MAX).collect()
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

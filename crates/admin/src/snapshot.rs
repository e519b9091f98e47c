//! The state of Paceline at one moment, for the web console and `paceline top`, from the same counters as the tables of the admin
//! console and the metrics.

mod lately;
mod rates;
mod table_json;

pub(crate) use table_json::rows;
pub use table_json::{JsonRow, number, text};

use crate::metrics::PoolSample;
use lately::Lately;
use paceline_batch::template_stats::{SIZE_BOUNDS, SizeHistogram};
use paceline_pool::hot_rows::HotRow;
use paceline_pool::pool::{Pool, PoolState};
use paceline_pool::stats::Durations;
use paceline_proxy::proxy::Proxy;
use rates::{Rates, approximate};
use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime};

/// Maximum number of templates, of slow templates, of pools, of servers and of rows.
const TEMPLATES_MAX: usize = 20;
const SLOWEST_MAX: usize = 10;
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

/// The state of Paceline at one moment, and rates since the snapshot before.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The version of Paceline.
    pub version: String,
    /// The time of the snapshot in milliseconds since 1970.
    pub time: u64,
    /// The start of the process in milliseconds since 1970.
    pub started: u64,
    /// As in `SHOW STATE`.
    pub state: String,
    /// Clients that are logged in or log in.
    pub clients: usize,
    /// `max_client_conn`.
    pub clients_max: usize,
    /// Units per second by strategy.
    pub units: BTreeMap<String, f64>,
    /// Groups since the snapshot before.
    pub groups: Groups,
    /// Commits, and so waits for row locks, that groups have saved.
    pub saved: Growth,
    /// Mean time in the line in milliseconds since the snapshot before; `None` without requests.
    pub wait_ms: Option<f64>,
    /// The same on a server.
    pub query_ms: Option<f64>,
    /// Errors sent to clients; those with most errors come first.
    pub errors: Vec<SqlstateErrors>,
    /// The templates with most units since the snapshot before.
    pub templates: Vec<TemplateRow>,
    /// The templates that took longest of late, per unit.
    pub slowest: Vec<TemplateRow>,
    /// The rows for which most requests wait.
    pub hot_rows: Vec<HotRowEntry>,
    /// Rows of `SHOW POOLS`: the pools with most waiting requests.
    pub pools: Vec<JsonRow>,
    /// Number of all pools.
    pub pools_found: usize,
    /// Rows of `SHOW SERVERS`, added up by host.
    pub servers: Vec<JsonRow>,
    /// Rows of `SHOW HOSTS`.
    pub hosts: Vec<JsonRow>,
    /// Rows of `SHOW DATABASES`.
    pub databases: Vec<JsonRow>,
    /// Rows of `SHOW GROUPING`.
    pub grouping: Vec<JsonRow>,
}

/// Groups since the snapshot before.
#[derive(Debug, Serialize, Deserialize)]
pub struct Groups {
    /// Groups per second.
    pub per_second: f64,
    /// Mean number of units in a group; `None` without groups.
    pub mean: Option<f64>,
    /// Groups by size; the bounds are `bounds`, and the last has none.
    pub sizes: Vec<u64>,
    /// Maximum number of units for each of `sizes`.
    pub bounds: Vec<u64>,
}

/// A count since the start, and its growth.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Growth {
    /// The count since the start.
    pub total: u64,
    /// The growth per second since the snapshot before.
    pub per_second: f64,
}

/// Errors sent to clients.
#[derive(Debug, Serialize, Deserialize)]
pub struct SqlstateErrors {
    /// Their SQLSTATE.
    pub sqlstate: String,
    /// Their number.
    #[serde(flatten)]
    pub growth: Growth,
}

/// The counts of a template in a pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TemplateRow {
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
    /// The name of the template in metrics.
    pub template: String,
    /// All units.
    pub units: Growth,
    /// Units that were executed in groups.
    pub grouped: Growth,
    /// Maximum number of units in a group.
    pub largest: u64,
    /// The strategies that executed groups.
    pub strategies: BTreeSet<String>,
    /// Units that a hint or `hotspot_for_autocommit` would have grouped.
    pub would_have_grouped: Growth,
    /// Mean time on a server of late, in milliseconds; `None` without units.
    pub mean_ms: Option<f64>,
    #[serde(skip)]
    grown: u64,
}

/// A row for which requests wait.
#[derive(Debug, Serialize, Deserialize)]
pub struct HotRowEntry {
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
    /// The name of the template in metrics.
    pub template: String,
    /// Identifies the row, without its values.
    pub row: String,
    /// The values of its key, for administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
    /// Number of requests that wait.
    pub waiting: u64,
}

impl Snapshot {
    /// The part that users who are not administrators may see: without values.
    pub(crate) fn without_values(mut self) -> Self {
        for row in &mut self.hot_rows {
            row.values = None;
        }
        self
    }
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
    /// Of a template: all units, grouped ones, those that would have been grouped, the time in microseconds, and
    /// those with a known time.
    Template([String; 3], u8),
}

/// Takes snapshots, and remembers the last one for the rates.
#[derive(Debug, Default)]
pub(crate) struct SnapshotReader {
    rates: Rates<Counter>,
    times: Lately<[String; 3]>,
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
    timed: u64,
    micros: u64,
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
            sums.timed += template.timed;
            sums.micros += template.micros;
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
            row: format!("{:04x}", row.line_key & 0xffff),
            values: row.values,
            waiting: row.waiting,
        };
        self.hot_rows.extend(pool.hot_rows().into_iter().map(entry));
    }
}

impl SnapshotReader {
    /// Takes a snapshot.
    pub(crate) fn read(&mut self, proxy: &Proxy) -> Snapshot {
        let passed = self.rates.begin(Instant::now());
        self.times.fade(passed);
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
            ((*strategy).to_owned(), growth.per_second)
        });
        let units = units.collect();
        let mut templates = self.templates(sums.templates);
        let slowest = slowest(&templates);
        templates.truncate(TEMPLATES_MAX);
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: milliseconds(SystemTime::now()),
            started: milliseconds(proxy.started),
            state: match proxy.pools.state_of(None) {
                PoolState::Paused => "paused",
                PoolState::Suspended => "suspended",
                _ => "active",
            }
            .to_owned(),
            clients: proxy.clients.load(Relaxed),
            clients_max: proxy.config().paceline.pooling.max_client_conn,
            units,
            groups: self.groups(&sums.sizes),
            saved: self.grow(Counter::Saved, sums.saved),
            wait_ms: self.mean(sums.waits, Counter::Waits, Counter::WaitMicros),
            query_ms: self.mean(sums.queries, Counter::Queries, Counter::QueryMicros),
            errors: self.errors(sums.errors),
            templates,
            slowest,
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
            bounds: SIZE_BOUNDS.to_vec(),
        }
    }

    /// The mean of the durations since the snapshot before, in milliseconds.
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

    /// The templates. Those with most units since the snapshot before come first; among equals, those with most since the start.
    fn templates(&mut self, sums: BTreeMap<[String; 3], TemplateSums>) -> Vec<TemplateRow> {
        let mut all: Vec<TemplateRow> = Vec::with_capacity(sums.len());
        for (key, sums) in sums.into_iter().filter(|(_, sums)| sums.units > 0) {
            let grown = self
                .rates
                .growth(Counter::Template(key.clone(), 0), sums.units);
            let grouped = Counter::Template(key.clone(), 1);
            let missed = Counter::Template(key.clone(), 2);
            let micros = Counter::Template(key.clone(), 3);
            let micros = self.rates.growth(micros, sums.micros);
            let timed = Counter::Template(key.clone(), 4);
            let timed = self.rates.growth(timed, sums.timed);
            let mean_ms = self.times.add(&key, timed, micros);
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
                strategies: sums.strategies.into_iter().map(str::to_owned).collect(),
                would_have_grouped: self.grow(missed, sums.missed),
                mean_ms,
                grown,
            });
        }
        all.sort_by_key(|row| Reverse((row.grown, row.units.total)));
        all
    }
}

/// The templates whose units took longest of late.
fn slowest(templates: &[TemplateRow]) -> Vec<TemplateRow> {
    let mut used: Vec<&TemplateRow> = templates.iter().collect();
    used.retain(|row| row.mean_ms.is_some());
    used.sort_by(|a, b| b.mean_ms.partial_cmp(&a.mean_ms).unwrap_or(Ordering::Equal));
    used.into_iter().take(SLOWEST_MAX).cloned().collect()
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

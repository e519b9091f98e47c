//! One scrape: the sum of what all pools have counted, series by series, and its text in OpenMetrics 1.0.
//!
//! Sums never fall: what is counted under a name stays there until its template is forgotten, and then goes to the template
//! `other` of its pool.

use super::catalog;
use super::exposition::Exposition;
use paceline_batch::strategy::Strategy;
use paceline_batch::template_stats::{SizeHistogram, TemplateStats};
use paceline_pool::labels::PoolLabels;
use paceline_pool::pool::{Pool, PoolLoad};
use paceline_pool::stats::Durations;
use paceline_proxy::proxy::Proxy;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, text};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct TripLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
    strategy: &'static str,
    template: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct FallbackLabels {
    #[prometheus(flatten)]
    trip: TripLabels,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct TemplateLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
    template: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct StrategyLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
    strategy: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct StateLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ErrorLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
    sqlstate: String,
}

/// Values by labels, in the order of the labels.
type Series<L> = BTreeMap<L, u64>;

/// All values of a scrape.
#[derive(Debug, Default)]
struct Scrape {
    units: Series<TripLabels>,
    groups: Series<TripLabels>,
    largest_group: Series<TripLabels>,
    rows_written: Series<TripLabels>,
    commits_saved: Series<TripLabels>,
    fallbacks: Series<FallbackLabels>,
    missed: Series<TemplateLabels>,
    sizes: BTreeMap<StrategyLabels, SizeHistogram>,
    pool_units: Series<PoolLabels>,
    pool_clients: Series<StateLabels>,
    pool_servers: Series<StateLabels>,
    pool_servers_max: Series<PoolLabels>,
    waits: BTreeMap<PoolLabels, Durations>,
    queries: BTreeMap<PoolLabels, Durations>,
    transactions: BTreeMap<PoolLabels, Durations>,
    errors: Series<ErrorLabels>,
    received: Series<PoolLabels>,
    sent: Series<PoolLabels>,
    assignments: Series<PoolLabels>,
    pins: Series<PoolLabels>,
    accepted: u64,
    clients: u64,
    clients_max: u64,
    started_seconds: f64,
}

/// Everything there is to say now.
pub(super) fn text(proxy: &Proxy) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape::of(proxy)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Scrape {
    fn of(proxy: &Proxy) -> Self {
        let started = proxy.started.duration_since(SystemTime::UNIX_EPOCH);
        let mut sheet = Self {
            accepted: proxy.accepted.load(Ordering::Relaxed),
            clients: proxy.clients.load(Ordering::Relaxed) as u64,
            clients_max: proxy.config().paceline.pooling.max_client_conn as u64,
            started_seconds: started.unwrap_or_default().as_secs_f64(),
            ..Self::default()
        };
        for pool in proxy.pools.all() {
            sheet.add_pool(&pool);
        }
        sheet
    }

    /// One that nobody could log in to has counted nothing, and anybody can name one.
    fn add_pool(&mut self, pool: &Pool) {
        let Some(pool_labels) = pool.labels.get() else {
            return;
        };
        let (load, snapshot) = pool.load();
        self.add_load(pool_labels, load);
        self.add_stats(pool_labels, pool);
        for tally in snapshot.by_name() {
            self.add_tally(pool_labels, &tally);
        }
        for strategy in Strategy::ALL {
            if let Some(sizes) = pool.stats.sizes.of(strategy) {
                let labels = StrategyLabels {
                    pool: pool_labels.clone(),
                    strategy: strategy.name(),
                };
                self.sizes.entry(labels).or_default().add(&sizes);
            }
        }
        let leases = pool.stats.transactions_begun();
        add(&mut self.pool_units, pool_labels.clone(), leases);
        if leases > 0 {
            let labels = TripLabels {
                pool: pool_labels.clone(),
                strategy: "lease",
                template: String::new(),
            };
            add(&mut self.units, labels, leases);
        }
    }

    fn add_stats(&mut self, labels: &PoolLabels, pool: &Pool) {
        let stats = &pool.stats;
        for (all, more) in [
            (&mut self.waits, stats.wait_durations()),
            (&mut self.queries, stats.query_durations()),
            (&mut self.transactions, stats.transaction_durations()),
        ] {
            let durations = all.entry(labels.clone()).or_default();
            *durations = *durations + more;
        }
        for (sqlstate, count) in stats.errors() {
            let pool = labels.clone();
            add(&mut self.errors, ErrorLabels { pool, sqlstate }, count);
        }
        let totals = pool.stats.totals();
        add(&mut self.received, labels.clone(), totals.received());
        add(&mut self.sent, labels.clone(), totals.sent());
        add(&mut self.assignments, labels.clone(), totals.assignments());
        add(&mut self.pins, labels.clone(), stats.pins());
    }

    fn add_load(&mut self, pool: &PoolLabels, load: PoolLoad) {
        let labels = |state| StateLabels {
            pool: pool.clone(),
            state,
        };
        let clients = &mut self.pool_clients;
        add(clients, labels("active"), load.clients_active);
        add(clients, labels("waiting"), load.clients_waiting);
        let servers = &mut self.pool_servers;
        add(servers, labels("active"), load.servers_active);
        add(servers, labels("idle"), load.servers_idle);
        add(servers, labels("opening"), load.servers_opening);
        add(&mut self.pool_servers_max, pool.clone(), load.servers_max);
    }

    fn add_tally(&mut self, pool: &PoolLabels, tally: &TemplateStats) {
        let template = tally.name().to_owned();
        let labels = |strategy| TripLabels {
            pool: pool.clone(),
            strategy,
            template: template.clone(),
        };
        for strategy in Strategy::ALL {
            self.add_trips(tally, strategy, &labels(strategy.name()));
        }
        if tally.alone() > 0 {
            add(&mut self.units, labels("solo"), tally.alone());
        }
        if tally.would_have_grouped() > 0 {
            let (pool, template) = (pool.clone(), template.clone());
            let labels = TemplateLabels { pool, template };
            add(&mut self.missed, labels, tally.would_have_grouped());
        }
        add(&mut self.pool_units, pool.clone(), tally.requests());
    }

    fn add_trips(&mut self, tally: &TemplateStats, strategy: Strategy, labels: &TripLabels) {
        let Some(counted) = tally.group_stats(strategy) else {
            return;
        };
        add(&mut self.units, labels.clone(), counted.requests);
        add(&mut self.groups, labels.clone(), counted.groups);
        let largest = self.largest_group.entry(labels.clone()).or_default();
        *largest = counted.largest_group.max(*largest);
        if let Some(rows) = counted.rows_written {
            add(&mut self.rows_written, labels.clone(), rows);
        }
        if let Some(commits) = counted.commits_saved {
            add(&mut self.commits_saved, labels.clone(), commits);
        }
        for (reason, units) in counted.fallbacks {
            let trip = labels.clone();
            add(&mut self.fallbacks, FallbackLabels { trip, reason }, units);
        }
    }
}

fn add<L: Ord>(series: &mut Series<L>, labels: L, more: u64) {
    *series.entry(labels).or_default() += more;
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Exposition(encoder);
        out.counters(&catalog::UNITS, &self.units)?;
        out.counters(&catalog::GROUPS, &self.groups)?;
        out.gauges(&catalog::LARGEST_GROUP, &self.largest_group)?;
        out.counters(&catalog::ROWS_WRITTEN, &self.rows_written)?;
        out.counters(&catalog::COMMITS_SAVED, &self.commits_saved)?;
        out.counters(&catalog::FALLBACKS, &self.fallbacks)?;
        out.counters(&catalog::MISSED, &self.missed)?;
        out.sizes(&catalog::GROUP_SIZE, &self.sizes)?;
        out.counters(&catalog::POOL_UNITS, &self.pool_units)?;
        out.gauges(&catalog::POOL_CLIENTS, &self.pool_clients)?;
        out.gauges(&catalog::POOL_SERVERS, &self.pool_servers)?;
        out.gauges(&catalog::POOL_SERVERS_MAX, &self.pool_servers_max)?;
        out.durations(&catalog::WAIT, &self.waits)?;
        out.durations(&catalog::QUERY, &self.queries)?;
        out.durations(&catalog::TRANSACTION, &self.transactions)?;
        out.counters(&catalog::ERRORS, &self.errors)?;
        out.counters(&catalog::RECEIVED, &self.received)?;
        out.counters(&catalog::SENT, &self.sent)?;
        out.counters(&catalog::ASSIGNMENTS, &self.assignments)?;
        out.counters(&catalog::PINS, &self.pins)?;
        out.counter(&catalog::ACCEPTED, self.accepted)?;
        out.gauge(&catalog::CLIENTS, self.clients)?;
        out.gauge(&catalog::CLIENTS_MAX, self.clients_max)?;
        out.gauge(&catalog::STARTED, self.started_seconds)?;
        out.info(&catalog::BUILD, env!("CARGO_PKG_VERSION"))
    }
}

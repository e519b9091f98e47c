//! One scrape: reads the values of all metrics and writes them as OpenMetrics 1.0. `prometheus-client` writes the syntax.
//!
//! Counters never decrease: the counts of a template stay under its name until the template is forgotten, and then move to the
//! template `other` of its pool.

use super::definitions::{METRICS, Metric, MetricSource};
use super::pool_sample::PoolSample;
use super::series::{Number, PoolSeries, SeriesMap, SeriesValue};
use paceline_batch::template_stats::SIZE_BOUNDS;
use paceline_cluster::HostStatus;
use paceline_pool::hosts::FailoverTotals;
use paceline_pool::stats::BOUNDS_MICROS;
use paceline_proxy::proxy::Proxy;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;

/// All metrics at this moment.
pub(super) fn text(proxy: &Proxy) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape::of(proxy)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// A metric with its values.
#[derive(Debug)]
enum MetricValues {
    Process(Number),
    Pools(SeriesMap),
    /// The labels of a host, a database or a link, and its value.
    Labelled(Vec<(Vec<String>, Number)>),
    Info(&'static str),
}

/// All values of a scrape, one entry for each of [`METRICS`].
#[derive(Debug)]
struct Scrape(Vec<MetricValues>);

impl Scrape {
    fn of(proxy: &Proxy) -> Self {
        let empty = |metric: &Metric| match metric.source {
            MetricSource::Process(value) => MetricValues::Process(value(proxy)),
            MetricSource::Pools(_) => MetricValues::Pools(SeriesMap::new()),
            MetricSource::Hosts(value) => MetricValues::Labelled(of_hosts(proxy, value)),
            MetricSource::Failovers(value) => MetricValues::Labelled(of_failovers(proxy, value)),
            MetricSource::Compression(value) => MetricValues::Labelled(of_links(proxy, value)),
            MetricSource::Info(label) => MetricValues::Info(label),
        };
        let mut scrape = Self(METRICS.iter().map(empty).collect());
        for pool in proxy.pools.all() {
            if let Some(sample) = PoolSample::read(&pool) {
                scrape.add_pool(&sample);
            }
        }
        scrape
    }

    fn add_pool(&mut self, sample: &PoolSample<'_>) {
        for (metric, values) in METRICS.iter().zip(&mut self.0) {
            if let (MetricSource::Pools(read), MetricValues::Pools(series)) =
                (&metric.source, values)
            {
                let pool = sample.labels;
                read(sample, &mut PoolSeries { pool, series });
            }
        }
    }
}

/// The values of a metric of hosts. Its labels are the entry of the configuration, `host:port`, and the foreign server; empty, and so not
/// written, for the hosts of the database itself.
fn of_hosts(proxy: &Proxy, value: fn(&HostStatus) -> Option<Number>) -> Vec<(Vec<String>, Number)> {
    let mut values = Vec::new();
    for hosts in proxy.pools.hosts() {
        for host in hosts.statuses() {
            let shard = hosts.shard().unwrap_or_default().to_owned();
            let labels = vec![hosts.entry.clone(), host.spec.address.to_string(), shard];
            values.extend(value(&host).map(|value| (labels, value)));
        }
    }
    values
}

/// The values of a metric of failovers. Its label is the database.
fn of_failovers(proxy: &Proxy, value: fn(&FailoverTotals) -> u64) -> Vec<(Vec<String>, Number)> {
    let all = proxy.pools.hosts();
    let mut by_database = BTreeMap::new();
    // Two entries may have commits of one database: a reload may have added its own to that of all databases.
    for (database, totals) in all.iter().flat_map(|hosts| hosts.failover_totals()) {
        *by_database.entry(database).or_default() += value(&totals);
    }
    let series = by_database.into_iter();
    series
        .map(|(database, total)| (vec![database], Number::Whole(total)))
        .collect()
}

/// The values of a metric of compression. Its labels are the side and the direction.
fn of_links(proxy: &Proxy, value: fn(u64, u64) -> u64) -> Vec<(Vec<String>, Number)> {
    let compressors = &proxy.shared.compressors;
    let sides = [
        ("clients", &compressors.client_bytes),
        ("servers", &compressors.server_bytes),
    ];
    let mut values = Vec::new();
    for (side, bytes) in sides {
        for (direction, plain, transmitted) in [
            ("sent", &bytes.sent, &bytes.sent_compressed),
            ("received", &bytes.received, &bytes.received_compressed),
        ] {
            let labels = vec![side.to_owned(), direction.to_owned()];
            let [plain, transmitted] =
                [plain, transmitted].map(|bytes| bytes.load(Ordering::Relaxed));
            values.push((labels, Number::Whole(value(plain, transmitted))));
        }
    }
    values
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, values) in METRICS.iter().zip(&self.0) {
            let help = format!("{}.", metric.help);
            let out = encoder.encode_descriptor(metric.name, &help, None, metric.metric_type)?;
            encode(metric, values, out)?;
        }
        Ok(())
    }
}

fn encode(metric: &Metric, values: &MetricValues, mut out: MetricEncoder<'_>) -> fmt::Result {
    match values {
        MetricValues::Process(number) => encode_number(metric, *number, out),
        MetricValues::Info(label) => {
            let labels: Vec<(&str, &str)> =
                metric.labels.iter().map(|name| (*name, *label)).collect();
            out.encode_info(&labels)
        }
        MetricValues::Labelled(values) => {
            for (labels, value) in values {
                let labels = labels.iter().map(String::as_str);
                // To Prometheus, an empty label is none.
                let labels = metric.labels.iter().copied().zip(labels);
                let labels: Vec<_> = labels.filter(|(_, value)| !value.is_empty()).collect();
                encode_number(metric, *value, out.encode_family(&labels)?)?;
            }
            Ok(())
        }
        MetricValues::Pools(series) => {
            for ((pool, labels), value) in series {
                // The first two labels are database and user.
                let names = metric.labels.iter().skip(2);
                let labels: Vec<(&str, &str)> = names
                    .copied()
                    .zip(labels.iter().map(String::as_str))
                    .collect();
                let labels = (pool.clone(), labels);
                encode_value(metric, value, out.encode_family(&labels)?)?;
            }
            Ok(())
        }
    }
}

fn encode_value(metric: &Metric, value: &SeriesValue, mut out: MetricEncoder<'_>) -> fmt::Result {
    match value {
        SeriesValue::Number(number) => encode_number(metric, Number::Whole(*number), out),
        SeriesValue::SizeHistogram(sizes) => {
            #[expect(
                clippy::cast_precision_loss,
                reason = "the bounds are small powers of two"
            )]
            let bounds = SIZE_BOUNDS.iter().map(|bound| *bound as f64);
            #[expect(
                clippy::cast_precision_loss,
                reason = "OpenMetrics sums are floating-point"
            )]
            let sum = sizes.requests as f64;
            let count = sizes.groups.iter().sum();
            let buckets = buckets(bounds, &sizes.groups);
            out.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
        SeriesValue::Durations(durations) => {
            let bounds = BOUNDS_MICROS.iter().map(|bound| seconds(*bound));
            let (sum, count) = (seconds(durations.micros), durations.count());
            let buckets = buckets(bounds, &durations.counts);
            out.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

fn encode_number(metric: &Metric, number: Number, mut out: MetricEncoder<'_>) -> fmt::Result {
    match (metric.metric_type, number) {
        (MetricType::Counter, Number::Whole(value)) => {
            out.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }
        (MetricType::Counter, Number::Seconds(value)) => {
            out.encode_counter::<NoLabelSet, _, f64>(&value, None)
        }
        (_, Number::Whole(value)) => out.encode_gauge(&value),
        (_, Number::Seconds(value)) => out.encode_gauge(&value),
    }
}

/// The upper bound and the count of each bucket. The last one has no bound.
fn buckets(bounds: impl Iterator<Item = f64>, counts: &[u64]) -> Vec<(f64, u64)> {
    let bounds = bounds.chain([f64::INFINITY]);
    bounds.zip(counts.iter().copied()).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "OpenMetrics sums are floating-point"
)]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

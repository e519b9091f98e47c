//! The values of a metric by labels, added up over the pools.

use paceline_batch::template_stats::SizeHistogram;
use paceline_pool::labels::PoolLabels;
use paceline_pool::stats::Durations;
use std::collections::BTreeMap;

/// The value of a metric of the process.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Whole(u64),
    Seconds(f64),
}

/// A value of one series.
#[derive(Debug, Clone, Copy)]
pub(super) enum SeriesValue {
    Number(u64),
    SizeHistogram(SizeHistogram),
    Durations(Durations),
}

/// The values of a metric by the labels of the pool and the values of the other labels.
pub(super) type SeriesMap = BTreeMap<(PoolLabels, Vec<String>), SeriesValue>;

/// The series of a metric, for one pool. Pools beyond the limit have the same labels: their values are added up.
pub(super) struct PoolSeries<'a> {
    pub(super) pool: &'a PoolLabels,
    pub(super) series: &'a mut SeriesMap,
}

impl PoolSeries<'_> {
    pub(super) fn add(&mut self, labels: &[&str], more: u64) {
        let value = self.value(labels, SeriesValue::Number(0));
        if let SeriesValue::Number(sum) = value {
            *sum += more;
        }
    }

    /// Sets the value if it is larger than the present one.
    pub(super) fn raise(&mut self, labels: &[&str], to: u64) {
        let value = self.value(labels, SeriesValue::Number(0));
        if let SeriesValue::Number(largest) = value {
            *largest = to.max(*largest);
        }
    }

    pub(super) fn add_sizes(&mut self, labels: &[&str], more: &SizeHistogram) {
        let value = self.value(labels, SeriesValue::SizeHistogram(SizeHistogram::default()));
        if let SeriesValue::SizeHistogram(sum) = value {
            sum.add(more);
        }
    }

    pub(super) fn add_durations(&mut self, more: Durations) {
        let value = self.value(&[], SeriesValue::Durations(Durations::default()));
        if let SeriesValue::Durations(sum) = value {
            *sum = *sum + more;
        }
    }

    fn value(&mut self, labels: &[&str], empty: SeriesValue) -> &mut SeriesValue {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let series = self.series.entry((self.pool.clone(), labels));
        series.or_insert(empty)
    }
}

//! Values as the text that monitoring reads; the syntax is `prometheus-client`'s.

use super::catalog::Metric;
use paceline_batch::template_stats::{SIZE_BOUNDS, SizeHistogram};
use paceline_pool::stats::{BOUNDS_MICROS, Durations};
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet,
};
use std::collections::BTreeMap;
use std::fmt;

#[expect(clippy::cast_precision_loss, reason = "what monitoring keeps")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Writes metrics, one after another.
pub(super) struct Exposition<'a>(pub(super) DescriptorEncoder<'a>);

impl Exposition<'_> {
    fn begin<'s>(&'s mut self, metric: &'s Metric) -> Result<MetricEncoder<'s>, fmt::Error> {
        let help = format!("{}.", metric.meaning);
        self.0
            .encode_descriptor(metric.name, &help, None, metric.kind)
    }

    pub(super) fn counters<L: EncodeLabelSet>(
        &mut self,
        metric: &Metric,
        series: &BTreeMap<L, u64>,
    ) -> fmt::Result {
        let mut out = self.begin(metric)?;
        for (labels, value) in series {
            let mut of_labels = out.encode_family(labels)?;
            of_labels.encode_counter::<NoLabelSet, _, u64>(value, None)?;
        }
        Ok(())
    }

    pub(super) fn gauges<L: EncodeLabelSet>(
        &mut self,
        metric: &Metric,
        series: &BTreeMap<L, u64>,
    ) -> fmt::Result {
        let mut out = self.begin(metric)?;
        for (labels, value) in series {
            out.encode_family(labels)?.encode_gauge(value)?;
        }
        Ok(())
    }

    pub(super) fn sizes<L: EncodeLabelSet>(
        &mut self,
        metric: &Metric,
        series: &BTreeMap<L, SizeHistogram>,
    ) -> fmt::Result {
        let mut out = self.begin(metric)?;
        #[expect(clippy::cast_precision_loss, reason = "they are small powers of two")]
        let bounds = SIZE_BOUNDS.iter().map(|bound| *bound as f64);
        let bounds: Vec<f64> = bounds.chain([f64::INFINITY]).collect();
        for (labels, sizes) in series {
            let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(sizes.groups).collect();
            #[expect(clippy::cast_precision_loss, reason = "what monitoring keeps")]
            let sum = sizes.requests as f64;
            let count = sizes.groups.iter().sum();
            let mut of_labels = out.encode_family(labels)?;
            of_labels.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    pub(super) fn durations<L: EncodeLabelSet>(
        &mut self,
        metric: &Metric,
        series: &BTreeMap<L, Durations>,
    ) -> fmt::Result {
        let mut out = self.begin(metric)?;
        let bounds: Vec<f64> = BOUNDS_MICROS
            .iter()
            .map(|bound| seconds(*bound))
            .chain([f64::INFINITY])
            .collect();
        for (labels, durations) in series {
            let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(durations.counts).collect();
            let sum = seconds(durations.micros);
            let mut of_labels = out.encode_family(labels)?;
            let count = durations.count();
            of_labels.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    pub(super) fn counter(&mut self, metric: &Metric, value: u64) -> fmt::Result {
        self.begin(metric)?
            .encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    pub(super) fn gauge(&mut self, metric: &Metric, value: impl EncodeGaugeValue) -> fmt::Result {
        self.begin(metric)?.encode_gauge(&value)
    }

    /// The first label of the metric says something about the process.
    pub(super) fn info(&mut self, metric: &Metric, value: &str) -> fmt::Result {
        let labels: Vec<(&str, &str)> = metric.labels.iter().map(|name| (*name, value)).collect();
        self.begin(metric)?.encode_info(&labels)
    }
}

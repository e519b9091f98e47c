//! The section of a scenario: for each variant its rates, latencies, group sizes and the cost of a unit of work.

use super::bars::{self, Measure};
use super::checks::Checks;
use super::contents::{Contents, Part, VariantRows};
use super::lines::{Axis, Lines, Series};
use super::scale::Scale;
use crate::ordered::distinct;
use crate::record::GroupSample;
use crate::show;
use crate::summary::{Cell, Row, Spread};
use maud::{Markup, html};

const RATE: Measure = ("per second", show::number, |figures| Some(figures.rate));

const LATENCIES: [Measure; 3] = [
    ("p50", show::duration, |figures| figures.p50),
    ("p99", show::duration, |figures| figures.p99),
    ("p999", show::duration, |figures| figures.p999),
];

/// The costs of a unit of work on the server.
const COSTS: [Measure; 3] = [
    ("processor time", show::duration, |figures| {
        figures.cpu_micros.map(Spread::exact)
    }),
    ("WAL", show::bytes, |figures| {
        figures.wal_bytes.map(Spread::exact)
    }),
    ("dead rows", show::number, |figures| {
        figures.dead_rows.map(Spread::exact)
    }),
];

/// The cost of reads for the primary, and the number of stale reads, in all rounds.
const READS: [Measure; 3] = [
    ("processor time of the primary", show::duration, |figures| {
        figures.reads?.primary_cpu_micros
    }),
    ("stale reads", show::number, |figures| {
        Some(Spread::exact(figures.reads?.stale as f64))
    }),
    ("on replicas, %", show::number, |figures| {
        figures.reads?.on_replicas.map(Spread::exact)
    }),
];

/// The beginning and the end of the measured time.
const TREND: [Measure; 4] = [
    ("per second, first tenth", show::number, |figures| {
        Some(figures.trend?[0].rate)
    }),
    ("per second, last tenth", show::number, |figures| {
        Some(figures.trend?[1].rate)
    }),
    ("p99, first tenth", show::duration, |figures| {
        figures.trend?[0].p99
    }),
    ("p99, last tenth", show::duration, |figures| {
        figures.trend?[1].p99
    }),
];

/// Draws the section.
pub(super) fn section(contents: &Contents<'_>, part: &Part<'_>) -> Markup {
    let figures = |variant| VariantSection {
        contents,
        unit: part.unit,
        variant,
    };
    html! {
        section.scenario id=(part.anchor) {
            h2 { (part.title) }
            @if !part.about.is_empty() { p.about { (part.about) } }
            @for variant in &part.variants {
                article {
                    h3 { (variant.name) @if !variant.about.is_empty() { span.about { " " (variant.about) } } }
                    @if Checks::of(variant.rows.iter().flat_map(|row| &row.cells)).broken > 0 {
                        p.loud { "A check failed: these figures are worth nothing." }
                    }
                    @if let [row] = variant.rows.as_slice() {
                        p.note { (show::clients(row.clients)) "; each column has its own scale, – is unknown" }
                        div.panels { (figures(variant).tables(row)) }
                    } @else {
                        div.panels { (figures(variant).charts()) }
                    }
                }
            }
        }
    }
}

/// The figures of a variant.
struct VariantSection<'a> {
    contents: &'a Contents<'a>,
    /// Plural name of a unit of work.
    unit: &'a str,
    variant: &'a VariantRows<'a>,
}

impl VariantSection<'_> {
    /// Draws charts by number of clients.
    fn charts(&self) -> Markup {
        html! {
            (self.by_clients(format!("{} per second", self.unit), RATE, &[]))
            @for of in LATENCIES { (self.by_clients(format!("latency {}", of.0), of, &LATENCIES)) }
            (self.groups())
            @for of in COSTS { (self.by_clients(format!("{} per unit", of.0), of, &[])) }
            @let [primary, stale, on_replicas] = READS;
            (self.by_clients(format!("{} per read", primary.0), primary, &[]))
            @for of in [stale, on_replicas] { (self.by_clients(of.0.to_owned(), of, &[])) }
            @for of in TREND { (self.by_clients(of.0.to_owned(), of, &[])) }
        }
    }

    /// Draws tables with bars for a single number of clients.
    fn tables(&self, row: &Row) -> Markup {
        let [p50, p99, p999] = LATENCIES;
        let rate: Measure = (RATE.0, |rate| show::number(rate.round()), RATE.2);
        let speed = [rate, p50, p99, p999];
        let title = format!("{} per second, and how long they took", self.unit);
        html! {
            div.panel.full { (bars::table(self.contents, row, &title, &speed)) }
            (self.groups())
            @if bars::has_figures(row, &COSTS) {
                div.panel.wide { (bars::table(self.contents, row, "cost per unit", &COSTS)) }
            }
            @if bars::has_figures(row, &TREND) {
                div.panel.wide { (bars::table(self.contents, row, "the beginning and the end", &TREND)) }
            }
            @if bars::has_figures(row, &READS) {
                div.panel.wide { (bars::table(self.contents, row, "reads", &READS)) }
            }
        }
    }

    /// Draws a figure on a scale that also fits all of `others`.
    fn by_clients(&self, title: String, (_, show, of): Measure, others: &[Measure]) -> Markup {
        let rows = &self.variant.rows;
        let figures = rows
            .iter()
            .flat_map(|row| &row.cells)
            .filter_map(|cell| cell.figures.as_ref());
        let spreads = figures.flat_map(|figures| {
            let others = others.iter().filter_map(|(_, _, of)| of(figures));
            others.chain(of(figures))
        });
        let values: Vec<f64> = spreads
            .flat_map(|spread| [spread.min, spread.max])
            .collect();
        let clients: Vec<f64> = rows.iter().map(|row| row.clients as f64).collect();
        let scales = Scale::of(values.iter().copied()).zip(Scale::through(&clients));
        let point =
            |(clients, cell): (usize, &Cell)| (clients as f64, cell.figures.as_ref().and_then(of));
        let series = self
            .variant
            .by_target()
            .into_iter()
            .map(|(target, cells)| Series {
                name: target.to_owned(),
                colour: self.contents.colour(target),
                points: cells.into_iter().map(point).collect(),
            });
        let chart = |(y, x)| Lines {
            title,
            note: "by number of clients",
            x: Axis::new(x, clients, show::number),
            unit_x: "clients",
            y: Axis::of(y, show),
            series: series.collect(),
        };
        html! { @if let Some(chart) = scales.map(chart) { div.panel { (chart.draw()) } } }
    }

    /// Draws the sizes of groups over the time of a run, a line per target and number of clients.
    fn groups(&self) -> Markup {
        let mut seen = Vec::new();
        for (target, cells) in self.variant.by_target() {
            for (clients, cell) in cells {
                let samples = cell.figures.iter().map(|figures| &figures.groups);
                let samples = samples.filter(|samples| !samples.is_empty());
                seen.extend(samples.map(|samples| (target, clients, samples)));
            }
        }
        let samples = || seen.iter().flat_map(|(_, _, samples)| samples.iter());
        let scale = Scale::of(samples().map(|sample| sample.mean));
        let is_one_target = distinct(seen.iter().map(|(target, ..)| target)).len() == 1;
        let end = samples().map(|sample| sample.second).fold(0.0, f64::max);
        let point = |sample: &GroupSample| (sample.second, Some(Spread::exact(sample.mean)));
        let series = seen.iter().map(|(target, clients, samples)| Series {
            name: if is_one_target {
                show::clients(*clients)
            } else {
                format!("{} {target}", show::count(*clients as u64))
            },
            colour: self.contents.colour(target),
            points: samples.iter().map(point).collect(),
        });
        let chart = |y| Lines {
            title: "units per group".to_owned(),
            note: "over the time of a run",
            x: Axis::of(Scale::until(end), |second| {
                format!("{} s", show::number(second))
            }),
            unit_x: "in",
            y: Axis::of(y, show::number),
            series: series.collect(),
        };
        html! { @if let Some(chart) = scale.map(chart) { div.panel { (chart.draw()) } } }
    }
}

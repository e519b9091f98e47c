//! The section of a scenario: for each variant its rates, latencies, group sizes and the cost of a unit of work.

use super::bars::{self, Measure};
use super::checks::Checks;
use super::contents::{Contents, Part, VariantRows};
use super::lines::{Axis, Lines, Series};
use super::scale::Scale;
use crate::ordered::distinct;
use crate::show;
use crate::summary::{Row, Spread};
use maud::{Markup, html};

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

/// Draws the section.
pub(super) fn section(contents: &Contents<'_>, part: &Part<'_>) -> Markup {
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
                    @match variant.rows.as_slice() {
                        [row] => {
                            p.note { (show::clients(row.clients)) "; each column has its own scale, – is unknown" }
                            div.panels { (tables(contents, part, variant, row)) }
                        }
                        _ => div.panels { (charts(contents, part, variant)) },
                    }
                }
            }
        }
    }
}

/// Draws charts by number of clients.
fn charts(contents: &Contents<'_>, part: &Part<'_>, variant: &VariantRows<'_>) -> Markup {
    let rate: Measure = ("", show::number, |figures| Some(figures.rate));
    let chart = |title, of, others: &[Measure]| by_clients(contents, variant, title, of, others);
    html! {
        (chart(format!("{} per second", part.unit), rate, &[]))
        @for of in LATENCIES { (chart(format!("latency {}", of.0), of, &LATENCIES)) }
        (groups(contents, variant))
        @for of in COSTS { (chart(format!("{} per unit", of.0), of, &[])) }
    }
}

/// Draws tables with bars for a single number of clients.
fn tables(
    contents: &Contents<'_>,
    part: &Part<'_>,
    variant: &VariantRows<'_>,
    row: &Row,
) -> Markup {
    let rate: Measure = (
        "per second",
        |rate| show::number(rate.round()),
        |figures| Some(figures.rate),
    );
    let [p50, p99, p999] = LATENCIES;
    let title = format!("{} per second, and how long they took", part.unit);
    html! {
        div.panel.full { (bars::table(contents, row, &title, &[rate, p50, p99, p999])) }
        (groups(contents, variant))
        @if bars::has_figures(row, &COSTS) {
            div.panel.wide { (bars::table(contents, row, "cost per unit", &COSTS)) }
        }
    }
}

/// Draws a figure on a scale that also fits all of `others`.
fn by_clients(
    contents: &Contents<'_>,
    variant: &VariantRows<'_>,
    title: String,
    (_, show, of): Measure,
    others: &[Measure],
) -> Markup {
    let cells = variant.rows.iter().flat_map(|row| &row.cells);
    let figures = cells.filter_map(|cell| cell.figures.as_ref());
    let spreads = figures.flat_map(|figures| {
        let others = others.iter().filter_map(|(_, _, of)| of(figures));
        others.chain(of(figures))
    });
    let values: Vec<f64> = spreads
        .flat_map(|spread| [spread.min, spread.max])
        .collect();
    let clients: Vec<f64> = variant.rows.iter().map(|row| row.clients as f64).collect();
    let scales = Scale::of(values.iter().copied()).zip(Scale::through(&clients));
    let series = variant
        .by_target()
        .into_iter()
        .map(|(target, cells)| Series {
            name: target.to_owned(),
            colour: contents.colour(target),
            points: cells
                .into_iter()
                .map(|(clients, cell)| (clients as f64, cell.figures.as_ref().and_then(of)))
                .collect(),
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
fn groups(contents: &Contents<'_>, variant: &VariantRows<'_>) -> Markup {
    let mut seen = Vec::new();
    for (target, cells) in variant.by_target() {
        for (clients, cell) in cells {
            let samples = cell.figures.iter().map(|figures| &figures.groups);
            let samples = samples.filter(|samples| !samples.is_empty());
            seen.extend(samples.map(|samples| (target, clients, samples)));
        }
    }
    let samples = || seen.iter().flat_map(|(_, _, samples)| samples.iter());
    let Some(y) = Scale::of(samples().map(|sample| sample.mean)) else {
        return html! {};
    };
    let is_one_target = distinct(seen.iter().map(|(target, ..)| target)).len() == 1;
    let end = samples().map(|sample| sample.second).fold(0.0, f64::max);
    let series = seen.iter().map(|(target, clients, samples)| Series {
        name: if is_one_target {
            show::clients(*clients)
        } else {
            format!("{} {target}", show::count(*clients as u64))
        },
        colour: contents.colour(target),
        points: samples
            .iter()
            .map(|sample| (sample.second, Some(Spread::exact(sample.mean))))
            .collect(),
    });
    let seconds = |second| format!("{} s", show::number(second));
    let chart = Lines {
        title: "units per group".to_owned(),
        note: "over the time of a run",
        x: Axis::of(Scale::until(end), seconds),
        unit_x: "in",
        y: Axis::of(y, show::number),
        series: series.collect(),
    };
    html! { div.panel { (chart.draw()) } }
}

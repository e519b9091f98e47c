//! The section of a scenario: for each variant its rates, latencies, group sizes and the cost of a unit of work.

use super::bars::{Bars, Column, Line};
use super::checks::Checks;
use super::contents::{Contents, Part, VariantRows};
use super::lines::{Lines, Series};
use super::scale::Scale;
use crate::record::GroupSample;
use crate::show;
use crate::summary::{Cell, Figures, Row, Spread};
use maud::{Markup, html};

/// Computes a figure of a run; `None` if unknown.
type Figure<'a> = &'a dyn Fn(&Figures) -> Option<Spread>;
/// Like [`Figure`], without captured variables.
type Measure = fn(&Figures) -> Option<Spread>;

/// The latencies to draw.
const LATENCIES: [(&str, Measure); 3] = [
    ("p50", |figures| figures.p50),
    ("p99", |figures| figures.p99),
    ("p999", |figures| figures.p999),
];

/// A cost: name, format, figure.
type Cost = (&'static str, fn(f64) -> String, fn(&Figures) -> Option<f64>);

/// The costs of a unit of work on the server.
const COSTS: [Cost; 3] = [
    ("processor time", show::duration, |figures| {
        figures.cpu_micros
    }),
    ("WAL", show::bytes, |figures| figures.wal_bytes),
    ("dead rows", show::number, |figures| figures.dead_rows),
];

/// Draws the section.
pub(super) fn section(contents: &Contents<'_>, part: &Part<'_>) -> Markup {
    html! {
        section.scenario id=(part.anchor()) {
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
    let latencies = LATENCIES.map(|(_, of)| of);
    let chart = |title: String, show: fn(f64) -> String, of: Figure<'_>, others: &[Measure]| {
        by_clients(contents, variant, title, (show, of), others)
    };
    html! {
        (chart(format!("{} per second", part.unit), show::number, &|figures| Some(figures.rate), &[]))
        @for (name, of) in LATENCIES {
            (chart(format!("latency {name}"), show::duration, &of, &latencies))
        }
        (groups(contents, variant))
        @for (name, show, of) in COSTS {
            (chart(format!("{name} per unit"), show, &|figures| Spread::of(vec![of(figures)?]), &[]))
        }
    }
}

/// Draws tables with bars for a single number of clients.
fn tables(
    contents: &Contents<'_>,
    part: &Part<'_>,
    variant: &VariantRows<'_>,
    row: &Row,
) -> Markup {
    let latencies = LATENCIES.map(|(name, _)| -> Column { (name, show::duration) });
    let rate: Column = ("per second", |rate| show::number(rate.round()));
    let speed = Bars {
        title: format!("{} per second, and how long they took", part.unit),
        columns: std::iter::once(rate).chain(latencies).collect(),
        lines: lines_of(contents, row, |figures| {
            let latencies = LATENCIES.map(|(_, of)| of(figures).map(|spread| spread.median));
            std::iter::once(Some(figures.rate.median))
                .chain(latencies)
                .collect()
        }),
    };
    let costs = Bars {
        title: "cost per unit".to_owned(),
        columns: COSTS.map(|(name, show, _)| (name, show)).to_vec(),
        lines: lines_of(contents, row, |figures| {
            COSTS.map(|(_, _, of)| of(figures)).to_vec()
        }),
    };
    html! {
        div.panel.full { (speed.draw()) }
        (groups(contents, variant))
        @if costs.has_figures() { div.panel.wide { (costs.draw()) } }
    }
}

/// Draws `of` on a scale that also fits all of `others`.
fn by_clients(
    contents: &Contents<'_>,
    variant: &VariantRows<'_>,
    title: String,
    (show_y, of): (fn(f64) -> String, Figure<'_>),
    others: &[Measure],
) -> Markup {
    let cells = variant.rows.iter().flat_map(|row| &row.cells);
    let figures = cells.filter_map(|cell| cell.figures.as_ref());
    let spreads = figures.flat_map(|figures| {
        others
            .iter()
            .filter_map(move |of| of(figures))
            .chain(of(figures))
    });
    let values: Vec<f64> = spreads
        .flat_map(|spread| [spread.min, spread.max])
        .collect();
    let clients: Vec<f64> = variant.rows.iter().map(|row| row.clients as f64).collect();
    let scales = Scale::of(values.iter().copied()).zip(Scale::through(&clients));
    let Some((y, x)) = scales else {
        return html! {};
    };
    let point =
        |(clients, cell): (usize, &Cell)| (clients as f64, cell.figures.as_ref().and_then(of));
    let series = variant
        .by_target()
        .into_iter()
        .map(|(target, cells)| Series {
            name: target.to_owned(),
            colour: contents.colour(target),
            points: cells.into_iter().map(point).collect(),
        });
    let chart = Lines {
        title,
        note: "by number of clients",
        x: (x, clients),
        show_x: show::number,
        unit_x: "clients",
        y,
        show_y,
        series: series.collect(),
    };
    html! { div.panel { (chart.draw()) } }
}

/// Draws the sizes of groups over the time of a run, a line per target and number of clients.
fn groups(contents: &Contents<'_>, variant: &VariantRows<'_>) -> Markup {
    let mut seen: Vec<(&str, usize, &[GroupSample])> = Vec::new();
    for (target, cells) in variant.by_target() {
        for (clients, cell) in cells {
            let samples = cell.figures.iter().map(|figures| figures.groups.as_slice());
            seen.extend(
                samples
                    .filter(|groups| !groups.is_empty())
                    .map(|groups| (target, clients, groups)),
            );
        }
    }
    let samples = || seen.iter().flat_map(|(_, _, groups)| groups.iter());
    let Some(y) = Scale::of(samples().map(|sample| sample.mean)) else {
        return html! {};
    };
    let is_one_target = seen
        .iter()
        .all(|(target, ..)| seen.first().is_some_and(|(first, ..)| first == target));
    let end = samples().map(|sample| sample.second).fold(0.0, f64::max);
    let x = Scale::until(end);
    let series = seen.iter().map(|(target, clients, groups)| Series {
        name: if is_one_target {
            show::clients(*clients)
        } else {
            format!("{} {target}", show::count(*clients as u64))
        },
        colour: contents.colour(target),
        points: groups
            .iter()
            .map(|sample| (sample.second, Spread::of(vec![sample.mean])))
            .collect(),
    });
    let chart = Lines {
        title: "units per group".to_owned(),
        note: "over the time of a run",
        x: (x, x.ticks()),
        show_x: |second| format!("{} s", show::number(second)),
        unit_x: "in",
        y,
        show_y: show::number,
        series: series.collect(),
    };
    html! { div.panel { (chart.draw()) } }
}

/// A table row per target.
fn lines_of<'a>(
    contents: &Contents<'_>,
    row: &'a Row,
    of: impl Fn(&Figures) -> Vec<Option<f64>>,
) -> Vec<Line<'a>> {
    let line = |cell: &'a Cell| Line {
        name: &cell.target,
        colour: contents.colour(&cell.target),
        figures: cell.figures.as_ref().map_or_else(Vec::new, &of),
    };
    row.cells.iter().map(line).collect()
}

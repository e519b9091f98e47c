//! A card per scenario for readers in a hurry: the ratio of rates, the latencies, and whether anything was lost. It shows
//! the first variant with its largest number of clients that ran, and no rate if a check failed.

use super::checks::Checks;
use super::contents::{Contents, Part, VariantRows};
use crate::show;
use crate::summary::{Cell, Figures, Row, Spread};
use maud::{Markup, html};

/// A column of the card: its title and its figure.
type Measure = (&'static str, fn(&Figures) -> Option<Spread>);

const WAITS: [Measure; 2] = [
    ("half took at most", |figures| figures.p50),
    ("99 of 100 took at most", |figures| figures.p99),
];

/// A lower ratio is called slower.
const SLOWER: f64 = 0.95;

/// Draws all cards.
pub(super) fn section(contents: &Contents<'_>) -> Markup {
    html! {
        section.cards aria-label="summary" {
            @for part in &contents.parts { (card(contents, part)) }
        }
    }
}

fn card(contents: &Contents<'_>, part: &Part<'_>) -> Markup {
    let checks = Checks::of(part.cells());
    let shown = part
        .variants
        .first()
        .and_then(|variant| Some((variant, *variant.rows.last()?)));
    html! {
        article.card.broken[checks.broken > 0] {
            h2 { a href=(format!("#{}", part.anchor())) { (part.title) } }
            p.about { (part.about) }
            @if checks.broken > 0 {
                p.loud { "Check failed" }
                p { "No speed is shown where something was lost or done twice." }
            } @else if let Some((variant, row)) = shown {
                (ratios(contents, part, row))
                (before_and_after(contents, part, row))
                (failures(row))
                p.note { (show::clients(row.clients)) ", " (variant.name) @if !variant.about.is_empty() { ": " (variant.about) } }
                (other_variants(part))
            }
            p.check.good[checks.broken == 0 && checks.all > 0] { (checks.summary()) }
        }
    }
}

/// The ratio of each target's rate to that of the first target; the plain rates if the first target did not run.
fn ratios(contents: &Contents<'_>, part: &Part<'_>, row: &Row) -> Markup {
    let Some(base) = row.cells.first() else {
        return html! {};
    };
    let mut others = row.cells.clone();
    others.retain(|cell| {
        cell.figures.is_some() && (cell.target != base.target || row.cells.len() == 1)
    });
    let rate = |cell: &Cell| {
        cell.figures
            .as_ref()
            .map(|figures| figures.rate.median.round())
    };
    html! {
        div.ratios {
            @for cell in &others {
                p class=(contents.colour(&cell.target)) {
                    @match row.times(cell).filter(|_| row.cells.len() > 1) {
                        Some(times) => {
                            span.times { (show::times(times)) }
                            "as many " (part.unit) " per second with " strong { (cell.target) } " as with " (base.target)
                            @if times < SLOWER { ": " b { "slower" } }
                        }
                        None => {
                            span.times { (rate(cell).map(show::number).unwrap_or_default()) }
                            (part.unit) " per second with " strong { (cell.target) }
                            @if base.figures.is_none() { "; " (base.target) " did not run" }
                        }
                    }
                }
            }
        }
    }
}

/// A row per target, with column titles in plain words.
fn before_and_after(contents: &Contents<'_>, part: &Part<'_>, row: &Row) -> Markup {
    html! {
        table.plain {
            thead {
                tr {
                    th scope="col" { span.unseen { "target" } }
                    th scope="col" { (part.unit) " per second" }
                    @for (says, _) in WAITS { th scope="col" { (says) } }
                }
            }
            tbody {
                @for cell in &row.cells {
                    tr {
                        th scope="row" class=(contents.colour(&cell.target)) { (cell.target) }
                        @match &cell.figures {
                            Some(figures) => {
                                td { (show::number(figures.rate.median.round())) }
                                @for (_, of) in WAITS { td { (of(figures).map_or_else(|| "–".to_owned(), |spread| show::duration(spread.median))) } }
                            }
                            None => td.unknown colspan="3" { "did not run" },
                        }
                    }
                }
            }
        }
    }
}

/// Numbers of failed turns; a rate can be high because they do not count.
fn failures(row: &Row) -> Markup {
    let failed = row.cells.iter().filter_map(|cell| {
        let failed = cell.figures.as_ref()?.failed_turns();
        (failed > 0).then(|| format!("{}: {} turns failed", cell.target, show::count(failed)))
    });
    html! { @for failed in failed { p.note { strong { (failed) } } } }
}

/// The ratios of the last target in the other variants.
fn other_variants(part: &Part<'_>) -> Markup {
    let ratio = |variant: &VariantRows<'_>| {
        let row = variant.rows.last()?;
        let last = row.cells.last().filter(|_| row.cells.len() > 1)?;
        Some((
            variant.name.to_owned(),
            last.target.clone(),
            row.times(last)?,
        ))
    };
    let others: Vec<_> = part.variants.iter().skip(1).filter_map(ratio).collect();
    html! {
        @if let Some((_, target, _)) = others.first() {
            p.note {
                "Other variants, " (target) ": "
                @for (place, (name, _, times)) in others.iter().enumerate() {
                    @if place > 0 { ", " }
                    (name) " " strong { (show::times(*times)) }
                }
            }
        }
    }
}

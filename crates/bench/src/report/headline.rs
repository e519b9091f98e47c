//! A card per scenario for readers in a hurry: the ratio of rates, the latencies, and whether anything was lost. It shows
//! the first variant with its largest number of clients that ran, and no rate if a check failed.

use super::checks::Checks;
use super::contents::{Contents, Part};
use crate::show;
use crate::summary::{Cell, Figures, Row, Spread};
use maud::{Markup, html};

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
            h2 { a href=(format!("#{}", part.anchor)) { (part.title) } }
            p.about { (part.about) }
            @if checks.broken > 0 {
                p.loud { "Check failed" }
                p { "No speed is shown where something was lost or done twice." }
            } @else if let Some((variant, row)) = shown {
                (ratios(contents, part, row))
                (before_and_after(contents, part, row))
                (failures(row))
                p.note { (show::clients(row.clients)) ", " (variant.name) @if !variant.about.is_empty() { ": " (variant.about) } }
                @let others = other_variants(part);
                @if !others.0.is_empty() { p.note { (others) } }
            }
            p.check.good[checks.broken == 0 && checks.all > 0] { (checks.summary()) }
        }
    }
}

/// The ratio of each target's rate to that of the first target; the plain rates if the first target did not run.
fn ratios(contents: &Contents<'_>, part: &Part<'_>, row: &Row) -> Markup {
    let (base, is_compared) = (row.cells.first(), row.cells.len() > 1);
    let others = row.cells.iter().skip(usize::from(is_compared));
    html! {
        div.ratios {
            @for (cell, rate) in others.filter_map(|cell| Some((cell, rate(cell)?))) {
                p class=(contents.colour(&cell.target)) {
                    @match row.times(cell).filter(|_| is_compared) {
                        Some(times) => {
                            span.times { (show::times(times)) }
                            "as many " (part.unit) " per second with " strong { (cell.target) } " as with " (row.base())
                            @if times < SLOWER { ": " b { "slower" } }
                        }
                        None => {
                            span.times { (rate) }
                            (part.unit) " per second with " strong { (cell.target) }
                            @if base.is_some_and(|base| base.figures.is_none()) { "; " (row.base()) " did not run" }
                        }
                    }
                }
            }
        }
    }
}

fn rate(cell: &Cell) -> Option<String> {
    let figures = cell.figures.as_ref()?;
    Some(show::number(figures.rate.median.round()))
}

/// A row per target, with column titles in plain words.
fn before_and_after(contents: &Contents<'_>, part: &Part<'_>, row: &Row) -> Markup {
    let wait = |spread: Option<Spread>| {
        spread.map_or_else(|| "–".to_owned(), |spread| show::duration(spread.median))
    };
    html! {
        table.plain {
            thead {
                tr {
                    th scope="col" { span.unseen { "target" } }
                    th scope="col" { (part.unit) " per second" }
                    @for head in ["half took at most", "99 of 100 took at most"] { th scope="col" { (head) } }
                }
            }
            tbody {
                @for cell in &row.cells {
                    tr {
                        th scope="row" class=(contents.colour(&cell.target)) { (cell.target) }
                        @if let Some(figures) = &cell.figures {
                            td { (show::number(figures.rate.median.round())) }
                            @for spread in [figures.p50, figures.p99] { td { (wait(spread)) } }
                        } @else {
                            td.unknown colspan="3" { "did not run" }
                        }
                    }
                }
            }
        }
    }
}

/// Numbers of failed turns; a rate can be high because they do not count.
fn failures(row: &Row) -> Markup {
    let failed = |cell: &Cell| cell.figures.as_ref().map_or(0, Figures::failed_turns);
    let failed = row.cells.iter().map(|cell| (&cell.target, failed(cell)));
    html! {
        @for (target, failed) in failed.filter(|(_, failed)| *failed > 0) {
            p.note { strong { (target) ": " (show::count(failed)) " turns failed" } }
        }
    }
}

/// The ratios of the last target in the other variants.
fn other_variants(part: &Part<'_>) -> Markup {
    let others = part.variants.iter().skip(1).filter_map(|variant| {
        let row = variant.rows.last()?;
        let last = row.cells.last().filter(|_| row.cells.len() > 1)?;
        Some((&variant.name, &last.target, row.times(last)?))
    });
    html! {
        @for (place, (name, target, times)) in others.enumerate() {
            @if place == 0 { "Other variants, " (target) ": " } @else { ", " }
            (name) " " strong { (show::times(times)) }
        }
    }
}

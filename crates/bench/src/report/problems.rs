//! What went wrong: turns that failed, by SQLSTATE, and runs that did not run, in the words of whoever refused.

use super::checks::place;
use crate::show;
use crate::summary::Row;
use maud::{Markup, html};

/// Both tables, or that there is nothing to tell.
pub(super) fn section(rows: &[Row]) -> Markup {
    let (errors, failed) = (errors(rows), failed(rows));
    html! {
        section id="trouble" {
            h2 { "What went wrong" }
            @if errors.is_empty() && failed.is_empty() { p { "Nothing: every run ran, and no turn failed." } }
            @if !failed.is_empty() {
                (table("Runs that did not run", ["run", "rounds", "why"], &failed))
            }
            @if !errors.is_empty() {
                (table("Turns that failed, by SQLSTATE", ["run", "turns", "SQLSTATE, and the first message"], &errors))
            }
        }
    }
}

/// Where, how often, what.
type Problem = (String, u64, String);

fn failed(rows: &[Row]) -> Vec<Problem> {
    let mut failed: Vec<Problem> = Vec::new();
    for row in rows {
        for cell in &row.cells {
            for why in &cell.failed {
                let place = place(row, cell);
                match failed
                    .iter_mut()
                    .find(|(at, _, known)| *at == place && known == why)
                {
                    Some((_, rounds, _)) => *rounds += 1,
                    None => failed.push((place, 1, why.clone())),
                }
            }
        }
    }
    failed
}

fn errors(rows: &[Row]) -> Vec<Problem> {
    let mut all = Vec::new();
    for row in rows {
        for cell in &row.cells {
            let errors = cell.figures.iter().flat_map(|figures| &figures.errors);
            all.extend(errors.map(|(kind, errors)| {
                (
                    place(row, cell),
                    errors.count,
                    format!("{kind}: {}", errors.first),
                )
            }));
        }
    }
    all
}

fn table(caption: &str, heads: [&str; 3], problems: &[Problem]) -> Markup {
    html! {
        table.trouble {
            caption { (caption) }
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody {
                @for (place, count, what) in problems {
                    tr { th scope="row" { (place) } td.number { (show::count(*count)) } td { (what) } }
                }
            }
        }
    }
}

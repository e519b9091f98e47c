//! Turns that failed, by SQLSTATE, and runs that did not run, with the reason.

use super::checks::run_name;
use crate::show;
use crate::summary::Row;
use maud::{Markup, html};

/// Draws both tables, or a note that there were no problems.
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

/// Run, count, description.
type Problem = (String, u64, String);

fn failed(rows: &[Row]) -> Vec<Problem> {
    let mut failed: Vec<Problem> = Vec::new();
    for row in rows {
        for cell in &row.cells {
            for why in &cell.failed {
                let run = run_name(row, cell);
                match failed
                    .iter_mut()
                    .find(|(at, _, known)| *at == run && known == why)
                {
                    Some((_, rounds, _)) => *rounds += 1,
                    None => failed.push((run, 1, why.clone())),
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
                    run_name(row, cell),
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
                @for (run, count, what) in problems {
                    tr { th scope="row" { (run) } td.number { (show::count(*count)) } td { (what) } }
                }
            }
        }
    }
}

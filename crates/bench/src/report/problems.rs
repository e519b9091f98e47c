//! Turns that failed, by SQLSTATE, and runs that did not run, with the reason.

use crate::show;
use crate::summary::{Row, cells};
use maud::{Markup, html};

/// Run, count, description.
type Problem = (String, u64, String);

/// Draws both tables, or a note that there were no problems.
pub(super) fn section(rows: &[Row]) -> Markup {
    let (mut failed, mut errors): (Vec<Problem>, Vec<Problem>) = (Vec::new(), Vec::new());
    for (row, cell) in cells(rows) {
        let run = || row.run(cell);
        let reasons = cell.reasons().into_iter();
        failed.extend(reasons.map(|(why, rounds)| (run(), rounds as u64, why.clone())));
        let kinds = cell.figures.iter().flat_map(|figures| &figures.errors);
        errors.extend(
            kinds.map(|(kind, errors)| (run(), errors.count, format!("{kind}: {}", errors.first))),
        );
    }
    html! {
        section id="trouble" {
            h2 { "What went wrong" }
            @if errors.is_empty() && failed.is_empty() { p { "Nothing: every run ran, and no turn failed." } }
            (table("Runs that did not run", ["run", "rounds", "why"], &failed))
            (table("Turns that failed, by SQLSTATE", ["run", "turns", "SQLSTATE, and the first message"], &errors))
        }
    }
}

fn table(caption: &str, heads: [&str; 3], problems: &[Problem]) -> Markup {
    html! {
        @if !problems.is_empty() {
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
}

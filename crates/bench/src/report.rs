//! The report: one self-contained HTML page. Its top is for managers, the rest for engineers; it fits on any screen and on
//! paper.
//!
//! The page loads nothing and runs no script. Its content security policy enforces that, and maud escapes all texts from
//! records. Charts are SVG and tables: chart libraries either need a script and fonts in the page or fix the colours when
//! they draw, whereas this page follows the light or dark theme of the browser.

mod bars;
mod checks;
mod contents;
mod figures;
mod headline;
mod lines;
mod origin;
mod problems;
mod scale;
mod section;

#[cfg(test)]
mod tests;

use crate::record::Record;
use crate::show;
use crate::summary::summarize;
use contents::Contents;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("report/style.css");
/// Forbids all resources and scripts; allows the inline style sheet.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Formats all records as a page.
pub fn report(records: &[Record]) -> String {
    let rows = summarize(records);
    let contents = Contents::of(&rows);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Before and after: " (contents.targets.join(", ")) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (head(records, &contents)) }
                main {
                    (checks::section(&rows))
                    (headline::section(&contents))
                    @for part in &contents.parts { (section::section(&contents, part)) }
                    (problems::section(&rows))
                    (figures::section(&rows))
                    (origin::section(records))
                }
                footer { "Made by paceline bench " (env!("CARGO_PKG_VERSION")) "." }
            }
        }
    };
    page.into_string()
}

fn head(records: &[Record], contents: &Contents<'_>) -> Markup {
    let moments = records.iter().map(|record| record.at_unix_seconds);
    let (first, last) = (moments.clone().min(), moments.max());
    let when = match (first, last) {
        (Some(first), Some(last)) if first / 86_400 == last / 86_400 => show::moment(first),
        (Some(first), Some(last)) => {
            format!("{} to {}", show::moment(first), show::moment(last))
        }
        _ => "never".to_owned(),
    };
    html! {
        p.brand { "Paceline lab" }
        h1 { "Before and after" }
        p {
            @for (place, target) in contents.targets.iter().enumerate() {
                @if place > 0 { @if place + 1 == contents.targets.len() { " and " } @else { ", " } }
                strong class=(contents.colour(target)) { (target) }
            }
            " doing the same work in turns, " (when) ", in "
            (show::count(records.len() as u64)) @if records.len() == 1 { " run" } @else { " runs" }
            ". Where several rounds were run, the median is shown."
        }
    }
}

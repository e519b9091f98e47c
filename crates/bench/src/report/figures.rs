//! The table of all figures. Each column uses one unit.

use crate::show;
use crate::summary::{Cell, Figures, Row, Spread};
use maud::{Markup, html};

/// The title of a column, and its figure.
type Column = (&'static str, fn(&Figures) -> Option<String>);

const COLUMNS: [Column; 15] = [
    ("rounds", |of| Some(of.rounds.to_string())),
    ("units/s", |of| Some(rate(of.rate.median))),
    ("least", |of| Some(rate(of.rate.min))),
    ("most", |of| Some(rate(of.rate.max))),
    ("spread", |of| {
        Some(format!("{:.0} %", of.rate.width() * 100.0))
    }),
    ("p50, ms", |of| Some(millis(of.p50?))),
    ("p95, ms", |of| Some(millis(of.p95?))),
    ("p99, ms", |of| Some(millis(of.p99?))),
    ("p999, ms", |of| Some(millis(of.p999?))),
    ("CPU, µs", |of| Some(show::fixed(of.cpu_micros?, 1))),
    ("WAL, bytes", |of| Some(show::fixed(of.wal_bytes?, 0))),
    ("dead rows", |of| Some(show::fixed(of.dead_rows?, 3))),
    ("group", |of| Some(show::fixed(of.group?, 1))),
    ("failed turns", |of| Some(show::count(of.failed_turns()))),
    ("behind", |of| {
        let [behind, offered] = [of.turns?.behind, of.turns?.offered].map(show::count);
        Some(format!("{behind} of {offered}"))
    }),
];

/// Draws the table with its notes.
pub(super) fn section(rows: &[Row]) -> Markup {
    html! {
        section id="figures" {
            h2 { "All figures" }
            p.note {
                "Medians over the rounds; least and most are the slowest and the fastest round, "
                "the spread is their distance in percent of the median. "
                "× is the rate against that of the first target. CPU, WAL and dead rows are per unit of work. "
                "A group is the mean number of units that executed together. "
                "At a fixed rate, behind counts the units that were due but not answered at the end, in all rounds."
            }
            div.scroll tabindex="0" role="region" aria-label="All figures" {
                table.figures {
                    thead {
                        tr {
                            @for head in ["run", "clients", "target", "×"] { th scope="col" { (head) } }
                            @for (head, _) in COLUMNS { th scope="col" { (head) } }
                            th scope="col" { "check" }
                        }
                    }
                    tbody {
                        @for row in rows {
                            @for (place, cell) in row.cells.iter().enumerate() { (line(row, cell, place == 0)) }
                        }
                    }
                }
            }
        }
    }
}

fn line(row: &Row, cell: &Cell, is_base: bool) -> Markup {
    let times = row.times(cell).filter(|_| !is_base);
    html! {
        tr.base[is_base] {
            td.name { (row.scenario) " " (row.label()) }
            td { (show::count(row.clients as u64)) }
            th.name scope="row" { (cell.target) }
            td { @if let Some(times) = times { (show::times(times)) } }
            @match &cell.figures {
                Some(figures) => {
                    @for (_, of) in COLUMNS { td { (of(figures).unwrap_or_else(|| "–".to_owned())) } }
                    td.name.loud[!figures.holds] {
                        @match &figures.check {
                            Some(says) => { @if figures.holds { "✓ " } @else { "✗ FAILED: " } (says) }
                            None => "no check",
                        }
                    }
                }
                None => {
                    td.unknown.name colspan=(COLUMNS.len()) { "did not run" }
                    td.name { "–" }
                }
            }
        }
    }
}

fn rate(rate: f64) -> String {
    // Rates below 100 have a decimal place.
    show::fixed(rate, if rate < 100.0 { 1 } else { 0 })
}

fn millis(spread: Spread) -> String {
    show::fixed(spread.median / 1_000.0, 2)
}

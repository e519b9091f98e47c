//! The table of all figures. Each column uses one unit.

use crate::show;
use crate::summary::{Cell, Figures, Row, Spread, cells};
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

/// Columns that are shown only if a cell has their figure.
const RARE_COLUMNS: [Column; 13] = [
    ("in time, %", |of| {
        Some(show::fixed(of.within_deadline?.percent()?, 2))
    }),
    ("pause, ms", |of| Some(millis(of.failover?.pause))),
    ("wait, ms", |of| Some(millis(of.failover?.longest_wait))),
    ("missing", |of| Some(show::count(of.failover?.missing))),
    ("twice", |of| Some(show::count(of.failover?.twice))),
    ("reads", |of| Some(show::count(of.reads?.checked))),
    ("stale", |of| Some(show::count(of.reads?.stale))),
    ("replicas, %", |of| {
        Some(show::fixed(of.reads?.on_replicas?, 1))
    }),
    ("primary CPU, µs", |of| {
        Some(show::fixed(of.reads?.primary_cpu_micros?.median, 1))
    }),
    ("first units/s", |of| Some(rate(of.trend?[0].rate.median))),
    ("last units/s", |of| Some(rate(of.trend?[1].rate.median))),
    ("first p99, ms", |of| Some(millis(of.trend?[0].p99?))),
    ("last p99, ms", |of| Some(millis(of.trend?[1].p99?))),
];

/// Draws the table with its notes.
pub(super) fn section(rows: &[Row]) -> Markup {
    let is_known = |(_, of): &Column| {
        let mut figures = cells(rows).filter_map(|(_, cell)| cell.figures.as_ref());
        figures.any(|figures| of(figures).is_some())
    };
    let rare: Vec<Column> = RARE_COLUMNS.into_iter().filter(is_known).collect();
    let columns = [&COLUMNS, rare.as_slice()].concat();
    html! {
        section id="figures" {
            h2 { "All figures" }
            p.note {
                "Medians over the rounds; least and most are the slowest and the fastest round, "
                "the spread is their distance in percent of the median. "
                "× is the rate against that of the first target. CPU, WAL and dead rows are per unit of work. "
                "A group is the mean number of units that executed together. "
                "At a fixed rate, behind counts the units that were due but not answered at the end, in all rounds."
                @if !rare.is_empty() {
                    " In time is the share of requests that were answered without an error within the deadline. "
                    "Around a failover, the pause is the longest time without an acknowledged write, "
                    "the wait that of the client that waited longest, both in medians; "
                    "missing counts acknowledged writes that the new primary does not have, "
                    "twice those that it executed twice. "
                    "Stale counts the reads that returned an older state than their client knew, in all rounds; "
                    "replicas is the share of the reads that replicas answered, "
                    "and primary CPU the processor time of the primary's own processes per read, its writes included. "
                    "First and last are the first and the last tenth of the measured time."
                }
            }
            div.scroll tabindex="0" role="region" aria-label="All figures" {
                table.figures {
                    thead {
                        tr {
                            @for head in ["run", "clients", "target", "×"] { th scope="col" { (head) } }
                            @for (head, _) in &columns { th scope="col" { (head) } }
                            th scope="col" { "check" }
                        }
                    }
                    tbody {
                        @for row in rows {
                            @for (place, cell) in row.cells.iter().enumerate() { (line(row, cell, &columns, place == 0)) }
                        }
                    }
                }
            }
        }
    }
}

fn line(row: &Row, cell: &Cell, columns: &[Column], is_base: bool) -> Markup {
    let times = row.times(cell).filter(|_| !is_base);
    html! {
        tr.base[is_base] {
            td.name { (row.scenario) " " (row.label()) }
            td { (show::count(row.clients as u64)) }
            th.name scope="row" { (cell.target) }
            td { @if let Some(times) = times { (show::times(times)) } }
            @match &cell.figures {
                Some(figures) => {
                    @for (_, of) in columns { td { (of(figures).unwrap_or_else(|| "–".to_owned())) } }
                    td.name.loud[!figures.holds] {
                        @match &figures.check {
                            Some(says) => { @if figures.holds { "✓ " } @else { "✗ FAILED: " } (says) }
                            None => "no check",
                        }
                    }
                }
                None => {
                    td.unknown.name colspan=(columns.len()) { "did not run" }
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

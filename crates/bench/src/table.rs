//! The table on the terminal after the last run. Readers need no other explanation.

mod failover;
mod reads;
mod trend;

use crate::circumstances;
use crate::record::Record;
use crate::show;
use crate::summary::{Cell, NO_CHECK, Row, Spread, cells, missing, summarize};
use crate::validity;
use std::fmt::Write as _;

/// Escape sequences for a failed check.
const LOUD: (&str, &str) = ("\x1b[1;37;41m", "\x1b[0m");

/// Formats all records, scenario by scenario. Failed checks come last.
pub fn table(records: &[Record], colours: bool) -> String {
    let rows = summarize(records);
    let mut out = String::new();
    let mut last = "";
    for row in &rows {
        if row.scenario != last {
            last = &row.scenario;
            // Writing to a String does not fail; here and below.
            let _ = match row.definition() {
                Some(known) => writeln!(out, "\n{}: {}", known.title, known.about),
                None => writeln!(out, "\n{last}"),
            };
        }
        write_row(&mut out, row);
    }
    write_origin(&mut out, records);
    write_verdict(&mut out, &rows, colours);
    out
}

/// Whether every run has figures and no check fails.
pub fn all_hold(records: &[Record]) -> bool {
    records
        .iter()
        .all(|record| record.figures().is_ok_and(|ran| ran.broken().is_none()))
}

/// A line of figures: name, rate, p50, p99, ratio and size of groups.
fn line([name, rate, p50, p99, times, group]: [&str; 6]) -> String {
    format!("{name:<36}{rate:>14}{p50:>11}{p99:>11}{times:>14}{group:>9}")
}

fn write_row(out: &mut String, row: &Row) {
    let clients = show::count(row.clients as u64);
    let heads = line([
        &format!("  {}, {clients} clients", row.label()),
        &format!("{}/s", row.unit()),
        "p50",
        "p99",
        &format!("× {}", row.base()),
        "group",
    ]);
    let _ = writeln!(out, "{heads}");
    for cell in &row.cells {
        write_cell(out, row, cell);
    }
    let further = [failover::lines(row), reads::lines(row), trend::lines(row)];
    for (name, figures) in further.into_iter().flatten() {
        let [a, b, c, d, e] = figures.each_ref().map(String::as_str);
        let _ = writeln!(out, "{}", line([&name, a, b, c, d, e]));
    }
}

fn write_cell(out: &mut String, row: &Row, cell: &Cell) {
    let Some(figures) = &cell.figures else {
        for (place, note) in notes(cell).iter().enumerate() {
            let target = if place == 0 { cell.target.as_str() } else { "" };
            let _ = writeln!(out, "    {target:<32}  {note}");
        }
        return;
    };
    let is_base = row.cells.first() == Some(cell);
    let times = row.times(cell).filter(|_| !is_base);
    let check = match (&figures.check, figures.holds) {
        (None, _) => "no check".to_owned(),
        (Some(says), true) => format!("✓ {says}"),
        (Some(says), false) => format!("✗ {says}"),
    };
    let shown = line([
        &format!("    {}", cell.target),
        &show::number(figures.rate.median),
        &duration(figures.p50),
        &duration(figures.p99),
        &times.map_or_else(String::new, show::times),
        &figures.group.map_or_else(String::new, show::number),
    ]);
    let _ = writeln!(out, "{shown}  {check}");
    if figures.rounds > 1 {
        let [min, max] = [figures.rate.min, figures.rate.max].map(show::number);
        let (range, rounds) = (format!("{min} – {max}"), figures.rounds);
        let _ = writeln!(out, "{:<36}{range:>14} in {rounds} rounds", "");
    }
    for note in notes(cell) {
        let _ = writeln!(out, "    {:<32}  {note}", "");
    }
}

fn duration(latency: Option<Spread>) -> String {
    latency.map_or_else(|| "–".to_owned(), |spread| show::duration(spread.median))
}

/// Remarks about a cell, a sentence each.
fn notes(cell: &Cell) -> Vec<String> {
    let reason = |(why, rounds)| match rounds {
        1 => format!("did not run: {why}"),
        _ => format!("did not run ({rounds} rounds): {why}"),
    };
    let mut notes: Vec<String> = cell.reasons().into_iter().map(reason).collect();
    let Some(figures) = &cell.figures else {
        return notes;
    };
    let rounds = |number: usize| match number {
        1 => "1 round".to_owned(),
        _ => format!("{} rounds", show::count(number as u64)),
    };
    notes.extend(validity::failed_turns(&figures.errors));
    let behind = figures.turns.filter(|turns| turns.behind > 0);
    notes.extend(behind.map(|turns| turns.to_string()));
    notes.extend(figures.within_deadline.map(|within| within.to_string()));
    if figures.ended_early > 0 {
        let early = rounds(figures.ended_early);
        notes.push(format!(
            "{early} ended early: nothing was left to do (--rows gives more)"
        ));
    }
    if figures.interrupted > 0 {
        notes.push(format!("{} interrupted", rounds(figures.interrupted)));
    }
    notes
}

/// One line with the machine and the settings that determine the cost of a commit.
fn write_origin(out: &mut String, records: &[Record]) {
    const SHOWN: [(&str, &str); 5] = [
        ("processor", "processor"),
        ("cores", "cores"),
        ("PostgreSQL", "PostgreSQL"),
        ("setting fsync", "fsync"),
        ("setting synchronous_commit", "synchronous_commit"),
    ];
    let all = circumstances::of(records);
    let shown = SHOWN.iter().filter_map(|(name, short)| {
        let one = all.iter().find(|one| one.name == *name)?;
        Some(format!("{short} {}", one.text()))
    });
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        let _ = writeln!(out, "\n{}", shown.join(", "));
    }
}

fn write_verdict(out: &mut String, rows: &[Row], colours: bool) {
    let figures = || cells(rows).filter_map(|(_, cell)| cell.figures.as_ref());
    let (loud, quiet) = if colours { LOUD } else { ("", "") };
    for (row, cell) in cells(rows) {
        for says in cell.broken() {
            let place = format!("{} {}, {}", row.scenario, row.label(), cell.target);
            let _ = writeln!(out, "\n{loud} CHECK FAILED {quiet} {place}: {says}");
        }
    }
    let all_hold = figures().all(|figures| figures.holds);
    if all_hold && figures().any(|figures| figures.check.is_some()) {
        let failed: usize = cells(rows).map(|(_, cell)| cell.failed.len()).sum();
        let runs = if failed == 1 { "run" } else { "runs" };
        let missing = missing(figures());
        let _ = match failed {
            0 if missing > 0 => writeln!(
                out,
                "\nevery check holds: nothing was done twice; asynchronous replication lost {} acknowledged writes",
                show::count(missing)
            ),
            0 => writeln!(
                out,
                "\nevery check holds: nothing was lost, nothing was done twice"
            ),
            _ => writeln!(
                out,
                "\nthe checks that were made hold, but {failed} {runs} did not run"
            ),
        };
    }
    if figures().any(|figures| figures.check.is_none()) {
        let _ = writeln!(out, "\n{NO_CHECK}");
    }
}

//! The table on the terminal after the last run. Readers need no other explanation.

use crate::circumstances;
use crate::record::Record;
use crate::show;
use crate::summary::{Cell, Row, Spread, summarize};
use crate::validity;
use crate::workload::Scenario;
use std::fmt::Write as _;

/// Escape sequences for a failed check.
const LOUD: (&str, &str) = ("\x1b[1;37;41m", "\x1b[0m");

/// Formats all records, scenario by scenario. Failed checks come last.
pub fn table(records: &[Record], colours: bool) -> String {
    let rows = summarize(records);
    let mut out = String::new();
    let mut last = "";
    for row in &rows {
        let scenario = row.definition();
        if row.scenario != last {
            last = &row.scenario;
            write_scenario(&mut out, scenario, &row.scenario);
        }
        write_row(&mut out, scenario, row);
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

fn write_scenario(out: &mut String, scenario: Option<&Scenario>, name: &str) {
    // Writing to a String does not fail; here and below.
    let _ = match scenario {
        Some(known) => writeln!(out, "\n{}: {}", known.title, known.about),
        None => writeln!(out, "\n{name}"),
    };
}

fn write_row(out: &mut String, scenario: Option<&Scenario>, row: &Row) {
    let unit = scenario.map_or("units", |known| known.unit);
    let base = row.cells.first().map_or("", |cell| cell.target.as_str());
    let title = format!(
        "{}, {} clients",
        row.label(),
        show::count(row.clients as u64)
    );
    let _ = writeln!(
        out,
        "  {title:<34}{:>14}{:>11}{:>11}{:>14}{:>9}",
        format!("{unit}/s"),
        "p50",
        "p99",
        format!("× {base}"),
        "group",
    );
    for cell in &row.cells {
        write_cell(out, row, cell);
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
    let _ = writeln!(
        out,
        "    {:<32}{:>14}{:>11}{:>11}{:>14}{:>9}  {check}",
        cell.target,
        show::number(figures.rate.median),
        duration(figures.p50),
        duration(figures.p99),
        times.map_or_else(String::new, show::times),
        figures.group.map_or_else(String::new, show::number),
    );
    if figures.rounds > 1 {
        let _ = writeln!(
            out,
            "    {:<32}{:>14} in {} rounds",
            "",
            format!(
                "{} – {}",
                show::number(figures.rate.min),
                show::number(figures.rate.max)
            ),
            figures.rounds
        );
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
    let mut notes = reasons(&cell.failed);
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

/// Each distinct reason with the number of rounds that did not run because of it.
fn reasons(failed: &[String]) -> Vec<String> {
    let mut reasons: Vec<(&String, usize)> = Vec::new();
    for why in failed {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, times)) => *times += 1,
            None => reasons.push((why, 1)),
        }
    }
    let say = |(why, times)| match times {
        1 => format!("did not run: {why}"),
        _ => format!("did not run ({times} rounds): {why}"),
    };
    reasons.into_iter().map(say).collect()
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
    let cells = || {
        rows.iter()
            .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
    };
    let figures = || cells().filter_map(|(_, cell)| cell.figures.as_ref());
    let (loud, quiet) = if colours { LOUD } else { ("", "") };
    for (row, cell) in cells() {
        let broken = cell.figures.iter().flat_map(|figures| &figures.broken);
        for says in broken {
            let place = format!("{} {}, {}", row.scenario, row.label(), cell.target);
            let _ = writeln!(out, "\n{loud} CHECK FAILED {quiet} {place}: {says}");
        }
    }
    let failed: usize = cells().map(|(_, cell)| cell.failed.len()).sum();
    let is_checked = figures().any(|figures| figures.check.is_some());
    let _ = match failed {
        _ if !is_checked || figures().any(|figures| !figures.holds) => Ok(()),
        0 => writeln!(
            out,
            "\nevery check holds: nothing was lost, nothing was done twice"
        ),
        1 => writeln!(
            out,
            "\nthe checks that were made hold, but 1 run did not run"
        ),
        runs => writeln!(
            out,
            "\nthe checks that were made hold, but {runs} runs did not run"
        ),
    };
    if figures().any(|figures| figures.check.is_none()) {
        let _ = writeln!(
            out,
            "\nno check: only its author knows what a script should leave behind"
        );
    }
}

//! The table at the end: for somebody who has never seen it.

use crate::show;
use crate::summary::{Cell, Row, Spread, summarize};
use crate::{Record, Scenario};
use std::fmt::Write as _;

/// How loud a failed check is told, where colours can be shown.
const LOUD: (&str, &str) = ("\x1b[1;37;41m", "\x1b[0m");

/// All records, scenario by scenario; ends with every check that failed.
pub fn table(records: &[Record], colours: bool) -> String {
    let rows = summarize(records);
    let mut out = String::new();
    let mut last = "";
    for row in &rows {
        let scenario = row.known();
        if row.scenario != last {
            last = &row.scenario;
            write_scenario(&mut out, scenario, &row.scenario);
        }
        write_row(&mut out, scenario, row);
    }
    write_verdict(&mut out, &rows, colours);
    out
}

/// Whether every run ran, something came of it, and no check fails.
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
        row.variant,
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
        let why = cell.failed.first().map_or("", String::as_str);
        let _ = writeln!(out, "    {:<32}  did not run: {why}", cell.target);
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
    let failed = figures.failed_turns();
    if failed > 0 {
        let _ = writeln!(out, "    {:<32}  {} turns failed", "", show::count(failed));
    }
}

fn duration(latency: Option<Spread>) -> String {
    latency.map_or_else(|| "–".to_owned(), |spread| show::duration(spread.median))
}

fn write_verdict(out: &mut String, rows: &[Row], colours: bool) {
    let (loud, quiet) = if colours { LOUD } else { ("", "") };
    let (mut checks, mut broken, mut unchecked) = (0, 0, 0);
    for row in rows {
        for cell in &row.cells {
            let Some(figures) = &cell.figures else {
                continue;
            };
            let Some(says) = &figures.check else {
                unchecked += 1;
                continue;
            };
            checks += 1;
            if !figures.holds {
                broken += 1;
                let place = format!("{} {}, {}", row.scenario, row.variant, cell.target);
                let _ = writeln!(out, "\n{loud} CHECK FAILED {quiet} {place}: {says}");
            }
        }
    }
    if broken == 0 && checks > 0 {
        let _ = writeln!(
            out,
            "\nevery check holds: nothing was lost, nothing was done twice"
        );
    }
    if unchecked > 0 {
        let _ = writeln!(
            out,
            "\nno check: only its author knows what a script should leave behind"
        );
    }
}

//! Compares two files of records: which runs became faster or slower beyond noise.
//!
//! A run has changed if all of the following hold: the ranges of the rounds do not overlap; the medians differ by more
//! than 5 percent of the older one; the difference is unlikely to be chance. The last condition holds if both files have
//! at least 4 rounds (two times 4 rounds of equal speed have disjoint ranges in 1 of 35 comparisons, two times 2 rounds in
//! 1 of 3), or if the gap between the ranges is larger than each range. With a single round there is no range and
//! therefore no verdict. Runs at a fixed rate are compared by the 99th percentile of their latency, all others by their
//! units per second. Runs that only one file contains are listed and not compared.

use crate::circumstances;
use crate::record::Record;
use crate::show;
use crate::summary::{Cell, Figures, Spread, cells, summarize};
use std::fmt::{self, Display, Write as _};

/// Medians that differ by at most this share of the older one count as equal.
const NOISE: f64 = 0.05;
/// Number of rounds per file from which disjoint ranges are unlikely to be chance.
const ROUNDS_ENOUGH: usize = 4;

/// The result of a comparison. As text: first warnings, then a line for every run that both files contain.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    text: String,
    is_slower: bool,
}

/// The change of a run, and whether it is worse now.
struct Change {
    text: String,
    is_worse: bool,
}

/// The compared figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Units per second; a higher value is better.
    Rate,
    /// 99th percentile of the latency; a lower value is better.
    P99,
}

/// The result of the comparison of the newer file with the older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Faster,
    Slower,
    WithinNoise,
    /// One of the files has a single round.
    CannotTell,
    /// A check in the newer file does not hold.
    CheckFails,
    /// A check in the older file does not hold; those in the newer one hold.
    CheckFailedBefore,
}

/// Compares two files of records.
pub fn compare(before: &[Record], after: &[Record]) -> Comparison {
    let (old, new) = (summarize(before), summarize(after));
    let old: Vec<_> = cells(&old)
        .map(|(row, cell)| (row.run(cell), cell))
        .collect();
    let new: Vec<_> = cells(&new)
        .map(|(row, cell)| (row.run(cell), cell))
        .collect();
    let missing_in =
        |runs: &[(String, &Cell)], run: &String| runs.iter().all(|(known, _)| known != run);
    let changes = old.iter().filter_map(|(run, cell)| {
        let (_, now) = new.iter().find(|(known, _)| known == run)?;
        Some((run, Change::of(cell, now)))
    });
    let changes: Vec<_> = changes.collect();
    let mut text = differences(before, after);
    if changes.is_empty() {
        text += "the files have no run in common\n";
    }
    let width = changes.iter().map(|(run, _)| run.chars().count()).max();
    let width = width.unwrap_or_default();
    for (run, change) in &changes {
        // Writing to a String does not fail; here and below.
        let _ = writeln!(text, "{run:<width$}  {}", change.text);
    }
    for (run, _) in old.iter().filter(|(run, _)| missing_in(&new, run)) {
        let _ = writeln!(text, "only in the first file: {run}");
    }
    for (run, _) in new.iter().filter(|(run, _)| missing_in(&old, run)) {
        let _ = writeln!(text, "only in the second file: {run}");
    }
    Comparison {
        text,
        is_slower: changes.iter().any(|(_, change)| change.is_worse),
    }
}

/// A warning that names the circumstances that differ; empty if there are none.
fn differences(before: &[Record], after: &[Record]) -> String {
    let (old, new) = (circumstances::of(before), circumstances::of(after));
    let text = |all: &[circumstances::Circumstance], one: &circumstances::Circumstance| {
        let same = all.iter().find(|other| other.is(one.kind, &one.name));
        same.map_or_else(|| "unknown".to_owned(), |same| same.text())
    };
    let is_added =
        |one: &&circumstances::Circumstance| old.iter().all(|other| !other.is(one.kind, &one.name));
    let mut lines = String::new();
    for one in old.iter().chain(new.iter().filter(is_added)) {
        let (before, after) = (text(&old, one), text(&new, one));
        if before != after {
            let _ = writeln!(lines, "  {}: {before} -> {after}", one.name);
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let warning = "WARNING: the files were made under different circumstances, so their figures say little about each other:";
    format!("{warning}\n{lines}\n")
}

impl Comparison {
    /// Whether a run is worse in the newer file: it is slower beyond noise, has no figures any more, or its check does not
    /// hold.
    pub fn is_slower(&self) -> bool {
        self.is_slower
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Change {
    fn of(before: &Cell, after: &Cell) -> Self {
        let text = match (&before.figures, &after.figures) {
            (Some(before), Some(after)) => return Self::between(before, after),
            (Some(_), None) => {
                let why = after.failed.first().map_or("", String::as_str);
                format!("RUNS NO MORE: {why}")
            }
            (None, Some(_)) => "runs now, did not run before".to_owned(),
            (None, None) => "did not run in either file".to_owned(),
        };
        Self {
            text,
            is_worse: before.figures.is_some(),
        }
    }

    fn between(before: &Figures, after: &Figures) -> Self {
        let open_loop = before.open_loop && after.open_loop;
        let (measure, old, new) = match (before.p99, after.p99) {
            (Some(old), Some(new)) if open_loop => (Measure::P99, old, new),
            _ => (Measure::Rate, before.rate, after.rate),
        };
        let verdict = match (before.holds, after.holds) {
            (_, false) => Verdict::CheckFails,
            (false, true) => Verdict::CheckFailedBefore,
            _ if before.rounds < 2 || after.rounds < 2 => Verdict::CannotTell,
            _ => measure.judge(old, new, before.rounds.min(after.rounds)),
        };
        let (old, new) = (old.median, new.median);
        let ratio = match old {
            old if old > 0.0 => format!("{} ×", show::fixed(new / old, 2)),
            _ => String::new(),
        };
        let (shown, now) = (measure.show(old), measure.show(new));
        let mut text = format!("{shown:>14} {now:>14} {ratio:>9}  {}", verdict.text());
        let failed = |figures: &Figures| figures.failed_turns() as f64 / figures.rounds as f64;
        let (before, after) = (failed(before), failed(after));
        if before != after {
            let (before, after) = (show::number(before), show::number(after));
            let _ = write!(text, "; failed turns per round: {before} -> {after}");
        }
        Self {
            text,
            is_worse: matches!(verdict, Verdict::Slower | Verdict::CheckFails),
        }
    }
}

impl Measure {
    fn judge(self, old: Spread, new: Spread, rounds: usize) -> Verdict {
        let gap = (new.min - old.max).max(old.min - new.max);
        let wider = (new.max - new.min).max(old.max - old.min);
        let disjoint = gap > 0.0 && (gap > wider || rounds >= ROUNDS_ENOUGH);
        let far = (new.median - old.median).abs() > NOISE * old.median;
        if !disjoint || !far {
            return Verdict::WithinNoise;
        }
        let more_is_better = self == Self::Rate;
        if (new.median > old.median) == more_is_better {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{}/s", show::number(value)),
            Self::P99 => format!("p99 {}", show::duration(value)),
        }
    }
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "SLOWER",
            Self::WithinNoise => "within noise",
            Self::CannotTell => "one round: cannot tell noise",
            Self::CheckFails => "CHECK FAILS in the second file",
            Self::CheckFailedBefore => "check failed in the first file, holds in the second",
        }
    }
}

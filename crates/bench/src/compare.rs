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
use crate::summary::{Cell, Figures, Row, Spread, summarize};
use std::fmt::{self, Display};

/// Medians that differ by at most this share of the older one count as equal.
const NOISE: f64 = 0.05;
/// Number of rounds per file from which disjoint ranges are unlikely to be chance.
const ROUNDS_ENOUGH: usize = 4;

/// The result of a comparison. As text: first warnings, then a line for every run that both files contain.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The circumstances that differ: name, value in the older file, value in the newer one.
    differences: Vec<(String, String, String)>,
    lines: Vec<Line>,
    only_before: Vec<RunKey>,
    only_after: Vec<RunKey>,
}

/// Scenario, variant, number of clients and target of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunKey {
    scenario: String,
    variant: String,
    clients: usize,
    target: String,
}

/// A run that both files contain.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    key: RunKey,
    change: Change,
}

/// How a run has changed.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    /// The run has figures in both files.
    Compared {
        measure: Measure,
        before: f64,
        after: f64,
        verdict: Verdict,
        /// Failed turns per round, in the older and in the newer file.
        failed: (f64, f64),
    },
    /// The run has figures in the older file only; contains the reason.
    RunsOnlyBefore(String),
    /// The run has figures in the newer file only.
    RunsOnlyNow,
    /// The run has figures in neither file.
    NeverRan,
}

/// The compared figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Units per second; a higher value is better.
    Rate,
    /// 99th percentile of the latency; a lower value is better.
    P99,
}

/// How the newer file compares with the older one.
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
    let (old, new) = (keys(&old), keys(&new));
    let mut comparison = Comparison {
        differences: differences(before, after),
        lines: Vec::new(),
        only_before: Vec::new(),
        only_after: Vec::new(),
    };
    for (key, cell) in &old {
        match new.iter().find(|(known, _)| known == key) {
            Some((_, now)) => comparison.lines.push(Line {
                key: key.clone(),
                change: Change::of(cell, now),
            }),
            None => comparison.only_before.push(key.clone()),
        }
    }
    let is_new = |key: &&RunKey| old.iter().all(|(known, _)| known != *key);
    let only_after = new.iter().map(|(key, _)| key).filter(is_new);
    comparison.only_after = only_after.cloned().collect();
    comparison
}

fn keys(rows: &[Row]) -> Vec<(RunKey, &Cell)> {
    let cells = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let key = |row: &Row, cell: &Cell| RunKey {
        scenario: row.scenario.clone(),
        variant: row.label(),
        clients: row.clients,
        target: cell.target.clone(),
    };
    cells.map(|(row, cell)| (key(row, cell), cell)).collect()
}

fn differences(before: &[Record], after: &[Record]) -> Vec<(String, String, String)> {
    let (old, new) = (circumstances::of(before), circumstances::of(after));
    let same =
        |one: &circumstances::Circumstance| new.iter().find(|other| other.is(one.kind, &one.name));
    let changed = old.iter().filter_map(|one| {
        let now = same(one).map_or_else(|| "unknown".to_owned(), |now| now.text());
        (now != one.text()).then(|| (one.name.clone(), one.text(), now))
    });
    let added = new
        .iter()
        .filter(|one| old.iter().all(|other| !other.is(one.kind, &one.name)));
    let added = added.map(|one| (one.name.clone(), "unknown".to_owned(), one.text()));
    changed.chain(added).collect()
}

impl Comparison {
    /// Whether a run is worse in the newer file: it is slower beyond noise, has no figures any more, or its check does not
    /// hold.
    pub fn is_slower(&self) -> bool {
        self.lines.iter().any(|line| line.change.is_worse())
    }
}

impl Change {
    fn of(before: &Cell, after: &Cell) -> Self {
        match (&before.figures, &after.figures) {
            (Some(before), Some(after)) => Self::between(before, after),
            (Some(_), None) => {
                Self::RunsOnlyBefore(after.failed.first().cloned().unwrap_or_default())
            }
            (None, Some(_)) => Self::RunsOnlyNow,
            (None, None) => Self::NeverRan,
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
        let failed = |figures: &Figures| figures.failed_turns() as f64 / figures.rounds as f64;
        Self::Compared {
            measure,
            before: old.median,
            after: new.median,
            verdict,
            failed: (failed(before), failed(after)),
        }
    }

    fn is_worse(&self) -> bool {
        match self {
            Self::Compared { verdict, .. } => {
                matches!(verdict, Verdict::Slower | Verdict::CheckFails)
            }
            Self::RunsOnlyBefore(_) => true,
            Self::RunsOnlyNow | Self::NeverRan => false,
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

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.differences.is_empty() {
            writeln!(
                f,
                "WARNING: the files were made under different circumstances, so their figures say little about each other:"
            )?;
            for (name, before, after) in &self.differences {
                writeln!(f, "  {name}: {before} -> {after}")?;
            }
            writeln!(f)?;
        }
        if self.lines.is_empty() {
            writeln!(f, "the files have no run in common")?;
        }
        let width = self
            .lines
            .iter()
            .map(|line| line.key.to_string().chars().count())
            .max();
        for line in &self.lines {
            let key = line.key.to_string();
            writeln!(
                f,
                "{key:<width$}  {}",
                line.change,
                width = width.unwrap_or_default()
            )?;
        }
        write_only(f, "only in the first file", &self.only_before)?;
        write_only(f, "only in the second file", &self.only_after)
    }
}

fn write_only(f: &mut fmt::Formatter<'_>, which: &str, keys: &[RunKey]) -> fmt::Result {
    for key in keys {
        writeln!(f, "{which}: {key}")?;
    }
    Ok(())
}

impl Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients = show::clients(self.clients);
        write!(
            f,
            "{} {}, {clients}, {}",
            self.scenario, self.variant, self.target
        )
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compared {
                measure,
                before,
                after,
                verdict,
                failed,
            } => {
                let (old, new) = (measure.show(*before), measure.show(*after));
                let ratio = if *before > 0.0 {
                    format!("{} ×", show::fixed(after / before, 2))
                } else {
                    String::new()
                };
                write!(f, "{old:>14} {new:>14} {ratio:>9}  {verdict}")?;
                match failed {
                    (before, after) if before == after => Ok(()),
                    (before, after) => write!(
                        f,
                        "; failed turns per round: {} -> {}",
                        show::number(*before),
                        show::number(*after)
                    ),
                }
            }
            Self::RunsOnlyBefore(why) => write!(f, "RUNS NO MORE: {why}"),
            Self::RunsOnlyNow => write!(f, "runs now, did not run before"),
            Self::NeverRan => write!(f, "did not run in either file"),
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "SLOWER",
            Self::WithinNoise => "within noise",
            Self::CannotTell => "one round: cannot tell noise",
            Self::CheckFails => "CHECK FAILS in the second file",
            Self::CheckFailedBefore => "check failed in the first file, holds in the second",
        })
    }
}

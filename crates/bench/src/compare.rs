//! Two files of records side by side: what got faster or slower beyond noise.
//!
//! The rule: something has changed if the ranges of the rounds do not overlap, the medians differ by more than 5 percent of the
//! older one, *and* chance hardly explains it: either there are at least 4 rounds a side (of twice 4 rounds of the same speed the
//! ranges lie apart in 1 of 35 comparisons; of twice 2 in 1 of 3), or the gap between the ranges is larger than each of them. With
//! one round on a side there is no range, so nothing is said. Work that came at a fixed rate is compared by its p99
//! latency, all other by its units per second. It never compares what is only in one of the files.

use crate::circumstances;
use crate::record::Record;
use crate::show;
use crate::summary::{Cell, Figures, Row, Spread, summarize};
use std::fmt::{self, Display};

/// Medians that differ by no more than this share of the older one are the same.
const NOISE: f64 = 0.05;
/// With so many rounds a side, ranges that lie apart are more than chance.
const ROUNDS_ENOUGH: usize = 4;

/// What came of it. As text: warnings first, then a line for everything that is in both files.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Circumstances that differ, as `name: in the older file, in the newer`.
    differences: Vec<(String, String, String)>,
    lines: Vec<Line>,
    only_before: Vec<Place>,
    only_after: Vec<Place>,
}

/// A run: scenario, variant, clients, target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    scenario: String,
    variant: String,
    clients: usize,
    target: String,
}

/// What is in both files.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    place: Place,
    change: Change,
}

/// What has become of it.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    /// It ran both times.
    Compared {
        measure: Measure,
        before: f64,
        after: f64,
        verdict: Verdict,
        /// Turns that failed, per round: before, and now.
        failed: (f64, f64),
    },
    /// It ran before, and does not run now; why.
    RunsNoMore(String),
    /// It runs now.
    RunsNow,
    /// It ran neither time.
    NeverRan,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Units per second: more is better.
    Rate,
    /// 99 of 100 took less: less is better.
    P99,
}

/// How the newer one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Faster,
    Slower,
    WithinNoise,
    /// A single round on a side.
    CannotTell,
    /// A check of the newer file does not hold.
    CheckFails,
    /// A check of the older file did not hold, those of the newer do.
    CheckHeldNot,
}

/// Compares two files, the older one first.
pub fn compare(before: &[Record], after: &[Record]) -> Comparison {
    let (old, new) = (summarize(before), summarize(after));
    let (old, new) = (places(&old), places(&new));
    let mut comparison = Comparison {
        differences: differences(before, after),
        lines: Vec::new(),
        only_before: Vec::new(),
        only_after: Vec::new(),
    };
    for (place, cell) in &old {
        match new.iter().find(|(known, _)| known == place) {
            Some((_, now)) => comparison.lines.push(Line {
                place: place.clone(),
                change: Change::of(cell, now),
            }),
            None => comparison.only_before.push(place.clone()),
        }
    }
    let is_new = |place: &&Place| old.iter().all(|(known, _)| known != *place);
    let only_after = new.iter().map(|(place, _)| place).filter(is_new);
    comparison.only_after = only_after.cloned().collect();
    comparison
}

fn places(rows: &[Row]) -> Vec<(Place, &Cell)> {
    let cells = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let place = |row: &Row, cell: &Cell| Place {
        scenario: row.scenario.clone(),
        variant: row.way(),
        clients: row.clients,
        target: cell.target.clone(),
    };
    cells.map(|(row, cell)| (place(row, cell), cell)).collect()
}

fn differences(before: &[Record], after: &[Record]) -> Vec<(String, String, String)> {
    let (old, new) = (circumstances::of(before), circumstances::of(after));
    let same =
        |one: &circumstances::Circumstance| new.iter().find(|other| other.is(one.kind, &one.name));
    let changed = old.iter().filter_map(|one| {
        let now = same(one).map_or_else(|| "not told".to_owned(), |now| now.text());
        (now != one.text()).then(|| (one.name.clone(), one.text(), now))
    });
    let added = new
        .iter()
        .filter(|one| old.iter().all(|other| !other.is(one.kind, &one.name)));
    let added = added.map(|one| (one.name.clone(), "not told".to_owned(), one.text()));
    changed.chain(added).collect()
}

impl Comparison {
    /// Whether something is worse than before: slower beyond noise, or it does not run any more, or its check does not hold.
    pub fn is_slower(&self) -> bool {
        self.lines.iter().any(|line| line.change.is_worse())
    }
}

impl Change {
    fn of(before: &Cell, after: &Cell) -> Self {
        match (&before.figures, &after.figures) {
            (Some(before), Some(after)) => Self::between(before, after),
            (Some(_), None) => Self::RunsNoMore(after.failed.first().cloned().unwrap_or_default()),
            (None, Some(_)) => Self::RunsNow,
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
            (false, true) => Verdict::CheckHeldNot,
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
            Self::RunsNoMore(_) => true,
            Self::RunsNow | Self::NeverRan => false,
        }
    }
}

impl Measure {
    fn judge(self, old: Spread, new: Spread, rounds: usize) -> Verdict {
        let gap = (new.min - old.max).max(old.min - new.max);
        let wider = (new.max - new.min).max(old.max - old.min);
        let apart = gap > 0.0 && (gap > wider || rounds >= ROUNDS_ENOUGH);
        let far = (new.median - old.median).abs() > NOISE * old.median;
        if !apart || !far {
            return Verdict::WithinNoise;
        }
        let more_is_better = self == Self::Rate;
        match (new.median > old.median) == more_is_better {
            true => Verdict::Faster,
            false => Verdict::Slower,
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
            .map(|line| line.place.to_string().chars().count())
            .max();
        for line in &self.lines {
            let place = line.place.to_string();
            writeln!(
                f,
                "{place:<width$}  {}",
                line.change,
                width = width.unwrap_or_default()
            )?;
        }
        write_only(f, "only in the first file", &self.only_before)?;
        write_only(f, "only in the second file", &self.only_after)
    }
}

fn write_only(f: &mut fmt::Formatter<'_>, which: &str, places: &[Place]) -> fmt::Result {
    for place in places {
        writeln!(f, "{which}: {place}")?;
    }
    Ok(())
}

impl Display for Place {
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
                let ratio = match *before > 0.0 {
                    true => format!("{} ×", show::fixed(after / before, 2)),
                    false => String::new(),
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
            Self::RunsNoMore(why) => write!(f, "RUNS NO MORE: {why}"),
            Self::RunsNow => write!(f, "runs now, did not run before"),
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
            Self::CheckHeldNot => "check failed in the first file, holds in the second",
        })
    }
}

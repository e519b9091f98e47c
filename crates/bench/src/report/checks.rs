//! The top of the page: whether anything was lost. A failed check is more prominent than any rate.

use crate::show;
use crate::summary::{Cell, Row};
use maud::{Markup, html};

/// The text for runs without a check.
const NO_CHECK: &str = "no check: only its author knows what a script should leave behind";

/// Numbers of runs and of failed checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checks {
    /// Runs with figures.
    pub(super) runs: usize,
    /// Those of them with a check.
    pub(super) all: usize,
    /// Those of them whose check failed.
    pub(super) broken: usize,
}

impl Checks {
    /// Counts all rounds of `cells`.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let figures = cells.filter_map(|cell| cell.figures.as_ref());
        figures.fold(Self::default(), |sum, figures| Self {
            runs: sum.runs + figures.rounds,
            all: sum.all + figures.check.as_ref().map_or(0, |_| figures.rounds),
            broken: sum.broken + figures.broken.len(),
        })
    }

    /// The counts in one sentence.
    pub(super) fn summary(self) -> String {
        let count = |number: usize| show::count(number as u64);
        match self {
            Self { runs: 0, .. } => "nothing ran, nothing was checked".to_owned(),
            Self { all: 0, .. } => NO_CHECK.to_owned(),
            Self {
                all: 1, broken: 0, ..
            } => "nothing lost: the check holds".to_owned(),
            Self { all, broken: 0, .. } => format!("nothing lost: all {} checks hold", count(all)),
            Self { all, broken, .. } => {
                format!("{} of {} checks failed", count(broken), count(all))
            }
        }
    }
}

/// Draws the banner.
pub(super) fn section(rows: &[Row]) -> Markup {
    let checks = Checks::of(rows.iter().flat_map(|row| &row.cells));
    html! {
        @match checks {
            Checks { broken: 1.., .. } => section.verdict.bad role="alert" {
                h2 { "Check failed" }
                p {
                    strong { (checks.summary()) }
                    ". Something was lost or done twice: figures of these runs are worth nothing."
                }
                ul { @for (run, says) in broken(rows) { li { strong { (run) } br; (says) } } }
            },
            Checks { runs: 0, .. } => section.verdict.bad role="alert" {
                h2 { "Nothing ran" }
                p { "So nothing was checked; the reasons are " a href="#trouble" { "below" } "." }
            },
            Checks { all: 0, .. } => section.verdict.unchecked {
                h2 { "Not checked" }
                p { (capital(NO_CHECK)) "." }
            },
            _ => section.verdict.good {
                h2 { (capital(&checks.summary())) }
                p { "After every run the tables were compared with the answers that clients received." }
            },
        }
        (remarks(rows))
    }
}

/// Every failed check: the run and its result.
fn broken(rows: &[Row]) -> impl Iterator<Item = (String, &String)> {
    let cells = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    cells.flat_map(|(row, cell)| {
        let broken = cell.figures.iter().flat_map(|figures| &figures.broken);
        broken.map(move |says| (run_name(row, cell), says))
    })
}

/// Formats `hot-row hinted, 256 clients, paceline`.
pub(super) fn run_name(row: &Row, cell: &Cell) -> String {
    let clients = show::clients(row.clients);
    format!(
        "{} {}, {clients}, {}",
        row.scenario,
        row.label(),
        cell.target
    )
}

/// Remarks about runs that failed or were stopped early.
fn remarks(rows: &[Row]) -> Markup {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let failed: usize = cells().map(|cell| cell.failed.len()).sum();
    let figures = cells().filter_map(|cell| cell.figures.as_ref());
    let interrupted: usize = figures.map(|figures| figures.interrupted).sum();
    let count = |number: usize| show::count(number as u64);
    html! {
        @if failed > 0 {
            p.remark {
                (count(failed)) @if failed == 1 { " run" } @else { " runs" }
                " could not run: " a href="#trouble" { "which, and why" } "."
            }
        }
        @if interrupted > 0 {
            p.remark {
                (count(interrupted)) @if interrupted == 1 { " run was" } @else { " runs were" }
                " stopped before the time that was asked for."
            }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

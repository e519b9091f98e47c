//! What comes first: whether anything was lost. A check that failed is louder than any speed.

use crate::show;
use crate::summary::{Cell, Row};
use maud::{Markup, html};

/// What is said where nobody looked what became of the tables.
const NO_CHECK: &str = "no check: only its author knows what a script should leave behind";

/// Runs, and what their checks found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checks {
    /// Runs that have figures.
    pub(super) runs: usize,
    /// Of these, runs that were checked.
    pub(super) all: usize,
    /// Of these.
    pub(super) broken: usize,
}

impl Checks {
    /// Of all rounds of `cells`.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let figures = cells.filter_map(|cell| cell.figures.as_ref());
        figures.fold(Self::default(), |sum, figures| Self {
            runs: sum.runs + figures.rounds,
            all: sum.all + figures.check.as_ref().map_or(0, |_| figures.rounds),
            broken: sum.broken + figures.broken.len(),
        })
    }

    /// In a sentence.
    pub(super) fn say(self) -> String {
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

/// The banner.
pub(super) fn section(rows: &[Row]) -> Markup {
    let checks = Checks::of(rows.iter().flat_map(|row| &row.cells));
    html! {
        @match checks {
            Checks { broken: 1.., .. } => section.verdict.bad role="alert" {
                h2 { "Check failed" }
                p {
                    strong { (checks.say()) }
                    ". Something was lost or done twice: figures of these runs are worth nothing."
                }
                ul { @for (place, says) in broken(rows) { li { strong { (place) } br; (says) } } }
            },
            Checks { runs: 0, .. } => section.verdict.bad role="alert" {
                h2 { "Nothing ran" }
                p { "So nothing was checked; why is told " a href="#trouble" { "below" } "." }
            },
            Checks { all: 0, .. } => section.verdict.unchecked {
                h2 { "Not checked" }
                p { (capital(NO_CHECK)) "." }
            },
            _ => section.verdict.good {
                h2 { (capital(&checks.say())) }
                p { "After every run the tables were compared with what the clients had been told." }
            },
        }
        (remarks(rows))
    }
}

/// Every check that failed: where, and what it says.
fn broken(rows: &[Row]) -> impl Iterator<Item = (String, &String)> {
    let cells = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    cells.flat_map(|(row, cell)| {
        let broken = cell.figures.iter().flat_map(|figures| &figures.broken);
        broken.map(move |says| (place(row, cell), says))
    })
}

/// `hot-row hinted, 256 clients, paceline`
pub(super) fn place(row: &Row, cell: &Cell) -> String {
    let clients = show::clients(row.clients);
    format!("{} {}, {clients}, {}", row.scenario, row.way(), cell.target)
}

/// What else keeps the figures from being whole.
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

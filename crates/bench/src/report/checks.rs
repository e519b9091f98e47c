//! The top of the page: whether anything was lost. A failed check is more prominent than any rate.

use crate::show;
use crate::summary::{Cell, NO_CHECK, Row, cells, missing};
use maud::{Markup, html};

/// Numbers of runs and of failed checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checks {
    /// Runs with figures.
    pub(super) runs: usize,
    /// Those of them with a check.
    pub(super) all: usize,
    /// Those of them whose check failed.
    pub(super) broken: usize,
    /// Acknowledged writes that failovers lost.
    pub(super) missing: u64,
}

impl Checks {
    /// Counts all rounds of `cells`.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let figures = cells.filter_map(|cell| cell.figures.as_ref());
        figures.fold(Self::default(), |sum, figures| Self {
            runs: sum.runs + figures.rounds,
            all: sum.all + figures.check.as_ref().map_or(0, |_| figures.rounds),
            broken: sum.broken + figures.broken.len(),
            missing: sum.missing + missing(std::iter::once(figures)),
        })
    }

    /// The counts in one sentence.
    pub(super) fn summary(self) -> String {
        let [all, broken] = [self.all, self.broken].map(|number| show::count(number as u64));
        match self {
            Self { runs: 0, .. } => "nothing ran, nothing was checked".to_owned(),
            Self { all: 0, .. } => NO_CHECK.to_owned(),
            Self { broken: 1.., .. } => format!("{broken} of {all} checks failed"),
            Self { missing: 1.., .. } => format!(
                "all checks hold; asynchronous replication lost {} acknowledged writes",
                show::count(self.missing)
            ),
            Self { all: 1, .. } => "nothing lost: the check holds".to_owned(),
            Self { .. } => format!("nothing lost: all {all} checks hold"),
        }
    }
}

/// Draws the banner.
pub(super) fn section(rows: &[Row]) -> Markup {
    let checks = Checks::of(cells(rows).map(|(_, cell)| cell));
    html! {
        @match checks {
            Checks { broken: 1.., .. } => section.verdict.bad role="alert" {
                h2 { "Check failed" }
                p {
                    strong { (checks.summary()) }
                    ". Something was lost or done twice: figures of these runs are worth nothing."
                }
                ul {
                    @for (row, cell) in cells(rows) {
                        @for says in cell.broken() { li { strong { (row.run(cell)) } br; (says) } }
                    }
                }
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

/// Remarks about runs that failed or were stopped early.
fn remarks(rows: &[Row]) -> Markup {
    let failed: usize = cells(rows).map(|(_, cell)| cell.failed.len()).sum();
    let figures = cells(rows).filter_map(|(_, cell)| cell.figures.as_ref());
    let interrupted: usize = figures.map(|figures| figures.interrupted).sum();
    let runs = |number: usize, one: &str, more: &str| {
        let verb = if number == 1 { one } else { more };
        format!("{} {verb}", show::count(number as u64))
    };
    html! {
        @if failed > 0 {
            p.remark { (runs(failed, "run", "runs")) " could not run: " a href="#trouble" { "which, and why" } "." }
        }
        @if interrupted > 0 {
            p.remark { (runs(interrupted, "run was", "runs were")) " stopped before the time that was asked for." }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

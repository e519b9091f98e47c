//! A table with a row per target and a bar below each figure. Each column has its own scale, which starts at zero.

use super::contents::Contents;
use crate::summary::{Cell, Figures, Row, Spread};
use maud::{Markup, html};

/// A figure of a run: its name, its format, and its value; `None` if unknown.
pub(super) type Measure = (
    &'static str,
    fn(f64) -> String,
    fn(&Figures) -> Option<Spread>,
);

fn median(cell: &Cell, (_, _, of): &Measure) -> Option<f64> {
    Some(of(cell.figures.as_ref()?)?.median)
}

/// Whether any target has any of the figures.
pub(super) fn has_figures(row: &Row, columns: &[Measure]) -> bool {
    let mut all = row
        .cells
        .iter()
        .flat_map(|cell| columns.iter().map(move |of| median(cell, of)));
    all.any(|figure| figure.is_some())
}

/// Draws the table.
pub(super) fn table(
    contents: &Contents<'_>,
    row: &Row,
    title: &str,
    columns: &[Measure],
) -> Markup {
    html! {
        table.bars {
            caption { (title) }
            thead {
                tr {
                    th scope="col" { span.unseen { "target" } }
                    @for (name, ..) in columns { th scope="col" { (name) } }
                }
            }
            tbody {
                @for cell in &row.cells {
                    tr class=(contents.colour(&cell.target)) {
                        th scope="row" { (cell.target) }
                        @for column in columns { td { (figure(row, cell, column)) } }
                    }
                }
            }
        }
    }
}

fn figure(row: &Row, cell: &Cell, column: &Measure) -> Markup {
    let (_, show, _) = column;
    let figures = row.cells.iter().filter_map(|cell| median(cell, column));
    let most = figures.fold(0.0, f64::max);
    html! {
        @match median(cell, column) {
            Some(figure) => {
                span.figure { (show(figure)) }
                span.bar { span style=(format!("width:{:.2}%", share(figure, most))) {} }
            }
            None => span.unknown { "–" },
        }
    }
}

/// Length of a bar in percent of the longest.
fn share(figure: f64, most: f64) -> f64 {
    if most > 0.0 {
        (figure / most * 100.0).clamp(0.0, 100.0)
    } else {
        0.0
    }
}

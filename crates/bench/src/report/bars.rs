//! A table with a bar below each figure. Each column has its own scale, which starts at zero.

use maud::{Markup, html};

/// The title of a column, and the format of its figures.
pub(super) type Column = (&'static str, fn(f64) -> String);

/// A table with bars.
pub(super) struct Bars<'a> {
    /// Caption of the table.
    pub(super) title: String,
    /// The columns, from left to right.
    pub(super) columns: Vec<Column>,
    /// The rows, from top to bottom.
    pub(super) lines: Vec<Line<'a>>,
}

/// A row of the table.
pub(super) struct Line<'a> {
    /// Name of the target.
    pub(super) name: &'a str,
    /// CSS class of the target.
    pub(super) colour: &'a str,
    /// A figure per column; `None` or missing at the end if unknown.
    pub(super) figures: Vec<Option<f64>>,
}

impl Bars<'_> {
    /// Whether the table has any figure.
    pub(super) fn has_figures(&self) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|line| line.figures.iter().any(Option::is_some))
    }

    /// Draws the table.
    pub(super) fn draw(&self) -> Markup {
        let most = self.most();
        html! {
            table.bars {
                caption { (self.title) }
                thead {
                    tr {
                        th scope="col" { span.unseen { "target" } }
                        @for (name, _) in &self.columns { th scope="col" { (name) } }
                    }
                }
                tbody { @for line in &self.lines { (self.line(line, &most)) } }
            }
        }
    }

    fn line(&self, line: &Line<'_>, most: &[f64]) -> Markup {
        html! {
            tr class=(line.colour) {
                th scope="row" { (line.name) }
                @for (place, ((_, show), most)) in self.columns.iter().zip(most).enumerate() {
                    td {
                        @match line.figures.get(place).copied().flatten() {
                            Some(figure) => {
                                span.figure { (show(figure)) }
                                span.bar { span style=(format!("width:{:.2}%", share(figure, *most))) {} }
                            }
                            None => span.unknown { "–" },
                        }
                    }
                }
            }
        }
    }

    /// The maximum of each column.
    fn most(&self) -> Vec<f64> {
        let mut most = vec![0.0_f64; self.columns.len()];
        for line in &self.lines {
            for (most, figure) in most.iter_mut().zip(&line.figures) {
                *most = most.max(figure.unwrap_or_default());
            }
        }
        most
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_its_own_scale() {
        let line = |name, figures| Line {
            name,
            colour: "c0",
            figures,
        };
        let lines = vec![
            line("a", vec![Some(50.0), None]),
            line("b", vec![Some(200.0), Some(0.0)]),
        ];
        let bars = Bars {
            title: "cost".to_owned(),
            columns: vec![("x", crate::show::number), ("y", crate::show::number)],
            lines,
        };
        let drawn = bars.draw().into_string();
        assert!(
            drawn.contains("50</span><span class=\"bar\"><span style=\"width:25.00%\">"),
            "{drawn}"
        );
        assert!(
            drawn.contains("width:100.00%") && drawn.contains("width:0.00%"),
            "{drawn}"
        );
        assert!(bars.has_figures());
    }
}

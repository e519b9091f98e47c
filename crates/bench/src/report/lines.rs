//! A line chart; each line has its name at its end. Colours come from the style sheet, the size from the page.

use super::scale::Scale;
use crate::summary::Spread;
use maud::{Markup, html};

/// Lengths in units of the drawing, which are about one pixel.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 186.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 162.0;
/// Mean width of a letter.
const LETTER: f64 = 6.4;
/// Minimum distance between the names of two lines.
const LEADING: f64 = 13.5;
/// Maximum number of letters of a name beside its line; the tooltip shows the complete name.
const NAME_MAX: usize = 12;

/// A line chart.
pub(super) struct Lines<'a> {
    /// Title above the chart.
    pub(super) title: String,
    /// Smaller text below the title.
    pub(super) note: &'static str,
    /// The horizontal axis and the values of its possible labels.
    pub(super) x: (Scale, Vec<f64>),
    /// Formats a value of the horizontal axis.
    pub(super) show_x: fn(f64) -> String,
    /// Unit of the horizontal axis: `clients`.
    pub(super) unit_x: &'static str,
    /// The vertical axis.
    pub(super) y: Scale,
    /// Formats a value of the vertical axis.
    pub(super) show_y: fn(f64) -> String,
    /// The lines.
    pub(super) series: Vec<Series<'a>>,
}

/// A line.
pub(super) struct Series<'a> {
    /// Name at the end of the line.
    pub(super) name: String,
    /// CSS class of the line.
    pub(super) colour: &'a str,
    /// The points. `None` interrupts the line.
    pub(super) points: Vec<(f64, Option<Spread>)>,
}

/// Left and right edge of the plot.
#[derive(Clone, Copy)]
struct Plot {
    left: f64,
    right: f64,
}

impl Lines<'_> {
    /// Draws the chart as a figure.
    pub(super) fn draw(&self) -> Markup {
        let plot = self.plot();
        html! {
            figure.chart {
                figcaption {
                    (self.title)
                    span.note { (self.note) @if self.y.is_log() { ", log scale" } }
                }
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(self.in_words()) {
                    (self.grid(plot))
                    @for series in &self.series { (self.line(plot, series)) }
                    (self.names(plot))
                }
            }
        }
    }

    fn plot(&self) -> Plot {
        let ticks = self.y.ticks().into_iter().map(self.show_y);
        let widest = ticks.map(|tick| tick.chars().count()).max();
        let names = self.series.iter().map(|series| short(&series.name));
        let longest = names.map(|name| name.chars().count()).max();
        let width = |letters: Option<usize>| letters.unwrap_or_default() as f64 * LETTER;
        Plot {
            left: width(widest) + 8.0,
            right: WIDTH - width(longest) - 12.0,
        }
    }

    fn at(&self, plot: Plot, x: f64, y: f64) -> (f64, f64) {
        let across = self.x.0.place(x) * (plot.right - plot.left);
        (plot.left + across, self.up(y))
    }

    fn up(&self, y: f64) -> f64 {
        BOTTOM - self.y.place(y) * (BOTTOM - TOP)
    }

    fn grid(&self, plot: Plot) -> Markup {
        html! {
            g.grid {
                @for tick in self.y.ticks() {
                    @let y = self.up(tick);
                    line x1=(px(plot.left)) x2=(px(plot.right)) y1=(px(y)) y2=(px(y)) {}
                    text.end x=(px(plot.left - 5.0)) y=(px(y + 3.5)) { ((self.show_y)(tick)) }
                }
                @for tick in self.marks(plot) {
                    @let (x, _) = self.at(plot, tick, 0.0);
                    text.middle x=(px(x)) y=(px(BOTTOM + 17.0)) { ((self.show_x)(tick)) }
                }
            }
        }
    }

    /// The labels of the horizontal axis: as many as fit, always including the last value.
    fn marks(&self, plot: Plot) -> Vec<f64> {
        let mut marks = Vec::new();
        let mut free = f64::INFINITY;
        for &value in self.x.1.iter().rev() {
            let (x, _) = self.at(plot, value, 0.0);
            let half = (self.show_x)(value).chars().count() as f64 * LETTER / 2.0;
            if x + half + 4.0 < free {
                marks.push(value);
                free = x - half;
            }
        }
        marks
    }

    fn line(&self, plot: Plot, series: &Series<'_>) -> Markup {
        let dots = series.points.len() <= 12;
        html! {
            g class=(series.colour) {
                path.line d=(self.path(plot, series)) {}
                @for (x, spread) in &series.points {
                    @if let Some(spread) = spread.filter(|_| dots) {
                        (self.dot(plot, series, *x, spread))
                    }
                }
            }
        }
    }

    fn path(&self, plot: Plot, series: &Series<'_>) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for (x, spread) in &series.points {
            let Some(spread) = spread else {
                pen = 'M';
                continue;
            };
            let (x, y) = self.at(plot, *x, spread.median);
            path += &format!("{pen}{} {}", px(x), px(y));
            pen = 'L';
        }
        path
    }

    /// Draws the median and the range of the rounds.
    fn dot(&self, plot: Plot, series: &Series<'_>, x: f64, spread: Spread) -> Markup {
        let (across, y) = self.at(plot, x, spread.median);
        let tooltip = format!("{}, {}", series.name, self.tooltip(x, spread));
        html! {
            g {
                title { (tooltip) }
                @if spread.max > spread.min {
                    line.spread x1=(px(across)) x2=(px(across)) y1=(px(self.up(spread.min))) y2=(px(self.up(spread.max))) {}
                }
                circle cx=(px(across)) cy=(px(y)) r="3" {}
            }
        }
    }

    /// Draws the names at the ends of the lines, moved apart where they would overlap.
    fn names(&self, plot: Plot) -> Markup {
        let mut names: Vec<(f64, &Series<'_>)> = Vec::new();
        for series in &self.series {
            let last = series.points.iter().rev().find_map(|(_, spread)| *spread);
            names.extend(last.map(|spread| (self.up(spread.median), series)));
        }
        names.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut heights: Vec<f64> = names.iter().map(|(height, _)| *height).collect();
        move_apart(&mut heights);
        html! {
            @for ((_, series), height) in names.iter().zip(heights) {
                text class={ "name " (series.colour) } x=(px(plot.right + 7.0)) y=(px(height + 3.5)) {
                    title { (series.name) }
                    (short(&series.name))
                }
            }
        }
    }

    fn tooltip(&self, x: f64, spread: Spread) -> String {
        let (show_x, show_y) = (self.show_x, self.show_y);
        let range = if spread.max > spread.min {
            format!(" ({} to {})", show_y(spread.min), show_y(spread.max))
        } else {
            String::new()
        };
        format!(
            "{} {}: {}{range}",
            show_x(x),
            self.unit_x,
            show_y(spread.median)
        )
    }

    /// A description for screen readers.
    fn in_words(&self) -> String {
        let mut words = format!("{}, {}", self.title, self.note);
        for series in &self.series {
            let mut known = series
                .points
                .iter()
                .filter_map(|(x, spread)| Some((*x, (*spread)?)));
            let first = known.next();
            let last = known.next_back();
            let ends = [first, last].into_iter().flatten();
            let ends: Vec<String> = ends.map(|(x, spread)| self.tooltip(x, spread)).collect();
            words += &format!(". {}: {}", series.name, ends.join(", then "));
        }
        words
    }
}

/// Shortens a name so that it fits beside its line.
fn short(name: &str) -> String {
    if name.chars().count() > NAME_MAX {
        name.chars().take(NAME_MAX - 1).chain(['…']).collect()
    } else {
        name.to_owned()
    }
}

/// Moves `heights`, which are in ascending order, apart by the height of a text line, within the plot.
fn move_apart(heights: &mut [f64]) {
    let mut above = f64::NEG_INFINITY;
    for height in heights.iter_mut() {
        *height = height.max(above + LEADING);
        above = *height;
    }
    let mut below = BOTTOM + LEADING;
    for height in heights.iter_mut().rev() {
        *height = height.min(below - LEADING);
        below = *height;
    }
}

/// Formats a length with one decimal place.
fn px(length: f64) -> String {
    format!("{length:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series<'_>>) -> Lines<'_> {
        let numbers = vec![1.0, 8.0, 64.0];
        Lines {
            title: "updates/s".to_owned(),
            note: "by clients",
            x: (Scale::through(&numbers).unwrap(), numbers),
            show_x: crate::show::number,
            unit_x: "clients",
            y: Scale::of([0.0, 100.0].into_iter()).unwrap(),
            show_y: crate::show::number,
            series,
        }
    }

    fn at(median: f64) -> Option<Spread> {
        Spread::of(vec![median])
    }

    #[test]
    fn a_line_is_interrupted_where_nothing_ran() {
        let points = vec![(1.0, at(50.0)), (8.0, None), (64.0, at(100.0))];
        let series = Series {
            name: "direct".to_owned(),
            colour: "c0",
            points,
        };
        let chart = chart(vec![series]);
        let path = chart.path(chart.plot(), &chart.series[0]);
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('L').count(), 0, "{path}");
        let words = "updates/s, by clients. direct: 1 clients: 50, then 64 clients: 100";
        assert_eq!(chart.in_words(), words);
    }

    #[test]
    fn names_never_overlap() {
        let mut heights = vec![100.0, 100.0, 160.0, 161.0];
        move_apart(&mut heights);
        for pair in heights.windows(2) {
            assert!(pair[1] - pair[0] >= LEADING - 1e-9, "{heights:?}");
        }
        assert!(
            heights.iter().all(|height| *height <= BOTTOM),
            "{heights:?}"
        );
    }

    #[test]
    fn labels_never_overlap() {
        let mut chart = chart(Vec::new());
        let numbers: Vec<f64> = (1..=100).map(f64::from).collect();
        chart.x = (Scale::through(&numbers).unwrap(), numbers);
        let marks = chart.marks(chart.plot());
        assert_eq!(marks[0], 100.0);
        assert!((3..20).contains(&marks.len()), "{marks:?}");
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(short("paceline"), "paceline");
        assert_eq!(short("ünïcödé-ünïcödé"), "ünïcödé-ünï…");
    }
}

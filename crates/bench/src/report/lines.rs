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
pub(super) struct Lines {
    /// Title above the chart.
    pub(super) title: String,
    /// Smaller text below the title.
    pub(super) note: &'static str,
    /// The horizontal axis.
    pub(super) x: Axis,
    /// Unit of the horizontal axis: `clients`.
    pub(super) unit_x: &'static str,
    /// The vertical axis.
    pub(super) y: Axis,
    /// The lines.
    pub(super) series: Vec<Series>,
}

/// An axis.
pub(super) struct Axis {
    scale: Scale,
    /// The values of its possible labels.
    values: Vec<f64>,
    /// Formats a value.
    show: fn(f64) -> String,
}

/// A line.
pub(super) struct Series {
    /// Name at the end of the line.
    pub(super) name: String,
    /// CSS class of the line.
    pub(super) colour: String,
    /// The points. `None` interrupts the line.
    pub(super) points: Vec<(f64, Option<Spread>)>,
}

impl Axis {
    /// An axis with labels at these values.
    pub(super) fn new(scale: Scale, values: Vec<f64>, show: fn(f64) -> String) -> Self {
        Self {
            scale,
            values,
            show,
        }
    }

    /// An axis with labels at round values.
    pub(super) fn of(scale: Scale, show: fn(f64) -> String) -> Self {
        Self::new(scale, scale.ticks(), show)
    }
}

impl Lines {
    /// Draws the chart as a figure.
    pub(super) fn draw(&self) -> Markup {
        html! {
            figure.chart {
                figcaption {
                    (self.title)
                    span.note { (self.note) @if self.y.scale.is_log() { ", log scale" } }
                }
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(self.in_words()) {
                    (self.grid())
                    @for series in &self.series { (self.line(series)) }
                    (self.names())
                }
            }
        }
    }

    /// Left edge of the plot.
    fn left(&self) -> f64 {
        let ticks = self.y.values.iter().map(|tick| (self.y.show)(*tick));
        width(ticks) + 8.0
    }

    /// Right edge of the plot.
    fn right(&self) -> f64 {
        WIDTH - width(self.series.iter().map(|series| short(&series.name))) - 12.0
    }

    fn across(&self, x: f64) -> f64 {
        let left = self.left();
        left + self.x.scale.place(x) * (self.right() - left)
    }

    fn up(&self, y: f64) -> f64 {
        BOTTOM - self.y.scale.place(y) * (BOTTOM - TOP)
    }

    fn grid(&self) -> Markup {
        let (left, right) = (self.left(), self.right());
        html! {
            g.grid {
                @for &tick in &self.y.values {
                    @let y = self.up(tick);
                    line x1=(px(left)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
                    text.end x=(px(left - 5.0)) y=(px(y + 3.5)) { ((self.y.show)(tick)) }
                }
                @for tick in self.marks() {
                    text.middle x=(px(self.across(tick))) y=(px(BOTTOM + 17.0)) { ((self.x.show)(tick)) }
                }
            }
        }
    }

    /// The labels of the horizontal axis. If not all fit, some are left out, but never the last.
    fn marks(&self) -> Vec<f64> {
        let mut marks = Vec::new();
        let mut free = f64::INFINITY;
        for &value in self.x.values.iter().rev() {
            let x = self.across(value);
            let half = width([(self.x.show)(value)]) / 2.0;
            if x + half + 4.0 < free {
                marks.push(value);
                free = x - half;
            }
        }
        marks
    }

    fn line(&self, series: &Series) -> Markup {
        let dots = series.points.len() <= 12;
        html! {
            g class=(series.colour) {
                path.line d=(self.path(series)) {}
                @for (x, spread) in &series.points {
                    @if let Some(spread) = spread.filter(|_| dots) { (self.dot(series, *x, spread)) }
                }
            }
        }
    }

    fn path(&self, series: &Series) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for (x, spread) in &series.points {
            if let Some(spread) = spread {
                let (x, y) = (self.across(*x), self.up(spread.median));
                path += &format!("{pen}{} {}", px(x), px(y));
            }
            pen = if spread.is_some() { 'L' } else { 'M' };
        }
        path
    }

    /// Draws the median and the range of the rounds.
    fn dot(&self, series: &Series, x: f64, spread: Spread) -> Markup {
        let (across, y) = (self.across(x), self.up(spread.median));
        html! {
            g {
                title { (series.name) ", " (self.tooltip(x, spread)) }
                @if spread.max > spread.min {
                    line.spread x1=(px(across)) x2=(px(across)) y1=(px(self.up(spread.min))) y2=(px(self.up(spread.max))) {}
                }
                circle cx=(px(across)) cy=(px(y)) r="3" {}
            }
        }
    }

    /// Draws the names at the ends of the lines, moved apart where they would overlap.
    fn names(&self) -> Markup {
        let mut names: Vec<(f64, &Series)> = Vec::new();
        for series in &self.series {
            let last = series.points.iter().rev().find_map(|(_, spread)| *spread);
            names.extend(last.map(|spread| (self.up(spread.median), series)));
        }
        names.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut heights: Vec<f64> = names.iter().map(|(height, _)| *height).collect();
        move_apart(&mut heights);
        let x = px(self.right() + 7.0);
        html! {
            @for ((_, series), height) in names.iter().zip(heights) {
                text class={ "name " (series.colour) } x=(x) y=(px(height + 3.5)) {
                    title { (series.name) }
                    (short(&series.name))
                }
            }
        }
    }

    fn tooltip(&self, x: f64, spread: Spread) -> String {
        let x = (self.x.show)(x);
        let [min, median, max] = [spread.min, spread.median, spread.max].map(self.y.show);
        let range = if spread.max > spread.min {
            format!(" ({min} to {max})")
        } else {
            String::new()
        };
        format!("{x} {}: {median}{range}", self.unit_x)
    }

    /// A description for screen readers.
    fn in_words(&self) -> String {
        let mut words = format!("{}, {}", self.title, self.note);
        for series in &self.series {
            let known = series.points.iter();
            let mut known = known.filter_map(|(x, spread)| Some(self.tooltip(*x, (*spread)?)));
            let ends: Vec<String> = known.next().into_iter().chain(known.next_back()).collect();
            words += &format!(". {}: {}", series.name, ends.join(", then "));
        }
        words
    }
}

/// Width of the longest text.
fn width(texts: impl IntoIterator<Item = String>) -> f64 {
    let letters = texts.into_iter().map(|text| text.chars().count()).max();
    letters.unwrap_or_default() as f64 * LETTER
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
    use crate::show::number;

    fn clients(numbers: Vec<f64>) -> Axis {
        Axis::new(Scale::through(&numbers).unwrap(), numbers, number)
    }

    fn chart(series: Vec<Series>) -> Lines {
        let numbers = vec![1.0, 8.0, 64.0];
        Lines {
            title: "updates/s".to_owned(),
            note: "by clients",
            x: clients(numbers),
            unit_x: "clients",
            y: Axis::of(Scale::of([0.0, 100.0].into_iter()).unwrap(), number),
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
            colour: "c0".to_owned(),
            points,
        };
        let chart = chart(vec![series]);
        let path = chart.path(&chart.series[0]);
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
        chart.x = clients(numbers);
        let marks = chart.marks();
        assert_eq!(marks[0], 100.0);
        assert!((3..20).contains(&marks.len()), "{marks:?}");
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(short("paceline"), "paceline");
        assert_eq!(short("ünïcödé-ünïcödé"), "ünïcödé-ünï…");
    }
}

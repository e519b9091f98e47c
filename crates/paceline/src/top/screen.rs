//! The screen: numbers, a chart of the last minutes, and one of the views.

use super::console::Update;
use super::keys::Key;
use super::view::{View, ViewTable, rate};
use paceline_admin::snapshot::{Snapshot, number};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, Tabs};
use std::collections::VecDeque;
use std::time::Duration;

/// Number of snapshots in the chart.
const CHART_MAX: usize = 300;

/// Height of a screen that has a chart.
const HEIGHT_WITH_CHART: u16 = 24;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct Screen {
    update: Option<Update>,
    /// Units per second in the last snapshots, the newest first.
    chart: VecDeque<u64>,
    view: View,
    /// Number of rows of the view above the screen.
    scrolled: usize,
    is_paused: bool,
    /// Why there are no snapshots at present.
    lost: Option<String>,
}

impl Screen {
    /// Shows this state from now on.
    pub(super) fn update(&mut self, update: Update) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the height of a bar"
        )]
        let units = units(&update.snapshot).max(0.0) as u64;
        self.chart.push_front(units);
        self.chart.truncate(CHART_MAX);
        self.update = Some(update);
        self.lost = None;
    }

    /// The console does not answer.
    pub(super) fn lost(&mut self, error: &anyhow::Error) {
        self.lost = Some(format!("{error:#}"));
    }

    /// Whether the list of clients is shown.
    pub(super) fn wants_clients(&self) -> bool {
        self.view == View::Clients
    }

    /// Whether the list of clients is to be shown, and not known.
    pub(super) fn lacks_clients(&self) -> bool {
        let known = self
            .update
            .as_ref()
            .is_some_and(|now| now.clients.is_some());
        self.wants_clients() && !known && self.lost.is_none()
    }

    /// Whether no snapshots are wanted.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Follows a key. Returns whether it needs a new state at once.
    pub(super) fn press(&mut self, key: Key) -> bool {
        let shown = self.view;
        match key {
            Key::Next => self.view = shown.moved(1),
            Key::Previous => self.view = shown.moved(View::ALL.len() - 1),
            Key::Show(view) => self.view = view,
            Key::Scroll(rows) => {
                let rows = isize::try_from(rows).unwrap_or(0);
                self.scrolled = self.scrolled.saturating_add_signed(rows);
            }
            Key::First => self.scrolled = 0,
            Key::Pause => self.is_paused = !self.is_paused,
            Key::Redraw | Key::Quit => {}
        }
        if self.view != shown {
            self.scrolled = 0;
        }
        self.lacks_clients()
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let Some(update) = &self.update else {
            return;
        };
        let chart = if frame.area().height >= HEIGHT_WITH_CHART {
            5
        } else {
            0
        };
        let parts = [1, 3, chart, 2].map(Constraint::Length);
        let [header, numbers, chart, tabs] = parts;
        let parts = [
            header,
            numbers,
            chart,
            tabs,
            Constraint::Fill(1),
            Constraint::Length(1),
        ];
        let [header, numbers, chart, tabs, table, footer] =
            Layout::vertical(parts).areas(frame.area());
        frame.render_widget(self.header(&update.snapshot), header);
        frame.render_widget(numbers_of(&update.snapshot), numbers);
        let data = self.chart.iter().copied();
        let sparkline = Sparkline::default().data(data).style(Color::Blue);
        frame.render_widget(
            sparkline.direction(ratatui::widgets::RenderDirection::RightToLeft),
            chart,
        );
        frame.render_widget(tabs_of(self.view), tabs);
        let contents = self.view.table(update);
        let shown = usize::from(table.height.saturating_sub(1));
        self.scrolled = self.scrolled.min(contents.rows.len().saturating_sub(shown));
        draw_table(frame, table, contents, self.scrolled);
        frame.render_widget(self.footer(), footer);
    }

    fn header(&self, snapshot: &Snapshot) -> Line<'_> {
        let state = match snapshot.state.as_str() {
            "active" => "active".green().bold(),
            other => other.to_owned().red().bold(),
        };
        let up = Duration::from_millis(snapshot.time.saturating_sub(snapshot.started));
        let mut spans = vec![
            format!(" paceline {}  ", snapshot.version).bold(),
            state,
            format!("  up {}", span(up)).into(),
        ];
        match (&self.lost, self.is_paused) {
            (Some(why), _) => spans.push(format!("  no answer: {why}").red().bold()),
            (None, true) => spans.push("  stopped: press the space bar to continue".yellow()),
            (None, false) => {}
        }
        Line::from(spans)
    }

    fn footer(&self) -> Line<'static> {
        Line::from(" q quit   1–7, Tab view   ↑ ↓ Page Up Page Down scroll   space stop").dim()
    }
}

fn units(snapshot: &Snapshot) -> f64 {
    snapshot.units.values().sum()
}

fn numbers_of(snapshot: &Snapshot) -> Paragraph<'static> {
    let units = units(snapshot);
    let mut by_strategy: Vec<(&String, &f64)> = snapshot.units.iter().collect();
    by_strategy.retain(|(_, per_second)| **per_second > 0.0);
    by_strategy.sort_by(|a, b| b.1.total_cmp(a.1));
    let by_strategy = by_strategy
        .into_iter()
        .map(|(strategy, per_second)| format!("{strategy} {}", rate(*per_second)));
    let by_strategy = by_strategy.collect::<Vec<_>>().join("  ");
    let waiting: u64 = snapshot
        .pools
        .iter()
        .map(|row| number(row, "cl_waiting"))
        .sum();
    let mean = snapshot.groups.mean;
    let mean = mean.map(|mean| format!(" × {mean:.1}")).unwrap_or_default();
    let millis = |mean: Option<f64>| mean.map_or("–".to_owned(), |mean| format!("{mean:.2} ms"));
    let shown = |per_second: f64| match rate(per_second) {
        none if none.is_empty() => "0".to_owned(),
        some => some,
    };
    Paragraph::new(vec![
        labeled(&[
            ("units/s", shown(units)),
            ("groups/s", shown(snapshot.groups.per_second) + &mean),
            ("lock waits avoided/s", shown(snapshot.saved.per_second)),
        ]),
        labeled(&[
            ("on a server", millis(snapshot.query_ms)),
            ("in the line", millis(snapshot.wait_ms)),
            ("waiting", waiting.to_string()),
            (
                "clients",
                format!("{} of {}", snapshot.clients, snapshot.clients_max),
            ),
        ]),
        Line::from(format!(" {by_strategy}")).blue(),
    ])
}

fn labeled(values: &[(&'static str, String)]) -> Line<'static> {
    let spans = values.iter().flat_map(|(label, value)| {
        [
            Span::from(format!(" {label} ")).dim(),
            Span::from(value.clone()).bold(),
            Span::from("  "),
        ]
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn tabs_of(view: View) -> Tabs<'static> {
    let titles = View::ALL.into_iter().zip(1..);
    let titles = titles.map(|(view, number)| format!("{number} {}", view.title()));
    Tabs::new(titles)
        .select(view.place())
        .highlight_style(Style::new().bold().reversed())
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, contents: ViewTable, scrolled: usize) {
    if contents.rows.is_empty() {
        frame.render_widget(Line::from(format!(" {}", contents.empty)).dim(), area);
        return;
    }
    let is_number = |column: usize| {
        let column = contents.columns.get(column);
        column.is_some_and(|(heading, _)| heading.starts_with(' '))
    };
    let cell = |column: usize, value: &str| {
        let alignment = match is_number(column) {
            true => Alignment::Right,
            false => Alignment::Left,
        };
        Cell::from(Line::from(printable(value)).alignment(alignment))
    };
    let headings = contents.columns.iter().enumerate();
    let headings = headings.map(|(column, (heading, _))| cell(column, heading.trim()));
    let rows = contents.rows.iter().skip(scrolled).map(|row| {
        let cells = row.iter().enumerate();
        Row::new(cells.map(|(column, value)| cell(column, value)))
    });
    let widths = contents.columns.iter().map(|(_, width)| *width);
    let table = Table::new(rows, widths).header(Row::new(headings).dim());
    frame.render_widget(table, area);
}

/// Names and statements of clients may contain control characters, which must not reach the terminal.
fn printable(value: &str) -> String {
    let replaced = value.chars().map(|character| match character.is_control() {
        true => '\u{fffd}',
        false => character,
    });
    replaced.collect()
}

/// A time in its largest two units.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests;

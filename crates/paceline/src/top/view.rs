//! The views: each is a table made of the last snapshot.

use super::console::{ClientRow, Update};
use paceline_admin::snapshot::{JsonRow, Snapshot, TemplateRow, number, text};
use ratatui::layout::Constraint::{self, Fill, Length};
use serde_json::Value;

/// A table below the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum View {
    #[default]
    Templates,
    Slowest,
    Rows,
    Pools,
    Servers,
    Clients,
    Errors,
}

impl View {
    /// All views, in the order of their numbers.
    pub(super) const ALL: [Self; 7] = [
        Self::Templates,
        Self::Slowest,
        Self::Rows,
        Self::Pools,
        Self::Servers,
        Self::Clients,
        Self::Errors,
    ];

    /// The view of a digit from 1.
    pub(super) fn numbered(digit: char) -> Option<Self> {
        let number = digit.to_digit(10)?.checked_sub(1)?;
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Its place in [`View::ALL`].
    pub(super) fn place(self) -> usize {
        let mut all = Self::ALL.into_iter();
        all.position(|view| view == self).unwrap_or(0)
    }

    /// The view that is `by` places further, around the end.
    pub(super) fn moved(self, by: usize) -> Self {
        let place = (self.place() + by) % Self::ALL.len();
        Self::ALL.get(place).copied().unwrap_or_default()
    }

    /// Its title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Templates => "Templates",
            Self::Slowest => "Slowest",
            Self::Rows => "Hot rows",
            Self::Pools => "Pools",
            Self::Servers => "Servers",
            Self::Clients => "Clients",
            Self::Errors => "Errors",
        }
    }

    /// Its table.
    pub(super) fn table(self, update: &Update) -> ViewTable {
        let snapshot = &update.snapshot;
        match self {
            Self::Templates => templates(&snapshot.templates),
            Self::Slowest => slowest(&snapshot.slowest),
            Self::Rows => hot_rows(snapshot),
            Self::Pools => pools(snapshot),
            Self::Servers => servers(snapshot),
            Self::Clients => clients(update.clients.as_deref().unwrap_or_default()),
            Self::Errors => errors(snapshot),
        }
    }
}

/// A column: its heading and its width. Columns of numbers have a heading that begins with a blank, and are aligned to the right.
pub(super) type Column = (&'static str, Constraint);

/// The contents of a view.
pub(super) struct ViewTable {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<String>>,
    /// The text in place of rows.
    pub(super) empty: &'static str,
}

fn templates(templates: &[TemplateRow]) -> ViewTable {
    let row = |row: &TemplateRow| {
        vec![
            rate(row.units.per_second),
            in_groups(row),
            count(row.largest),
            milliseconds(row.mean_ms),
            rate(row.would_have_grouped.per_second),
            row.strategies.iter().cloned().collect::<Vec<_>>().join(" "),
            row.database.clone(),
            row.template.clone(),
        ]
    };
    ViewTable {
        columns: vec![
            (" units/s", Length(9)),
            (" grouped", Length(8)),
            (" largest", Length(8)),
            (" mean ms", Length(9)),
            (" would/s", Length(8)),
            ("strategy", Length(10)),
            ("database", Length(12)),
            ("template", Fill(1)),
        ],
        rows: templates.iter().map(row).collect(),
        empty: "No requests yet.",
    }
}

fn slowest(templates: &[TemplateRow]) -> ViewTable {
    let row = |row: &TemplateRow| {
        vec![
            milliseconds(row.mean_ms),
            rate(row.units.per_second),
            row.database.clone(),
            row.user.clone(),
            row.template.clone(),
        ]
    };
    ViewTable {
        columns: vec![
            (" mean ms", Length(10)),
            (" units/s", Length(9)),
            ("database", Length(12)),
            ("user", Length(12)),
            ("template", Fill(1)),
        ],
        rows: templates.iter().map(row).collect(),
        empty: "No requests of late.",
    }
}

fn hot_rows(snapshot: &Snapshot) -> ViewTable {
    let rows = snapshot.hot_rows.iter().map(|row| {
        let hidden = || format!("#{}", row.row);
        vec![
            count(row.waiting),
            row.values.clone().unwrap_or_else(hidden),
            row.database.clone(),
            row.template.clone(),
        ]
    });
    ViewTable {
        columns: vec![
            (" waiting", Length(8)),
            ("row", Length(24)),
            ("database", Length(12)),
            ("template", Fill(1)),
        ],
        rows: rows.collect(),
        empty: "No two requests wait for the same row.",
    }
}

fn pools(snapshot: &Snapshot) -> ViewTable {
    let row = |row: &JsonRow| {
        let groups = number(row, "max_groups_in_flight");
        vec![
            text(row, "database").to_owned(),
            text(row, "user").to_owned(),
            count(number(row, "cl_active")),
            count(number(row, "cl_waiting")),
            wait(number(row, "maxwait"), number(row, "maxwait_us")),
            count(number(row, "sv_active")),
            count(number(row, "sv_idle")),
            text(row, "pool_mode").to_owned(),
            format!("{groups} ({})", text(row, "max_groups_reason")),
        ]
    };
    ViewTable {
        columns: vec![
            ("database", Length(16)),
            ("user", Length(16)),
            (" clients", Length(8)),
            (" waiting", Length(8)),
            (" longest wait", Length(13)),
            (" servers busy", Length(13)),
            (" idle", Length(6)),
            ("mode", Length(12)),
            ("groups at once", Fill(1)),
        ],
        rows: snapshot.pools.iter().map(row).collect(),
        empty: "No pools yet.",
    }
}

/// Hosts of databases that have several, then the servers of the others.
fn servers(snapshot: &Snapshot) -> ViewTable {
    let hosts = snapshot.hosts.iter().map(|row| {
        let reason = text(row, "reason");
        let state = if reason.is_empty() { "in use" } else { reason };
        server(row, text(row, "host"), state)
    });
    let alone = snapshot.servers.iter();
    let alone = alone.filter(|row| text(row, "role").is_empty());
    let alone = alone.map(|row| server(row, text(row, "addr"), text(row, "host_state")));
    ViewTable {
        columns: vec![
            ("database", Length(16)),
            ("host", Length(28)),
            ("role", Length(10)),
            (" lag", Length(12)),
            (" busy", Length(6)),
            (" idle", Length(6)),
            (" reads", Length(10)),
            ("state", Fill(1)),
        ],
        rows: hosts.chain(alone).collect(),
        empty: "No server connections.",
    }
}

fn server(row: &JsonRow, host: &str, state: &str) -> Vec<String> {
    let shown = |column: &str| row.get(column).and_then(Value::as_u64).map(count);
    let lag = row.get("lag_ms").and_then(Value::as_u64);
    let host = match number(row, "port") {
        0 => host.to_owned(),
        port => format!("{host}:{port}"),
    };
    vec![
        text(row, "database").to_owned(),
        host,
        text(row, "role").to_owned(),
        lag.map(|lag| format!("{lag} ms")).unwrap_or_default(),
        shown("active").unwrap_or_default(),
        shown("idle").unwrap_or_default(),
        shown("reads").unwrap_or_default(),
        state.to_owned(),
    ]
}

/// The columns of `SHOW CLIENTS` that are shown; their order does not change (docs/stability.md).
mod client {
    pub(super) const USER: usize = 1;
    pub(super) const DATABASE: usize = 2;
    pub(super) const STATE: usize = 4;
    pub(super) const ADDR: usize = 5;
    pub(super) const PORT: usize = 6;
    pub(super) const WAIT: usize = 11;
    pub(super) const WAIT_MICROS: usize = 12;
    pub(super) const APPLICATION_NAME: usize = 18;
    pub(super) const ID: usize = 20;
    pub(super) const SERVER_PID: usize = 21;
}

/// Clients that have waited longest come first, then those that are not idle.
fn clients(clients: &[ClientRow]) -> ViewTable {
    let value = |row: &ClientRow, column: usize| row.get(column).cloned().flatten();
    let text = |row: &ClientRow, column| value(row, column).unwrap_or_default();
    let micros = |row: &ClientRow| {
        let number = |column| text(row, column).parse::<u64>().unwrap_or(0);
        (number(client::WAIT), number(client::WAIT_MICROS))
    };
    let mut sorted: Vec<&ClientRow> = clients.iter().collect();
    sorted.sort_by_cached_key(|row| {
        let is_idle = text(row, client::STATE) == "idle";
        (std::cmp::Reverse(micros(row)), is_idle)
    });
    let rows = sorted.into_iter().map(|row| {
        let (seconds, more) = micros(row);
        let server = text(row, client::SERVER_PID);
        vec![
            text(row, client::ID),
            text(row, client::STATE),
            wait(seconds, more),
            text(row, client::USER),
            text(row, client::DATABASE),
            format!("{}:{}", text(row, client::ADDR), text(row, client::PORT)),
            if server == "0" { String::new() } else { server },
            text(row, client::APPLICATION_NAME),
        ]
    });
    ViewTable {
        columns: vec![
            (" id", Length(10)),
            ("state", Length(8)),
            (" waits", Length(10)),
            ("user", Length(14)),
            ("database", Length(14)),
            ("address", Length(22)),
            (" server pid", Length(11)),
            ("application", Fill(1)),
        ],
        rows: rows.collect(),
        empty: "No clients.",
    }
}

fn errors(snapshot: &Snapshot) -> ViewTable {
    let rows = snapshot.errors.iter().map(|errors| {
        vec![
            errors.sqlstate.clone(),
            count(errors.growth.total),
            rate(errors.growth.per_second),
        ]
    });
    ViewTable {
        columns: vec![
            ("SQLSTATE", Length(10)),
            (" errors", Length(12)),
            (" errors/s", Length(12)),
        ],
        rows: rows.collect(),
        empty: "No errors.",
    }
}

fn in_groups(row: &TemplateRow) -> String {
    match row.units.total {
        0 => String::new(),
        all => format!("{} %", (row.grouped.total * 100 / all).min(100)),
    }
}

fn milliseconds(mean: Option<f64>) -> String {
    mean.map(|mean| format!("{mean:.2}")).unwrap_or_default()
}

fn wait(seconds: u64, micros: u64) -> String {
    match (seconds, micros / 1_000) {
        (0, 0) => String::new(),
        (0, millis) => format!("{millis} ms"),
        (seconds, millis) => format!("{seconds}.{} s", millis / 100),
    }
}

/// A rate with at most one decimal; empty for 0.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        none if none <= 0.0 => String::new(),
        few if few < 10.0 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    }
}

/// A number; empty for 0.
fn count(number: u64) -> String {
    match number {
        0 => String::new(),
        number => number.to_string(),
    }
}

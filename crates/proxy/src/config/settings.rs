//! The `[paceline]` table: one struct of checked values, and one list of keys that reads, shows and documents each of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::duration::{self, BareUnit};
use super::error::Wrong;
use super::suggest;
use super::value::{self, ValueError, Written};

/// The longest time-out: long enough for anything, short enough that no clock arithmetic can overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// The longest time that a unit may be held back on purpose.
const HOLD_BACK_MAX: Duration = Duration::from_secs(1);
/// The limits of a pool's size; also those of the overrides per database and user.
pub(super) const POOL_SIZE: RangeInclusive<usize> = 1..=10_000;

/// The `[paceline]` table, checked. What a key means, its unit and its limits: [`KEYS`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// TCP address for clients; always a loopback address. Port 0 lets the system choose.
    pub(crate) listen: SocketAddr,
    /// Folder for the Unix socket `.s.PGSQL.PORT`; `None` for no Unix socket.
    pub(crate) unix_socket_dir: Option<PathBuf>,
    /// TCP address for metrics and health, any address; `None` for none. Port 0 lets the system choose.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Most server connections of one pool, 1 to 10,000.
    pub(crate) default_pool_size: usize,
    /// Most client connections in all, 1 to 1,000,000.
    pub(crate) max_client_conn: usize,
    /// Most prepared statements kept on one server connection, 1 to 100,000.
    pub(crate) max_prepared_statements: usize,
    /// Longest wait of a unit for a server connection; zero is for ever.
    pub(crate) query_wait_timeout: Duration,
    /// Longest time for connecting and logging in to the server; zero is for ever.
    pub(crate) server_connect_timeout: Duration,
    /// An unused server connection is closed after this time; zero is never.
    pub(crate) server_idle_timeout: Duration,
    /// Longest time for a client from connecting to the end of its login; zero is for ever.
    pub(crate) client_login_timeout: Duration,
    /// How long a shutdown waits for transactions in progress; zero does not wait.
    pub(crate) shutdown_timeout: Duration,
    /// Whether hinted statements may travel together.
    pub(crate) hotspot: bool,
    /// Whether un-hinted autocommit statements may travel together, too.
    pub(crate) hotspot_for_autocommit: bool,
    /// How long the head of the line is held back for company although it could leave; zero never holds back.
    pub(crate) hotspot_update_max_wait_time: Duration,
    /// True: updates of one row are folded; false: they are chained only.
    pub(crate) hotspot_lock_type: bool,
    /// Whether reads that wait may share a round trip or a run.
    pub(crate) pipeline: bool,
    /// Largest number of units in a group, 2 to 10,000.
    pub(crate) group_size_max: usize,
    /// Threads for client and server sockets, 1 to 256.
    pub(crate) worker_threads: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6432)),
            unix_socket_dir: None,
            metrics_listen: None,
            default_pool_size: 20,
            max_client_conn: 10_000,
            max_prepared_statements: 200,
            query_wait_timeout: Duration::from_secs(120),
            server_connect_timeout: Duration::from_secs(15),
            server_idle_timeout: Duration::from_secs(600),
            client_login_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(10),
            hotspot: true,
            hotspot_for_autocommit: false,
            hotspot_update_max_wait_time: Duration::ZERO,
            hotspot_lock_type: true,
            pipeline: true,
            group_size_max: 1024,
            worker_threads: 1,
        }
    }
}

/// One key of the `[paceline]` table.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name, in the file and for `--set`.
    pub(crate) name: &'static str,
    /// What it does, in one sentence without its full stop.
    pub(crate) meaning: &'static str,
    kind: Kind,
}

/// What a key's value is and which field of [`Settings`] holds it.
#[derive(Debug)]
enum Kind {
    Listen(fn(&mut Settings) -> &mut SocketAddr),
    Address(fn(&mut Settings) -> &mut Option<SocketAddr>),
    Folder(fn(&mut Settings) -> &mut Option<PathBuf>),
    Switch(fn(&mut Settings) -> &mut bool),
    Count {
        unit: &'static str,
        limits: RangeInclusive<usize>,
        field: fn(&mut Settings) -> &mut usize,
    },
    Time {
        bare: BareUnit,
        most: Duration,
        field: fn(&mut Settings) -> &mut Duration,
    },
}

const fn timeout(field: fn(&mut Settings) -> &mut Duration) -> Kind {
    Kind::Time {
        bare: BareUnit::Seconds,
        most: TIMEOUT_MAX,
        field,
    }
}

/// Every key of the `[paceline]` table, in the order of the documentation.
pub(crate) static KEYS: &[Key] = &[
    Key {
        name: "listen",
        meaning: "Where clients connect; loopback only as long as client login is trust; port 0 lets the system choose",
        kind: Kind::Listen(|settings| &mut settings.listen),
    },
    Key {
        name: "unix_socket_dir",
        meaning: "Folder in which clients find the Unix socket .s.PGSQL.PORT; \"\" for no Unix socket",
        kind: Kind::Folder(|settings| &mut settings.unix_socket_dir),
    },
    Key {
        name: "metrics_listen",
        meaning: "Where /metrics, /health and /ready are served, to anybody who can connect; \"\" for nowhere",
        kind: Kind::Address(|settings| &mut settings.metrics_listen),
    },
    Key {
        name: "default_pool_size",
        meaning: "Most server connections that one pool (a database and a user) opens",
        kind: Kind::Count {
            unit: "connections",
            limits: POOL_SIZE,
            field: |settings| &mut settings.default_pool_size,
        },
    },
    Key {
        name: "max_client_conn",
        meaning: "Most client connections at a time, all databases together",
        kind: Kind::Count {
            unit: "connections",
            limits: 1..=1_000_000,
            field: |settings| &mut settings.max_client_conn,
        },
    },
    Key {
        name: "max_prepared_statements",
        meaning: "Most prepared statements kept on one server connection; the least recently used goes first",
        kind: Kind::Count {
            unit: "statements",
            limits: 1..=100_000,
            field: |settings| &mut settings.max_prepared_statements,
        },
    },
    Key {
        name: "query_wait_timeout",
        meaning: "A client that waits longer than this for a server connection is disconnected; 0 waits for ever",
        kind: timeout(|settings| &mut settings.query_wait_timeout),
    },
    Key {
        name: "server_connect_timeout",
        meaning: "Connecting and logging in to the server is given up after this time; 0 waits for ever",
        kind: timeout(|settings| &mut settings.server_connect_timeout),
    },
    Key {
        name: "server_idle_timeout",
        meaning: "A server connection unused for this time is closed; 0 keeps it",
        kind: timeout(|settings| &mut settings.server_idle_timeout),
    },
    Key {
        name: "client_login_timeout",
        meaning: "A client that has not logged in after this time is disconnected; 0 waits for ever",
        kind: timeout(|settings| &mut settings.client_login_timeout),
    },
    Key {
        name: "shutdown_timeout",
        meaning: "How long a shutdown waits for transactions in progress; 0 does not wait",
        kind: timeout(|settings| &mut settings.shutdown_timeout),
    },
    Key {
        name: "hotspot",
        meaning: "Statements with a hint may travel together",
        kind: Kind::Switch(|settings| &mut settings.hotspot),
    },
    Key {
        name: "hotspot_for_autocommit",
        meaning: "Autocommit statements without a hint may travel together, too",
        kind: Kind::Switch(|settings| &mut settings.hotspot_for_autocommit),
    },
    Key {
        name: "hotspot_update_max_wait_time",
        meaning: "How long a unit that could leave is held back for company; 0 never holds back",
        kind: Kind::Time {
            bare: BareUnit::Microseconds,
            most: HOLD_BACK_MAX,
            field: |settings| &mut settings.hotspot_update_max_wait_time,
        },
    },
    Key {
        name: "hotspot_lock_type",
        meaning: "true: updates of one row become one row version; false: they only share a commit",
        kind: Kind::Switch(|settings| &mut settings.hotspot_lock_type),
    },
    Key {
        name: "pipeline",
        meaning: "Reads that have to wait may share a round trip (short ones) or one run (the very same question)",
        kind: Kind::Switch(|settings| &mut settings.pipeline),
    },
    Key {
        name: "group_size_max",
        meaning: "Largest number of units in a group; of upserts of several rows, about so many rows",
        kind: Kind::Count {
            unit: "units",
            limits: 2..=10_000,
            field: |settings| &mut settings.group_size_max,
        },
    },
    Key {
        name: "worker_threads",
        meaning: "Threads that serve client and server sockets",
        kind: Kind::Count {
            unit: "threads",
            limits: 1..=256,
            field: |settings| &mut settings.worker_threads,
        },
    },
];

impl Key {
    /// The key called `name`, or what to say when there is none.
    pub(super) fn named(name: &str) -> Result<&'static Key, Wrong> {
        KEYS.iter()
            .find(|key| key.name == name)
            .ok_or_else(|| Wrong::UnknownKey {
                key: name.to_owned(),
                table: "paceline".to_owned(),
                nearest: suggest::nearest(name, KEYS.iter().map(|key| key.name)).map(str::to_owned),
            })
    }

    /// Checks `written` and stores it in `settings`; on an error nothing is changed.
    pub(super) fn apply(&self, settings: &mut Settings, written: Written<'_>) -> Result<(), Wrong> {
        self.kind
            .apply(settings, written)
            .map_err(|error| Wrong::Value {
                key: self.name.to_owned(),
                error,
            })
    }

    /// The unit of a bare number, `–` where there is none.
    pub(crate) fn unit(&self) -> &'static str {
        match &self.kind {
            Kind::Listen(_) | Kind::Address(_) => "address:port",
            Kind::Folder(_) => "path",
            Kind::Switch(_) => "–",
            Kind::Count { unit, .. } => unit,
            Kind::Time { bare, .. } => bare.name(),
        }
    }

    /// The values that are accepted.
    pub(crate) fn limits(&self) -> String {
        match &self.kind {
            Kind::Listen(_) => "loopback".to_owned(),
            Kind::Address(_) => "any".to_owned(),
            Kind::Folder(_) => "absolute".to_owned(),
            Kind::Switch(_) => "true, false".to_owned(),
            Kind::Count { limits, .. } => format!("{} to {}", limits.start(), limits.end()),
            Kind::Time { bare, most, .. } => format!("0 to {}", duration::show(*most, *bare)),
        }
    }

    /// The value in `settings` as TOML.
    pub(crate) fn show(&self, settings: &Settings) -> String {
        let mut settings = settings.clone();
        let settings = &mut settings;
        match &self.kind {
            Kind::Listen(field) => format!("\"{}\"", field(settings)),
            Kind::Address(field) => match field(settings) {
                Some(address) => format!("\"{address}\""),
                None => "\"\"".to_owned(),
            },
            Kind::Folder(field) => match field(settings) {
                Some(folder) => format!("\"{}\"", folder.display()),
                None => "\"\"".to_owned(),
            },
            Kind::Switch(field) => field(settings).to_string(),
            Kind::Count { field, .. } => field(settings).to_string(),
            Kind::Time { bare, field, .. } => {
                format!("\"{}\"", duration::show(*field(settings), *bare))
            }
        }
    }
}

impl Kind {
    fn apply(&self, settings: &mut Settings, written: Written<'_>) -> Result<(), ValueError> {
        match self {
            Kind::Listen(field) => *field(settings) = value::listen(written)?,
            Kind::Address(field) => *field(settings) = value::address(written)?,
            Kind::Folder(field) => *field(settings) = value::folder(written)?,
            Kind::Switch(field) => *field(settings) = value::switch(written)?,
            Kind::Count { limits, field, .. } => *field(settings) = value::count(written, limits)?,
            Kind::Time { bare, most, field } => {
                *field(settings) = value::time(written, *bare, *most)?
            }
        }
        Ok(())
    }
}

/// Carries out `key=value`.
pub(super) fn assign(settings: &mut Settings, assignment: &str) -> Result<(), Wrong> {
    let (key, value) = assignment.split_once('=').ok_or(Wrong::NoValue)?;
    Key::named(key.trim())?.apply(settings, Written::Argument(value.trim()))
}

#[cfg(test)]
mod tests;

//! What of a session follows its client from server to server.

use super::key::{Key, Kind};
use crate::config::value::{self, ValueError, Written};
use paceline_line::relay::{Keeping, ListenMode};

/// What of a session follows its client from server to server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// What becomes of state that cannot follow.
    pub(crate) session_state: Keeping,
    /// How clients listen.
    pub(crate) listen_mode: ListenMode,
    /// What becomes of clients that listen if the shared connection is lost.
    pub(crate) listen_lost: ListenLost,
    /// Settings that follow even where they were set by what a function or a DO block does.
    pub(crate) track_extra_parameters: Vec<String>,
    /// Startup parameters that are neither tracked nor passed on.
    pub(crate) ignore_startup_parameters: Vec<String>,
    /// Most prepared statements kept on one server connection, 1 to 100,000.
    pub(crate) max_prepared_statements: usize,
}

/// What becomes of clients that listen if the shared connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenLost {
    /// They are disconnected with an error, as they would have been alone.
    Error,
    /// The log has a warning, and a new connection listens.
    Log,
}

impl Default for State {
    fn default() -> Self {
        Self {
            session_state: Keeping::Pin,
            listen_mode: ListenMode::Session,
            listen_lost: ListenLost::Error,
            track_extra_parameters: vec!["IntervalStyle".to_owned()],
            ignore_startup_parameters: Vec::new(),
            max_prepared_statements: 200,
        }
    }
}

/// PostgreSQL reports these of its own accord: nobody needs to ask.
const REPORTED: [&str; 7] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "default_transaction_read_only",
    "intervalstyle",
    "standard_conforming_strings",
    "timezone",
];

/// PgBouncer tracks these whatever `track_extra_parameters` names.
const TRACKED: [&str; 5] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "standard_conforming_strings",
    "timezone",
];

impl State {
    /// Of the extra parameters, those that a server must be asked for, in lower case.
    pub(in crate::config) fn asked_parameters(&self) -> Vec<String> {
        let extra = self.track_extra_parameters.iter();
        let names = extra.map(|name| name.to_ascii_lowercase());
        names
            .filter(|name| !REPORTED.contains(&name.as_str()))
            .collect()
    }

    /// Is a setting in the startup parameter `options` to be ignored? Where all of `options` is, those that PgBouncer tracks
    /// are still applied.
    pub(crate) fn ignores_option(&self, setting: &str) -> bool {
        let extra = self.track_extra_parameters.iter().map(String::as_str);
        let mut tracked = TRACKED.into_iter().chain(extra);
        self.ignores("options") && !tracked.any(|name| name.eq_ignore_ascii_case(setting))
    }

    /// Is this startup parameter to be ignored?
    pub(crate) fn ignores(&self, parameter: &str) -> bool {
        let mut ignored = self.ignore_startup_parameters.iter();
        ignored.any(|name| name.eq_ignore_ascii_case(parameter))
    }
}

/// The words for [`Keeping`].
const KEEPING: [(&str, Keeping); 4] = [
    ("track", Keeping::Track),
    ("warn", Keeping::Warn),
    ("error", Keeping::Refuse),
    ("pin", Keeping::Pin),
];
const KEEPING_WORDS: &[&str] = &["track", "warn", "error", "pin"];

fn keeping(word: &str) -> Keeping {
    let found = KEEPING.iter().find(|(known, _)| *known == word);
    found.map(|(_, keeping)| *keeping).unwrap_or_default()
}

const LISTEN_MODES: &[&str] = &["session", "shared"];
const LISTEN_LOST: &[&str] = &["error", "log"];

fn mode(word: &str) -> ListenMode {
    match word {
        "shared" => ListenMode::Shared,
        _ => ListenMode::Session,
    }
}

/// Reads `listen_mode`.
pub(in crate::config) fn listen_mode(written: Written<'_>) -> Result<ListenMode, ValueError> {
    value::choice(written, LISTEN_MODES).map(mode)
}

/// Reads `session_state`.
pub(in crate::config) fn session_state(written: Written<'_>) -> Result<Keeping, ValueError> {
    value::choice(written, KEEPING_WORDS).map(keeping)
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "session_state",
        meaning: "What becomes of session state that cannot follow its client: lost, lost with a warning, refused, or the client keeps its server connection until it lets go",
        kind: Kind::Choice {
            among: KEEPING_WORDS,
            show: |settings| {
                let state = settings.state.session_state;
                let word = KEEPING.iter().find(|(_, known)| *known == state);
                word.map_or("pin", |(word, _)| word)
            },
            choose: |settings, word| settings.state.session_state = keeping(word),
        },
    },
    Key {
        name: "listen_mode",
        meaning: "How clients of transaction and statement pooling LISTEN: as session state (session_state), or by one server connection for all of a database",
        kind: Kind::Choice {
            among: LISTEN_MODES,
            show: |settings| match settings.state.listen_mode {
                ListenMode::Session => "session",
                ListenMode::Shared => "shared",
            },
            choose: |settings, word| settings.state.listen_mode = mode(word),
        },
    },
    Key {
        name: "listen_lost",
        meaning: "What becomes of clients that listen by a shared connection when that is lost: disconnected with an error, or a warning in the log and a new connection",
        kind: Kind::Choice {
            among: LISTEN_LOST,
            show: |settings| match settings.state.listen_lost {
                ListenLost::Error => "error",
                ListenLost::Log => "log",
            },
            choose: |settings, word| {
                settings.state.listen_lost = match word {
                    "log" => ListenLost::Log,
                    _ => ListenLost::Error,
                };
            },
        },
    },
    Key {
        name: "track_extra_parameters",
        meaning: "Settings that follow their client even where a function or a DO block sets them; those that PostgreSQL reports do anyway",
        kind: Kind::Names(|settings| &mut settings.state.track_extra_parameters),
    },
    Key {
        name: "ignore_startup_parameters",
        meaning: "Startup parameters that are not passed on to PostgreSQL; options stands for all in it that PgBouncer does not track",
        kind: Kind::Names(|settings| &mut settings.state.ignore_startup_parameters),
    },
    Key {
        name: "max_prepared_statements",
        meaning: "Most prepared statements kept on one server connection; the least recently used goes first",
        kind: Kind::Count {
            unit: "statements",
            limits: 1..=100_000,
            field: |settings| &mut settings.state.max_prepared_statements,
        },
    },
];

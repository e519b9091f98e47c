//! Session state that follows its client from server to server.

use super::form::{choice, count, names};
use super::key::{ALL_TABLES, section};
use crate::words::words;

section! {
    /// Session state that follows its client from server to server.
    pub struct State {
        /// What happens to session state that cannot follow its client: it is lost (track), lost with a warning (warn),
        /// the statement is rejected (error), or the client keeps its server connection until the state is gone (pin)
        session_state: SessionState = SessionState::Pin, choice::<SessionState>(), overridden(ALL_TABLES);
        /// How clients LISTEN in transaction and statement pooling: as session state (session_state), or through one
        /// server connection for all clients of a database (shared)
        listen_mode: ListenMode = ListenMode::Session, choice::<ListenMode>(), overridden(ALL_TABLES);
        /// What happens to clients that listen through a shared connection if it is lost: they are disconnected
        /// (error), or the log has a warning and a new connection listens (log)
        listen_lost: ListenLost = ListenLost::Error, choice::<ListenLost>();
        /// Settings that follow their client even if a function or a DO block sets them; those that PostgreSQL reports
        /// always do
        track_extra_parameters: Vec<String> = vec!["IntervalStyle".to_owned()], names(), pgbouncer("IntervalStyle");
        /// Start-up parameters that are not passed on to PostgreSQL; options means all in it that PgBouncer does not
        /// track
        ignore_startup_parameters: Vec<String> = Vec::new(), names(), pgbouncer("");
        /// Maximum number of prepared statements on one server connection; the least recently used is closed first
        max_prepared_statements: usize = 200, count("statements", 1..=100_000), pgbouncer("200");
    }
}

words! {
    /// What becomes of session state that cannot follow its client.
    pub enum SessionState {
        /// It is lost with the server connection.
        Track = "track",
        /// It is lost, and the client gets a warning.
        Warn = "warn",
        /// The statement is rejected before it reaches a server.
        Error = "error",
        /// The client keeps its server connection until the state is gone.
        Pin = "pin",
    }
}

words! {
    /// How clients listen.
    pub enum ListenMode {
        /// `LISTEN` is state of the client's session.
        Session = "session",
        /// One server connection listens for all clients of a database.
        Shared = "shared",
    }
}

words! {
    /// What becomes of clients that listen if the shared connection is lost.
    pub enum ListenLost {
        /// They are disconnected with an error, as they would be without Paceline.
        Error = "error",
        /// The log has a warning, and a new connection listens.
        Log = "log",
    }
}

/// PostgreSQL reports these settings without a question.
const REPORTED: [&str; 7] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "default_transaction_read_only",
    "intervalstyle",
    "standard_conforming_strings",
    "timezone",
];

/// PgBouncer tracks these settings whatever `track_extra_parameters` names.
const TRACKED: [&str; 5] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "standard_conforming_strings",
    "timezone",
];

impl State {
    /// Of the extra parameters, those that a server must be asked for, in lower case.
    pub fn asked_parameters(&self) -> Vec<String> {
        let extra = self.track_extra_parameters.iter();
        let names = extra.map(|name| name.to_ascii_lowercase());
        names
            .filter(|name| !REPORTED.contains(&name.as_str()))
            .collect()
    }

    /// Is a setting in the startup parameter `options` to be ignored? Where all of `options` is, those that PgBouncer tracks
    /// are still applied.
    pub fn ignores_option(&self, setting: &str) -> bool {
        let extra = self.track_extra_parameters.iter().map(String::as_str);
        let mut tracked = TRACKED.into_iter().chain(extra);
        self.ignores("options") && !tracked.any(|name| name.eq_ignore_ascii_case(setting))
    }

    /// Is this startup parameter to be ignored?
    pub fn ignores(&self, parameter: &str) -> bool {
        let mut ignored = self.ignore_startup_parameters.iter();
        ignored.any(|name| name.eq_ignore_ascii_case(parameter))
    }
}

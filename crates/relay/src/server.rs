//! The state of a server connection: which statements are prepared there, and which settings are in force. The socket is in
//! another crate.

#[cfg(test)]
mod tests;

use crate::parsed::{ColumnsId, ServerParse};
use crate::sequences::SequenceState;
use crate::settings::SessionSettings;
use crate::template::Template;
use bytes::BytesMut;
use hashlink::{LinkedHashMap, LinkedHashSet};
use paceline_wire::backend;
use paceline_wire::frontend::{Target, tag};
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

mod injected;
mod own_statement;
mod prepared;
mod primary_columns;
mod reset;
mod unknown_settings;

pub use injected::Injected;
pub use own_statement::{for_sharing, own_meaning};
pub use primary_columns::PrimaryColumns;
pub use reset::ANALYSIS_SETTINGS;

/// Prefix of the names under which Paceline prepares statements on servers.
pub const NAME_PREFIX: &str = "paceline_";

/// The state of a server connection.
#[derive(Debug)]
pub struct ServerSide {
    /// Prepared statements. The most recently used one is the last.
    prepared: LinkedHashMap<StatementKey, ServerParse, FxBuildHasher>,
    /// Number of statements prepared since the last [`ServerSide::take_parses`].
    parses: u64,
    prepared_max: usize,
    /// The unnamed statement, by the [`ClientParse::written`](crate::parsed::ClientParse::written) of its client.
    pub unnamed: Option<u64>,
    /// The columns of the unnamed statement, if known.
    unnamed_columns: Option<ColumnsId>,
    /// The settings of the session. They are in force, unless a statement has changed some for its transaction, or unseen.
    pub settings: Arc<SessionSettings>,
    /// `None`: the settings of the session are in force.
    unknown_settings: Option<UnknownSettings>,
    /// A statement may have changed the session in a way that its text did not show. Before the connection serves another
    /// client, everything is reset.
    pub needs_reset: bool,
    /// Statements may have been prepared under names that no text contains. Before the connection serves another client, all
    /// statements are dropped.
    pub unknown_prepared: bool,
    /// Catalog analysis has changed [`ANALYSIS_SETTINGS`].
    pub analysis_settings_set: bool,
    /// The session has state that no reset removes. No other client may use the connection.
    pub must_close: bool,
    /// In the transaction under way, the search path may contain the temporary schema although no text shows it.
    pub path_unknown: bool,
    /// The session may have a temporary schema.
    pub had_temporaries: bool,
    /// The owner of the sequence values that the session remembers.
    pub sequences: SequenceState,
    /// The server's default for `idle_session_timeout`. On this connection Paceline has set it to 0.
    pub idle_default: Duration,
    /// The process id of the server.
    pub process: u32,
    /// A statement may have sent a notification that the shared `LISTEN` may not have received yet.
    pub notified: bool,
    /// If the server is a logical subscriber, or while a template is analyzed on a shard: its tables as the primary, or the coordinator,
    /// has them.
    pub primary_columns: Option<Arc<PrimaryColumns>>,
    /// The server is a replica or a subscriber. Its definitions may be older than those that the client knows.
    pub is_replica: bool,
    /// The parameters that the server has reported.
    pub reported: BTreeMap<String, String>,
    /// Names of statements that must be closed before the connection serves another request. Clients may choose them, so
    /// they are hashed with a secret.
    pending_close: LinkedHashSet<Vec<u8>>,
}

/// A prepared statement of a server. The meaning of a text depends on the settings under which it was parsed (search_path,
/// TimeZone, …), so there is a statement for each set of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatementKey {
    id: u64,
    settings: u64,
}

/// Settings that are in force and not known.
#[derive(Debug)]
struct UnknownSettings {
    id: u64,
    /// The statements that must be closed when the settings are known again: those that Paceline has prepared, and those of the session
    /// that PostgreSQL may have analysed again.
    statements: LinkedHashSet<StatementKey, FxBuildHasher>,
}

/// A `Parse` that PostgreSQL has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedParse {
    /// The statement.
    pub statement: StatementKey,
    /// The time at which the `Parse` was written.
    pub written: u64,
}

impl StatementKey {
    /// `id`: the [`Template::statement_id`]. `settings`: the [`SessionSettings::id`].
    pub fn new(id: u64, settings: u64) -> Self {
        Self { id, settings }
    }

    /// The [`Template::statement_id`].
    pub fn template(self) -> u64 {
        self.id
    }

    /// The id of the settings under which the statement was parsed.
    pub fn settings(self) -> u64 {
        self.settings
    }

    /// The statement's name on servers.
    pub fn name(self) -> String {
        // This runs for each Bind. `format!` would cost as much as the rest of the work.
        let (mut id, mut settings) = (itoa::Buffer::new(), itoa::Buffer::new());
        let parts = [
            NAME_PREFIX,
            id.format(self.id),
            "_",
            settings.format(self.settings),
        ];
        parts.concat()
    }

    fn of_name(name: &str) -> Option<Self> {
        let (id, settings) = name.strip_prefix(NAME_PREFIX)?.split_once('_')?;
        Some(Self {
            id: id.parse().ok()?,
            settings: settings.parse().ok()?,
        })
    }
}

/// A statement for which Paceline has written a `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    key: StatementKey,
    /// The prepared statement. `None` if it had to be closed anyway, because its plan or its parameters no longer fit.
    prepared: Option<ServerParse>,
}

/// The messages by which Paceline made the server have a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ensured {
    /// The statement.
    pub key: StatementKey,
    /// The statement that was closed first, to make room or to be prepared again.
    pub closed: Option<Closed>,
    /// Whether Paceline wrote a `Parse`.
    pub parsed: bool,
}

/// A statement that Paceline prepares by id.
#[derive(Debug, Clone, Copy)]
pub struct Preparable<'a> {
    /// The [`Template::statement_id`].
    pub id: u64,
    /// The text.
    pub text: &'a str,
    /// The parameter types, as in `Parse`.
    pub types: &'a [u8],
}

impl<'a> From<&'a Template> for Preparable<'a> {
    fn from(template: &'a Template) -> Self {
        Self {
            id: template.statement_id,
            text: &template.text,
            types: &template.types,
        }
    }
}

/// Whether a server reports this parameter, but no client can set it by this name.
pub(crate) fn is_no_setting(name: &str) -> bool {
    const REPORTED_ONLY: [&str; 6] = [
        "server_version",
        "server_encoding",
        "integer_datetimes",
        "in_hot_standby",
        "is_superuser",
        "session_authorization",
    ];
    REPORTED_ONLY.contains(&name)
}

impl ServerSide {
    /// A new connection with these settings. It keeps at most `prepared_max` prepared statements (at least 1).
    pub fn new(settings: Arc<SessionSettings>, prepared_max: usize) -> Self {
        Self {
            prepared: LinkedHashMap::default(),
            parses: 0,
            prepared_max: prepared_max.max(1),
            unnamed: None,
            unnamed_columns: None,
            settings,
            unknown_settings: None,
            needs_reset: false,
            unknown_prepared: false,
            analysis_settings_set: false,
            must_close: false,
            path_unknown: false,
            had_temporaries: false,
            primary_columns: None,
            is_replica: false,
            sequences: SequenceState::Clean,
            idle_default: Duration::ZERO,
            process: 0,
            notified: false,
            reported: BTreeMap::new(),
            pending_close: LinkedHashSet::new(),
        }
    }

    fn key(&self, id: u64) -> StatementKey {
        StatementKey {
            id,
            settings: self.settings_id(),
        }
    }

    /// Number of prepared statements.
    pub fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// Number of statements prepared since the last call.
    pub fn take_parses(&mut self) -> u64 {
        std::mem::take(&mut self.parses)
    }

    /// The name of a statement under the settings in force.
    pub fn name(&self, id: u64) -> String {
        self.key(id).name()
    }

    /// Closes the statement if it was retired and is still prepared.
    fn close_if_pending(&mut self, key: StatementKey, out: &mut BytesMut) -> Option<Closed> {
        if self.pending_close.is_empty() {
            return None;
        }
        let name = key.name();
        if !self.pending_close.remove(name.as_bytes()) {
            return None;
        }
        Target::Statement(name.as_bytes()).write(out, tag::CLOSE);
        Some(Closed {
            key,
            prepared: None,
        })
    }

    fn make_room(&mut self, out: &mut BytesMut) -> Option<Closed> {
        if self.prepared.len() < self.prepared_max {
            return None;
        }
        let (&oldest, _) = self.prepared.front()?;
        self.close_prepared(oldest, out)
    }

    /// The `Parse` of this statement did not take place.
    pub fn forget(&mut self, key: StatementKey) {
        self.prepared.remove(&key);
    }

    /// The `Close` of this statement did not take place.
    pub fn remember(&mut self, closed: Closed) {
        match closed.prepared {
            None => self.close_later(closed.key.name().as_bytes()),
            Some(prepared) => drop(self.prepared.insert(closed.key, prepared)),
        }
    }

    /// An SQL command has closed the statement with this name.
    pub fn forget_name(&mut self, name: &str) {
        if let Some(key) = StatementKey::of_name(name) {
            self.prepared.remove(&key);
        }
    }

    /// Plans no longer fit their tables. All statements are closed before the next request, and prepared again when needed.
    pub fn retire_all(&mut self) {
        for (key, _) in std::mem::take(&mut self.prepared) {
            self.close_later(key.name().as_bytes());
        }
    }

    /// Closes this statement before the next request. It is prepared again when needed.
    pub fn retire(&mut self, key: StatementKey) {
        if self.prepared.remove(&key).is_some() {
            self.close_later(key.name().as_bytes());
        }
    }

    /// All statements are dropped (`DISCARD ALL`, `DEALLOCATE ALL`).
    pub fn forget_all(&mut self) {
        self.prepared.clear();
        self.unnamed = None;
    }

    /// The statement with this name must be closed before the connection serves another request.
    pub fn close_later(&mut self, name: &[u8]) {
        self.pending_close.insert(name.to_vec());
    }

    /// Whether the statement with this name must be closed.
    pub fn is_pending_close(&self, name: &[u8]) -> bool {
        !self.pending_close.is_empty() && self.pending_close.contains(name)
    }

    /// Whether statements must be closed.
    pub(crate) fn has_pending_close(&self) -> bool {
        !self.pending_close.is_empty()
    }

    /// Takes the names of all statements that must be closed.
    pub fn take_pending_close(&mut self) -> Vec<Vec<u8>> {
        match self.pending_close.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.pending_close)
                .into_iter()
                .collect(),
        }
    }

    /// The value of a setting (name in lower case), if the server reports it.
    pub fn reports(&self, name: &str) -> Option<&str> {
        let mut all = self.reported.iter();
        let (_, value) = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        (!is_no_setting(name)).then_some(value)
    }

    /// Whether the reported `search_path` (PostgreSQL 18 and later) names the temporary schema.
    pub fn names_temporaries(&self) -> bool {
        let path = self.reported.get("search_path");
        path.is_some_and(|path| path.contains("pg_temp"))
    }

    /// Notes the body of a `ParameterStatus`.
    pub fn note_reported(&mut self, body: &[u8]) {
        if let Ok((name, value)) = backend::read_parameter_status(body) {
            self.reported.insert(name.to_owned(), value.to_owned());
            return;
        }
        // The value is not UTF-8, so it is unknown.
        let name = body.split(|byte| *byte == 0).next();
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        self.reported.remove(name.unwrap_or_default());
    }

    /// Whether the server splits this text into the same tokens as Paceline's parser. The settings that the server has
    /// reported decide.
    pub fn tokenizes_alike(&self, text: &str) -> bool {
        let reported = |name: &str| self.reported.get(name).map(String::as_str);
        let conforms = || reported("standard_conforming_strings") == Some("on");
        let encoding = || reported("client_encoding");
        (text.is_ascii() || encoding().is_some_and(paceline_sql::keeps_ascii))
            && (!paceline_sql::hides_quotes(text) || conforms())
    }
}

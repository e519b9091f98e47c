//! What Paceline knows of the far end of a server connection: which statements are prepared there, which
//! settings are in force. Pure; the socket is elsewhere.

#[cfg(test)]
mod tests;

use crate::analysis::{Analysed, ColumnsId};
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
mod prepared;
mod reset;

pub use injected::Injected;
pub use reset::ANALYSIS_SETTINGS;

/// In front of the names under which Paceline prepares statements on servers.
pub const NAME_PREFIX: &str = "paceline_";

/// State of a server connection.
#[derive(Debug)]
pub struct ServerSide {
    /// Prepared statements, the one that was used last behind all others.
    prepared: LinkedHashMap<StatementKey, Analysed, FxBuildHasher>,
    /// Since somebody has counted them.
    parses: u64,
    prepared_max: usize,
    /// The unnamed statement, by its client's own `Parse`: [`Analysis::parse`](crate::analysis::Analysis::parse).
    pub unnamed: Option<u64>,
    /// Its columns, if they are known.
    unnamed_columns: Option<ColumnsId>,
    /// Settings in force.
    pub settings: Arc<SessionSettings>,
    /// Something may have changed settings in a way that the text did not tell.
    pub needs_reset: bool,
    /// Statements may have been prepared there under names that no text told.
    pub unknown_prepared: bool,
    /// Paceline itself has set [`ANALYSIS_SETTINGS`] there.
    pub analysis_settings_set: bool,
    /// It has what no reset takes away: nobody else may have this connection.
    pub must_close: bool,
    /// It may have a temporary schema.
    pub had_temporaries: bool,
    /// Whose numbers of sequences it remembers.
    pub sequences: SequenceState,
    /// The server's default for `idle_session_timeout`, which was turned off for this connection.
    pub idle_default: Duration,
    /// Its process id.
    pub process: u32,
    /// What was executed there may have notified, and perhaps the shared LISTEN has not received it.
    pub notified: bool,
    /// Parameters as the server reported them last.
    pub reported: BTreeMap<String, String>,
    /// Names that must be closed before the connection serves another request. Clients may choose them: hashed with a secret.
    pending_close: LinkedHashSet<Vec<u8>>,
}

/// A statement as a server knows it. What a text means depends on the settings under which it was parsed
/// (search_path, TimeZone, …): each set of settings has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatementKey {
    id: u64,
    settings: u64,
}

impl StatementKey {
    /// Of this statement ([`Template::statement_id`]) under these settings.
    pub fn new(id: u64, settings: u64) -> Self {
        Self { id, settings }
    }

    /// [`Template::statement_id`].
    pub fn template(self) -> u64 {
        self.id
    }

    /// The settings under which it was parsed.
    pub fn settings(self) -> u64 {
        self.settings
    }

    /// Its name on servers.
    pub fn name(self) -> String {
        // For each Bind: formatting machinery would cost as much as all the rest of it.
        let (mut id, mut settings) = (itoa::Buffer::new(), itoa::Buffer::new());
        let parts = [
            NAME_PREFIX,
            id.format(self.id),
            "_",
            settings.format(self.settings),
        ];
        parts.concat()
    }

    /// The statement of that name.
    fn of_name(name: &str) -> Option<Self> {
        let (id, settings) = name.strip_prefix(NAME_PREFIX)?.split_once('_')?;
        Some(Self {
            id: id.parse().ok()?,
            settings: settings.parse().ok()?,
        })
    }
}

/// A statement for which `Close` was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    key: StatementKey,
    /// What it was. `None`: it was to be closed anyway, because its plan or its parameters no longer fit.
    prepared: Option<Analysed>,
}

/// What was put in front of a message to make its statement known to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ensured {
    /// The statement.
    pub key: StatementKey,
    /// This one was closed before it, to make room or to be prepared anew.
    pub closed: Option<Closed>,
    /// A `Parse` was sent.
    pub parsed: bool,
}

/// A statement that Paceline prepares by its id.
#[derive(Debug, Clone, Copy)]
pub struct Preparable<'a> {
    /// Its id.
    pub id: u64,
    /// Its text.
    pub text: &'a str,
    /// Parameter types as in `Parse`.
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

/// What a server reports, and no client sets by this name.
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
    /// A fresh connection with these settings that keeps at most `prepared_max` statements (at least 1).
    pub fn new(settings: Arc<SessionSettings>, prepared_max: usize) -> Self {
        Self {
            prepared: LinkedHashMap::default(),
            parses: 0,
            prepared_max: prepared_max.max(1),
            unnamed: None,
            unnamed_columns: None,
            settings,
            needs_reset: false,
            unknown_prepared: false,
            analysis_settings_set: false,
            must_close: false,
            had_temporaries: false,
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
            settings: self.settings.id,
        }
    }

    /// Statements that are prepared there.
    pub fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// Statements that were prepared there since this was asked last.
    pub fn take_parses(&mut self) -> u64 {
        std::mem::take(&mut self.parses)
    }

    /// The name of a statement there, under the settings in force.
    pub fn name(&self, id: u64) -> String {
        self.key(id).name()
    }

    /// A statement of that name that was retired is still there.
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

    /// A `Parse` did not take place.
    pub fn forget(&mut self, key: StatementKey) {
        self.prepared.remove(&key);
    }

    /// A `Close` did not take place.
    pub fn remember(&mut self, closed: Closed) {
        match closed.prepared {
            None => self.close_later(closed.key.name().as_bytes()),
            Some(prepared) => drop(self.prepared.insert(closed.key, prepared)),
        }
    }

    /// The statement of that name was closed by SQL.
    pub fn forget_name(&mut self, name: &str) {
        if let Some(key) = StatementKey::of_name(name) {
            self.prepared.remove(&key);
        }
    }

    /// Plans no longer fit their tables: all statements are closed before the next request, and prepared again.
    pub fn retire_all(&mut self) {
        for (key, _) in std::mem::take(&mut self.prepared) {
            self.close_later(key.name().as_bytes());
        }
    }

    /// This one is closed before the next request, and prepared again.
    pub fn retire(&mut self, key: StatementKey) {
        if self.prepared.remove(&key).is_some() {
            self.close_later(key.name().as_bytes());
        }
    }

    /// All statements are gone (`DISCARD ALL`, `DEALLOCATE ALL`).
    pub fn forget_all(&mut self) {
        self.prepared.clear();
        self.unnamed = None;
    }

    /// A statement under a client's own name was made, and must go.
    pub fn close_later(&mut self, name: &[u8]) {
        self.pending_close.insert(name.to_vec());
    }

    /// Is there a statement of that name that must go?
    pub fn is_pending_close(&self, name: &[u8]) -> bool {
        !self.pending_close.is_empty() && self.pending_close.contains(name)
    }

    /// Names to close before anything else.
    pub fn take_pending_close(&mut self) -> Vec<Vec<u8>> {
        match self.pending_close.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.pending_close)
                .into_iter()
                .collect(),
        }
    }

    /// The value of a setting (in lower case), if the server reports it.
    pub fn reports(&self, name: &str) -> Option<&str> {
        let mut all = self.reported.iter();
        let (_, value) = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        (!is_no_setting(name)).then_some(value)
    }

    /// The path that the server reports (from PostgreSQL 18 on) names the temporary schema, whoever has set it.
    pub fn names_temporaries(&self) -> bool {
        let path = self.reported.get("search_path");
        path.is_some_and(|path| path.contains("pg_temp"))
    }

    /// Notes what a `ParameterStatus` with this body says.
    pub fn note_reported(&mut self, body: &[u8]) {
        if let Ok((name, value)) = backend::read_parameter_status(body) {
            self.reported.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Does the server make the same tokens of this text as the parser here, going by the settings that it has reported?
    pub fn reads(&self, text: &str) -> bool {
        let reported = |name: &str| self.reported.get(name).map(String::as_str);
        let conforms = || reported("standard_conforming_strings") == Some("on");
        let encoding = || reported("client_encoding");
        (text.is_ascii() || encoding().is_some_and(paceline_sql::keeps_ascii))
            && (!paceline_sql::hides_quotes(text) || conforms())
    }
}

//! What a server connection needs before it serves another client.

use super::ServerSide;
use crate::sequences::{DISCARD, SequenceState, SequenceToken};
use crate::settings::{CLIENT_ENCODING, SessionSettings};
use bytes::BytesMut;
use paceline_wire::frontend;
use std::sync::Arc;

/// With more names to close than this, all statements of a connection are dropped at once before it serves another client.
pub(super) const PENDING_CLOSE_MAX: usize = 64;

/// Fails if a function has dropped all prepared statements: then the connection does not serve another client.
const STATEMENTS_ARE_THERE: &str = "SELECT 1 OPERATOR(pg_catalog./) pg_catalog.count(*) \
     FROM pg_catalog.pg_prepared_statements WHERE pg_catalog.starts_with(name, 'paceline_'); ";

/// Settings that Paceline changes while it asks about a template.
pub const ANALYSIS_SETTINGS: [&str; 2] = ["lock_timeout", "jit"];

impl ServerSide {
    /// `DISCARD ALL` has made it what it was when it was fresh; `none` are no settings.
    pub fn discarded(&mut self, none: Arc<SessionSettings>) {
        *self = Self {
            parses: self.parses,
            idle_default: self.idle_default,
            process: self.process,
            notified: self.notified,
            had_temporaries: self.had_temporaries,
            reported: std::mem::take(&mut self.reported),
            ..Self::new(none, self.prepared_max)
        };
    }

    /// Something was run that may have done anything to settings and statements.
    pub fn mark_unknown(&mut self) {
        self.retire_all();
        self.unnamed = None;
        self.needs_reset = true;
    }

    /// These settings are in force.
    pub fn has(&self, settings: &SessionSettings) -> bool {
        self.settings.id == settings.id
            && !self.needs_reset
            && !self.drops_all()
            && !self.analysis_settings_set
    }

    /// Are all statements to be dropped before it serves another client?
    fn drops_all(&self) -> bool {
        self.unknown_prepared || self.pending_close.len() > PENDING_CLOSE_MAX
    }

    /// Writes what puts `settings` in force. Returns how many `Query`s that are, whose answers are not for any client. Numbers of sequences
    /// that a client with the token `reader` must not read are forgotten on this occasion.
    pub fn adopt(
        &mut self,
        settings: &Arc<SessionSettings>,
        reader: SequenceToken,
        out: &mut BytesMut,
    ) -> usize {
        let mut sql = settings.adopt_sql(&self.settings, self.needs_reset);
        if self.needs_reset && !self.prepared.is_empty() {
            // What a function may have done, too.
            sql = Some(STATEMENTS_ARE_THERE.to_owned() + &sql.unwrap_or_default());
        }
        if std::mem::take(&mut self.analysis_settings_set) {
            // What a client has set of them comes after.
            let own = || settings.own_sql(&ANALYSIS_SETTINGS);
            let reset: String = ANALYSIS_SETTINGS
                .iter()
                .map(|name| format!("RESET {name}; "))
                .collect();
            sql = Some(reset + &sql.unwrap_or_else(own));
        }
        if self.drops_all() {
            self.unknown_prepared = false;
            self.pending_close.clear();
            self.forget_all();
            sql = Some("DEALLOCATE ALL; ".to_owned() + &sql.unwrap_or_default());
        }
        self.settings = Arc::clone(settings);
        self.needs_reset = false;
        let Some(mut sql) = sql else {
            return 0;
        };
        if !self.sequences.is_readable(reader) {
            sql.push_str(DISCARD);
            self.sequences = SequenceState::Clean;
        }
        // A simple query drops the unnamed statement.
        self.unnamed = None;
        if sql.is_ascii() {
            frontend::write_query(out, &sql);
            return 1;
        }
        // PostgreSQL reads a whole text in the encoding that is in force when it comes.
        let encoding = settings.own_sql(&[CLIENT_ENCODING]);
        frontend::write_query(out, &format!("RESET client_encoding; {encoding}"));
        frontend::write_query(out, &sql);
        2
    }
}

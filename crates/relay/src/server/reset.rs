//! Resets a server connection before it serves another client.

use super::ServerSide;
use crate::sequences::{DISCARD, SequenceState, SequenceToken};
use crate::settings::{CLIENT_ENCODING, SessionSettings};
use bytes::BytesMut;
use paceline_wire::frontend;
use std::sync::Arc;

/// If more statements must be closed, all statements are dropped at once.
pub(super) const PENDING_CLOSE_MAX: usize = 64;

/// Raises an error if a function has dropped all prepared statements. Then the connection does not serve another client.
const STATEMENTS_ARE_THERE: &str = "SELECT 1 OPERATOR(pg_catalog./) pg_catalog.count(*) \
     FROM pg_catalog.pg_prepared_statements WHERE pg_catalog.starts_with(name, 'paceline_'); ";

/// The settings that catalog analysis changes on its connection.
pub const ANALYSIS_SETTINGS: [&str; 2] = ["lock_timeout", "jit"];

impl ServerSide {
    /// `DISCARD ALL` has reset the session. `none`: the empty settings.
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

    /// A statement has run that may have changed any setting and any prepared statement.
    pub fn mark_unknown(&mut self) {
        self.retire_all();
        self.unnamed = None;
        self.needs_reset = true;
    }

    /// Whether these settings are in force and no reset is necessary.
    pub fn has(&self, settings: &SessionSettings) -> bool {
        self.settings.id == settings.id
            && !self.needs_reset
            && !self.drops_all()
            && !self.analysis_settings_set
            && self.unknown_settings.is_none()
    }

    /// Whether all statements must be dropped before the connection serves another client.
    fn drops_all(&self) -> bool {
        self.unknown_prepared || self.pending_close.len() > PENDING_CLOSE_MAX
    }

    /// Writes the `Query` messages that put `settings` in force, and returns their number. No client receives their answers.
    /// Discards sequence values that a client with the token `reader` must not read.
    pub fn adopt(
        &mut self,
        settings: &Arc<SessionSettings>,
        reader: SequenceToken,
        out: &mut BytesMut,
    ) -> usize {
        self.settings_are_known();
        let mut sql = settings.adopt_sql(&self.settings, self.needs_reset);
        if self.needs_reset && !self.prepared.is_empty() {
            // A function may have dropped statements, too.
            sql = Some(STATEMENTS_ARE_THERE.to_owned() + &sql.unwrap_or_default());
        }
        if std::mem::take(&mut self.analysis_settings_set) {
            // The client's own values follow the RESET.
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
        // PostgreSQL decodes a text in the encoding that is in force when it arrives.
        let encoding = settings.own_sql(&[CLIENT_ENCODING]);
        frontend::write_query(out, &format!("RESET client_encoding; {encoding}"));
        frontend::write_query(out, &sql);
        2
    }
}

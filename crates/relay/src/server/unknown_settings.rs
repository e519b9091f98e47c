//! Settings that are in force and not known: a statement of the transaction under way may have changed them until the transaction ends, or
//! in a way that its text does not show. Statements that the server parses meanwhile have keys with an id of settings that no client has,
//! so they serve no other client, and no later transaction.

use super::{Preparable, ServerSide, StatementKey, UnknownSettings};
use crate::parsed::ClientParse;
use hashlink::LinkedHashSet;

impl ServerSide {
    /// From now on, settings that decide the meaning of statements may have other values than those of the session. `new_id` returns an id
    /// of settings that is used once.
    pub(crate) fn settings_are_unknown(&mut self, new_id: impl FnOnce() -> u64) {
        self.unknown_settings
            .get_or_insert_with(|| UnknownSettings {
                id: new_id(),
                statements: LinkedHashSet::default(),
            });
    }

    /// No transaction is under way. Unless the connection must be reset, the settings are those of the session.
    pub(crate) fn transaction_has_ended(&mut self) {
        self.path_unknown = false;
        if !self.needs_reset {
            self.settings_are_known();
        }
    }

    pub(super) fn settings_are_known(&mut self) {
        let unknown = self.unknown_settings.take();
        let statements = unknown.map(|unknown| unknown.statements);
        let statements = statements.into_iter().flatten();
        statements.for_each(|key| self.retire(key));
    }

    /// The id of the settings under which the server parses statements.
    pub(crate) fn settings_id(&self) -> u64 {
        let unknown = self.unknown_settings.as_ref();
        unknown.map_or(self.settings.id, |unknown| unknown.id)
    }

    /// Paceline has prepared the statement. If the settings are unknown, it serves only until they are known.
    pub(super) fn note_prepared(&mut self, key: StatementKey) {
        if let Some(unknown) = &mut self.unknown_settings {
            unknown.statements.insert(key);
        }
    }

    /// The statement is closed.
    pub(super) fn forget_prepared(&mut self, key: StatementKey) {
        if let Some(unknown) = &mut self.unknown_settings {
            unknown.statements.remove(&key);
        }
    }

    /// A statement is executed after functions that may have changed settings for the session. It is closed if PostgreSQL may have analysed
    /// it again with another meaning.
    pub fn executed_after_functions(&mut self, key: StatementKey, text: &str) {
        if may_depend_on_settings(text) {
            self.retire(key);
        }
    }

    /// If the settings are unknown: the statement that the server has parsed under those of the session, if it serves a client that
    /// prepared its own under them. PostgreSQL keeps its meaning, unless it analyses the statement again.
    pub(super) fn of_session(
        &self,
        statement: Preparable<'_>,
        client_parse: &ClientParse,
    ) -> Option<StatementKey> {
        self.unknown_settings.as_ref()?;
        let key = StatementKey::new(statement.id, self.settings.id);
        let there = self.prepared.get(&key)?;
        let serves =
            client_parse.settings == key.settings && there.serves(client_parse, statement.types);
        serves.then_some(key)
    }

    /// The statement of the session is executed under unknown settings.
    pub(super) fn use_of_session(&mut self, key: StatementKey, text: &str) {
        self.prepared.to_back(&key);
        if may_depend_on_settings(text) {
            self.note_prepared(key);
        }
    }
}

/// Whether a statement may have another meaning if PostgreSQL analyses it again: settings other than the search path decide how PostgreSQL
/// reads constants, and `= NULL`. (When the search path has changed, PostgreSQL analyses each statement again.)
pub(super) fn may_depend_on_settings(text: &str) -> bool {
    let is_constant = |pair: &[u8]| matches!(pair, [b'$', next] if !next.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.contains(&b'\'')
        || bytes.windows(2).any(is_constant)
        || bytes
            .windows(4)
            .any(|word| word.eq_ignore_ascii_case(b"null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_depend_on_settings() {
        for text in [
            "SELECT '2026-01-01'::timestamptz",
            "SELECT $$now$$::date",
            "SELECT $a$now$a$::date",
            "SELECT a = Null",
        ] {
            assert!(may_depend_on_settings(text), "{text}");
        }
        for text in ["SELECT a FROM t WHERE b = $1 AND c > 5", "", "SELECT $1"] {
            assert!(!may_depend_on_settings(text), "{text}");
        }
    }
}

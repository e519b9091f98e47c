//! Session settings that follow a client from server to server: for each name the SQL that sets it again. `interner` changes them,
//! and makes equal settings one object; `idle_timeout` reads `idle_session_timeout`, which Paceline enforces itself.

mod idle_timeout;
mod interner;
#[cfg(test)]
mod tests;

pub use idle_timeout::{IdleTimeout, idle_timeout_sql, read_milliseconds};
pub use interner::SettingsInterner;

use paceline_sql::{IDLE_SESSION_TIMEOUT, SessionChange};
use std::collections::BTreeMap;

/// The settings of a session. Equal settings are one object with one id.
#[derive(Debug)]
pub struct SessionSettings {
    /// 0: nothing is set.
    pub id: u64,
    sets: BTreeMap<String, String>,
    bytes: usize,
    name_temporaries: bool,
    idle_session_timeout: IdleTimeout,
}

/// Maximum number of settings that follow a client.
const SETTINGS_MAX: usize = 1_000;
/// Maximum number of bytes of the SQL that sets them. Each change, and each change of the server connection, processes all
/// of them.
const SETTINGS_BYTES_MAX: usize = 64 * 1024;

/// `RESET ALL` leaves these settings unchanged. They are set after all others.
pub(crate) const IDENTITY: [&str; 2] = ["session_authorization", "role"];

const NO_ROLE: &str = "SET ROLE NONE";

const TRANSACTION_TIMEOUT: &str = "transaction_timeout";
const SEARCH_PATH: &str = "search_path";
pub(crate) const CLIENT_ENCODING: &str = "client_encoding";

/// Set before all others, because they change how the server reads the others.
const FIRST: [&str; 2] = [CLIENT_ENCODING, SEARCH_PATH];

impl SessionSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Number of settings.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Bytes of all names and their SQL.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the settings would exceed a limit after this change, so that they could not follow the client.
    pub fn are_too_many_with(&self, change: &SessionChange) -> bool {
        match change {
            SessionChange::Set { name, sql } => {
                self.sets.len() >= SETTINGS_MAX
                    || self.bytes + name.len() + sql.len() > SETTINGS_BYTES_MAX
            }
            _ => false,
        }
    }

    /// Whether the client's texts are UTF-8 according to its settings.
    pub fn is_utf8(&self) -> bool {
        let encoding = self.sets.get(CLIENT_ENCODING);
        encoding.is_none_or(|sql| {
            let sql = sql.to_ascii_lowercase();
            sql.contains("utf8") || sql.contains("utf-8")
        })
    }

    /// The SQL that sets this setting. `None` if it is not set.
    pub fn sql_of(&self, name: &str) -> Option<&str> {
        self.sets.get(name).map(String::as_str)
    }

    /// Whether the session has another role than that of its login.
    pub fn change_identity(&self) -> bool {
        IDENTITY.iter().any(|name| self.sets.contains_key(*name))
    }

    /// Whether `search_path` names the temporary schema. Then a statement may create temporary objects although its text
    /// does not say so.
    pub fn name_temporaries(&self) -> bool {
        self.name_temporaries
    }

    /// The client's own limit for the time that it may be idle outside a transaction.
    pub fn idle_session_timeout(&self) -> IdleTimeout {
        self.idle_session_timeout
    }

    /// SQL that sets those of these settings that the client has set.
    pub fn own_sql(&self, names: &[impl AsRef<str>]) -> String {
        self.sql_where(|name| names.iter().any(|wanted| wanted.as_ref() == name))
    }

    /// Settings whose SQL is not ASCII. Its meaning depends on the encoding.
    pub fn encoded(&self) -> impl Iterator<Item = &str> {
        let encoded = self.sets.iter().filter(|(_, sql)| !sql.is_ascii());
        encoded.map(|(name, _)| name.as_str())
    }

    /// SQL that sets the wanted settings: first the encoding and the search path, because they change how the server reads
    /// others; last the identities, because `SET SESSION AUTHORIZATION` resets the role.
    pub fn sql_where(&self, wanted: impl Fn(&str) -> bool) -> String {
        let first = FIRST.iter();
        let first = first.filter_map(|name| self.sets.get_key_value(*name));
        let others = self.sets.iter();
        let others = others.filter(|(name, _)| !is_identity(name) && !FIRST.contains(&&***name));
        let ordinary = first.chain(others);
        let identities = IDENTITY
            .iter()
            .filter_map(|name| self.sets.get_key_value(*name));
        let all = ordinary.chain(identities);
        all.filter(|(name, _)| wanted(name) && *name != IDLE_SESSION_TIMEOUT)
            .map(|(_, sql)| format!("{sql}; "))
            .collect()
    }

    /// Those of the settings that the session began with which this RESET sets to the server's default.
    pub fn taken_away(&self, change: &SessionChange) -> Vec<String> {
        match change {
            SessionChange::Reset { name } => {
                let known = self.sets.get_key_value(name);
                known.map(|(name, _)| name.clone()).into_iter().collect()
            }
            SessionChange::ResetAll => {
                let reset = self.sets.keys().filter(|name| !is_identity(name));
                reset.cloned().collect()
            }
            SessionChange::DiscardAll => self.sets.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// SQL that changes a server from the settings `from` to these settings. If `needs_reset`, the settings of the server
    /// are unknown. `None` if the server has these settings.
    pub fn adopt_sql(&self, from: &SessionSettings, needs_reset: bool) -> Option<String> {
        if self.id == from.id && !needs_reset {
            return None;
        }
        let mut sql = String::new();
        if needs_reset || !from.is_empty() {
            // The timeouts of the last client must not cancel the reset.
            sql.push_str("SET statement_timeout TO 0; SET lock_timeout TO 0; ");
        }
        if needs_reset || from.sets.contains_key(TRANSACTION_TIMEOUT) {
            // Servers before PostgreSQL 17 do not have this setting.
            sql.push_str(
                "SELECT pg_catalog.set_config('transaction_timeout', '0', false) \
                 WHERE pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL; ",
            );
        }
        if needs_reset {
            // A function or DO may have left these.
            sql.push_str(
                "CLOSE ALL; UNLISTEN *; DISCARD TEMP; SELECT pg_catalog.pg_advisory_unlock_all(); ",
            );
            sql.push_str(RANDOM_SEED);
        }
        if needs_reset || !from.is_empty() {
            sql.push_str("RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; ");
        }
        sql.push_str(&self.sql_where(|_| true));
        Some(sql)
    }
}

/// A function or DO may have set the seed of `random()`.
const RANDOM_SEED: &str = "SELECT pg_catalog.setseed(pg_catalog.hashtext(pg_catalog.gen_random_uuid()::pg_catalog.text)::pg_catalog.float8 \
     OPERATOR(pg_catalog./) 2147483648::pg_catalog.float8); ";

fn is_identity(name: &str) -> bool {
    IDENTITY.contains(&name)
}

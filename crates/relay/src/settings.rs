//! Session settings that follow a client from server to server: for each name the SQL that sets it again.

use paceline_sql::{IDLE_SESSION_TIMEOUT, SessionChange, define_option_sql, is_custom_option};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

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

/// The client's setting of `idle_session_timeout`. Paceline enforces the limit. On an idle server connection the setting is
/// 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleTimeout {
    /// The client has set none. The server's default applies.
    NotSet,
    /// The client has set a value. Paceline must still ask the server for it in milliseconds.
    Unread,
    /// The value in force. Zero means no limit.
    Is(Duration),
}

impl IdleTimeout {
    fn of(sql: Option<&String>) -> Self {
        let Some(sql) = sql else {
            return Self::NotSet;
        };
        let read = sql
            .strip_prefix(IDLE_TIMEOUT_READ)
            .and_then(|ms| ms.parse().ok());
        read.map_or(Self::Unread, |ms| Self::Is(Duration::from_millis(ms)))
    }
}

/// Prefix of the milliseconds that the server has returned for `idle_session_timeout`. It is not valid SQL: no client can
/// send it, and Paceline sends it to no server.
const IDLE_TIMEOUT_READ: &str = "idle for milliseconds: ";

/// The entry for an `idle_session_timeout` whose value the server has returned.
pub fn idle_timeout_sql(value: Duration) -> String {
    format!("{IDLE_TIMEOUT_READ}{}", value.as_millis())
}

/// Reads a duration as PostgreSQL displays it: a whole number and the largest unit that fits.
pub fn read_milliseconds(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit).map(Duration::from_millis)
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

    /// Whether the client's texts are UTF-8, as far as its settings tell.
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
        }
        if needs_reset || !from.is_empty() {
            sql.push_str("RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; ");
        }
        sql.push_str(&self.sql_where(|_| true));
        Some(sql)
    }
}

/// Makes equal settings one object, for all sessions of a process.
#[derive(Debug)]
pub struct SettingsInterner {
    known: Mutex<HashMap<BTreeMap<String, String>, Weak<SessionSettings>>>,
    none: Arc<SessionSettings>,
    next_id: AtomicU64,
}

impl Default for SettingsInterner {
    fn default() -> Self {
        Self {
            known: Mutex::new(HashMap::new()),
            none: Arc::new(SessionSettings {
                id: 0,
                sets: BTreeMap::new(),
                bytes: 0,
                name_temporaries: false,
                idle_session_timeout: IdleTimeout::NotSet,
            }),
            next_id: AtomicU64::new(1),
        }
    }
}

/// Number of entries from which on unused settings are removed.
const INTERNED_SWEEP_MIN: usize = 256;

impl SettingsInterner {
    /// The empty settings.
    pub fn none(&self) -> Arc<SessionSettings> {
        Arc::clone(&self.none)
    }

    /// The settings after a change. `base`: the settings to which RESET returns.
    pub fn after(
        &self,
        settings: &Arc<SessionSettings>,
        base: &Arc<SessionSettings>,
        change: &SessionChange,
    ) -> Arc<SessionSettings> {
        let mut sets = settings.sets.clone();
        match change {
            SessionChange::Set { name, sql } => {
                let sql = match is_identity(name) || name == IDLE_SESSION_TIMEOUT {
                    true => sql.clone(),
                    false => as_identity(&sets, sql),
                };
                sets.insert(name.clone(), sql);
                give_up_role(&mut sets, name);
            }
            SessionChange::Reset { name } => {
                match base.sets.get(name) {
                    Some(sql) => sets.insert(name.clone(), sql.clone()),
                    None => sets.remove(name),
                };
                give_up_role(&mut sets, name);
                know(&mut sets, [name]);
            }
            SessionChange::ResetAll => {
                // RESET ALL leaves identities unchanged.
                sets.retain(|name, _| is_identity(name));
                let back = base.sets.iter().filter(|(name, _)| !is_identity(name));
                sets.extend(back.map(|(name, sql)| (name.clone(), sql.clone())));
                know(&mut sets, settings.sets.keys());
            }
            SessionChange::DiscardAll => {
                sets.clone_from(&base.sets);
                know(&mut sets, settings.sets.keys());
            }
            SessionChange::OptionDefined { name } => know(&mut sets, [name]),
            _ => return Arc::clone(settings),
        }
        self.intern(sets)
    }

    /// The settings after a rollback to `before`. PostgreSQL never forgets a custom name, so those that `after` has remain.
    pub fn rolled_back(
        &self,
        before: &Arc<SessionSettings>,
        after: &SessionSettings,
    ) -> Arc<SessionSettings> {
        let mut sets = before.sets.clone();
        know(&mut sets, after.sets.keys());
        self.intern(sets)
    }

    /// The settings with these names, and the SQL that sets each.
    pub fn intern(&self, sets: BTreeMap<String, String>) -> Arc<SessionSettings> {
        if sets.is_empty() {
            return self.none();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&sets).and_then(Weak::upgrade) {
            return found;
        }
        if known.len() >= INTERNED_SWEEP_MIN && known.len() == known.capacity() {
            known.retain(|_, settings| settings.strong_count() > 0);
            // The next removal runs at twice the number of entries. Thus the cost per added entry is constant.
            let used = known.len();
            known.reserve(used);
        }
        let settings = Arc::new(SessionSettings {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            bytes: sets.iter().map(|(name, sql)| name.len() + sql.len()).sum(),
            name_temporaries: sets
                .get(SEARCH_PATH)
                .is_some_and(|sql| sql.to_ascii_lowercase().contains("pg_temp")),
            idle_session_timeout: IdleTimeout::of(sets.get(IDLE_SESSION_TIMEOUT)),
            sets: sets.clone(),
        });
        known.insert(sets, Arc::downgrade(&settings));
        settings
    }
}

/// Maximum number of custom names that follow a client without a value. PostgreSQL returns an empty text for such a name,
/// not NULL.
const KNOWN_NAMES_MAX: usize = 64;

/// Adds those of these names that are custom names, without a value.
fn know<'a>(sets: &mut BTreeMap<String, String>, names: impl IntoIterator<Item = &'a String>) {
    for name in names {
        if is_custom_option(name) && !sets.contains_key(name) && sets.len() < KNOWN_NAMES_MAX {
            sets.insert(name.clone(), define_option_sql(name));
        }
    }
}

fn is_identity(name: &str) -> bool {
    IDENTITY.contains(&name)
}

/// The SQL that sets a value as the identities of the session: possibly only they may set it, and it may remove their right
/// to change the identity.
fn as_identity(sets: &BTreeMap<String, String>, sql: &str) -> String {
    let taken = IDENTITY.iter().filter_map(|name| sets.get(*name));
    let taken: Vec<&str> = taken
        .map(String::as_str)
        .filter(|sql| *sql != NO_ROLE)
        .collect();
    match taken.is_empty() {
        true => sql.to_owned(),
        false => format!(
            "{}; {sql}; RESET SESSION AUTHORIZATION; RESET ROLE",
            taken.join("; ")
        ),
    }
}

/// `SET SESSION AUTHORIZATION` resets the role.
fn give_up_role(sets: &mut BTreeMap<String, String>, name: &str) {
    if name == "session_authorization" {
        sets.remove("role");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> SessionChange {
        SessionChange::Set {
            name: name.into(),
            sql: format!("SET {name} TO {value}"),
        }
    }

    #[test]
    fn equal_settings_are_one_and_reset_goes_back_to_the_base() {
        let interner = SettingsInterner::default();
        let base = interner.after(&interner.none(), &interner.none(), &set("a", "1"));
        let changed = interner.after(&base, &base, &set("a", "2"));
        assert_ne!(base.id, changed.id);
        let reset = SessionChange::Reset { name: "a".into() };
        assert_eq!(interner.after(&changed, &base, &reset).id, base.id);
        assert_eq!(
            interner
                .after(&changed, &base, &SessionChange::DiscardAll)
                .id,
            base.id
        );
        assert_eq!(interner.after(&changed, &base, &set("a", "1")).id, base.id);
    }

    #[test]
    fn adopting_resets_settings_and_does_nothing_between_equals() {
        let interner = SettingsInterner::default();
        let a = interner.after(&interner.none(), &interner.none(), &set("a", "1"));
        assert_eq!(a.adopt_sql(&a, false), None);
        assert_eq!(
            a.adopt_sql(&interner.none(), false).unwrap(),
            "SET a TO 1; "
        );
        assert!(
            interner
                .none()
                .adopt_sql(&a, false)
                .unwrap()
                .contains("RESET ALL")
        );
        assert!(a.adopt_sql(&a, true).unwrap().contains("RESET ALL"));
    }

    #[test]
    fn too_many_settings_do_not_follow_their_client() {
        let interner = SettingsInterner::default();
        let mut settings = interner.none();
        for n in 0..SETTINGS_MAX {
            let change = set(&format!("a.b{n}"), "1");
            assert!(!settings.are_too_many_with(&change), "{n}");
            settings = interner.after(&settings, &interner.none(), &change);
        }
        assert!(settings.are_too_many_with(&set("a.more", "1")));
        let long = set("a", &"x".repeat(SETTINGS_BYTES_MAX));
        assert!(interner.none().are_too_many_with(&long));
        assert!(!settings.are_too_many_with(&SessionChange::ResetAll));
    }

    /// Not a measurement. If the cost of an entry depends on the number of entries, the test does not end.
    #[test]
    fn interning_many_settings_costs_no_more_than_few() {
        const MANY: usize = (1 << 16) - 1;
        let interner = SettingsInterner::default();
        let none = interner.none();
        let with = |n: usize| interner.after(&none, &none, &set("a", &n.to_string()));
        let used: Vec<_> = (0..MANY).map(with).collect();
        for n in MANY..4 * MANY {
            with(n);
        }
        let known = interner.known.lock().unwrap().len();
        assert!(known >= used.len() && known <= 4 * used.len(), "{known}");
    }

    #[test]
    fn set_session_authorization_resets_the_role() {
        let interner = SettingsInterner::default();
        let role = interner.after(&interner.none(), &interner.none(), &set("role", "r"));
        let reset = SessionChange::Reset {
            name: "session_authorization".into(),
        };
        assert!(interner.after(&role, &interner.none(), &reset).is_empty());
        let other = interner.after(&role, &interner.none(), &set("session_authorization", "s"));
        let sql = other.adopt_sql(&interner.none(), false).unwrap();
        assert!(!sql.contains("role"), "{sql}");
    }

    #[test]
    fn the_role_survives_reset_all_and_is_set_last() {
        let interner = SettingsInterner::default();
        let role = interner.after(&interner.none(), &interner.none(), &set("role", "r"));
        let both = interner.after(&role, &interner.none(), &set("z", "1"));
        assert!(
            both.adopt_sql(&interner.none(), false)
                .unwrap()
                .ends_with("SET role TO r; ")
        );
        assert_eq!(
            interner
                .after(&both, &interner.none(), &SessionChange::ResetAll)
                .id,
            role.id
        );
    }

    #[test]
    fn reset_all_leaves_the_role_set_after_the_login() {
        let interner = SettingsInterner::default();
        let base = interner.after(&interner.none(), &interner.none(), &set("role", "first"));
        let base = interner.after(&base, &base, &set("a", "1"));
        let now = interner.after(&base, &base, &set("role", "second"));
        let after = interner.after(&now, &base, &SessionChange::ResetAll);
        assert_eq!(after.sql_of("role"), Some("SET role TO second"));
        assert_eq!(base.taken_away(&SessionChange::ResetAll), ["a"]);
    }

    #[test]
    fn settings_are_restored_with_the_role_last() {
        let interner = SettingsInterner::default();
        let who = interner.after(
            &interner.none(),
            &interner.none(),
            &set("session_authorization", "s"),
        );
        let both = interner.after(&who, &who, &set("role", "r"));
        let sql = both.own_sql(&["role", "session_authorization"]);
        assert_eq!(sql, "SET session_authorization TO s; SET role TO r; ");
    }

    #[test]
    fn a_reset_is_not_cancelled_by_the_timeouts_it_resets() {
        let interner = SettingsInterner::default();
        let limited = interner.after(
            &interner.none(),
            &interner.none(),
            &set("statement_timeout", "1"),
        );
        for (from, needs_reset) in [(limited, false), (interner.none(), true)] {
            let sql = interner.none().adopt_sql(&from, needs_reset).unwrap();
            assert!(sql.starts_with("SET statement_timeout TO 0; SET lock_timeout TO 0; "));
        }
    }
}

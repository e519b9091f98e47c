//! The settings after a change. Equal settings are one object with one id, so that comparing them costs nothing.

use super::{IDENTITY, IdleTimeout, NO_ROLE, SEARCH_PATH, SessionSettings, is_identity};
use paceline_sql::{IDLE_SESSION_TIMEOUT, SessionChange, define_option_sql, is_custom_option};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

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

    /// An id that no settings have.
    pub(crate) fn unknown_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
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

    /// The settings for a server on which the search path is fixed.
    pub fn without_search_path(&self, settings: &Arc<SessionSettings>) -> Arc<SessionSettings> {
        if settings.sql_of(SEARCH_PATH).is_none() {
            return Arc::clone(settings);
        }
        let mut sets = settings.sets.clone();
        sets.remove(SEARCH_PATH);
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

    /// Not a measurement. If the cost of an entry depends on the number of entries, the test does not end.
    #[test]
    fn interning_many_settings_costs_no_more_than_few() {
        const MANY: usize = (1 << 16) - 1;
        let interner = SettingsInterner::default();
        let none = interner.none();
        let set = |n: usize| SessionChange::Set {
            name: "a".into(),
            sql: format!("SET a TO {n}"),
        };
        let with = |n: usize| interner.after(&none, &none, &set(n));
        let used: Vec<_> = (0..MANY).map(with).collect();
        for n in MANY..4 * MANY {
            with(n);
        }
        let known = interner.known.lock().unwrap().len();
        assert!(known >= used.len() && known <= 4 * used.len(), "{known}");
    }
}

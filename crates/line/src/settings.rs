//! Session settings that follow a client across servers: what it SET, by name, as the SQL that sets it again.

use paceline_sql::SessionChange;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A set of settings; equal sets are one object with one id.
#[derive(Debug)]
pub struct Settings {
    /// Equal ids mean equal settings. 0: nothing is set.
    pub id: u64,
    sets: BTreeMap<String, String>,
}

/// Set apart from ordinary settings: RESET ALL leaves them, and they are set last.
const IDENTITY: [&str; 2] = ["session_authorization", "role"];

impl Settings {
    /// Nothing is set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The client's text is UTF-8, as far as its settings tell.
    pub fn is_utf8(&self) -> bool {
        let encoding = self.sets.get("client_encoding");
        encoding.is_none_or(|sql| {
            let sql = sql.to_ascii_lowercase();
            sql.contains("utf8") || sql.contains("utf-8")
        })
    }

    /// The SQL that sets this one; `None`: it is not set.
    pub fn sql_of(&self, name: &str) -> Option<&str> {
        self.sets.get(name).map(String::as_str)
    }

    /// SQL that sets again what the client has set of these.
    pub fn own_sql(&self, names: &[impl AsRef<str>]) -> String {
        let own = names.iter().filter_map(|name| self.sets.get(name.as_ref()));
        own.map(|sql| format!("{sql}; ")).collect()
    }

    /// Of settings that the session began with, those that a RESET on its server takes away from it.
    pub fn taken_away(&self, change: &SessionChange) -> Vec<String> {
        match change {
            SessionChange::Reset { name } => {
                let known = self.sets.get_key_value(name);
                known.map(|(name, _)| name.clone()).into_iter().collect()
            }
            SessionChange::ResetAll | SessionChange::DiscardAll => {
                self.sets.keys().cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// SQL that turns a server from `from` (or from anything, when it is `tainted`) to these settings; `None` when
    /// there is nothing to do.
    pub fn adopt_sql(&self, from: &Settings, tainted: bool) -> Option<String> {
        if self.id == from.id && !tainted {
            return None;
        }
        let mut sql = String::new();
        if tainted {
            // What a function or DO may have left behind besides settings.
            sql.push_str(
                "CLOSE ALL; UNLISTEN *; DISCARD TEMP; SELECT pg_catalog.pg_advisory_unlock_all(); ",
            );
        }
        if tainted || !from.is_empty() {
            sql.push_str("RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; ");
        }
        let identity = |name: &String| IDENTITY.iter().any(|i| i == name);
        let ordinary = self.sets.iter().filter(|(name, _)| !identity(name));
        let identities = IDENTITY.iter().filter_map(|name| self.sets.get(*name));
        for set in ordinary.map(|(_, sql)| sql).chain(identities) {
            sql.push_str(set);
            sql.push_str("; ");
        }
        Some(sql)
    }
}

/// All settings in use in a process.
#[derive(Debug)]
pub struct SettingsBook {
    known: Mutex<HashMap<BTreeMap<String, String>, Weak<Settings>>>,
    none: Arc<Settings>,
    next_id: AtomicU64,
}

impl Default for SettingsBook {
    fn default() -> Self {
        Self {
            known: Mutex::new(HashMap::new()),
            none: Arc::new(Settings {
                id: 0,
                sets: BTreeMap::new(),
            }),
            next_id: AtomicU64::new(1),
        }
    }
}

/// Entries at which the book is searched for settings that nobody uses.
const BOOK_SWEEP_MIN: usize = 256;

impl SettingsBook {
    /// Nothing set.
    pub fn none(&self) -> Arc<Settings> {
        Arc::clone(&self.none)
    }

    /// The settings after a change. `base` is what RESET goes back to.
    pub fn after(
        &self,
        settings: &Arc<Settings>,
        base: &Arc<Settings>,
        change: &SessionChange,
    ) -> Arc<Settings> {
        let mut sets = settings.sets.clone();
        match change {
            SessionChange::Set { name, sql } => {
                sets.insert(name.clone(), sql.clone());
                give_up_role(&mut sets, name);
            }
            SessionChange::Reset { name } => {
                match base.sets.get(name) {
                    Some(sql) => sets.insert(name.clone(), sql.clone()),
                    None => sets.remove(name),
                };
                give_up_role(&mut sets, name);
            }
            SessionChange::ResetAll => {
                let identities = sets
                    .into_iter()
                    .filter(|(n, _)| IDENTITY.contains(&n.as_str()));
                let mut kept: BTreeMap<_, _> = identities.collect();
                kept.extend(base.sets.clone());
                sets = kept;
            }
            SessionChange::DiscardAll => return Arc::clone(base),
            _ => return Arc::clone(settings),
        }
        self.intern(sets)
    }

    /// Settings from pairs of name and the SQL that sets it.
    pub fn intern(&self, sets: BTreeMap<String, String>) -> Arc<Settings> {
        if sets.is_empty() {
            return self.none();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&sets).and_then(Weak::upgrade) {
            return found;
        }
        if known.len() >= BOOK_SWEEP_MIN && known.len().is_power_of_two() {
            known.retain(|_, settings| settings.strong_count() > 0);
        }
        let settings = Arc::new(Settings {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            sets: sets.clone(),
        });
        known.insert(sets, Arc::downgrade(&settings));
        settings
    }
}

/// Who takes another identity has no role any more.
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
        let book = SettingsBook::default();
        let base = book.after(&book.none(), &book.none(), &set("a", "1"));
        let changed = book.after(&base, &base, &set("a", "2"));
        assert_ne!(base.id, changed.id);
        let reset = SessionChange::Reset { name: "a".into() };
        assert_eq!(book.after(&changed, &base, &reset).id, base.id);
        assert_eq!(
            book.after(&changed, &base, &SessionChange::DiscardAll).id,
            base.id
        );
        assert_eq!(book.after(&changed, &base, &set("a", "1")).id, base.id);
    }

    #[test]
    fn adopting_resets_what_was_set_and_does_nothing_between_equals() {
        let book = SettingsBook::default();
        let a = book.after(&book.none(), &book.none(), &set("a", "1"));
        assert_eq!(a.adopt_sql(&a, false), None);
        assert_eq!(a.adopt_sql(&book.none(), false).unwrap(), "SET a TO 1; ");
        assert!(
            book.none()
                .adopt_sql(&a, false)
                .unwrap()
                .contains("RESET ALL")
        );
        assert!(a.adopt_sql(&a, true).unwrap().contains("RESET ALL"));
    }

    #[test]
    fn another_identity_has_no_role() {
        let book = SettingsBook::default();
        let role = book.after(&book.none(), &book.none(), &set("role", "r"));
        let reset = SessionChange::Reset {
            name: "session_authorization".into(),
        };
        assert!(book.after(&role, &book.none(), &reset).is_empty());
        let other = book.after(&role, &book.none(), &set("session_authorization", "s"));
        let sql = other.adopt_sql(&book.none(), false).unwrap();
        assert!(!sql.contains("role"), "{sql}");
    }

    #[test]
    fn the_role_survives_reset_all_and_is_set_last() {
        let book = SettingsBook::default();
        let role = book.after(&book.none(), &book.none(), &set("role", "r"));
        let both = book.after(&role, &book.none(), &set("z", "1"));
        assert!(
            both.adopt_sql(&book.none(), false)
                .unwrap()
                .ends_with("SET role TO r; ")
        );
        assert_eq!(
            book.after(&both, &book.none(), &SessionChange::ResetAll).id,
            role.id
        );
    }
}

//! Overrides: the keys of `[paceline]` that the table of a database or user replaces.

use crate::error::ConfigProblem;
use crate::settings::{Key, PoolMode, Settings, Table, keys};
use crate::value::Written;

/// The keys that one table replaces, and their values there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolOverrides {
    keys: Vec<&'static Key>,
    /// Only the values of `keys` count. `None` if there are none.
    values: Option<Box<Settings>>,
}

impl PoolOverrides {
    /// Checks the value of a key and stores it; on an error nothing changes.
    pub(crate) fn set(
        &mut self,
        key: &'static Key,
        written: Written<'_>,
    ) -> Result<(), ConfigProblem> {
        key.apply_there(self.values.get_or_insert_default(), written)?;
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
        Ok(())
    }

    /// Replaces the values of these keys in `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        self.apply_some(settings, |_| true);
    }

    /// Replaces the value of the key called `name`, if this table has it.
    pub(crate) fn apply_key(&self, settings: &mut Settings, name: &str) {
        self.apply_some(settings, |key| key.name == name);
    }

    fn apply_some(&self, settings: &mut Settings, wanted: impl Fn(&Key) -> bool) {
        let Some(values) = &self.values else {
            return;
        };
        for key in self.keys.iter().filter(|key| wanted(key)) {
            key.copy(values, settings);
        }
    }

    /// The values, if this table has the key called `name`.
    fn with(&self, name: &str) -> Option<&Settings> {
        let has = self.keys.iter().any(|key| key.name == name);
        self.values.as_deref().filter(|_| has)
    }

    /// The pool mode, if this table sets it.
    #[must_use]
    pub fn pool_mode(&self) -> Option<PoolMode> {
        Some(self.with("pool_mode")?.pooling.pool_mode)
    }

    /// Maximum server connections of a pool without the reserve, if this table sets it.
    #[must_use]
    pub fn pool_size(&self) -> Option<usize> {
        Some(self.with("default_pool_size")?.pooling.default_pool_size)
    }

    /// Server connections in the reserve, if this table sets it.
    #[must_use]
    pub fn reserve_pool_size(&self) -> Option<usize> {
        Some(self.with("reserve_pool_size")?.pooling.reserve_pool_size)
    }
}

/// The keys that such a table may have, in the order of the documentation.
pub(crate) fn keys_in(table: Table) -> impl Iterator<Item = &'static Key> {
    keys().filter(move |key| key.tables.contains(&table))
}

/// The key that is called `name` in such a table.
pub(crate) fn key_in(table: Table, name: &str) -> Option<&'static Key> {
    keys_in(table).find(|key| key.override_name == name || key.override_alias == Some(name))
}

/// The names of these keys, and their other names.
pub(crate) fn names_in(table: Table) -> impl Iterator<Item = &'static str> {
    keys_in(table)
        .flat_map(|key| [Some(key.override_name), key.override_alias])
        .flatten()
}

#[cfg(test)]
mod tests;

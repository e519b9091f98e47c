//! The settings of a session.

use std::collections::BTreeMap;

/// Settings with their values in the session, and those that end with the transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    session: BTreeMap<String, String>,
    /// As the transaction has found them.
    before: Option<BTreeMap<String, String>>,
    local: BTreeMap<String, String>,
}

impl Settings {
    /// Sets a value; `None` resets it.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, local: bool) {
        if self.before.is_none() {
            self.before = Some(self.session.clone());
        }
        if local {
            self.local
                .insert(name.to_owned(), value.unwrap_or("0").to_owned());
            return;
        }
        self.local.remove(name);
        match value {
            Some(value) => self.session.insert(name.to_owned(), value.to_owned()),
            None => self.session.remove(name),
        };
    }

    pub(crate) fn reset_all(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.local.get(name).or_else(|| self.session.get(name));
        value.map(String::as_str)
    }

    /// A time in milliseconds; 0 if it is not set.
    pub(crate) fn milliseconds(&self, name: &str) -> u64 {
        let value = self.get(name).unwrap_or("0");
        let number = value.trim_end_matches(|unit: char| !unit.is_ascii_digit());
        let factor = match value.get(number.len()..).unwrap_or_default().trim() {
            "" | "ms" => 1,
            "s" => 1_000,
            unit => panic!("a time in {unit:?}"),
        };
        number.parse::<u64>().expect("a number of milliseconds") * factor
    }

    /// Ends a transaction.
    pub(crate) fn end(&mut self, committed: bool) {
        self.local.clear();
        let before = self.before.take();
        if let Some(before) = before.filter(|_| !committed) {
            self.session = before;
        }
    }
}

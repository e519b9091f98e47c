//! The settings to which a transaction may roll back: those in force when it began, and at each of its savepoints.
//!
//! Only SET for the session counts. SET LOCAL ends with the transaction, on the server that executes it.

use crate::settings::SessionSettings;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Empty until something is set.
#[derive(Debug, Default)]
pub(super) struct SettingsUndoLog(Vec<Level>);

#[derive(Debug)]
struct Level {
    /// `None` for the transaction itself.
    savepoint: Option<String>,
    /// The settings in force when it began.
    settings: Arc<SessionSettings>,
    /// Bytes of all the different settings up to here.
    bytes: usize,
}

/// Maximum number of bytes of settings at savepoints. A client can create any number of savepoints.
const BYTES_MAX: usize = 4 * 1024 * 1024;

impl SettingsUndoLog {
    /// These settings are about to change.
    pub(super) fn changes(&mut self, settings: &Arc<SessionSettings>) {
        if self.0.is_empty() {
            self.begin(None, settings);
        }
    }

    /// Whether there is no memory for the settings of another savepoint.
    pub(super) fn is_full(&self) -> bool {
        self.0.last().is_some_and(|level| level.bytes > BYTES_MAX)
    }

    /// `SAVEPOINT`
    pub(super) fn savepoint(&mut self, name: &str, settings: &Arc<SessionSettings>) {
        self.changes(settings);
        self.begin(Some(name.to_owned()), settings);
    }

    fn begin(&mut self, savepoint: Option<String>, settings: &Arc<SessionSettings>) {
        let last = self.0.last();
        let same = last.is_some_and(|level| level.settings.id == settings.id);
        let own = if same { 0 } else { settings.bytes() };
        self.0.push(Level {
            savepoint,
            settings: Arc::clone(settings),
            bytes: last.map_or(0, |level| level.bytes) + own,
        });
    }

    /// `RELEASE`: the changes since the savepoint belong to the enclosing level.
    pub(super) fn release(&mut self, name: &str) {
        if let Some(place) = self.place(name) {
            self.0.truncate(place);
        }
    }

    /// `ROLLBACK TO`: returns the settings in force again. The savepoint itself remains.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Option<Arc<SessionSettings>> {
        let place = self.place(name)?;
        self.0.truncate(place + 1);
        self.0.last().map(|level| Arc::clone(&level.settings))
    }

    fn place(&self, name: &str) -> Option<usize> {
        let is_it = |level: &Level| level.savepoint.as_deref() == Some(name);
        self.0.iter().rposition(is_it)
    }

    /// `ROLLBACK`: returns the settings in force again, if they have changed.
    pub(super) fn roll_back(&mut self) -> Option<Arc<SessionSettings>> {
        self.0.drain(..).next().map(|level| level.settings)
    }

    /// `COMMIT`
    pub(super) fn commit(&mut self) {
        self.0.clear();
    }
}

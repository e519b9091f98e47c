//! Settings that a transaction may still undo: what was in force when it began, and at each of its savepoints.
//!
//! Only SET for the session counts. What SET LOCAL does ends with the transaction, on the server that carries it out.

use crate::settings::SessionSettings;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Empty until something is set.
#[derive(Debug, Default)]
pub(super) struct SettingsUndoLog(Vec<Level>);

#[derive(Debug)]
struct Level {
    /// `None`: the transaction itself.
    savepoint: Option<String>,
    /// In force when it began.
    settings: Arc<SessionSettings>,
    /// Bytes of all the different settings up to here.
    bytes: usize,
}

/// Bytes of settings that savepoints may keep: a client can make as many as it likes.
const BYTES_MAX: usize = 4 * 1024 * 1024;

impl SettingsUndoLog {
    /// These settings are about to change.
    pub(super) fn changes(&mut self, settings: &Arc<SessionSettings>) {
        if self.0.is_empty() {
            self.begin(None, settings);
        }
    }

    /// It has no room for what these settings would be at another savepoint.
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

    /// `RELEASE`: what was set since then belongs to what is around it.
    pub(super) fn release(&mut self, name: &str) {
        if let Some(place) = self.place(name) {
            self.0.truncate(place);
        }
    }

    /// `ROLLBACK TO`: the settings in force again. The savepoint itself remains.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Option<Arc<SessionSettings>> {
        let place = self.place(name)?;
        self.0.truncate(place + 1);
        self.0.last().map(|level| Arc::clone(&level.settings))
    }

    fn place(&self, name: &str) -> Option<usize> {
        let is_it = |level: &Level| level.savepoint.as_deref() == Some(name);
        self.0.iter().rposition(is_it)
    }

    /// The transaction has come to nothing: the settings in force again, if there were others.
    pub(super) fn roll_back(&mut self) -> Option<Arc<SessionSettings>> {
        self.0.drain(..).next().map(|level| level.settings)
    }

    /// The transaction holds.
    pub(super) fn commit(&mut self) {
        self.0.clear();
    }
}

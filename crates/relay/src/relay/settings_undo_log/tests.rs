//! Rollback and commit of transactions and savepoints.

use super::SettingsUndoLog;
use crate::settings::{SessionSettings, SettingsInterner};
use paceline_sql::SessionChange;
use std::sync::Arc;

struct TestUndoLog {
    interner: SettingsInterner,
    settings_undo_log: SettingsUndoLog,
    settings: Arc<SessionSettings>,
}

impl TestUndoLog {
    fn new() -> Self {
        let interner = SettingsInterner::default();
        Self {
            settings: interner.none(),
            settings_undo_log: SettingsUndoLog::default(),
            interner,
        }
    }

    fn set(&mut self, value: &str) -> u64 {
        self.settings_undo_log.changes(&self.settings);
        let change = SessionChange::Set {
            name: "a".to_owned(),
            sql: format!("SET a TO {value}"),
        };
        self.settings = self
            .interner
            .after(&self.settings, &self.interner.none(), &change);
        self.settings.id
    }

    fn savepoint(&mut self, name: &str) {
        self.settings_undo_log.savepoint(name, &self.settings);
    }

    fn back_to(&mut self, name: &str) -> Option<u64> {
        self.settings = self.settings_undo_log.roll_back_to(name)?;
        Some(self.settings.id)
    }
}

#[test]
fn a_rollback_restores_the_settings_of_the_beginning() {
    let mut test = TestUndoLog::new();
    test.set("1");
    test.savepoint("s");
    test.set("2");
    assert_eq!(test.settings_undo_log.roll_back().map(|s| s.id), Some(0));
    assert!(test.settings_undo_log.roll_back().is_none(), "once");
}

#[test]
fn committed_settings_remain() {
    let mut test = TestUndoLog::new();
    let one = test.set("1");
    test.settings_undo_log.commit();
    test.set("2");
    assert_eq!(test.settings_undo_log.roll_back().map(|s| s.id), Some(one));
}

#[test]
fn a_savepoint_can_be_rolled_back_to_repeatedly() {
    let mut test = TestUndoLog::new();
    test.savepoint("s");
    let one = test.set("1");
    test.savepoint("s");
    test.set("2");
    test.savepoint("t");
    assert_eq!(test.back_to("s"), Some(one), "the inner one of that name");
    assert_eq!(test.back_to("t"), None);
    test.set("3");
    assert_eq!(test.back_to("s"), Some(one));
    test.settings_undo_log.release("s");
    assert_eq!(test.back_to("s"), Some(0), "the outer one");
}

#[test]
fn settings_since_a_released_savepoint_belong_to_the_enclosing_level() {
    let mut test = TestUndoLog::new();
    test.savepoint("outer");
    test.savepoint("inner");
    test.set("1");
    test.settings_undo_log.release("inner");
    assert_eq!(test.back_to("inner"), None);
    assert_eq!(test.back_to("outer"), Some(0));
}

/// Savepoints use memory for the settings that differ. When the limit is reached, there is no further savepoint.
#[test]
fn many_savepoints_with_different_settings_fill_it() {
    let interner = SettingsInterner::default();
    let long = "x".repeat(60_000);
    let with =
        |n: usize| interner.intern([("a.b".to_owned(), format!("SET a.b TO '{n}{long}'"))].into());
    let mut settings_undo_log = SettingsUndoLog::default();
    let one = with(0);
    for _ in 0..1_000 {
        settings_undo_log.savepoint("s", &one);
    }
    assert!(!settings_undo_log.is_full());
    for n in 1..100 {
        settings_undo_log.savepoint("s", &with(n));
    }
    assert!(settings_undo_log.is_full());
    settings_undo_log.release("s");
    for _ in 0..50 {
        settings_undo_log.release("s");
    }
    assert!(!settings_undo_log.is_full());
}

//! Transactions and savepoints, undone and kept.

use super::SettingsUndoLog;
use crate::settings::{Settings, SettingsBook};
use paceline_sql::SessionChange;
use std::sync::Arc;

struct Scene {
    book: SettingsBook,
    journal: SettingsUndoLog,
    settings: Arc<Settings>,
}

impl Scene {
    fn new() -> Self {
        let book = SettingsBook::default();
        Self {
            settings: book.none(),
            journal: SettingsUndoLog::default(),
            book,
        }
    }

    fn set(&mut self, value: &str) -> u64 {
        self.journal.changes(&self.settings);
        let change = SessionChange::Set {
            name: "a".to_owned(),
            sql: format!("SET a TO {value}"),
        };
        self.settings = self.book.after(&self.settings, &self.book.none(), &change);
        self.settings.id
    }

    fn savepoint(&mut self, name: &str) {
        self.journal.savepoint(name, &self.settings);
    }

    fn back_to(&mut self, name: &str) -> Option<u64> {
        self.settings = self.journal.roll_back_to(name)?;
        Some(self.settings.id)
    }
}

#[test]
fn a_rollback_goes_back_to_the_beginning() {
    let mut scene = Scene::new();
    scene.set("1");
    scene.savepoint("s");
    scene.set("2");
    assert_eq!(scene.journal.roll_back().map(|s| s.id), Some(0));
    assert!(scene.journal.roll_back().is_none(), "once");
}

#[test]
fn what_was_committed_stays() {
    let mut scene = Scene::new();
    let one = scene.set("1");
    scene.journal.commit();
    scene.set("2");
    assert_eq!(scene.journal.roll_back().map(|s| s.id), Some(one));
}

#[test]
fn a_savepoint_can_be_gone_back_to_again_and_again() {
    let mut scene = Scene::new();
    scene.savepoint("s");
    let one = scene.set("1");
    scene.savepoint("s");
    scene.set("2");
    scene.savepoint("t");
    assert_eq!(scene.back_to("s"), Some(one), "the inner one of that name");
    assert_eq!(scene.back_to("t"), None);
    scene.set("3");
    assert_eq!(scene.back_to("s"), Some(one));
    scene.journal.release("s");
    assert_eq!(scene.back_to("s"), Some(0), "the outer one");
}

#[test]
fn what_was_set_since_a_released_savepoint_belongs_to_what_is_around_it() {
    let mut scene = Scene::new();
    scene.savepoint("outer");
    scene.savepoint("inner");
    scene.set("1");
    scene.journal.release("inner");
    assert_eq!(scene.back_to("inner"), None);
    assert_eq!(scene.back_to("outer"), Some(0));
}

/// Savepoints cost what differs between them; with too much of that there is no room for more.
#[test]
fn many_savepoints_with_different_settings_fill_it() {
    let book = SettingsBook::default();
    let long = "x".repeat(60_000);
    let with =
        |n: usize| book.intern([("a.b".to_owned(), format!("SET a.b TO '{n}{long}'"))].into());
    let mut journal = SettingsUndoLog::default();
    let one = with(0);
    for _ in 0..1_000 {
        journal.savepoint("s", &one);
    }
    assert!(!journal.is_full());
    for n in 1..100 {
        journal.savepoint("s", &with(n));
    }
    assert!(journal.is_full());
    journal.release("s");
    for _ in 0..50 {
        journal.release("s");
    }
    assert!(!journal.is_full());
}

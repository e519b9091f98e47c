//! Changes of settings, and the SQL that adopts them.

use super::*;

fn set(name: &str, value: &str) -> SessionChange {
    SessionChange::Set {
        name: name.into(),
        sql: format!("SET {name} TO {value}"),
    }
}

#[test]
fn equal_settings_are_one_and_reset_restores_the_base() {
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

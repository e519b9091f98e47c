//! Values that end with the transaction, and what they mean for statements that are parsed meanwhile.

use super::decides_meaning;
use crate::effect::tests::{changes, effect};
use crate::{Effect, SessionChange};

#[test]
fn a_local_value_may_decide_the_meaning_of_later_statements() {
    for sql in [
        "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL TIME ZONE 'UTC'",
        "SET LOCAL search_path = a",
        "SET LOCAL search_path TO DEFAULT",
        "SET LOCAL ROLE a",
        "SET LOCAL SESSION AUTHORIZATION a",
        "SET LOCAL client_encoding = 'LATIN1'",
        "SET LOCAL new_in_postgresql_99 = 1",
        "SELECT set_config('TimeZone', 'UTC', true)",
        "SELECT set_config('search_path', 'a', true) FROM t",
        "SELECT set_config('TimeZone', a, true) FROM t",
        "INSERT INTO t SELECT set_config('datestyle', 'ISO', 't')",
    ] {
        assert_eq!(changes(sql), [SessionChange::LocalSettings], "{sql}");
    }
    let several = changes("SET LOCAL search_path = pg_temp, public");
    assert!(
        several.contains(&SessionChange::LocalSettings),
        "{several:?}"
    );
    for sql in [
        "SELECT set_config(a, 'b', true) FROM t",
        "SELECT set_config('search_path', a, true) FROM t",
        "SELECT set_config('TimeZone', a, false) FROM t",
        "SELECT set_config(a, 'b', false) FROM t",
        "SET LOCAL search_path = $1",
    ] {
        let changes = changes(sql);
        assert!(changes.iter().any(SessionChange::hides_settings), "{sql}");
    }
}

#[test]
fn the_parameters_of_a_call_may_decide() {
    for (sql, values, local) in [
        (
            "SELECT set_config($1, $2, true)",
            [&b"TimeZone"[..], b"UTC"],
            true,
        ),
        (
            "SELECT set_config($1, $2, true) FROM t",
            [b"TimeZone", b"UTC"],
            true,
        ),
        ("SELECT set_config($1, $2, true)", [b"app.x", b"1"], false),
        (
            "SELECT set_config($1, $2, true)",
            [b"work_mem", b"1MB"],
            false,
        ),
    ] {
        let [SessionChange::SetTo(call)] = &*changes(sql) else {
            panic!("{sql}");
        };
        let bound = call.with(&|number, _| values.get(number - 1).copied().map(Some));
        let is_local = bound.contains(&SessionChange::LocalSettings);
        assert_eq!(is_local, local, "{sql}: {bound:?}");
        let unbound = call.unbound().unwrap();
        assert!(unbound.hides_settings(), "{sql}");
    }
}

#[test]
fn a_local_value_of_another_setting_decides_no_meaning() {
    for sql in [
        "SET LOCAL statement_timeout = 1",
        "SET LOCAL work_mem = '1MB'",
        "SET LOCAL enable_seqscan = off",
        "SET LOCAL jit = off",
        "SET LOCAL idle_in_transaction_session_timeout = 0",
        "SELECT set_config('application_name', 'a', true)",
        "SET TRANSACTION READ ONLY",
    ] {
        assert!(!matches!(effect(sql), Effect::Session(_)), "{sql}");
    }
    for sql in [
        "SET LOCAL app.x = 1",
        "SELECT set_config('app.x', y, true) FROM t",
        "SELECT set_config('work_mem', y, false) FROM t",
    ] {
        let changes = changes(sql);
        assert!(!changes.iter().any(SessionChange::hides_settings), "{sql}");
    }
    assert!(decides_meaning("session_replication_role"));
}

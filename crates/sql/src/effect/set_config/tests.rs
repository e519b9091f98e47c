//! Values that end with the transaction, and what remains of them.

use crate::effect::tests::{changes, effect};
use crate::{Effect, PinReason, SessionChange};

#[test]
fn a_path_that_the_text_does_not_show_may_have_the_temporary_schema() {
    for sql in [
        "SELECT set_config('search_path', a, true) FROM t",
        "SELECT set_config(a, 'b', true) FROM t",
    ] {
        assert_eq!(changes(sql), [SessionChange::PathUnknown], "{sql}");
        // A later statement of the text may create something under it.
        let several = changes(&format!("{sql}; CREATE TABLE t (a int)"));
        assert!(several.contains(&SessionChange::Anything), "{several:?}");
    }
    let sql = "SELECT set_config('search_path', 'public', true) FROM t";
    assert_eq!(changes(sql), [SessionChange::LocalSettings]);
    let path = |value: &'static [u8]| {
        let [SessionChange::SetTo(call)] =
            &*changes("SELECT set_config('search_path', $1, true) FROM t")
        else {
            panic!("its value is bound");
        };
        call.with(&|_, _| Some(Some(value)))
    };
    assert_eq!(path(b"public"), [SessionChange::LocalSettings]);
    let temporary = SessionChange::Pin(PinReason::Temporary);
    assert_eq!(path(b"pg_temp"), [temporary, SessionChange::LocalSettings]);
    assert_eq!(path(b"pg_temp,\xe9"), [SessionChange::PathUnknown]);
    // PostgreSQL accepts no parameter there: it is in place of a literal.
    let sql = "SET LOCAL search_path = $1";
    assert!(matches!(&*changes(sql), [SessionChange::SetUnknown { .. }]));
}

#[test]
fn a_local_value_defines_a_customized_option() {
    let known = || SessionChange::OptionDefined {
        name: "app.x".to_owned(),
    };
    for sql in [
        "SET LOCAL App.X = 1",
        "SELECT set_config('app.x', '1', true)",
    ] {
        assert_eq!(effect(sql), Effect::Session(vec![known()]), "{sql}");
    }
    let asked = SessionChange::SetUnknown {
        name: "app.x".to_owned(),
    };
    let sql = "SELECT set_config('app.x', y, true) FROM t";
    assert_eq!(effect(sql), Effect::Session(vec![asked]));
    let sql = "SELECT set_config($1, y, true) FROM t";
    let [SessionChange::SetTo(call)] = &*changes(sql) else {
        panic!("its name is bound");
    };
    assert_eq!(call.with(&|_, _| Some(Some(b"App.X"))), [known()]);
}

#[test]
fn a_setting_of_the_transaction_is_none_of_the_session() {
    for sql in [
        "SELECT set_config('transaction_read_only', 'on', false), now()",
        "SELECT set_config('Transaction_Isolation', 'serializable', false) FROM t",
        "SELECT set_config('transaction_deferrable', a, false) FROM t",
        "SELECT set_config('transaction_read_only', 'on', true), now()",
    ] {
        assert_eq!(effect(sql), Effect::Read, "{sql}");
    }
    let sql = "SELECT set_config('TRANSACTION_READ_ONLY', $1, false)";
    let [SessionChange::SetTo(call)] = &*changes(sql) else {
        panic!("its value is bound");
    };
    assert_eq!(call.unbound(), None);
    assert_eq!(call.with(&|_, _| Some(Some(b"on"))), []);
    assert_eq!(
        crate::set_to("transaction_isolation", Some("serializable")),
        []
    );
}

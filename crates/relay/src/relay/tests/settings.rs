//! The settings of a client follow it, and no other client has them.

use super::test_relay::TestRelay;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// A query that completes with `command` and leaves the server in `status`.
fn run(test: &mut TestRelay, sql: &str, command: &str, status: char) {
    test.client([query(sql)]);
    test.server([complete(command), ready(status)]);
}

/// The SQL that a new server needs for this client's settings.
fn adopted(test: &TestRelay) -> String {
    let fresh = test.interner.none();
    test.session
        .settings
        .adopt_sql(&fresh, false)
        .unwrap_or_default()
}

#[test]
fn a_set_outside_a_transaction_follows_the_client() {
    let mut test = TestRelay::new();
    run(&mut test, "SET search_path TO a", "SET", 'I');
    assert!(test.relay.is_over(), "no reason to keep the server");
    assert!(adopted(&test).contains("search_path"), "{}", adopted(&test));
    assert_eq!(test.server.settings.id, test.session.settings.id);
    assert!(!test.server.needs_reset);
}

#[test]
fn a_set_that_fails_changes_nothing() {
    let mut test = TestRelay::new();
    test.client([query("SET search_path TO a")]);
    test.server([error("22023", "no"), ready('I')]);
    assert_eq!((adopted(&test).as_str(), test.relay.is_over()), ("", true));
}

#[test]
fn a_set_by_the_extended_protocol_is_followed_too() {
    let mut test = TestRelay::new();
    test.client([
        parse("", "SET timezone TO 'UTC'"),
        bind(""),
        execute(),
        sync(),
    ]);
    test.server([parsed(), bound(), complete("SET"), ready('I')]);
    assert!(adopted(&test).contains("timezone"));
}

#[test]
fn a_set_inside_a_transaction_holds_from_its_commit_on() {
    let mut test = TestRelay::new();
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, "SET search_path TO a", "SET", 'T');
    run(&mut test, "SAVEPOINT s", "SAVEPOINT", 'T');
    run(&mut test, "SET search_path TO b", "SET", 'T');
    assert_eq!(adopted(&test), "SET search_path TO b; ");
    run(&mut test, "ROLLBACK TO s", "ROLLBACK", 'T');
    assert_eq!(adopted(&test), "SET search_path TO a; ");
    assert_eq!(test.server.settings.id, test.session.settings.id);
    run(&mut test, "COMMIT", "COMMIT", 'I');
    assert_eq!(adopted(&test), "SET search_path TO a; ");
    assert!(test.relay.is_over(), "no reason to keep the server");
}

#[test]
fn a_set_is_undone_with_its_transaction() {
    let mut test = TestRelay::new();
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, "SET search_path TO a", "SET", 'T');
    test.client([query("SELECT 1/0")]);
    test.server([error("22012", "no"), ready('E')]);
    run(&mut test, "COMMIT", "ROLLBACK", 'I');
    assert_eq!((adopted(&test).as_str(), test.relay.is_over()), ("", true));
}

#[test]
fn a_commit_that_fails_undoes_what_was_set() {
    let mut test = TestRelay::new();
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, "SET search_path TO a", "SET", 'T');
    test.client([query("COMMIT")]);
    test.server([error("23503", "deferred"), ready('I')]);
    assert_eq!((adopted(&test).as_str(), test.relay.is_over()), ("", true));
}

#[test]
fn each_statement_of_a_text_counts_when_it_has_completed() {
    let mut test = TestRelay::new();
    test.client([query(
        "SET x = 1; COMMIT; SELECT 1; SET y = 2; SELECT 1/0; SET z = 3",
    )]);
    test.server([
        complete("SET"),
        complete("COMMIT"),
        complete("SELECT 1"),
        complete("SET"),
        error("22012", "no"),
        ready('I'),
    ]);
    assert_eq!(adopted(&test), "SET x TO 1; ");
}

/// PostgreSQL never forgets a custom name, even if its transaction rolls back, or it is reset.
#[test]
fn a_name_of_a_users_own_is_known_on_every_server() {
    const KNOWN: &str = "SELECT pg_catalog.set_config('a.x', '', true) WHERE pg_catalog.current_setting('a.x', true) IS NULL; ";
    for (sql, tag) in [
        ("SET LOCAL a.x = 1", "SET"),
        ("RESET a.X", "RESET"),
        ("SELECT set_config('a.x', '1', true)", "SELECT 1"),
    ] {
        let mut test = TestRelay::new();
        run(&mut test, sql, tag, 'I');
        assert_eq!(adopted(&test), KNOWN, "{sql}");
    }
    for end in ["ROLLBACK", "COMMIT; RESET ALL", "COMMIT; DISCARD ALL"] {
        let mut test = TestRelay::new();
        run(&mut test, "BEGIN", "BEGIN", 'T');
        run(&mut test, "SET a.x = 1", "SET", 'T');
        for sql in end.split("; ") {
            let tag = if sql == "RESET ALL" { "RESET" } else { sql };
            run(&mut test, sql, tag, 'I');
        }
        assert_eq!(adopted(&test), KNOWN, "{end}");
    }
}

#[test]
fn a_set_beside_block_commands_in_one_text_is_followed() {
    let mut test = TestRelay::new();
    test.client([query(
        "SET search_path TO a; BEGIN; SET search_path TO b; ROLLBACK",
    )]);
    test.server([
        complete("SET"),
        complete("BEGIN"),
        complete("SET"),
        complete("ROLLBACK"),
        ready('I'),
    ]);
    assert_eq!((adopted(&test).as_str(), test.relay.is_over()), ("", true));
}

#[test]
fn set_local_is_not_tracked() {
    let mut test = TestRelay::new();
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, "SET LOCAL search_path TO a", "SET", 'T');
    run(&mut test, "COMMIT", "COMMIT", 'I');
    assert!(test.relay.is_over());
}

/// A session that began with `search_path = a` and has set `b`.
fn with_base() -> TestRelay {
    let mut test = TestRelay::new();
    run(&mut test, "SET search_path TO a", "SET", 'I');
    test.session.base = test.session.settings.clone();
    run(&mut test, "SET search_path TO b", "SET", 'I');
    test
}

#[test]
fn reset_restores_what_the_session_began_with() {
    let mut test = with_base();
    test.client([query("RESET search_path")]);
    let got = test.server([
        complete("RESET"),
        status("search_path", "server's"),
        ready('I'),
    ]);
    assert_eq!(got, ["RESET"], "not the last word");
    assert_eq!(test.own(), ["Query SET search_path TO a; "]);
    assert!(!test.relay.is_quiet());
    let got = test.server([complete("SET"), status("search_path", "a"), ready('I')]);
    assert_eq!(got, ["status search_path=a", "ready I"]);
    assert_eq!(test.session.settings.id, test.session.base.id);
    assert_eq!(test.server.settings.id, test.session.base.id);
    assert!(test.relay.is_over() && !test.server.needs_reset);
}

#[test]
fn reset_inside_a_transaction_applies_at_once_and_can_be_undone() {
    let mut test = with_base();
    let before = test.session.settings.id;
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, "RESET ALL", "RESET", 'T');
    assert_eq!(test.own(), ["Query SET search_path TO a; "]);
    assert_eq!(test.server([complete("SET"), ready('T')]), ["ready T"]);
    assert_eq!(test.session.settings.id, test.session.base.id);
    run(&mut test, "ROLLBACK", "ROLLBACK", 'I');
    assert_eq!(test.session.settings.id, before);
    assert!(test.relay.is_over() && test.own().is_empty());
}

#[test]
fn reset_of_a_setting_that_the_session_did_not_begin_with_restores_nothing() {
    let mut test = with_base();
    run(&mut test, "SET timezone TO 'UTC'", "SET", 'I');
    run(&mut test, "RESET timezone", "RESET", 'I');
    assert!(test.relay.is_over() && test.own().is_empty());
}

#[test]
fn a_bound_value_is_followed() {
    let mut test = TestRelay::new();
    test.client([
        parse("", "SELECT set_config('app.user', $1, false)"),
        bind_values("", &[(false, Some(b"it's"))], &[]),
        execute(),
        sync(),
    ]);
    test.server([
        parsed(),
        bound(),
        row(&["it's"]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert!(
        adopted(&test).contains("set_config('app.user', 'it''s', false)"),
        "{}",
        adopted(&test)
    );
    assert!(test.relay.is_over());
}

#[test]
fn a_reported_setting_is_followed_although_no_text_set_it() {
    let mut test = TestRelay::new();
    test.server.reported = [("TimeZone", "UTC"), ("DateStyle", "ISO")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    test.client([query("SELECT sneaky()")]);
    test.server([
        complete("SELECT 1"),
        status("TimeZone", "Asia/Tokyo"),
        status("DateStyle", "ISO"),
        status("is_superuser", "off"),
        ready('I'),
    ]);
    let again = "SELECT pg_catalog.set_config('timezone', 'Asia/Tokyo', false); ";
    assert_eq!(adopted(&test), again);
}

#[test]
fn with_session_pooling_a_client_has_its_own_defaults_after_discard_all() {
    let mut test = TestRelay::new();
    run(&mut test, "SET search_path TO a", "SET", 'I');
    test.session.base = test.session.settings.clone();
    test.relay.use_session_pooling();
    assert!(test.relay.is_quiet() && !test.relay.is_over() && test.relay.awaits_client());
    run(&mut test, "SET search_path TO b", "SET", 'I');
    run(&mut test, "DISCARD ALL", "DISCARD ALL", 'I');
    assert_eq!(test.own(), ["Query SET search_path TO a; "]);
    test.server([complete("SET"), ready('I')]);
    assert!(test.relay.is_quiet() && !test.relay.is_over());
    assert_eq!(test.server.settings.id, test.session.base.id);
}

#[test]
fn discard_all_ends_a_pin_and_forgets_statements_and_settings() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    run(&mut test, "SET search_path TO a", "SET", 'I');
    run(&mut test, "LISTEN x", "LISTEN", 'I');
    test.server([row(&["t"]), complete("SELECT 1"), ready('I')]);
    assert!(test.relay.is_quiet() && !test.relay.is_over());
    run(&mut test, "DISCARD ALL", "DISCARD ALL", 'I');
    assert!(test.relay.is_over());
    assert_eq!(adopted(&test), "");
    assert_eq!(test.server.settings.id, 0);
    assert!(test.session.statements.get(b"a").is_none());
    let sent = test.client([parse("a", "SELECT 1"), sync()]);
    assert_eq!(sent, ["Parse s1: SELECT 1", "Sync"]);
}

#[test]
fn a_function_that_may_change_settings_makes_a_reset_necessary() {
    for sql in ["SELECT sneaky()", "SELEC 1", "DO $$ BEGIN END $$"] {
        let mut test = TestRelay::new();
        run(&mut test, sql, "DO", 'I');
        assert!(test.server.needs_reset, "{sql}");
    }
    let mut test = TestRelay::new();
    run(&mut test, "SELECT 1", "SELECT 1", 'I');
    assert!(!test.server.needs_reset);
}

#[test]
fn a_setting_that_is_reset_many_times_is_restored_once() {
    let mut test = TestRelay::new();
    run(&mut test, "SET search_path TO a", "SET", 'I');
    test.session.base = test.session.settings.clone();
    for _ in 0..1_000 {
        test.client([parse("", "RESET search_path"), bind(""), execute()]);
    }
    test.client([sync()]);
    let answer = [parsed(), bound(), complete("RESET")].concat();
    for _ in 0..1_000 {
        test.server_bytes(&answer);
    }
    assert_eq!(test.relay.request.taken_away.len(), 1);
    test.server([ready('I')]);
    assert_eq!(test.own(), ["Query SET search_path TO a; "]);
}

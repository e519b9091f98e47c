//! Settings: what a client SETs follows it, and never reaches another.

use super::fixture::Stage;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// A query that completes with `command` and leaves the server in `status`.
fn run(stage: &mut Stage, sql: &str, command: &str, status: char) {
    stage.client([query(sql)]);
    stage.server([complete(command), ready(status)]);
}

/// SQL that a fresh server would need for this client's settings.
fn adopted(stage: &Stage) -> String {
    let fresh = stage.interner.none();
    stage
        .session
        .settings
        .adopt_sql(&fresh, false)
        .unwrap_or_default()
}

#[test]
fn a_set_outside_a_transaction_follows_the_client() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    assert!(stage.relay.is_over(), "no reason to keep the server");
    assert!(
        adopted(&stage).contains("search_path"),
        "{}",
        adopted(&stage)
    );
    assert_eq!(stage.server.settings.id, stage.session.settings.id);
    assert!(!stage.server.needs_reset);
}

#[test]
fn a_set_that_fails_changes_nothing() {
    let mut stage = Stage::new();
    stage.client([query("SET search_path TO a")]);
    stage.server([error("22023", "no"), ready('I')]);
    assert_eq!(
        (adopted(&stage).as_str(), stage.relay.is_over()),
        ("", true)
    );
}

#[test]
fn a_set_by_the_extended_protocol_is_followed_too() {
    let mut stage = Stage::new();
    stage.client([
        parse("", "SET timezone TO 'UTC'"),
        bind(""),
        execute(),
        sync(),
    ]);
    stage.server([parsed(), bound(), complete("SET"), ready('I')]);
    assert!(adopted(&stage).contains("timezone"));
}

#[test]
fn a_set_inside_a_transaction_holds_from_its_commit_on() {
    let mut stage = Stage::new();
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "SET search_path TO a", "SET", 'T');
    run(&mut stage, "SAVEPOINT s", "SAVEPOINT", 'T');
    run(&mut stage, "SET search_path TO b", "SET", 'T');
    assert_eq!(adopted(&stage), "SET search_path TO b; ");
    run(&mut stage, "ROLLBACK TO s", "ROLLBACK", 'T');
    assert_eq!(adopted(&stage), "SET search_path TO a; ");
    assert_eq!(stage.server.settings.id, stage.session.settings.id);
    run(&mut stage, "COMMIT", "COMMIT", 'I');
    assert_eq!(adopted(&stage), "SET search_path TO a; ");
    assert!(stage.relay.is_over(), "no reason to keep the server");
}

#[test]
fn a_set_is_undone_with_its_transaction() {
    let mut stage = Stage::new();
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "SET search_path TO a", "SET", 'T');
    stage.client([query("SELECT 1/0")]);
    stage.server([error("22012", "no"), ready('E')]);
    run(&mut stage, "COMMIT", "ROLLBACK", 'I');
    assert_eq!(
        (adopted(&stage).as_str(), stage.relay.is_over()),
        ("", true)
    );
}

#[test]
fn a_commit_that_fails_undoes_what_was_set() {
    let mut stage = Stage::new();
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "SET search_path TO a", "SET", 'T');
    stage.client([query("COMMIT")]);
    stage.server([error("23503", "deferred"), ready('I')]);
    assert_eq!(
        (adopted(&stage).as_str(), stage.relay.is_over()),
        ("", true)
    );
}

#[test]
fn each_statement_of_a_text_counts_when_it_has_completed() {
    let mut stage = Stage::new();
    stage.client([query(
        "SET x = 1; COMMIT; SELECT 1; SET y = 2; SELECT 1/0; SET z = 3",
    )]);
    stage.server([
        complete("SET"),
        complete("COMMIT"),
        complete("SELECT 1"),
        complete("SET"),
        error("22012", "no"),
        ready('I'),
    ]);
    assert_eq!(adopted(&stage), "SET x TO 1; ");
}

/// PostgreSQL never forgets such a name, though the transaction that made it came to nothing, or reset it.
#[test]
fn a_name_of_a_users_own_is_known_on_every_server() {
    const KNOWN: &str = "SELECT pg_catalog.set_config('a.x', '', true) WHERE pg_catalog.current_setting('a.x', true) IS NULL; ";
    for (sql, tag) in [
        ("SET LOCAL a.x = 1", "SET"),
        ("RESET a.X", "RESET"),
        ("SELECT set_config('a.x', '1', true)", "SELECT 1"),
    ] {
        let mut stage = Stage::new();
        run(&mut stage, sql, tag, 'I');
        assert_eq!(adopted(&stage), KNOWN, "{sql}");
    }
    for end in ["ROLLBACK", "COMMIT; RESET ALL", "COMMIT; DISCARD ALL"] {
        let mut stage = Stage::new();
        run(&mut stage, "BEGIN", "BEGIN", 'T');
        run(&mut stage, "SET a.x = 1", "SET", 'T');
        for sql in end.split("; ") {
            let tag = if sql == "RESET ALL" { "RESET" } else { sql };
            run(&mut stage, sql, tag, 'I');
        }
        assert_eq!(adopted(&stage), KNOWN, "{end}");
    }
}

#[test]
fn a_set_beside_block_commands_in_one_text_is_followed() {
    let mut stage = Stage::new();
    stage.client([query(
        "SET search_path TO a; BEGIN; SET search_path TO b; ROLLBACK",
    )]);
    stage.server([
        complete("SET"),
        complete("BEGIN"),
        complete("SET"),
        complete("ROLLBACK"),
        ready('I'),
    ]);
    assert_eq!(
        (adopted(&stage).as_str(), stage.relay.is_over()),
        ("", true)
    );
}

#[test]
fn set_local_is_nobodys_business() {
    let mut stage = Stage::new();
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "SET LOCAL search_path TO a", "SET", 'T');
    run(&mut stage, "COMMIT", "COMMIT", 'I');
    assert!(stage.relay.is_over());
}

/// A session that began with `search_path = a`, and has set it to `b`.
fn with_base() -> Stage {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    stage.session.base = stage.session.settings.clone();
    run(&mut stage, "SET search_path TO b", "SET", 'I');
    stage
}

#[test]
fn reset_goes_back_to_what_the_session_began_with() {
    let mut stage = with_base();
    stage.client([query("RESET search_path")]);
    let got = stage.server([
        complete("RESET"),
        status("search_path", "server's"),
        ready('I'),
    ]);
    assert_eq!(got, ["RESET"], "not the last word");
    assert_eq!(stage.own(), ["Query SET search_path TO a; "]);
    assert!(!stage.relay.is_quiet());
    let got = stage.server([complete("SET"), status("search_path", "a"), ready('I')]);
    assert_eq!(got, ["status search_path=a", "ready I"]);
    assert_eq!(stage.session.settings.id, stage.session.base.id);
    assert_eq!(stage.server.settings.id, stage.session.base.id);
    assert!(stage.relay.is_over() && !stage.server.needs_reset);
}

#[test]
fn reset_inside_a_transaction_goes_back_at_once_and_can_be_undone() {
    let mut stage = with_base();
    let before = stage.session.settings.id;
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "RESET ALL", "RESET", 'T');
    assert_eq!(stage.own(), ["Query SET search_path TO a; "]);
    assert_eq!(stage.server([complete("SET"), ready('T')]), ["ready T"]);
    assert_eq!(stage.session.settings.id, stage.session.base.id);
    run(&mut stage, "ROLLBACK", "ROLLBACK", 'I');
    assert_eq!(stage.session.settings.id, before);
    assert!(stage.relay.is_over() && stage.own().is_empty());
}

#[test]
fn reset_of_what_the_session_did_not_begin_with_needs_nothing_more() {
    let mut stage = with_base();
    run(&mut stage, "SET timezone TO 'UTC'", "SET", 'I');
    run(&mut stage, "RESET timezone", "RESET", 'I');
    assert!(stage.relay.is_over() && stage.own().is_empty());
}

#[test]
fn a_value_that_was_bound_is_followed() {
    let mut stage = Stage::new();
    stage.client([
        parse("", "SELECT set_config('app.user', $1, false)"),
        bind_values("", &[(false, Some(b"it's"))], &[]),
        execute(),
        sync(),
    ]);
    stage.server([
        parsed(),
        bound(),
        row(&["it's"]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert!(
        adopted(&stage).contains("set_config('app.user', 'it''s', false)"),
        "{}",
        adopted(&stage)
    );
    assert!(stage.relay.is_over());
}

#[test]
fn what_the_server_reports_is_followed_though_nobody_saw_it_set() {
    let mut stage = Stage::new();
    stage.server.reported = [("TimeZone", "UTC"), ("DateStyle", "ISO")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    stage.client([query("SELECT sneaky()")]);
    stage.server([
        complete("SELECT 1"),
        status("TimeZone", "Asia/Tokyo"),
        status("DateStyle", "ISO"),
        status("is_superuser", "off"),
        ready('I'),
    ]);
    let again = "SELECT pg_catalog.set_config('timezone', 'Asia/Tokyo', false); ";
    assert_eq!(adopted(&stage), again);
}

#[test]
fn who_stays_keeps_the_server_and_has_its_own_defaults_after_discard_all() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    stage.session.base = stage.session.settings.clone();
    stage.relay.use_session_pooling();
    assert!(stage.relay.is_quiet() && !stage.relay.is_over() && stage.relay.awaits_client());
    run(&mut stage, "SET search_path TO b", "SET", 'I');
    run(&mut stage, "DISCARD ALL", "DISCARD ALL", 'I');
    assert_eq!(stage.own(), ["Query SET search_path TO a; "]);
    stage.server([complete("SET"), ready('I')]);
    assert!(stage.relay.is_quiet() && !stage.relay.is_over());
    assert_eq!(stage.server.settings.id, stage.session.base.id);
}

#[test]
fn discard_all_ends_a_pin_and_forgets_statements_and_settings() {
    let mut stage = Stage::new();
    stage.client([parse("a", "SELECT 1"), sync()]);
    stage.server([parsed(), ready('I')]);
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    run(&mut stage, "LISTEN x", "LISTEN", 'I');
    stage.server([row(&["t"]), complete("SELECT 1"), ready('I')]);
    assert!(stage.relay.is_quiet() && !stage.relay.is_over());
    run(&mut stage, "DISCARD ALL", "DISCARD ALL", 'I');
    assert!(stage.relay.is_over());
    assert_eq!(adopted(&stage), "");
    assert_eq!(stage.server.settings.id, 0);
    assert!(stage.session.statement(b"a").is_none());
    let sent = stage.client([parse("a", "SELECT 1"), sync()]);
    assert_eq!(sent, ["Parse s1: SELECT 1", "Sync"]);
}

#[test]
fn what_may_change_settings_behind_the_text_taints_the_server() {
    for sql in ["SELECT sneaky()", "SELEC 1", "DO $$ BEGIN END $$"] {
        let mut stage = Stage::new();
        run(&mut stage, sql, "DO", 'I');
        assert!(stage.server.needs_reset, "{sql}");
    }
    let mut stage = Stage::new();
    run(&mut stage, "SELECT 1", "SELECT 1", 'I');
    assert!(!stage.server.needs_reset);
}

#[test]
fn a_setting_that_is_reset_many_times_is_given_back_once() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    stage.session.base = stage.session.settings.clone();
    for _ in 0..1_000 {
        stage.client([parse("", "RESET search_path"), bind(""), execute()]);
    }
    stage.client([sync()]);
    let answer = [parsed(), bound(), complete("RESET")].concat();
    for _ in 0..1_000 {
        stage.server_bytes(&answer);
    }
    assert_eq!(stage.relay.request.taken_away.len(), 1);
    stage.server([ready('I')]);
    assert_eq!(stage.own(), ["Query SET search_path TO a; "]);
}

//! Settings: what a client SETs follows it, and never reaches another.

use super::stage::Stage;
use crate::testing::messages::client::*;
use crate::testing::messages::server::*;

/// A query that completes with `command` and leaves the server in `status`.
fn run(stage: &mut Stage, sql: &str, command: &str, status: char) {
    stage.client([query(sql)]);
    stage.server([complete(command), ready(status)]);
}

/// SQL that a fresh server would need for this client's settings.
fn adopted(stage: &Stage) -> String {
    let fresh = stage.book.none();
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
    assert!(stage.ride.is_over(), "no reason to keep the server");
    assert!(
        adopted(&stage).contains("search_path"),
        "{}",
        adopted(&stage)
    );
    assert_eq!(stage.server.settings.id, stage.session.settings.id);
    assert!(!stage.server.tainted);
}

#[test]
fn a_set_that_fails_changes_nothing() {
    let mut stage = Stage::new();
    stage.client([query("SET search_path TO a")]);
    stage.server([error("22023", "no"), ready('I')]);
    assert_eq!((adopted(&stage).as_str(), stage.ride.is_over()), ("", true));
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
fn a_set_inside_a_transaction_pins_the_client() {
    let mut stage = Stage::new();
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "SET search_path TO a", "SET", 'T');
    run(&mut stage, "COMMIT", "COMMIT", 'I');
    assert!(stage.ride.pinned().is_some() && !stage.ride.is_over());
    assert_eq!(adopted(&stage), "", "whether it holds is not known");
}

#[test]
fn a_set_beside_block_commands_in_one_text_pins_the_client() {
    let mut stage = Stage::new();
    stage.client([query("BEGIN; SET search_path TO a; ROLLBACK")]);
    stage.server([
        complete("BEGIN"),
        complete("SET"),
        complete("ROLLBACK"),
        ready('I'),
    ]);
    assert!(stage.ride.pinned().is_some());
}

#[test]
fn set_local_is_nobodys_business() {
    let mut stage = Stage::new();
    run(&mut stage, "BEGIN", "BEGIN", 'T');
    run(&mut stage, "SET LOCAL search_path TO a", "SET", 'T');
    run(&mut stage, "COMMIT", "COMMIT", 'I');
    assert!(stage.ride.is_over());
}

#[test]
fn reset_goes_back_to_what_the_session_began_with() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    stage.session.base = stage.session.settings.clone();
    run(&mut stage, "SET search_path TO b", "SET", 'I');
    run(&mut stage, "RESET search_path", "RESET", 'I');
    assert_eq!(stage.session.settings.id, stage.session.base.id);
    assert!(
        stage.server.tainted,
        "the server went back to its own default"
    );
}

#[test]
fn a_pinned_client_gets_its_own_defaults_back_at_once() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    stage.session.base = stage.session.settings.clone();
    run(&mut stage, "LISTEN x", "LISTEN", 'I');
    assert!(stage.ride.pinned().is_some());
    run(&mut stage, "RESET search_path", "RESET", 'I');
    assert_eq!(stage.own(), ["Query SET search_path TO a"]);
    assert!(!stage.ride.is_quiet());
    let got = stage.server([complete("SET"), status("search_path", "a"), ready('I')]);
    assert!(got.is_empty() && stage.ride.is_quiet(), "{got:?}");
}

#[test]
fn who_stays_keeps_the_server_and_has_its_own_defaults_after_discard_all() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    stage.session.base = stage.session.settings.clone();
    stage.ride.stay();
    assert!(stage.ride.is_quiet() && !stage.ride.is_over() && stage.ride.awaits_client());
    run(&mut stage, "SET search_path TO b", "SET", 'I');
    run(&mut stage, "DISCARD ALL", "DISCARD ALL", 'I');
    assert_eq!(stage.own(), ["Query SET search_path TO a"]);
    stage.server([complete("SET"), ready('I')]);
    assert!(stage.ride.is_quiet() && !stage.ride.is_over());
    assert_eq!(stage.server.settings.id, stage.session.base.id);
}

#[test]
fn discard_all_ends_a_pin_and_forgets_statements_and_settings() {
    let mut stage = Stage::new();
    stage.client([parse("a", "SELECT 1"), sync()]);
    stage.server([parsed(), ready('I')]);
    run(&mut stage, "SET search_path TO a", "SET", 'I');
    run(&mut stage, "LISTEN x", "LISTEN", 'I');
    run(&mut stage, "DISCARD ALL", "DISCARD ALL", 'I');
    assert!(stage.ride.is_over());
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
        assert!(stage.server.tainted, "{sql}");
    }
    let mut stage = Stage::new();
    run(&mut stage, "SELECT 1", "SELECT 1", 'I');
    assert!(!stage.server.tainted);
}

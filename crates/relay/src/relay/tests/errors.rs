//! Errors: the server skips the following messages, so their effects are undone.

use super::test_relay::TestRelay;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

#[test]
fn an_error_in_a_pipeline_undoes_later_names_and_statements() {
    let mut test = TestRelay::new();
    let sent = test.client([
        parse("a", "SELECT 1"),
        bind("a"),
        execute(),
        parse("b", "SELECT 2"),
        close_statement("a"),
        parse("", "SELECT 3"),
        sync(),
    ]);
    assert_eq!(
        sent,
        [
            "Parse s1: SELECT 1",
            "Bind s1",
            "Execute",
            "Parse s2: SELECT 2",
            "Parse unnamed: SELECT 3",
            "Sync"
        ]
    );
    let got = test.server([
        parsed(),
        bound(),
        error("22012", "division by zero"),
        ready('I'),
    ]);
    assert_eq!(
        got,
        [
            "parsed",
            "bound",
            "ERROR 22012: division by zero",
            "ready I"
        ]
    );
    assert!(
        test.session.statements.get(b"a").is_some(),
        "its Close was skipped"
    );
    assert!(
        test.session.statements.get(b"b").is_none() && test.session.statements.get(b"").is_none()
    );
    let sent = test.client([parse("b", "SELECT 2"), bind("a"), sync()]);
    assert_eq!(
        sent,
        ["Parse s2: SELECT 2", "Bind s1", "Sync"],
        "only the first is known there"
    );
}

#[test]
fn a_failed_parse_releases_its_name() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT nonsense"), sync()]);
    let got = test.server([error("42703", "no such column"), ready('I')]);
    assert_eq!(got, ["ERROR 42703: no such column", "ready I"]);
    assert!(test.session.statements.get(b"a").is_none());
    let sent = test.client([parse("a", "SELECT nonsense"), sync()]);
    assert_eq!(
        sent,
        ["Parse s1: SELECT nonsense", "Sync"],
        "the server does not have it"
    );
}

#[test]
fn a_name_reused_after_an_error_keeps_its_old_meaning() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    test.client([
        bind("a"),
        execute(),
        close_statement("a"),
        parse("a", "SELECT 2"),
        sync(),
    ]);
    test.server([error("22012", "no"), ready('I')]);
    let template = test.session.statements.get(b"a").expect("the first one");
    assert_eq!(template.text, "SELECT 1");
}

#[test]
fn an_evicted_statement_is_still_there_if_its_close_was_skipped() {
    let mut test = TestRelay::new();
    test.on_another_server(1);
    test.client([parse("a", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    let sent = test.client([bind("a"), execute(), parse("b", "SELECT 2"), sync()]);
    assert_eq!(
        sent,
        [
            "Bind s1",
            "Execute",
            "Close s1",
            "Parse s2: SELECT 2",
            "Sync"
        ]
    );
    test.server([bound(), error("22012", "no"), ready('I')]);
    assert_eq!(test.client([bind("a"), sync()]), ["Bind s1", "Sync"]);
}

#[test]
fn an_error_ends_at_its_own_sync() {
    let mut test = TestRelay::new();
    test.client([
        parse("a", "SELECT 1"),
        sync(),
        parse("b", "SELECT 2"),
        sync(),
    ]);
    let got = test.server([error("42601", "no"), ready('I')]);
    assert_eq!(got, ["ERROR 42601: no", "ready I"]);
    assert!(!test.relay.is_over());
    assert_eq!(test.server([parsed(), ready('I')]), ["parsed", "ready I"]);
    assert!(
        test.session.statements.get(b"a").is_none() && test.session.statements.get(b"b").is_some()
    );
    assert!(test.relay.is_over() && test.relay.saw_error());
}

#[test]
fn an_answer_that_needs_no_server_is_not_sent_after_an_error() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    test.client([
        bind("a"),
        parse("b", "SELECT 1"),
        close_statement("a"),
        sync(),
    ]);
    assert_eq!(
        test.server([error("22023", "no"), ready('I')]),
        ["ERROR 22023: no", "ready I"]
    );
    assert!(
        test.session.statements.get(b"b").is_none() && test.session.statements.get(b"a").is_some()
    );
}

#[test]
fn a_fatal_error_reaches_the_client_and_ends_the_connection() {
    let mut test = TestRelay::new();
    test.client([query("SELECT 1")]);
    let got = test.server([fatal("57P01", "terminating connection")]);
    assert_eq!(got, ["FATAL 57P01: terminating connection"]);
    assert!(test.relay.is_fatal() && !test.relay.is_over());
}

/// A server that shuts down ends the connection of each client that is idle. Here no client uses it any more.
#[test]
fn a_fatal_error_behind_the_answer_does_not_reach_the_client() {
    let mut test = TestRelay::new();
    test.client([query("SELECT 1")]);
    let last = fatal("57P01", "terminating connection");
    let got = test.server([complete("SELECT 1"), ready('I'), last]);
    assert_eq!(got, ["SELECT 1", "ready I"]);
    assert!(test.relay.is_over() && !test.relay.is_fatal());
    assert!(test.server.must_close);
}

/// For example that another server process has crashed.
#[test]
fn a_notice_behind_the_answer_does_not_reach_the_client() {
    let mut test = TestRelay::new();
    test.client([query("SELECT 1")]);
    let end = [complete("SELECT 1"), ready('I')];
    let got = test.server([notice("before"), end.concat(), notice("behind")]);
    assert_eq!(got, ["notice before", "SELECT 1", "ready I"]);
}

#[test]
fn after_an_error_a_query_is_skipped_too_up_to_the_sync() {
    let mut test = TestRelay::new();
    test.client([
        bind(""),
        execute(),
        query("SELECT 1"),
        sync(),
        query("SELECT 2"),
    ]);
    let got = test.server([error("26000", "no"), ready('I')]);
    assert_eq!(got, ["ERROR 26000: no", "ready I"]);
    assert!(!test.relay.is_over());
    assert_eq!(
        test.server([complete("SELECT 1"), ready('I')]),
        ["SELECT 1", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn messages_between_an_error_and_the_sync_change_nothing() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT nonsense"), flush()]);
    assert_eq!(test.server([error("42703", "no")]), ["ERROR 42703: no"]);
    assert!(
        test.client([
            parse("b", "SELECT 1"),
            close_statement("a"),
            query("SELECT 2")
        ])
        .is_empty()
    );
    assert_eq!(test.client([sync()]), ["Sync"]);
    assert_eq!(test.server([ready('I')]), ["ready I"]);
    assert!(test.relay.is_over() && test.session.statements.get(b"b").is_none());
    assert_eq!(test.client([query("SELECT 3")]), ["Query SELECT 3"]);
}

#[test]
fn a_statement_whose_parameters_were_rejected_is_prepared_again() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT $1"), sync()]);
    test.server([parsed(), ready('I')]);
    test.client([bind("a"), execute(), sync()]);
    test.server([error("22P02", "invalid input syntax"), ready('I')]);
    assert_eq!(test.next_relay(), ["Close s1"]);
    test.server([closed()]);
    let sent = test.client([bind("a"), execute(), sync()]);
    assert!(sent[0].starts_with("Parse"), "{sent:?}");
}

#[test]
fn a_plan_that_no_longer_fits_its_table_is_made_again() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT * FROM t"), sync()]);
    test.server([parsed(), ready('I')]);
    test.client([bind("a"), execute(), sync()]);
    test.server([stale_plan(), ready('I')]);
    assert_eq!(test.next_relay(), ["Close s1"]);
    test.server([closed()]);
    let sent = test.client([bind("a"), execute(), sync()]);
    assert!(sent[0].starts_with("Parse"), "{sent:?}");
}

//! A plan that no longer fits its table: the request is retried, if the client cannot notice.

use super::test_relay::TestRelay;
use crate::relay::{RelayState, Wrap};
use bytes::BytesMut;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const STALE: &str = STALE_PLAN;

fn prepared() -> TestRelay {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT * FROM t"), sync()]);
    test.server([parsed(), ready('I')]);
    test.next_relay();
    test.relay.allow_retry();
    test
}

#[test]
fn a_request_that_met_a_stale_plan_is_retried() {
    let mut test = prepared();
    test.client([bind("a"), execute(), sync()]);
    assert!(test.server([stale_plan(), ready('I')]).is_empty());
    assert!(test.relay.take_retry() && !test.relay.take_retry());
    let sent = test.client([bind("a"), execute(), sync()]);
    assert_eq!(sent[..2], ["Close s1", "Parse s1: SELECT * FROM t"]);
    let got = test.server([
        closed(),
        parsed(),
        bound(),
        complete("SELECT 0"),
        ready('I'),
    ]);
    assert_eq!(got, ["bound", "SELECT 0", "ready I"]);
    assert!(test.relay.is_over() && !test.relay.saw_error());
}

#[test]
fn answers_about_names_are_not_repeated() {
    let mut test = prepared();
    let request = || [parse("b", "SELECT * FROM t"), bind("b"), execute(), sync()];
    test.client(request());
    assert_eq!(test.server([parsed()]), ["parsed"]);
    assert!(test.server([stale_plan(), ready('I')]).is_empty());
    assert!(test.relay.take_retry());
    let sent = test.client(request());
    assert!(sent[0].starts_with("Parse s"), "{sent:?}");
    let got = test.server([parsed(), bound(), complete("SELECT 0"), ready('I')]);
    assert_eq!(got, ["bound", "SELECT 0", "ready I"]);
}

#[test]
fn a_second_failure_is_forwarded() {
    let mut test = prepared();
    test.client([bind("a"), execute(), sync()]);
    test.server([stale_plan(), ready('I')]);
    assert!(test.relay.take_retry());
    test.client([bind("a"), execute(), sync()]);
    let got = test.server([closed(), parsed(), stale_plan(), ready('I')]);
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(!test.relay.take_retry());
}

#[test]
fn inside_a_transaction_the_error_is_forwarded() {
    let mut test = prepared();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([bind("a"), execute(), sync()]);
    let got = test.server([stale_plan(), ready('E')]);
    assert_eq!(got, [format!("ERROR 0A000: {STALE}"), "ready E".to_owned()]);
    assert!(!test.relay.take_retry());
}

#[test]
fn after_a_part_of_an_answer_the_error_is_forwarded() {
    let mut test = prepared();
    test.client([
        parse("", "SELECT 1"),
        bind(""),
        execute(),
        bind("a"),
        execute(),
        sync(),
    ]);
    let got = test.server([
        parsed(),
        bound(),
        row(&["1"]),
        complete("SELECT 1"),
        stale_plan(),
        ready('I'),
    ]);
    assert_eq!(got.len(), 6, "{got:?}");
    assert!(!test.relay.take_retry());
}

#[test]
fn after_further_messages_of_the_client_the_error_is_forwarded() {
    let mut test = prepared();
    test.client([bind("a")]);
    test.relay.forbid_retry();
    test.client([execute(), sync()]);
    assert_eq!(test.server([stale_plan(), ready('I')]).len(), 2);
}

#[test]
fn a_procedure_that_may_have_committed_is_not_retried() {
    let mut test = prepared();
    test.client([query("CALL interner()")]);
    assert_eq!(test.server([stale_plan(), ready('I')]).len(), 2);
    assert!(!test.relay.take_retry());
}

#[test]
fn a_statement_that_is_executed_by_name_is_retried() {
    let mut test = prepared();
    test.client([query("EXECUTE a")]);
    assert!(test.server([stale_plan(), ready('I')]).is_empty());
    assert!(test.relay.take_retry(), "a statement has done nothing");
}

#[test]
fn a_transaction_that_paceline_began_is_retried() {
    let mut test = prepared();
    let mut out = BytesMut::new();
    test.with_context(|relay, context| {
        *relay = RelayState::start(context, Wrap::Begin, &mut out);
    });
    assert_eq!(test.read_to_server(&out), ["Query BEGIN"]);
    test.relay.allow_retry();
    test.client([bind("a"), execute(), sync()]);
    let stale = [complete("BEGIN"), ready('T'), stale_plan(), ready('E')];
    assert!(test.server(stale).is_empty());
    assert_eq!(test.own(), ["Query ROLLBACK", "Query BEGIN"]);
    assert!(test.relay.take_retry() && !test.relay.take_retry());
    test.client([bind("a"), execute(), sync()]);
    let begun = [
        complete("ROLLBACK"),
        ready('I'),
        complete("BEGIN"),
        ready('T'),
    ];
    assert!(test.server(begun).is_empty());
    let got = test.server([
        closed(),
        parsed(),
        bound(),
        complete("SELECT 0"),
        ready('T'),
    ]);
    assert_eq!(got, ["bound", "SELECT 0"]);
    assert_eq!(test.own(), ["Query COMMIT"]);
    assert_eq!(test.server([complete("COMMIT"), ready('I')]), ["ready I"]);
    assert!(test.relay.is_over() && !test.relay.saw_error());
}

/// The statement is parsed again before it is executed by name.
#[test]
fn an_execute_by_name_is_retried_in_a_new_transaction() {
    let mut test = prepared();
    let mut out = BytesMut::new();
    test.with_context(|relay, context| {
        *relay = RelayState::start(context, Wrap::Begin, &mut out);
    });
    test.relay.allow_retry();
    test.client([query("EXECUTE a")]);
    let stale = [complete("BEGIN"), ready('T'), stale_plan(), ready('E')];
    assert!(test.server(stale).is_empty());
    assert_eq!(test.own(), ["Query ROLLBACK", "Query BEGIN"]);
    assert!(test.relay.take_retry());
    let sent = test.client([query("EXECUTE a")]);
    assert!(
        sent.iter().any(|message| message.starts_with("Parse")),
        "{sent:?}"
    );
}

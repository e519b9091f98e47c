//! A plan that no longer fits its table: the request is carried out once more, if nobody can tell.

use super::fixture::Stage;
use crate::relay::Wrap;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const STALE: &str = STALE_PLAN;

fn prepared() -> Stage {
    let mut stage = Stage::new();
    stage.client([parse("a", "SELECT * FROM t"), sync()]);
    stage.server([parsed(), ready('I')]);
    stage.ride_again();
    stage.relay.allow_retry();
    stage
}

#[test]
fn a_request_that_met_a_stale_plan_is_carried_out_again() {
    let mut stage = prepared();
    stage.client([bind("a"), execute(), sync()]);
    assert!(stage.server([stale_plan(), ready('I')]).is_empty());
    assert!(stage.relay.take_retry() && !stage.relay.take_retry());
    let sent = stage.client([bind("a"), execute(), sync()]);
    assert_eq!(sent[..2], ["Close s1", "Parse s1: SELECT * FROM t"]);
    let got = stage.server([
        closed(),
        parsed(),
        bound(),
        complete("SELECT 0"),
        ready('I'),
    ]);
    assert_eq!(got, ["bound", "SELECT 0", "ready I"]);
    assert!(stage.relay.is_over() && !stage.relay.saw_error());
}

#[test]
fn what_the_client_was_told_of_names_is_not_told_again() {
    let mut stage = prepared();
    let request = || [parse("b", "SELECT * FROM t"), bind("b"), execute(), sync()];
    stage.client(request());
    assert_eq!(stage.server([parsed()]), ["parsed"]);
    assert!(stage.server([stale_plan(), ready('I')]).is_empty());
    assert!(stage.relay.take_retry());
    let sent = stage.client(request());
    assert!(sent[0].starts_with("Parse s"), "{sent:?}");
    let got = stage.server([parsed(), bound(), complete("SELECT 0"), ready('I')]);
    assert_eq!(got, ["bound", "SELECT 0", "ready I"]);
}

#[test]
fn a_second_failure_is_told() {
    let mut stage = prepared();
    stage.client([bind("a"), execute(), sync()]);
    stage.server([stale_plan(), ready('I')]);
    assert!(stage.relay.take_retry());
    stage.client([bind("a"), execute(), sync()]);
    let got = stage.server([closed(), parsed(), stale_plan(), ready('I')]);
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(!stage.relay.take_retry());
}

#[test]
fn inside_a_transaction_it_is_told() {
    let mut stage = prepared();
    stage.client([query("BEGIN")]);
    stage.server([complete("BEGIN"), ready('T')]);
    stage.client([bind("a"), execute(), sync()]);
    let got = stage.server([stale_plan(), ready('E')]);
    assert_eq!(got, [format!("ERROR 0A000: {STALE}"), "ready E".to_owned()]);
    assert!(!stage.relay.take_retry());
}

#[test]
fn a_client_that_has_seen_part_of_an_answer_is_told() {
    let mut stage = prepared();
    stage.client([
        parse("", "SELECT 1"),
        bind(""),
        execute(),
        bind("a"),
        execute(),
        sync(),
    ]);
    let got = stage.server([
        parsed(),
        bound(),
        row(&["1"]),
        complete("SELECT 1"),
        stale_plan(),
        ready('I'),
    ]);
    assert_eq!(got.len(), 6, "{got:?}");
    assert!(!stage.relay.take_retry());
}

#[test]
fn a_client_that_has_said_more_than_the_request_is_told() {
    let mut stage = prepared();
    stage.client([bind("a")]);
    stage.relay.forbid_retry();
    stage.client([execute(), sync()]);
    assert_eq!(stage.server([stale_plan(), ready('I')]).len(), 2);
}

#[test]
fn a_procedure_that_may_have_committed_is_not_called_again() {
    let mut stage = prepared();
    stage.client([query("CALL interner()")]);
    assert_eq!(stage.server([stale_plan(), ready('I')]).len(), 2);
    assert!(!stage.relay.take_retry());
}

#[test]
fn a_statement_that_is_executed_by_name_is_carried_out_again() {
    let mut stage = prepared();
    stage.client([query("EXECUTE a")]);
    assert!(stage.server([stale_plan(), ready('I')]).is_empty());
    assert!(stage.relay.take_retry(), "a statement has done nothing");
}

#[test]
fn a_request_that_was_begun_by_paceline_is_not_carried_out_again() {
    let mut stage = Stage::wrapped(Wrap::Begin);
    stage.relay.allow_retry();
    stage.client([parse("", "SELECT * FROM t"), bind(""), execute(), sync()]);
    let got = stage.server([
        complete("BEGIN"),
        ready('T'),
        parsed(),
        stale_plan(),
        ready('E'),
    ]);
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(!stage.relay.take_retry());
}

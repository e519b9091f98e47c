//! Sequence values of other clients are discarded before a client may read them, and not later.

use super::test_relay::TestRelay;
use crate::sequences::SequenceState;
use paceline_sql::SequenceUse;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const DISCARD: &str = "Query DISCARD SEQUENCES";

/// Another client has drawn values on the server.
fn test() -> TestRelay {
    let mut test = TestRelay::new();
    test.server.sequences = SequenceState::Mixed;
    test
}

/// A `DISCARD SEQUENCES` within a request of the extended protocol.
const DISCARD_STEPS: [&str; 5] = [
    "Parse paceline: own: DISCARD SEQUENCES",
    "Bind paceline: own to paceline: own",
    "Execute paceline: own",
    "Close portal paceline: own",
    "Close paceline: own",
];

/// The client begins a transaction by a simple query.
fn begin(test: &mut TestRelay) {
    assert_eq!(test.client([query("BEGIN")]), ["Query BEGIN"]);
    test.server([complete("BEGIN"), ready('T')]);
}

#[test]
fn sequence_values_of_others_are_discarded_before_the_first_draw_of_a_transaction() {
    let mut test = test();
    begin(&mut test);
    let insert = "INSERT INTO t DEFAULT VALUES";
    let sent = test.client([query(insert)]);
    assert_eq!(sent, [DISCARD.to_owned(), format!("Query {insert}")]);
    let received = test.server([
        complete("DISCARD SEQUENCES"),
        ready('T'),
        complete("INSERT 0 1"),
        ready('T'),
    ]);
    assert_eq!(received, ["INSERT 0 1", "ready T"]);
    for sql in [insert, "SELECT lastval()"] {
        assert_eq!(test.client([query(sql)]), [format!("Query {sql}")]);
        test.server([complete("x"), ready('T')]);
    }
    assert!(test.server.sequences.is_readable(test.session.sequences));
}

#[test]
fn a_transaction_whose_statements_use_no_sequence_discards_nothing() {
    let mut test = test();
    let update = "UPDATE t SET n = m";
    test.analyzed.push((update, SequenceUse::NONE));
    begin(&mut test);
    for sql in [update, update, "COMMIT"] {
        assert_eq!(test.client([query(sql)]), [format!("Query {sql}")]);
        let status = if sql == "COMMIT" { 'I' } else { 'T' };
        test.server([complete("x"), ready(status)]);
    }
    assert_eq!(test.server.sequences, SequenceState::Mixed);
    assert!(test.relay.take_unanalyzed().is_none());
}

#[test]
fn a_draw_in_a_transaction_may_be_read_later() {
    let mut test = test();
    let insert = "INSERT INTO t DEFAULT VALUES";
    test.analyzed.push((insert, SequenceUse::DRAWS));
    begin(&mut test);
    assert_eq!(test.client([query(insert)])[0], DISCARD);
}

#[test]
fn a_statement_of_a_transaction_is_analyzed_once() {
    let mut test = test();
    begin(&mut test);
    for sql in ["INSERT INTO t DEFAULT VALUES", "DELETE FROM t"] {
        test.client([query(sql)]);
        test.server([complete("x"), ready('T'), complete("x"), ready('T')]);
    }
    let unanalyzed = test.relay.take_unanalyzed();
    assert_eq!(unanalyzed.unwrap().0.text, "INSERT INTO t DEFAULT VALUES");
    assert!(test.relay.take_unanalyzed().is_none());
}

#[test]
fn sequence_values_are_discarded_once_before_a_bind() {
    let mut test = test();
    let request = [parse("", "SELECT f()"), bind(""), execute(), sync()];
    let sent = test.client(request.clone());
    assert_eq!(sent[0], "Parse unnamed: SELECT f()");
    assert_eq!(sent[1..6], DISCARD_STEPS);
    assert_eq!(sent[6], "Bind unnamed");
    let received = test.server([
        parsed(),
        parsed(),
        bound(),
        complete("DISCARD SEQUENCES"),
        closed(),
        closed(),
        bound(),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(received, ["parsed", "bound", "SELECT 1", "ready I"]);
    let sent = test.client(request);
    assert_eq!(sent[..2], ["Parse unnamed: SELECT f()", "Bind unnamed"]);
}

/// What the server skips after an error is not discarded.
#[test]
fn a_skipped_discard_is_repeated() {
    let mut test = test();
    let request = [parse("", "SELECT f()"), bind(""), execute(), sync()];
    test.client(request.clone());
    test.server([error("42883", "no such function"), ready('I')]);
    assert_eq!(test.server.sequences, SequenceState::Mixed);
    assert_eq!(test.client(request)[1..6], DISCARD_STEPS);
}

/// The client's own values remain if a later statement of the request fails.
#[test]
fn an_error_after_the_discard_repeats_nothing() {
    let mut test = test();
    begin(&mut test);
    test.client([parse("", "SELECT f()"), bind(""), execute(), sync()]);
    test.server([
        parsed(),
        parsed(),
        bound(),
        complete("DISCARD SEQUENCES"),
        closed(),
        closed(),
        bound(),
        error("22012", "division by zero"),
        ready('E'),
    ]);
    assert!(test.server.sequences.is_readable(test.session.sequences));
}

/// A `Query` would close the unnamed portal of the client.
#[test]
fn a_function_call_in_a_transaction_leaves_the_unnamed_portal() {
    let mut test = test();
    begin(&mut test);
    let sent = test.client([function_call()]);
    assert_eq!(sent[..5], DISCARD_STEPS);
    assert_eq!(sent[5..], ["Sync", "FunctionCall"]);
    let received = test.server([
        parsed(),
        bound(),
        complete("DISCARD SEQUENCES"),
        closed(),
        closed(),
        ready('T'),
        called(),
        ready('T'),
    ]);
    assert_eq!(received, ["called", "ready T"]);
}

#[test]
fn a_statement_that_reads_no_sequence_discards_nothing() {
    let mut test = test();
    for sql in ["SELECT 1", "SET x.y = 1", "COMMIT"] {
        assert_eq!(test.client([query(sql)]), [format!("Query {sql}")]);
        test.server([complete("x"), ready('I')]);
    }
    // The statement has been analysed.
    test.relay.first_request_uses(SequenceUse::DRAWS);
    let sql = "INSERT INTO t DEFAULT VALUES";
    assert_eq!(test.client([query(sql)]), [format!("Query {sql}")]);
    assert_eq!(test.server.sequences, SequenceState::Mixed);
}

#[test]
fn a_client_is_not_served_if_the_discard_fails() {
    let mut test = test();
    test.client([query("SELECT lastval()")]);
    let received = test.server([error("57014", "cancelled"), ready('I')]);
    assert!(received.is_empty(), "{received:?}");
    assert!(test.relay.discard_failed());
}

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

#[test]
fn sequence_values_of_others_are_discarded_before_a_transaction_begins() {
    let mut test = test();
    let sent = test.client([query("BEGIN")]);
    assert_eq!(sent, [DISCARD, "Query BEGIN"]);
    let received = test.server([
        complete("DISCARD SEQUENCES"),
        ready('I'),
        complete("BEGIN"),
        ready('T'),
    ]);
    assert_eq!(received, ["BEGIN", "ready T"]);
    for sql in ["INSERT INTO t VALUES (1)", "SELECT lastval()"] {
        assert_eq!(test.client([query(sql)]), [format!("Query {sql}")]);
        test.server([complete("x"), ready('T')]);
    }
    assert!(test.server.sequences.is_readable(test.session.sequences));
}

#[test]
fn sequence_values_are_discarded_once_before_an_extended_request() {
    let mut test = test();
    let request = [parse("", "SELECT f()"), bind(""), execute(), sync()];
    let sent = test.client(request.clone());
    assert_eq!(sent[..2], [DISCARD, "Parse unnamed: SELECT f()"]);
    test.server([complete("DISCARD SEQUENCES"), ready('I')]);
    test.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert_eq!(test.client(request)[0], "Parse unnamed: SELECT f()");
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
    let sql = "INSERT INTO t VALUES (1)";
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

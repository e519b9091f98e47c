//! What others have drawn from sequences is forgotten before a client may read it, and not later.

use super::fixture::Stage;
use crate::sequences::SequenceState;
use paceline_sql::SequenceUse;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const DISCARD: &str = "Query DISCARD SEQUENCES";

/// Somebody else has drawn on the server.
fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.server.sequences = SequenceState::Mixed;
    stage
}

#[test]
fn a_transaction_forgets_what_others_have_drawn_before_it_begins() {
    let mut stage = stage();
    let sent = stage.client([query("BEGIN")]);
    assert_eq!(sent, [DISCARD, "Query BEGIN"]);
    let told = stage.server([
        complete("DISCARD SEQUENCES"),
        ready('I'),
        complete("BEGIN"),
        ready('T'),
    ]);
    assert_eq!(told, ["BEGIN", "ready T"]);
    for sql in ["INSERT INTO t VALUES (1)", "SELECT lastval()"] {
        assert_eq!(stage.client([query(sql)]), [format!("Query {sql}")]);
        stage.server([complete("x"), ready('T')]);
    }
    assert!(stage.server.sequences.is_readable(stage.session.sequences));
}

#[test]
fn it_is_forgotten_in_front_of_a_request_of_messages_once() {
    let mut stage = stage();
    let request = [parse("", "SELECT f()"), bind(""), execute(), sync()];
    let sent = stage.client(request.clone());
    assert_eq!(sent[..2], [DISCARD, "Parse unnamed: SELECT f()"]);
    stage.server([complete("DISCARD SEQUENCES"), ready('I')]);
    stage.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert_eq!(stage.client(request)[0], "Parse unnamed: SELECT f()");
}

#[test]
fn what_reads_nothing_is_not_held_up() {
    let mut stage = stage();
    for sql in ["SELECT 1", "SET x.y = 1", "COMMIT"] {
        assert_eq!(stage.client([query(sql)]), [format!("Query {sql}")]);
        stage.server([complete("x"), ready('I')]);
    }
    // It has been analysed.
    stage.relay.first_request_uses(SequenceUse::DRAWS);
    let sql = "INSERT INTO t VALUES (1)";
    assert_eq!(stage.client([query(sql)]), [format!("Query {sql}")]);
    assert_eq!(stage.server.sequences, SequenceState::Mixed);
}

#[test]
fn a_client_is_not_served_where_strange_numbers_stay() {
    let mut stage = stage();
    stage.client([query("SELECT lastval()")]);
    let told = stage.server([error("57014", "cancelled"), ready('I')]);
    assert!(told.is_empty(), "{told:?}");
    assert!(stage.relay.has_strange_numbers());
}

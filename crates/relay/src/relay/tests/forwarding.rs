//! Messages that are forwarded unchanged: rows in parts, several statements, portals with row limits, Flush, notices.

use super::test_relay::TestRelay;
use crate::relay::MESSAGES_MAX;
use crate::relay::portal_map::Others;
use bytes::BytesMut;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;
use paceline_testing::read_out;
use paceline_wire::backend::Status;

/// An answer with a row that is larger than buffers usually are.
fn large_reply() -> Wire {
    let large = "x".repeat(70_000);
    [
        columns(&["a"]),
        row(&["1"]),
        row(&[&large]),
        row(&[""]),
        complete("SELECT 3"),
        ready('I'),
    ]
    .concat()
}

#[test]
fn rows_are_forwarded_in_parts_of_any_size() {
    let reply = large_reply();
    for piece in [1, 2, 3, 7, 4_096, reply.len()] {
        let mut test = TestRelay::new();
        test.client([query("SELECT a FROM t")]);
        let pieces = reply
            .chunks(piece)
            .flat_map(|piece| test.server_bytes(piece));
        let out: Vec<u8> = pieces.collect();
        assert!(out == reply, "in pieces of {piece} bytes");
        assert!(test.relay.is_over());
        assert_eq!(test.relay.forwarded(), reply.len() as u64);
    }
}

#[test]
fn a_part_of_a_row_does_not_wait_for_the_rest() {
    let mut test = TestRelay::new();
    test.client([query("SELECT a FROM t")]);
    let reply = row(&["a long value"]);
    assert_eq!(test.server_bytes(&reply[..9]), reply[..9]);
    assert!(!test.relay.is_quiet());
    assert_eq!(test.server_bytes(&reply[9..]), reply[9..]);
}

#[test]
fn messages_that_are_read_may_arrive_byte_by_byte() {
    let sent = || [parse("a", "SELECT 1"), bind("a"), execute(), sync()];
    let reply = [
        parsed(),
        bound(),
        row(&["1"]),
        complete("SELECT 1"),
        ready('I'),
    ]
    .concat();
    let mut at_once = TestRelay::new();
    at_once.client(sent());
    let expected = at_once.server_bytes(&reply);
    let mut test = TestRelay::new();
    test.client(sent());
    let out: Vec<u8> = reply
        .iter()
        .flat_map(|byte| test.server_bytes(&[*byte]))
        .collect();
    assert_eq!(out, expected);
    assert!(test.relay.is_over());
}

#[test]
fn a_text_of_several_statements_is_one_request() {
    let mut test = TestRelay::new();
    assert_eq!(
        test.client([query("SELECT 1; SELECT 2")]),
        ["Query SELECT 1; SELECT 2"]
    );
    let one = test.server([columns(&["a"]), row(&["1"]), complete("SELECT 1")]);
    assert_eq!(one, ["columns a", "row 1", "SELECT 1"]);
    assert!(!test.relay.is_over());
    let two = test.server([
        columns(&["b"]),
        row(&["2"]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(two, ["columns b", "row 2", "SELECT 1", "ready I"]);
    assert!(test.relay.is_over());
}

#[test]
fn pipelined_requests_are_answered_one_after_the_other() {
    let mut test = TestRelay::new();
    test.client([query("SELECT 1"), query("SELECT 2")]);
    test.server([complete("SELECT 1"), ready('I')]);
    assert!(!test.relay.is_over());
    test.server([complete("SELECT 1"), ready('I')]);
    assert!(test.relay.is_over());
}

#[test]
fn a_transaction_keeps_its_server() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    assert!(test.relay.is_quiet() && !test.relay.is_over());
    test.client([query("SELECT 1/0")]);
    test.server([error("22012", "no"), ready('E')]);
    assert_eq!(
        (test.relay.status(), test.relay.is_over()),
        (Status::Failed, false)
    );
    test.client([query("ROLLBACK")]);
    test.server([complete("ROLLBACK"), ready('I')]);
    assert!(test.relay.is_over());
}

#[test]
fn flush_gets_answers_before_the_request_ends() {
    let mut test = TestRelay::new();
    let sent = test.client([parse("", "SELECT 1"), describe_statement(""), flush()]);
    assert_eq!(
        sent,
        ["Parse unnamed: SELECT 1", "Describe unnamed", "Flush"]
    );
    let got = test.server([parsed(), parameters(&[23]), no_data()]);
    assert_eq!(got, ["parsed", "parameters [23]", "no data"]);
    assert!(test.relay.awaits_client() && test.relay.pinned_for().is_empty());
    assert_eq!(
        test.client([bind(""), execute(), sync()]),
        ["Bind unnamed", "Execute", "Sync"]
    );
    test.server([bound(), complete("SELECT 1"), ready('I')]);
    assert!(test.relay.is_over());
}

#[test]
fn a_portal_with_a_row_limit_continues() {
    let mut test = TestRelay::new();
    let sent = test.client([
        parse("", "SELECT a FROM t"),
        bind_portal("p", ""),
        execute_portal("p", 1),
        execute_portal("p", 1),
        sync(),
    ]);
    assert_eq!(
        sent[1..],
        ["Bind unnamed to p", "Execute p", "Execute p", "Sync"]
    );
    let got = test.server([
        parsed(),
        bound(),
        row(&["1"]),
        suspended(),
        row(&["2"]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(
        got[2..],
        ["row 1", "suspended", "row 2", "SELECT 1", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn notices_and_settings_are_forwarded_at_any_time() {
    let mut test = TestRelay::new();
    test.client([parse("", "SELECT 1"), bind(""), execute(), sync()]);
    let got = test.server([
        notice("a"),
        parsed(),
        status("x", "y"),
        bound(),
        complete("SELECT 1"),
        notice("b"),
        ready('I'),
    ]);
    assert_eq!(
        got,
        [
            "notice a",
            "parsed",
            "status x=y",
            "bound",
            "SELECT 1",
            "notice b",
            "ready I"
        ]
    );
    assert!(test.relay.is_over());
}

#[test]
fn an_empty_query_and_an_empty_portal_complete() {
    let mut test = TestRelay::new();
    test.client([query("")]);
    assert_eq!(
        test.server([empty_query(), ready('I')]),
        ["empty query", "ready I"]
    );
    test.client([parse("", ""), bind(""), execute(), sync()]);
    test.server([parsed(), bound(), empty_query(), ready('I')]);
    assert!(test.relay.is_over());
}

/// The relay processes a limited number of messages per call, so that other clients proceed.
#[test]
fn many_messages_are_processed_in_parts() {
    const MANY: usize = 3 * MESSAGES_MAX;
    let mut test = TestRelay::new();
    let one = [bind(""), execute()].concat();
    test.client([parse("", "SELECT 1"), one.repeat(MANY)]);
    assert!(test.relay.awaits_client() && !test.relay.is_idle());
    let answer = [bound(), complete("SELECT 1")].concat();
    let mut input = BytesMut::from(&[parsed(), answer.repeat(MANY)].concat()[..]);
    let mut out = BytesMut::new();
    let mut parts = 0;
    while test.server_part(&mut input, &mut out) {
        parts += 1;
        assert!(!input.is_empty());
    }
    assert_eq!(parts, 2 * MANY / MESSAGES_MAX);
    assert!(input.is_empty());
    assert_eq!(read_out::to_client(&out).len(), 1 + 2 * MANY);
}

#[test]
fn a_client_with_many_owed_answers_is_not_read() {
    let mut test = TestRelay::new();
    test.client([parse("", "SELECT 1")]);
    while !test.relay.owes_many_answers() {
        test.client([bind(""), execute()]);
    }
    test.server([parsed(), bound(), complete("SELECT 1")]);
    assert!(!test.relay.owes_many_answers());
}

/// If a client makes messages expensive, the relay processes fewer of them per call.
#[test]
fn messages_that_cost_more_count_as_several() {
    const MANY: usize = 400;
    let parts = |test: &mut TestRelay, requests: usize, answer: Wire| {
        let mut input = BytesMut::from(&answer.repeat(requests)[..]);
        let mut out = BytesMut::new();
        let mut parts = 1;
        while test.server_part(&mut input, &mut out) {
            parts += 1;
        }
        assert!(input.is_empty());
        parts
    };
    let mut test = TestRelay::new();
    for n in 0..MANY {
        test.client([query(&format!("SET a.b{n} TO 1"))]);
        test.server([complete("SET"), ready('I')]);
    }
    for _ in 0..10 {
        test.client([query("SET a.b0 TO 2")]);
    }
    let answer = [complete("SET"), ready('I')].concat();
    assert!(parts(&mut test, 10, answer) > 5, "of its settings");

    let mut test = TestRelay::new();
    for n in 0..8 * MANY {
        test.client([parse(&format!("s{n}"), "SELECT 1"), sync()]);
        test.server_bytes(&ready('I'));
    }
    for _ in 0..10 {
        test.client([query("nothing")]);
    }
    let answer = [error("42601", "no"), ready('I')].concat();
    assert!(parts(&mut test, 10, answer) > 5, "of its statements");
}

#[test]
fn portals_fill_no_memory() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN"), parse("s", "SELECT 1")]);
    for n in 0..3_000 {
        let portal = format!("p{n}");
        test.client([bind_portal(&portal, "s"), close_portal(&portal)]);
    }
    for n in 0..3_000 {
        test.client([bind_portal(&format!("q{n}"), "s")]);
    }
    let cursors = Others {
        former_of: None,
        cursors: true,
    };
    let remembered = test.relay.portals.read_by_also(cursors);
    assert!((1_000..=2_000).contains(&remembered), "{remembered}");
    assert!(test.relay.portals.are_forgotten(cursors));
    // A FETCH reads them all, which counts as work of the client's turn.
    test.relay.work = 0;
    test.client([query("FETCH 1 FROM c")]);
    assert!(test.relay.work >= remembered);
}

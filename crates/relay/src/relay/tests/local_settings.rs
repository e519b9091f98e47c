//! Statements that are parsed while settings are in force that are not those of the session.

use super::test_relay::TestRelay;
use bytes::BytesMut;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const CONSTANT: &str = "SELECT '2026-01-01'::timestamptz";

fn run(test: &mut TestRelay, sql: &str, command: &str, status: char) {
    test.client([query(sql)]);
    test.server([complete(command), ready(status)]);
}

/// Answers what the server has received. Returns the messages about statements.
fn answer(test: &mut TestRelay, mut sent: Vec<String>, status: char) -> Vec<String> {
    if sent.iter().any(|line| line == "Query DISCARD SEQUENCES") {
        sent.remove(0);
        test.server([complete("DISCARD SEQUENCES"), ready(status)]);
    }
    let reply = |line: &String| -> Wire {
        match line.split(' ').next() {
            Some("Close") => closed(),
            Some("Parse") => parsed(),
            Some("Bind") => bound(),
            Some("Execute") => complete("SELECT 1"),
            _ => Vec::new(),
        }
    };
    let replies: Vec<Wire> = sent.iter().map(reply).collect();
    test.server([replies.concat(), ready(status)]);
    sent
}

/// The client prepares the text.
fn prepare(test: &mut TestRelay, name: &str, sql: &str, status: char) -> Vec<String> {
    let sent = test.client([parse(name, sql), sync()]);
    answer(test, sent, status)
}

fn executes(test: &mut TestRelay, name: &str, status: char) -> Vec<String> {
    let sent = test.client([bind(name), execute(), sync()]);
    answer(test, sent, status)
}

/// The other client of the server executes its statement `s`.
fn executes_as_other(test: &mut TestRelay) -> Vec<String> {
    test.as_other(|test| executes(test, "s", 'I'))
}

/// As [`executes_as_other`], on a server that had to be reset.
fn executes_after_reset(test: &mut TestRelay) -> Vec<String> {
    let (settings, mut out) = (test.interner.none(), BytesMut::new());
    test.server.adopt(&settings, Default::default(), &mut out);
    executes_as_other(test)
}

/// Settings that hold until the transaction ends, and those that a function may have set.
const SETS: [&str; 3] = [
    "SET LOCAL TimeZone = 'Asia/Tokyo'",
    "SELECT set_config('timezone', 'Asia/Tokyo', true)",
    "SELECT sneaky()",
];

#[test]
fn a_parse_under_local_settings_leaves_the_statement_of_the_session() {
    for sets in SETS {
        let mut test = TestRelay::new();
        test.as_other(|test| prepare(test, "s", CONSTANT, 'I'));
        test.relay.take_accepted();
        run(&mut test, "BEGIN", "BEGIN", 'T');
        run(&mut test, sets, "SET", 'T');
        let sent = prepare(&mut test, "x", CONSTANT, 'T');
        assert_eq!(sent[0], format!("Parse s2: {CONSTANT}"), "{sets}");
        assert!(test.relay.take_accepted().is_empty(), "{sets}");
        assert_eq!(executes(&mut test, "x", 'T')[0], "Bind s2", "{sets}");
        run(&mut test, "COMMIT", "COMMIT", 'I');
        assert_eq!(executes_after_reset(&mut test)[0], "Bind s1", "{sets}");
        // As in PostgreSQL alone, it keeps its meaning.
        assert_eq!(executes(&mut test, "x", 'I')[0], "Bind s2", "{sets}");
    }
}

#[test]
fn a_statement_that_paceline_prepares_under_local_settings_is_closed_with_them() {
    for sets in SETS {
        let mut test = TestRelay::new();
        prepare(&mut test, "x", CONSTANT, 'I');
        test.as_other(|test| prepare(test, "s", CONSTANT, 'I'));
        test.on_another_server(100);
        run(&mut test, "BEGIN", "BEGIN", 'T');
        run(&mut test, sets, "SET", 'T');
        let sent = executes(&mut test, "x", 'T');
        assert_eq!(
            sent[..2],
            [format!("Parse s2: {CONSTANT}"), "Bind s2".to_owned()]
        );
        assert_eq!(executes(&mut test, "x", 'T')[0], "Bind s2", "once only");
        run(&mut test, "COMMIT", "COMMIT", 'I');
        let sent = executes_after_reset(&mut test);
        assert!(
            sent.contains(&format!("Parse s1: {CONSTANT}")),
            "{sets}: {sent:?}"
        );
    }
}

/// PostgreSQL may analyse it again.
#[test]
fn a_statement_with_constants_is_not_shared_once_it_was_executed_under_local_settings() {
    for (sql, remains) in [(CONSTANT, false), ("SELECT a FROM t WHERE b = $1", true)] {
        let mut test = TestRelay::new();
        prepare(&mut test, "x", sql, 'I');
        test.as_other(|test| prepare(test, "s", sql, 'I'));
        run(&mut test, "BEGIN", "BEGIN", 'T');
        run(&mut test, SETS[0], "SET", 'T');
        for _ in 0..2 {
            assert_eq!(
                executes(&mut test, "x", 'T')[0],
                "Bind s1",
                "its meaning remains"
            );
        }
        run(&mut test, "COMMIT", "COMMIT", 'I');
        let sent = executes_as_other(&mut test);
        assert_eq!(sent[0] == "Bind s1", remains, "{sent:?}");
    }
}

#[test]
fn harmless_local_settings_change_nothing() {
    let mut test = TestRelay::new();
    prepare(&mut test, "x", CONSTANT, 'I');
    test.as_other(|test| prepare(test, "s", CONSTANT, 'I'));
    run(&mut test, "BEGIN", "BEGIN", 'T');
    for sql in [
        "SET LOCAL statement_timeout = 1",
        "SELECT set_config('lock_timeout', '1', true)",
        "SET TRANSACTION READ ONLY",
    ] {
        run(&mut test, sql, "SET", 'T');
        assert_eq!(executes(&mut test, "x", 'T')[0], "Bind s1", "{sql}");
    }
    run(&mut test, "COMMIT", "COMMIT", 'I');
    assert_eq!(executes_as_other(&mut test)[0], "Bind s1");
}

#[test]
fn a_statement_that_is_sent_with_a_rollback_is_parsed_under_the_settings_of_before() {
    for (begin, end, command) in [
        ("BEGIN", "ROLLBACK", "ROLLBACK"),
        ("SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK"),
    ] {
        let mut test = TestRelay::new();
        run(&mut test, "BEGIN", "BEGIN", 'T');
        run(&mut test, begin, begin, 'T');
        run(&mut test, "SET search_path = a", "SET", 'T');
        let _of_another_client = test.session.settings.clone();
        test.client([query(end), parse("x", CONSTANT), sync()]);
        test.server([complete(command), ready('T')]);
        test.server([parsed(), ready('T')]);
        run(&mut test, "SET search_path = a", "SET", 'T');
        let sent = executes(&mut test, "x", 'T');
        assert!(
            sent.contains(&format!("Parse s1: {CONSTANT}")),
            "{end}: {sent:?}"
        );
    }
}

/// After a RESET the defaults of the server are in force, until Paceline has set those of the session.
#[test]
fn a_statement_that_is_parsed_between_a_reset_and_its_restoration_serves_no_other_client() {
    let mut test = TestRelay::new();
    run(&mut test, "SET TimeZone = 'Asia/Tokyo'", "SET", 'I');
    test.session.base = test.session.settings.clone();
    test.other.settings = test.session.settings.clone();
    test.as_other(|test| prepare(test, "s", CONSTANT, 'I'));
    test.client([parse("", "RESET TimeZone"), bind(""), execute(), flush()]);
    test.server([parsed(), bound(), complete("RESET")]);
    let sent = test.client([parse("x", CONSTANT), sync()]);
    assert_eq!(sent[0], format!("Parse s2: {CONSTANT}"));
    test.server([parsed(), ready('I')]);
    test.server([complete("SET"), ready('I')]);
    assert_eq!(executes_as_other(&mut test)[0], "Bind s1");
}

//! Statements that need no relay, and their answers.

use super::test_relay::TestRelay;
use crate::commits::CommitCounts;
use crate::relay::{ListenMode, PlainStatement};
use crate::request::Request;
use crate::sequences::SequenceState;
use crate::session::RequestPlan;
use crate::testing::TestShowSource;
use bytes::{Bytes, BytesMut};
use paceline_sql::SequenceUse;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// The requests here use no sequence.
fn request<const N: usize>(test: &mut TestRelay, messages: [Wire; N]) -> Request {
    let bytes = Bytes::from(messages.concat());
    match test.session.plan(&bytes, &test.templates, &TestShowSource) {
        RequestPlan::Group(mut request) => {
            request.sequences = SequenceUse::NONE;
            *request
        }
        other => panic!("{other:?}"),
    }
}

fn start(test: &mut TestRelay, request: &Request) -> Option<PlainStatement> {
    let mut out = BytesMut::new();
    let started = test.with_context(|_, context| PlainStatement::start(request, context, &mut out));
    assert_eq!(started.is_some(), !out.is_empty());
    started
}

fn is_plain(test: &mut TestRelay, sql: &str) -> bool {
    let request = request(test, [query(sql)]);
    start(test, &request).is_some()
}

/// The commits that an answer to this statement acknowledges.
fn answered<const N: usize>(sql: &str, answer: [Wire; N]) -> Option<CommitCounts> {
    let mut test = TestRelay::new();
    let request = request(&mut test, [query(sql)]);
    let plain = start(&mut test, &request).expect("plain");
    test.with_context(|_, context| plain.answered(&answer.concat(), context))
}

#[test]
fn single_statements_that_only_use_rows_are_plain() {
    for sql in [
        "SELECT 1",
        "SELECT * FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1) RETURNING id",
        "UPDATE t SET n = n + 1",
        "SELECT lower(a) FROM t",
        "SELECT E'a\\nb'",
    ] {
        let mut test = TestRelay::new();
        let reported = ("standard_conforming_strings", "on");
        test.server
            .reported
            .insert(reported.0.into(), reported.1.into());
        assert!(is_plain(&mut test, sql), "{sql}");
    }
}

#[test]
fn others_need_a_relay() {
    for sql in [
        "SELECT sneaky()",
        "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET n = 1",
        "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = 1",
        "SELECT current_setting('idle_session_timeout')",
        // The server may read another text.
        "SELECT 'a\\'",
    ] {
        assert!(!is_plain(&mut TestRelay::new(), sql), "{sql}");
    }
}

#[test]
fn the_unnamed_statement_is_plain() {
    let mut test = TestRelay::new();
    let messages = [
        parse("", "SELECT x FROM t"),
        bind(""),
        describe_portal(),
        execute(),
        sync(),
    ];
    let request = request(&mut test, messages);
    let unanswered = start(&mut test, &request).expect("plain");
    let answer = [error("42P01", "no table"), ready('I')].concat();
    let commits = test.with_context(|_, context| unanswered.answered(&answer, context));
    assert_eq!(commits, None);
    assert!(test.session.statements.get(b"").is_none());
    let plain = start(&mut test, &request).expect("plain");
    let answer = [
        parsed(),
        bound(),
        columns(&["x"]),
        row(&["1"]),
        complete("SELECT 1"),
        ready('I'),
    ];
    let answer = answer.concat();
    let commits = test.with_context(|_, context| plain.answered(&answer, context));
    assert_eq!(commits, Some(CommitCounts::default()));
    // The client may bind it again without a `Parse` here.
    assert_eq!(
        test.client([bind(""), execute(), sync()])[0],
        "Bind unnamed"
    );
    test.server([bound(), complete("SELECT 1"), ready('I')]);
    // Another server describes it first: the client knows its columns.
    test.on_another_server(10);
    let sent = test.client([bind(""), execute(), sync()]);
    assert_eq!(
        sent[..2],
        ["Parse unnamed: SELECT x FROM t", "Describe unnamed"]
    );
}

/// A client that has prepared a statement `a`.
fn prepared() -> TestRelay {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT x FROM t"), sync()]);
    test.server([parsed(), ready('I')]);
    test
}

fn executes(describe: bool) -> Vec<Wire> {
    let described = describe.then(describe_portal);
    let messages = [Some(bind("a")), described, Some(execute()), Some(sync())];
    messages.into_iter().flatten().collect()
}

/// Starts the execution of `a`; returns what the server receives as well.
fn execute_a(test: &mut TestRelay, describe: bool) -> Option<(PlainStatement, Vec<String>)> {
    let request = request(test, [executes(describe).concat()]);
    let mut out = BytesMut::new();
    let started =
        test.with_context(|_, context| PlainStatement::start(&request, context, &mut out));
    started.map(|plain| (plain, test.read_to_server(&out)))
}

#[test]
fn a_prepared_statement_is_plain_on_a_server_that_has_it() {
    let mut test = prepared();
    let (plain, sent) = execute_a(&mut test, true).expect("plain");
    assert_eq!(sent, ["Bind s1", "Describe portal", "Execute", "Sync"]);
    let answer = [bound(), columns(&["x"]), complete("SELECT 0"), ready('I')];
    let answer = answer.concat();
    let commits = test.with_context(|_, context| plain.answered(&answer, context));
    assert_eq!(commits, Some(CommitCounts::default()));
    // Now the client knows the columns, and so does the server.
    let (plain, _) = execute_a(&mut test, false).expect("plain");
    let answer = [bound(), row(&["1"]), complete("SELECT 1"), ready('I')].concat();
    let commits = test.with_context(|_, context| plain.answered(&answer, context));
    assert!(commits.is_some());
    test.on_another_server(10);
    assert!(execute_a(&mut test, false).is_none(), "it is not there");
}

#[test]
fn other_answers_to_a_prepared_statement_need_a_relay() {
    let end = || [complete("SELECT 1"), ready('I')].concat();
    for (describe, answer) in [
        (false, end()),
        (false, [bound(), columns(&["x"]), end()].concat()),
        (true, [bound(), row(&["1"]), end()].concat()),
        (true, [columns(&["x"]), bound(), end()].concat()),
        (true, [bound(), error("22012", "no"), ready('I')].concat()),
        (false, [notice("careful"), bound(), end()].concat()),
    ] {
        let mut test = prepared();
        let (plain, _) = execute_a(&mut test, describe).expect("plain");
        let commits = test.with_context(|_, context| plain.answered(&answer, context));
        assert_eq!(commits, None, "{answer:?}");
    }
}

#[test]
fn an_answer_may_end_at_a_row_limit() {
    let mut test = prepared();
    let (plain, _) = execute_a(&mut test, false).expect("plain");
    let answer = [bound(), row(&["1"]), suspended(), ready('I')].concat();
    let commits = test.with_context(|_, context| plain.answered(&answer, context));
    assert!(commits.is_some());
}

#[test]
fn state_of_the_session_needs_a_relay() {
    const SQL: &str = "SELECT a FROM t";
    let mut test = TestRelay::new();
    test.client([parse("", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    assert!(!is_plain(&mut test, SQL), "an unnamed statement");

    let mut test = TestRelay::new();
    let mut reads = request(&mut test, [query(SQL)]);
    reads.sequences = SequenceUse::ANY;
    assert!(start(&mut test, &reads).is_some(), "there are no numbers");
    test.server.sequences = SequenceState::Mixed;
    assert!(start(&mut test, &reads).is_none(), "numbers of others");
    reads.sequences = SequenceUse::DRAWS;
    assert!(start(&mut test, &reads).is_some());
}

#[test]
fn the_server_is_left_as_a_relay_leaves_it() {
    let mut test = TestRelay::new();
    let mut draws = request(&mut test, [query("INSERT INTO t DEFAULT VALUES")]);
    draws.sequences = SequenceUse::DRAWS;
    start(&mut test, &draws).expect("plain");
    assert!(test.server.sequences.is_readable(test.session.sequences));
    assert_ne!(test.server.sequences, SequenceState::Clean);
    assert!(test.server.notified, "a trigger may notify");

    let mut test = TestRelay::new();
    test.policy.listen_mode = ListenMode::Session;
    assert!(is_plain(&mut test, "SELECT 1"));
    assert!(test.server.notified);
}

#[test]
fn rows_and_their_end_are_forwarded() {
    let none = Some(CommitCounts::default());
    let rows = [
        columns(&["a"]),
        row(&["1"]),
        complete("SELECT 1"),
        ready('I'),
    ];
    assert_eq!(answered("SELECT 1", rows), none);
    let certain = CommitCounts {
        possible: 1,
        certain: 1,
    };
    let update = "UPDATE t SET n = 1";
    let answer = [complete("UPDATE 3"), ready('I')];
    assert_eq!(answered(update, answer), Some(certain));
    let possible = CommitCounts {
        possible: 1,
        certain: 0,
    };
    let answer = [complete("UPDATE 0"), ready('I')];
    assert_eq!(answered(update, answer), Some(possible));
}

#[test]
fn other_answers_need_a_relay() {
    let end = || [complete("SELECT 1"), ready('I')].concat();
    let answers = [
        error("22012", "division by zero"),
        [error("22012", "division by zero"), ready('I')].concat(),
        [notice("careful"), end()].concat(),
        [status("TimeZone", "UTC"), end()].concat(),
        [end(), notice("the database is shutting down I")].concat(),
        [end(), end()].concat(),
        [complete("SELECT 1"), ready('T')].concat(),
        [columns(&["a"]), row(&["1"])].concat(),
        [row(&["I"])].concat(),
        ready('I'),
        copy_in(),
    ];
    for answer in answers {
        let found = answered("SELECT 1", [answer.clone()]);
        assert_eq!(found, None, "{answer:?}");
    }
    let whole = end();
    for len in 0..whole.len() {
        assert_eq!(answered("SELECT 1", [whole[..len].to_vec()]), None, "{len}");
    }
}

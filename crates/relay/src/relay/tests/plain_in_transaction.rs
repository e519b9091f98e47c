//! Plain statements of an open transaction: each does what the same messages do if the relay processes them.

use super::test_relay::TestRelay;
use crate::relay::{ListenMode, PlainStatement};
use crate::sequences::SequenceState;
use crate::server::Preparable;
use bytes::BytesMut;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// A client in a transaction, which has prepared a statement `a` before.
fn in_transaction() -> TestRelay {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT x FROM t"), sync()]);
    test.server([parsed(), ready('I')]);
    test.next_relay();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test
}

fn start(test: &mut TestRelay, messages: &[u8], out: &mut BytesMut) -> Option<PlainStatement> {
    test.with_context(|relay, context| relay.start_plain(messages, context, out))
}

fn is_plain(test: &mut TestRelay, messages: &[u8]) -> bool {
    start(test, messages, &mut BytesMut::new()).is_some()
}

/// The state that later messages depend on, without times and numbers, which differ.
fn state(test: &mut TestRelay) -> String {
    // The relay knows what the unnamed portal executes, also after the request.
    test.relay.portals.end();
    test.relay.work = 0;
    let statements = &test.session.statements;
    let known = [b"".as_slice(), b"a"].map(|name| {
        let (template, client_parse) = statements.prepared(name)?;
        let is_there = test.server.unnamed == Some(client_parse.written);
        let is_answered = client_parse.answered > client_parse.written;
        let described = (client_parse.columns, &client_parse.types);
        Some((&template.text, is_there, is_answered, described))
    });
    let server = &mut test.server;
    let are_own = server.sequences.is_readable(test.session.sequences);
    let sequences = std::mem::replace(&mut server.sequences, SequenceState::Clean);
    let unnamed = server.unnamed.take();
    let state = format!(
        "{:?}\n{server:?}\n{known:?}\n{are_own} {}",
        test.relay,
        unnamed.is_some()
    );
    (server.sequences, server.unnamed) = (sequences, unnamed);
    state
}

fn unnamed(text: &str) -> Wire {
    let messages = [
        parse("", text),
        bind(""),
        describe_portal(),
        execute(),
        sync(),
    ];
    messages.concat()
}

/// Requests and their answers.
fn exchanges() -> Vec<(Wire, Wire)> {
    let rows = [
        columns(&["x"]),
        row(&["1"]),
        complete("SELECT 1"),
        ready('T'),
    ]
    .concat();
    let described = [bound(), columns(&["x"]), complete("SELECT 0"), ready('T')].concat();
    vec![
        (query("SELECT x FROM t WHERE id = 7"), rows),
        (
            query("UPDATE t SET x = 2"),
            [complete("UPDATE 1"), ready('T')].concat(),
        ),
        (
            query("INSERT INTO t DEFAULT VALUES"),
            [complete("INSERT 0 1"), ready('T')].concat(),
        ),
        (
            [bind("a"), describe_portal(), execute(), sync()].concat(),
            described.clone(),
        ),
        (
            [bind("a"), execute(), sync()].concat(),
            [bound(), row(&["1"]), complete("SELECT 1"), ready('T')].concat(),
        ),
        (unnamed("SELECT x FROM t"), [parsed(), described].concat()),
    ]
}

#[test]
fn a_plain_statement_does_what_the_relay_would_do() {
    let modes = [ListenMode::Session, ListenMode::Shared];
    for ((messages, answer), mode) in exchanges()
        .into_iter()
        .flat_map(|it| modes.map(|mode| (it.clone(), mode)))
    {
        let (mut plain, mut relayed) = (in_transaction(), in_transaction());
        (plain.policy.listen_mode, relayed.policy.listen_mode) = (mode, mode);
        let mut out = BytesMut::new();
        let statement = start(&mut plain, &messages, &mut out).expect("plain");
        let sent = plain.read_to_server(&out);
        assert_eq!(sent, relayed.client([messages]));
        let done =
            plain.with_context(|relay, context| relay.plain_answered(statement, &answer, context));
        assert!(done, "{sent:?}");
        assert_eq!(relayed.server_bytes(&answer), answer);
        assert_eq!(state(&mut plain), state(&mut relayed), "{sent:?}");
        // The transaction ends as another does.
        let ends = [&mut plain, &mut relayed].map(|test| {
            test.client([query("COMMIT")]);
            test.server([complete("COMMIT"), ready('I')]);
            (test.relay.take_commits(), test.relay.is_over(), state(test))
        });
        assert_eq!(ends[0], ends[1], "{sent:?}");
    }
}

#[test]
fn the_relay_continues_if_the_answer_is_another() {
    for (messages, answer) in exchanges() {
        let others = [
            [error("22012", "division by zero"), ready('E')].concat(),
            [notice("careful"), answer.clone()].concat(),
            [status("TimeZone", "UTC"), answer.clone()].concat(),
            answer[..answer.len() - 1].to_vec(),
            [answer.clone(), notice("T")].concat(),
            answer[..answer.len() - 6].to_vec(),
        ];
        for other in others {
            let (mut plain, mut relayed) = (in_transaction(), in_transaction());
            let mut out = BytesMut::new();
            let statement = start(&mut plain, &messages, &mut out).expect("plain");
            let done = plain
                .with_context(|relay, context| relay.plain_answered(statement, &other, context));
            assert!(!done, "{other:?}");
            let sent = plain.read_to_server(&out);
            assert_eq!(plain.client([messages.clone()]), sent, "the same again");
            relayed.client([messages.clone()]);
            let got = plain.server_bytes(&other);
            assert_eq!(got, relayed.server_bytes(&other));
            assert_eq!(state(&mut plain), state(&mut relayed), "{sent:?}");
        }
    }
}

/// The server must describe the columns first.
#[test]
fn a_statement_with_columns_that_another_server_has_described_needs_the_relay() {
    let mut test = TestRelay::new();
    let describe = || {
        [
            parse("a", "SELECT x FROM t"),
            describe_statement("a"),
            sync(),
        ]
    };
    test.client(describe());
    let types = parameters(&[]);
    test.server([parsed(), types, columns(&["x"]), ready('I')]);
    test.on_another_server(10);
    // Another client has prepared the statement there.
    let (template, _) = test.session.statements.prepared(b"a").expect("prepared");
    let statement = Preparable {
        id: template.statement_id,
        text: &template.text,
        types: &template.types,
    };
    let now = test.templates.new_id();
    test.server.parse(statement, now, &mut BytesMut::new());
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    let executes = [bind("a"), describe_portal(), execute(), sync()];
    assert!(!is_plain(&mut test, &executes.concat()));
}

#[test]
fn only_single_statements_that_use_rows_are_plain() {
    let mut test = in_transaction();
    for sql in [
        "COMMIT",
        "SAVEPOINT a",
        "SET work_mem = '1MB'",
        "SHOW hotspot",
        "SELECT 1; SELECT 2",
        "SELECT sneaky()",
        "EXECUTE a",
        "LISTEN c",
        "CREATE TABLE u (id int)",
        "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = 1",
        "UPDATE COMMIT_ON_SUCCESS t SET n = 1",
        "SELECT current_setting('idle_session_timeout')",
        "SELECT 'a\\'",
        "no statement",
        "",
    ] {
        assert!(!is_plain(&mut test, &query(sql)), "{sql}");
        assert!(!is_plain(&mut test, &unnamed(sql)), "{sql}");
    }
    for messages in [
        [query("SELECT 1"), query("SELECT 1")].concat(),
        [bind("a"), execute(), sync(), vec![b'B', 0]].concat(),
        [bind("a"), execute()].concat(),
        [bind("b"), execute(), sync()].concat(),
        [parse("b", "SELECT 1"), bind("b"), execute(), sync()].concat(),
        sync(),
        Vec::new(),
    ] {
        assert!(!is_plain(&mut test, &messages), "{messages:?}");
    }
    assert!(
        is_plain(&mut test, &query("SELECT 1")),
        "nothing has changed"
    );
}

#[test]
fn other_states_need_the_relay() {
    let select = query("SELECT 1");
    let mut idle = TestRelay::new();
    assert!(!is_plain(&mut idle, &select), "no transaction");

    let mut failed = in_transaction();
    failed.client([query("SELECT 1/0")]);
    failed.server([error("22012", "division by zero"), ready('E')]);
    assert!(!is_plain(&mut failed, &select), "a failed transaction");

    let mut busy = in_transaction();
    busy.client([query("SELECT 2")]);
    assert!(!is_plain(&mut busy, &select), "an answer is missing");

    let mut partly = in_transaction();
    partly.client([bind("a")]);
    assert!(!is_plain(&mut partly, &select), "a request is open");

    let mut session = in_transaction();
    session.relay.use_session_pooling();
    assert!(!is_plain(&mut session, &select), "pool_mode session");

    let mut pinned = TestRelay::new();
    pinned.client([query("SELECT pg_advisory_lock(1)")]);
    pinned.server([complete("SELECT 1"), ready('I')]);
    pinned.client([query("BEGIN")]);
    pinned.server([complete("BEGIN"), ready('T')]);
    assert!(!is_plain(&mut pinned, &select), "a pinned client");

    let mut named = in_transaction();
    named.client([parse("", "SELECT 1"), sync()]);
    named.server([parsed(), ready('T')]);
    assert!(
        !is_plain(&mut named, &select),
        "a Query drops the unnamed statement"
    );
}

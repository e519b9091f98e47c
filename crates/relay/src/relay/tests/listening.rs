//! LISTEN by the shared connection: the statements that the server executes instead, and the time at which the client receives
//! ReadyForQuery.

use super::test_relay::TestRelay;
use crate::relay::{ListenMode, ListenNeed};
use bytes::{Bytes, BytesMut};
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;
use paceline_wire::ErrorResponse;

fn shared() -> TestRelay {
    let mut test = TestRelay::new();
    test.policy.listen_mode = ListenMode::Shared;
    test.session.listening.default_is_utf8 = true;
    test.session.listening.server_is_utf8 = true;
    test.session.listening.marker = "pacelinelisten_1f".into();
    test
}

/// A client that listens.
fn listening() -> TestRelay {
    let mut test = shared();
    test.session.listening.channels = vec!["jobs".into()];
    test
}

fn need(channels: &[&str], changes: bool) -> ListenNeed {
    ListenNeed {
        channels: channels.iter().map(|name| (*name).to_owned()).collect(),
        changes,
    }
}

/// The shared connection has received all notifications.
fn caught_up(test: &mut TestRelay) -> usize {
    assert!(test.relay.awaits_notifications() && !test.relay.is_over());
    let mut out = BytesMut::new();
    test.relay.notifications_received(&mut out);
    assert!(!test.relay.awaits_notifications());
    out.len()
}

#[test]
fn a_transaction_notifies_in_place_of_listening() {
    let mut test = shared();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    assert_eq!(
        test.client([query("LISTEN a")]),
        ["Query NOTIFY pacelinelisten_1f, 'L1 a'"]
    );
    assert_eq!(test.needs, [need(&["a"], true)]);
    assert_eq!(
        test.server([complete("NOTIFY"), ready('T')]),
        ["LISTEN", "ready T"]
    );
    // The channel is reserved once. Each statement has its own marker.
    let sent = test.client([query("UNLISTEN *; LISTEN a")]);
    assert_eq!(
        sent,
        ["Query NOTIFY pacelinelisten_1f, '*2 '; NOTIFY pacelinelisten_1f, 'L3 a'"]
    );
    assert_eq!(test.needs.len(), 1);
    let got = test.server([complete("NOTIFY"), complete("NOTIFY"), ready('T')]);
    assert_eq!(got, ["UNLISTEN", "LISTEN", "ready T"]);
    test.client([query("COMMIT")]);
    assert_eq!(test.server([complete("COMMIT"), ready('I')]), ["COMMIT"]);
    assert_eq!(caught_up(&mut test), 6);
    assert!(test.relay.is_over() && test.relay.pinned_for().is_empty());
}

#[test]
fn a_statement_of_the_extended_protocol_notifies_too() {
    let mut test = shared();
    let sent = test.client([
        parse("", "LISTEN a"),
        bind(""),
        execute(),
        execute(),
        sync(),
    ]);
    assert!(
        sent[0].contains("NOTIFY pacelinelisten_1f, '- LISTEN a'"),
        "{sent:?}"
    );
    // Each execution has its own marker.
    for number in 1..=2 {
        let marker = format!("NOTIFY pacelinelisten_1f, 'L{number} a'");
        let sent = sent.iter().filter(|line| line.contains(&marker));
        assert_eq!(sent.count(), 1, "{marker}");
    }
    assert_eq!(test.needs, [need(&["a"], true)]);
    let marked = || {
        let (closed, notified) = (closed(), complete("NOTIFY"));
        [
            parsed(),
            bound(),
            notified.clone(),
            closed.clone(),
            closed,
            notified,
        ]
        .concat()
    };
    let got = test.server([parsed(), bound(), marked(), marked(), ready('I')]);
    assert_eq!(got, ["parsed", "bound", "LISTEN", "LISTEN"]);
    assert_eq!(caught_up(&mut test), 6);
}

/// A client that does not listen does not wait, and its server executes its UNLISTEN.
#[test]
fn clients_that_do_not_listen_do_not_wait() {
    let mut test = shared();
    for (sql, command) in [("UNLISTEN *", "UNLISTEN"), ("NOTIFY a", "NOTIFY")] {
        assert_eq!(test.client([query(sql)]), [format!("Query {sql}")]);
        assert_eq!(
            test.server([complete(command), ready('I')]),
            [command, "ready I"]
        );
        test.next_relay();
    }
    assert_eq!(test.needs, []);
}

#[test]
fn ready_for_query_waits_for_notifications() {
    for (sql, waits) in [
        ("SELECT 1", false),
        ("select 1;", false),
        ("SELECT 1 === 2", true),
        ("SELECT 5::dd", true),
        ("SELECT 'x'", false),
        ("SELECT 'x', 'y'", true),
        ("SELECT pg_notify('a', 'b')", true),
        ("SELECT pg_catalog.pg_notify('a', 'b')", true),
        ("SELECT * FROM t", true),
        ("UPDATE t SET a = 1", true),
        ("DO $$BEGIN END$$", true),
    ] {
        let mut test = listening();
        test.client([query(sql)]);
        assert_eq!(!test.needs.is_empty(), waits, "{sql}");
        let got = test.server([complete("X"), ready('I')]);
        assert_eq!(got.len(), if waits { 1 } else { 2 }, "{sql}");
        assert_eq!(test.relay.awaits_notifications(), waits, "{sql}");
    }
}

/// Messages of the server for a later request follow the ReadyForQuery.
#[test]
fn no_message_overtakes_a_held_ready_for_query() {
    let mut test = listening();
    let update = [parse("", "UPDATE t SET a = 1"), bind(""), execute(), sync()].concat();
    test.client([update.clone(), update]);
    let answer = [parsed(), bound(), complete("UPDATE 1"), ready('I')];
    let got = test.server([answer.concat(), answer.concat()]);
    assert_eq!(got, ["parsed", "bound", "UPDATE 1"]);
    caught_up(&mut test);
    assert_eq!(test.server([]), ["parsed", "bound", "UPDATE 1", "ready I"]);
}

#[test]
fn a_channel_that_cannot_be_listened_on_fails_the_statement() {
    let mut test = shared();
    let mut error = BytesMut::new();
    ErrorResponse::error("08006", "away").write(&mut error);
    test.outcome = Err(Bytes::from(error));
    let sent = test.client([query("BEGIN; LISTEN a")]);
    assert_eq!(sent.len(), 1);
    let got = test.server([error_of_the_server(), ready('I')]);
    assert_eq!(got, ["ERROR 08006: away", "ready I"]);
    assert!(!test.relay.awaits_notifications() && test.relay.is_over());
}

fn error_of_the_server() -> paceline_testing::messages::Wire {
    error("25P01", "no transaction")
}

/// If the client uses an encoding that the shared connection does not send, or keeps its own server, that server executes
/// LISTEN.
#[test]
fn a_client_that_cannot_share_keeps_its_server() {
    let mut test = shared();
    test.session.listening.default_is_utf8 = false;
    assert_eq!(test.client([query("LISTEN a")]), ["Query LISTEN a"]);
    assert_eq!(
        test.server([complete("LISTEN"), ready('I')]),
        ["LISTEN", "ready I"]
    );
    assert!(!test.relay.is_over());
    let mut test = shared();
    test.relay.use_session_pooling();
    assert_eq!(test.client([query("LISTEN a")]), ["Query LISTEN a"]);
    assert_eq!(test.needs, []);
}

#[test]
fn discard_all_ends_all_channels() {
    let mut test = listening();
    test.client([query("DISCARD ALL")]);
    test.server([complete("DISCARD ALL"), ready('I')]);
    caught_up(&mut test);
    assert!(test.relay.take_unlistens_all() && !test.relay.take_unlistens_all());
}

/// The shared connection does not know what such a transaction does on the client's own server.
#[test]
fn a_client_whose_own_server_listens_does_not_share() {
    let mut test = shared();
    test.relay.pin(paceline_sql::PinReason::Listening);
    assert_eq!(test.client([query("LISTEN a")]), ["Query LISTEN a"]);
    assert_eq!(test.needs, []);
    // With both, it would be ambiguous which one the client means.
    let mut test = listening();
    test.relay.pin(paceline_sql::PinReason::Listening);
    test.client([query("UNLISTEN *")]);
    let got = test.server([error_of_the_server(), ready('I')]);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(got[0].starts_with("ERROR 0A000"), "{got:?}");
}

#[test]
fn execute_of_a_prepared_listen_is_refused() {
    let mut test = shared();
    test.client([parse("l", "LISTEN a"), sync()]);
    test.server([parsed(), ready('I')]);
    test.next_relay();
    test.client([query("EXECUTE l")]);
    let got = test.server([error_of_the_server(), ready('I')]);
    assert!(got[0].starts_with("ERROR 0A000"), "{got:?}");
}

/// A text that is not parsed.
#[test]
fn a_text_that_is_not_parsed_may_not_change_channels() {
    let values = vec!["(1)"; 40_000].join(", ");
    for (text, refused) in [
        (
            format!("INSERT INTO t VALUES {values}; UNLISTEN jobs"),
            true,
        ),
        (
            format!("SELECT 1; /* x */ Discard all; INSERT INTO t VALUES {values}"),
            true,
        ),
        (
            format!("SELECT 1; INSERT INTO t SELECT 'listen' FROM (VALUES {values}) v"),
            false,
        ),
        (format!("INSERT INTO t VALUES {values}"), false),
    ] {
        let mut test = listening();
        let sent = test.client([query(&text)]);
        assert_eq!(sent[0].contains("refused"), refused, "{}", &sent[0][..40]);
    }
}

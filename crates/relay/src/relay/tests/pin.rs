//! State that only one server has: its client keeps the server, is warned, is rejected, or loses the state.

use super::test_relay::TestRelay;
use crate::relay::SessionStateMode;
use paceline_sql::PinReason;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const LISTENS: &str = "Query SELECT EXISTS (SELECT FROM pg_catalog.pg_listening_channels())";

/// A query that completes with `command` and leaves the server idle.
fn run(test: &mut TestRelay, sql: &str, command: &str) -> Vec<String> {
    test.client([query(sql)]);
    test.server([complete(command), ready('I')])
}

/// The server's answer to a query for each kind of state.
fn reply(test: &mut TestRelay, values: &[&str]) {
    let got = test.server([row(values), complete("SELECT 1"), ready('I')]);
    assert!(got.is_empty(), "{got:?}");
}

fn with(keeping: SessionStateMode) -> TestRelay {
    let mut test = TestRelay::new();
    test.policy.session_state = keeping;
    test
}

#[test]
fn a_client_is_pinned_until_the_server_has_no_such_state() {
    let mut test = TestRelay::new();
    assert_eq!(run(&mut test, "LISTEN a", "LISTEN"), ["LISTEN", "ready I"]);
    assert_eq!(test.own(), [LISTENS]);
    reply(&mut test, &["t"]);
    assert_eq!(test.relay.pinned_for(), [PinReason::Listening]);
    run(&mut test, "SELECT 1", "SELECT 1");
    assert!(test.own().is_empty(), "the command cannot unpin");
    run(&mut test, "UNLISTEN a", "UNLISTEN");
    assert_eq!(test.own(), [LISTENS]);
    reply(&mut test, &["f"]);
    assert!(
        test.relay.is_over() && test.server.needs_reset,
        "to be reset"
    );
}

#[test]
fn a_command_that_may_unpin_causes_a_session_query() {
    for (keep, command, free, with) in [
        (
            "CREATE TEMP TABLE t ()",
            "CREATE TABLE",
            "DROP TABLE t",
            "DROP TABLE",
        ),
        (
            "CREATE TEMP TABLE t ()",
            "CREATE TABLE",
            "DISCARD TEMP",
            "DISCARD TEMP",
        ),
        (
            "SELECT pg_advisory_lock(1)",
            "SELECT 1",
            "SELECT pg_advisory_unlock(1)",
            "SELECT 1",
        ),
        (
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "DECLARE CURSOR",
            "CLOSE c",
            "CLOSE CURSOR",
        ),
        (
            "PREPARE p (mine) AS SELECT $1",
            "PREPARE",
            "DEALLOCATE p",
            "DEALLOCATE",
        ),
    ] {
        let mut test = TestRelay::new();
        run(&mut test, keep, command);
        assert_eq!(test.own().len(), 1, "{keep}");
        reply(&mut test, &["t"]);
        run(&mut test, free, with);
        assert_eq!(test.own().len(), 1, "{free}");
        reply(&mut test, &["f"]);
        assert!(test.relay.is_over(), "{free}");
    }
}

#[test]
fn a_rollback_unpins() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([query("LISTEN a")]);
    test.server([complete("LISTEN"), ready('T')]);
    assert!(test.own().is_empty(), "the transaction is not over");
    run(&mut test, "ROLLBACK", "ROLLBACK");
    assert_eq!(test.own(), [LISTENS]);
    reply(&mut test, &["f"]);
    assert!(test.relay.is_over());
}

/// What it creates may be temporary.
#[test]
fn a_path_that_no_text_shows_matters_until_its_transaction_ends() {
    let mut test = TestRelay::new();
    let run = |test: &mut TestRelay, sql: &str, command: &str, status| {
        test.client([query(sql)]);
        test.server([complete(command), ready(status)]);
    };
    let sets = "SELECT set_config('search_path', 'tenant_' || a, true) FROM t";
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, sets, "SELECT 1", 'T');
    run(&mut test, "SELECT 1", "SELECT 1", 'T');
    run(&mut test, "COMMIT", "COMMIT", 'I');
    assert!(test.own().is_empty() && !test.server.needs_reset);
    run(&mut test, "BEGIN", "BEGIN", 'T');
    run(&mut test, sets, "SELECT 1", 'T');
    run(&mut test, "CREATE TABLE t (a int)", "CREATE TABLE", 'T');
    run(&mut test, "COMMIT", "COMMIT", 'I');
    assert_eq!(test.own().len(), 1);
    reply(&mut test, &["f"; PinReason::ASKED.len()]);
    for _ in 0..2 {
        run(&mut test, "BEGIN", "BEGIN", 'T');
        run(&mut test, "COMMIT", "COMMIT", 'I');
        assert!(test.own().is_empty());
    }
}

#[test]
fn an_advisory_lock_pins_although_its_statement_failed() {
    let mut test = TestRelay::new();
    test.client([query("SELECT pg_advisory_lock(1), 1/0")]);
    test.server([error("22012", "no"), ready('I')]);
    reply(&mut test, &["t"]);
    assert_eq!(test.relay.pinned_for(), [PinReason::AdvisoryLock]);
}

#[test]
fn a_text_with_unknown_effect_causes_a_session_query() {
    let mut test = TestRelay::new();
    test.policy.extra = vec!["search_path".to_owned()];
    run(&mut test, "DO 'anything'", "DO");
    let sent = test.own().concat();
    assert_eq!(
        sent.matches("EXISTS").count(),
        PinReason::ASKED.len(),
        "{sent}"
    );
    assert!(sent.ends_with("current_setting('search_path', true)"));
    reply(&mut test, &["f", "t", "f", "f", "f", "a, b"]);
    assert_eq!(test.relay.pinned_for(), [PinReason::Listening]);
    let sql = test
        .session
        .settings
        .adopt_sql(&test.interner.none(), false);
    assert!(sql.unwrap().contains("'search_path', 'a, b'"));
}

#[test]
fn a_failed_session_query_pins() {
    let mut test = TestRelay::new();
    run(&mut test, "LISTEN a", "LISTEN");
    let got = test.server([error("57014", "canceled"), ready('I')]);
    assert!(got.is_empty() && !test.relay.saw_error(), "{got:?}");
    assert_eq!(test.relay.pinned_for(), [PinReason::Listening]);
}

#[test]
fn state_that_cannot_be_queried_pins_until_discard_all() {
    let mut test = TestRelay::new();
    run(&mut test, "LOAD 'x'", "LOAD");
    run(&mut test, "DISCARD TEMP", "DISCARD TEMP");
    assert!(test.own().is_empty() && !test.relay.is_over());
    run(&mut test, "DISCARD ALL", "DISCARD ALL");
    assert!(test.relay.is_over());
    assert!(test.server.must_close, "the library is still there");
}

#[test]
fn without_pins_the_next_client_finds_no_state() {
    let mut test = with(SessionStateMode::Track);
    assert_eq!(run(&mut test, "LISTEN a", "LISTEN"), ["LISTEN", "ready I"]);
    assert!(test.relay.is_over() && test.server.needs_reset && !test.server.must_close);
    for (sql, command) in [
        ("PREPARE p (mine) AS SELECT $1", "PREPARE"),
        ("LOAD 'x'", "LOAD"),
    ] {
        let mut test = with(SessionStateMode::Track);
        run(&mut test, sql, command);
        assert!(test.relay.is_over() && test.server.must_close, "{sql}");
    }
}

#[test]
fn a_client_is_warned_of_what_it_loses() {
    let mut test = with(SessionStateMode::Warn);
    let got = run(&mut test, "LISTEN a", "LISTEN");
    let warning = "notice LISTEN is lost at the end of the transaction";
    assert_eq!(got, [warning, "LISTEN", "ready I"]);
    assert_eq!(test.relay.warned(), [PinReason::Listening]);
    assert!(test.relay.is_over() && test.server.needs_reset);
    let got = run(&mut test, "SELECT lastval()", "SELECT 1");
    assert_eq!(got, ["SELECT 1", "ready I"]);
}

#[test]
fn state_that_cannot_follow_is_rejected_before_it_reaches_a_server() {
    let mut test = with(SessionStateMode::Refuse);
    let refusal = "ERROR 0A000: LISTEN cannot follow its client to other server connections";
    let sent = test.client([query("SELECT 1; LISTEN a")]);
    assert_eq!(sent, ["Query ROLLBACK TO SAVEPOINT \"paceline: refused\""]);
    let got = test.server([error("25P01", "no block"), ready('I')]);
    assert_eq!(got, [refusal, "ready I"]);
    let sent = test.client([parse("", "LISTEN a"), bind(""), execute(), sync()]);
    assert!(sent[2].contains("paceline: refused"), "{sent:?}");
    let got = test.server([parsed(), bound(), error("34000", "no portal"), ready('I')]);
    assert_eq!(got, ["parsed", "bound", refusal, "ready I"]);
    assert!(test.relay.is_over() && !test.server.needs_reset);
}

#[test]
fn in_a_failed_transaction_postgresql_reports_the_error() {
    let mut test = with(SessionStateMode::Refuse);
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([query("x")]);
    test.server([error("42601", "no"), ready('E')]);
    assert_eq!(test.client([query("LISTEN a")]), ["Query LISTEN a"]);
}

#[test]
fn a_session_query_does_not_count_pacelines_own_statements() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    test.client([parse("a", "SELECT 2"), sync()]);
    test.server([closed(), parsed(), error("42P05", "exists"), ready('I')]);
    run(&mut test, "DO 'anything'", "DO");
    assert_eq!(test.own()[0], "Close s2taken");
    let none = row(&["f"; 5]);
    test.server([closed(), none, complete("SELECT 1"), ready('I')]);
    assert!(test.relay.is_over());
}

#[test]
fn a_bulk_insert_causes_no_session_query() {
    let mut test = TestRelay::new();
    let sql = format!("INSERT INTO t VALUES (1){}", ", (2)".repeat(10_000));
    run(&mut test, &sql, "INSERT 0 10001");
    assert!(test.own().is_empty() && test.relay.is_over());
    assert!(test.server.needs_reset, "triggers may have done anything");
}

#[test]
fn objects_in_a_temporary_path_cause_a_session_query_in_every_relay() {
    let mut test = TestRelay::new();
    run(&mut test, "SET search_path TO app, pg_temp", "SET");
    reply(&mut test, &["f", "f", "f", "f", "f"]);
    test.next_relay();
    test.server.needs_reset = false;
    run(&mut test, "CREATE TABLE t ()", "CREATE TABLE");
    assert!(test.server.needs_reset, "to be reset");
    reply(&mut test, &["t", "f", "f", "f", "f"]);
    assert_eq!(test.relay.pinned_for(), [PinReason::Temporary]);
}

#[test]
fn a_failed_session_query_is_repeated() {
    let mut test = TestRelay::new();
    run(&mut test, "LISTEN a", "LISTEN");
    test.server([error("57014", "canceled"), ready('I')]);
    assert_eq!(test.relay.pinned_for(), [PinReason::Listening]);
    test.own();
    run(&mut test, "SELECT 1", "SELECT 1");
    assert_eq!(test.own(), [LISTENS]);
    reply(&mut test, &["f"]);
    assert!(test.relay.is_over());

    let mut test = TestRelay::new();
    run(&mut test, "DO 'anything'", "DO");
    test.server([error("57014", "canceled"), ready('I')]);
    assert_eq!(test.relay.pinned_for(), PinReason::ASKED);
}

/// PostgreSQL keeps an unnamed portal if it skips the Bind that would replace it.
#[test]
fn an_unnamed_portal_that_the_server_keeps_pins() {
    let opens = |test: &mut TestRelay| {
        test.client([query("BEGIN")]);
        test.server([complete("BEGIN"), ready('T')]);
        test.client([
            parse("lk", "SELECT pg_advisory_lock(1)"),
            parse("s", "SELECT 2"),
        ]);
        test.client([bind("lk"), sync()]);
        test.server([parsed(), parsed(), bound(), ready('T')]);
    };
    let fails = || [parse("", "SELEC"), bind("s"), sync()].concat();
    let again = || [execute(), sync()].concat();
    for at_once in [false, true] {
        let mut test = TestRelay::new();
        opens(&mut test);
        if at_once {
            test.client([fails(), again()]);
            test.server([error("42601", "no"), ready('T')]);
        } else {
            test.client([fails()]);
            test.server([error("42601", "no"), ready('T')]);
            test.client([again()]);
        }
        test.server([complete("SELECT 1"), ready('T')]);
        assert_eq!(
            test.relay.pinned_for(),
            [PinReason::AdvisoryLock],
            "{at_once}"
        );
    }
    // A client that executes what it binds is not concerned.
    let mut test = TestRelay::new();
    opens(&mut test);
    for _ in 0..20 {
        test.client([bind("s"), execute()]);
    }
    test.client([sync()]);
    for _ in 0..20 {
        test.server([bound(), complete("SELECT 1")]);
    }
    test.server([ready('T')]);
    assert!(!test.server.needs_reset && test.relay.pinned_for().is_empty());
}

//! State that only one server has: its client keeps the server, is warned, is refused, or loses it.

use super::fixture::Stage;
use crate::relay::SessionStateMode;
use paceline_sql::PinReason;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const LISTENS: &str = "Query SELECT EXISTS (SELECT FROM pg_catalog.pg_listening_channels())";

/// A query that completes with `command` and leaves the server idle.
fn run(stage: &mut Stage, sql: &str, command: &str) -> Vec<String> {
    stage.client([query(sql)]);
    stage.server([complete(command), ready('I')])
}

/// What the server says when it is to_query whether it still has each kind.
fn reply(stage: &mut Stage, values: &[&str]) {
    let got = stage.server([row(values), complete("SELECT 1"), ready('I')]);
    assert!(got.is_empty(), "{got:?}");
}

fn with(keeping: SessionStateMode) -> Stage {
    let mut stage = Stage::new();
    stage.policy.session_state = keeping;
    stage
}

#[test]
fn a_client_keeps_its_server_until_the_server_says_that_nothing_is_left() {
    let mut stage = Stage::new();
    assert_eq!(run(&mut stage, "LISTEN a", "LISTEN"), ["LISTEN", "ready I"]);
    assert_eq!(stage.own(), [LISTENS]);
    reply(&mut stage, &["t"]);
    assert_eq!(stage.relay.pinned_for(), [PinReason::Listening]);
    run(&mut stage, "SELECT 1", "SELECT 1");
    assert!(stage.own().is_empty(), "nothing that could let go");
    run(&mut stage, "UNLISTEN a", "UNLISTEN");
    assert_eq!(stage.own(), [LISTENS]);
    reply(&mut stage, &["f"]);
    assert!(
        stage.relay.is_over() && stage.server.needs_reset,
        "to be reset"
    );
}

#[test]
fn what_may_let_go_is_asked_about() {
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
        let mut stage = Stage::new();
        run(&mut stage, keep, command);
        assert_eq!(stage.own().len(), 1, "{keep}");
        reply(&mut stage, &["t"]);
        run(&mut stage, free, with);
        assert_eq!(stage.own().len(), 1, "{free}");
        reply(&mut stage, &["f"]);
        assert!(stage.relay.is_over(), "{free}");
    }
}

#[test]
fn what_a_rollback_undoes_is_not_kept() {
    let mut stage = Stage::new();
    stage.client([query("BEGIN")]);
    stage.server([complete("BEGIN"), ready('T')]);
    stage.client([query("LISTEN a")]);
    stage.server([complete("LISTEN"), ready('T')]);
    assert!(stage.own().is_empty(), "the transaction is not over");
    run(&mut stage, "ROLLBACK", "ROLLBACK");
    assert_eq!(stage.own(), [LISTENS]);
    reply(&mut stage, &["f"]);
    assert!(stage.relay.is_over());
}

#[test]
fn a_lock_is_kept_though_its_statement_failed() {
    let mut stage = Stage::new();
    stage.client([query("SELECT pg_advisory_lock(1), 1/0")]);
    stage.server([error("22012", "no"), ready('I')]);
    reply(&mut stage, &["t"]);
    assert_eq!(stage.relay.pinned_for(), [PinReason::AdvisoryLock]);
}

#[test]
fn a_text_that_may_do_anything_is_asked_about() {
    let mut stage = Stage::new();
    stage.policy.extra = vec!["search_path".to_owned()];
    run(&mut stage, "DO 'anything'", "DO");
    let to_query = stage.own().concat();
    assert_eq!(
        to_query.matches("EXISTS").count(),
        PinReason::ASKED.len(),
        "{to_query}"
    );
    assert!(to_query.ends_with("current_setting('search_path', true)"));
    reply(&mut stage, &["f", "t", "f", "f", "f", "a, b"]);
    assert_eq!(stage.relay.pinned_for(), [PinReason::Listening]);
    let sql = stage
        .session
        .settings
        .adopt_sql(&stage.interner.none(), false);
    assert!(sql.unwrap().contains("'search_path', 'a, b'"));
}

#[test]
fn an_error_instead_of_an_answer_keeps_the_server() {
    let mut stage = Stage::new();
    run(&mut stage, "LISTEN a", "LISTEN");
    let got = stage.server([error("57014", "canceled"), ready('I')]);
    assert!(got.is_empty() && !stage.relay.saw_error(), "{got:?}");
    assert_eq!(stage.relay.pinned_for(), [PinReason::Listening]);
}

#[test]
fn what_no_server_can_tell_is_kept_until_everything_is_discarded() {
    let mut stage = Stage::new();
    run(&mut stage, "LOAD 'x'", "LOAD");
    run(&mut stage, "DISCARD TEMP", "DISCARD TEMP");
    assert!(stage.own().is_empty() && !stage.relay.is_over());
    run(&mut stage, "DISCARD ALL", "DISCARD ALL");
    assert!(stage.relay.is_over());
    assert!(stage.server.must_close, "the library is still there");
}

#[test]
fn where_nothing_is_kept_the_next_client_finds_nothing() {
    let mut stage = with(SessionStateMode::Track);
    assert_eq!(run(&mut stage, "LISTEN a", "LISTEN"), ["LISTEN", "ready I"]);
    assert!(stage.relay.is_over() && stage.server.needs_reset && !stage.server.must_close);
    for (sql, command) in [
        ("PREPARE p (mine) AS SELECT $1", "PREPARE"),
        ("LOAD 'x'", "LOAD"),
    ] {
        let mut stage = with(SessionStateMode::Track);
        run(&mut stage, sql, command);
        assert!(stage.relay.is_over() && stage.server.must_close, "{sql}");
    }
}

#[test]
fn a_client_is_warned_of_what_it_loses() {
    let mut stage = with(SessionStateMode::Warn);
    let got = run(&mut stage, "LISTEN a", "LISTEN");
    let warning = "notice LISTEN is lost at the end of the transaction";
    assert_eq!(got, [warning, "LISTEN", "ready I"]);
    assert_eq!(stage.relay.warned(), [PinReason::Listening]);
    assert!(stage.relay.is_over() && stage.server.needs_reset);
    let got = run(&mut stage, "SELECT lastval()", "SELECT 1");
    assert_eq!(got, ["SELECT 1", "ready I"]);
}

#[test]
fn what_cannot_follow_is_refused_before_it_reaches_a_server() {
    let mut stage = with(SessionStateMode::Refuse);
    let refusal = "ERROR 0A000: LISTEN cannot follow its client to other server connections";
    let sent = stage.client([query("SELECT 1; LISTEN a")]);
    assert_eq!(sent, ["Query ROLLBACK TO SAVEPOINT \"paceline: refused\""]);
    let got = stage.server([error("25P01", "no block"), ready('I')]);
    assert_eq!(got, [refusal, "ready I"]);
    let sent = stage.client([parse("", "LISTEN a"), bind(""), execute(), sync()]);
    assert!(sent[2].contains("paceline: refused"), "{sent:?}");
    let got = stage.server([parsed(), bound(), error("34000", "no portal"), ready('I')]);
    assert_eq!(got, ["parsed", "bound", refusal, "ready I"]);
    assert!(stage.relay.is_over() && !stage.server.needs_reset);
}

#[test]
fn in_a_failed_transaction_postgresql_says_better_what_is_wrong() {
    let mut stage = with(SessionStateMode::Refuse);
    stage.client([query("BEGIN")]);
    stage.server([complete("BEGIN"), ready('T')]);
    stage.client([query("x")]);
    stage.server([error("42601", "no"), ready('E')]);
    assert_eq!(stage.client([query("LISTEN a")]), ["Query LISTEN a"]);
}

#[test]
fn what_paceline_left_on_the_server_is_not_taken_for_the_clients() {
    let mut stage = Stage::new();
    stage.client([parse("a", "SELECT 1"), sync()]);
    stage.server([parsed(), ready('I')]);
    stage.client([parse("a", "SELECT 2"), sync()]);
    stage.server([closed(), parsed(), error("42P05", "exists"), ready('I')]);
    run(&mut stage, "DO 'anything'", "DO");
    assert_eq!(stage.own()[0], "Close s2taken");
    let none = row(&["f"; 5]);
    stage.server([closed(), none, complete("SELECT 1"), ready('I')]);
    assert!(stage.relay.is_over());
}

#[test]
fn many_rows_at_once_are_no_reason_to_ask() {
    let mut stage = Stage::new();
    let sql = format!("INSERT INTO t VALUES (1){}", ", (2)".repeat(10_000));
    run(&mut stage, &sql, "INSERT 0 10001");
    assert!(stage.own().is_empty() && stage.relay.is_over());
    assert!(stage.server.needs_reset, "triggers may have done anything");
}

#[test]
fn what_is_made_under_a_temporary_path_is_asked_about_in_every_ride() {
    let mut stage = Stage::new();
    run(&mut stage, "SET search_path TO app, pg_temp", "SET");
    reply(&mut stage, &["f", "f", "f", "f", "f"]);
    stage.ride_again();
    stage.server.needs_reset = false;
    run(&mut stage, "CREATE TABLE t ()", "CREATE TABLE");
    assert!(stage.server.needs_reset, "to be reset");
    reply(&mut stage, &["t", "f", "f", "f", "f"]);
    assert_eq!(stage.relay.pinned_for(), [PinReason::Temporary]);
}

#[test]
fn a_question_that_was_not_answered_is_asked_again() {
    let mut stage = Stage::new();
    run(&mut stage, "LISTEN a", "LISTEN");
    stage.server([error("57014", "canceled"), ready('I')]);
    assert_eq!(stage.relay.pinned_for(), [PinReason::Listening]);
    stage.own();
    run(&mut stage, "SELECT 1", "SELECT 1");
    assert_eq!(stage.own(), [LISTENS]);
    reply(&mut stage, &["f"]);
    assert!(stage.relay.is_over());

    let mut stage = Stage::new();
    run(&mut stage, "DO 'anything'", "DO");
    stage.server([error("57014", "canceled"), ready('I')]);
    assert_eq!(stage.relay.pinned_for(), PinReason::ASKED);
}

//! Hints: how the transaction of a hinted statement ends.

use super::test_relay::TestRelay;
use crate::relay::Wrap;
use bytes::BytesMut;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;
use paceline_testing::read_out;
use paceline_wire::backend::Status;

const MISSED: &str =
    "ERROR 21000: statement affected 0 rows, but its hint demands TARGET_AFFECT_ROW(1)";
const FAIL: &str = "Query ROLLBACK TO SAVEPOINT \"paceline: TARGET_AFFECT_ROW\"";

fn update(hints: &str) -> String {
    format!("UPDATE /*+ {hints} */ t SET a = 1 WHERE id = 1")
}

/// A hinted UPDATE was sent in a transaction.
fn in_transaction(hints: &str) -> TestRelay {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    let sql = update(hints);
    assert_eq!(test.client([query(&sql)]), [format!("Query {sql}")]);
    test
}

#[test]
fn commit_on_success_commits_before_the_client_is_answered() {
    let mut test = in_transaction("COMMIT_ON_SUCCESS");
    assert!(test.server([complete("UPDATE 1"), ready('T')]).is_empty());
    assert_eq!(test.own(), ["Query COMMIT"]);
    assert!(!test.relay.is_quiet());
    assert_eq!(
        test.server([complete("COMMIT"), ready('I')]),
        ["UPDATE 1", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn rows_are_not_held_until_the_commit() {
    let mut test = in_transaction("COMMIT_ON_SUCCESS");
    let got = test.server([
        columns(&["a"]),
        row(&["1"]),
        complete("UPDATE 1"),
        ready('T'),
    ]);
    assert_eq!(got, ["columns a", "row 1"]);
    assert_eq!(
        test.server([complete("COMMIT"), ready('I')]),
        ["UPDATE 1", "ready I"]
    );
}

#[test]
fn commit_on_success_works_by_the_extended_protocol() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([
        parse("", &update("COMMIT_ON_SUCCESS")),
        bind(""),
        execute(),
        sync(),
    ]);
    let got = test.server([parsed(), bound(), complete("UPDATE 1"), ready('T')]);
    assert_eq!(got, ["parsed", "bound"]);
    assert_eq!(test.own(), ["Query COMMIT"]);
    assert_eq!(
        test.server([complete("COMMIT"), ready('I')]),
        ["UPDATE 1", "ready I"]
    );
}

#[test]
fn the_error_of_a_failed_commit_is_the_answer() {
    let mut test = in_transaction("COMMIT_ON_SUCCESS");
    test.server([complete("UPDATE 1"), ready('T')]);
    let got = test.server([error("23503", "deferred"), ready('I')]);
    assert_eq!(got, ["ERROR 23503: deferred", "ready I"]);
    assert!(test.relay.is_over());
}

#[test]
fn only_the_last_statement_of_a_request_commits() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([parse("", &update("COMMIT_ON_SUCCESS")), bind(""), execute()]);
    test.client([parse("", "SELECT 1"), bind(""), execute(), sync()]);
    let hinted = test.server([parsed(), bound(), complete("UPDATE 1")]);
    assert_eq!(hinted, ["parsed", "bound"]);
    let rest = test.server([parsed(), bound(), complete("SELECT 1"), ready('T')]);
    assert_eq!(rest, ["UPDATE 1", "parsed", "bound", "SELECT 1", "ready T"]);
    assert!(test.own().is_empty());
}

#[test]
fn a_missed_target_fails_the_transaction() {
    let mut test = in_transaction("COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1)");
    assert_eq!(test.server([complete("UPDATE 0"), ready('T')]), [MISSED]);
    assert_eq!(test.own(), [FAIL]);
    let got = test.server([error("3B001", "savepoint does not exist"), ready('E')]);
    assert_eq!(got, ["ready E"]);
    assert_eq!(
        (test.relay.status(), test.relay.is_quiet()),
        (Status::Failed, true)
    );
}

#[test]
fn a_missed_target_rolls_back_if_the_hint_says_so() {
    let mut test = in_transaction("ROLLBACK_ON_FAIL TARGET_AFFECT_ROW(1)");
    assert_eq!(test.server([complete("UPDATE 0"), ready('T')]), [MISSED]);
    assert_eq!(test.own(), ["Query ROLLBACK"]);
    assert_eq!(test.server([complete("ROLLBACK"), ready('I')]), ["ready I"]);
    assert!(test.relay.is_over() && test.relay.is_quiet());
}

#[test]
fn a_target_that_is_met_has_no_effect() {
    let mut test = in_transaction("TARGET_AFFECT_ROW(1)");
    assert_eq!(
        test.server([complete("UPDATE 1"), ready('T')]),
        ["UPDATE 1", "ready T"]
    );
    assert!(test.own().is_empty());
}

#[test]
fn an_error_rolls_back_only_if_the_hint_says_so() {
    let mut test = in_transaction("ROLLBACK_ON_FAIL");
    let got = test.server([error("23514", "check"), ready('E')]);
    assert_eq!(got, ["ERROR 23514: check"]);
    assert_eq!(test.own(), ["Query ROLLBACK"]);
    assert_eq!(test.server([complete("ROLLBACK"), ready('I')]), ["ready I"]);

    let mut test = in_transaction("COMMIT_ON_SUCCESS");
    let got = test.server([error("23514", "check"), ready('E')]);
    assert_eq!(got, ["ERROR 23514: check", "ready E"]);
    assert!(test.own().is_empty());
}

#[test]
fn an_error_by_the_extended_protocol_rolls_back_too() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([
        parse("", &update("ROLLBACK_ON_FAIL")),
        bind(""),
        execute(),
        sync(),
    ]);
    test.server([parsed(), bound(), error("23514", "check"), ready('E')]);
    assert_eq!(test.own(), ["Query ROLLBACK"]);
}

#[test]
fn outside_a_transaction_there_is_nothing_to_end() {
    let mut test = TestRelay::new();
    test.client([query(&update("COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL"))]);
    let got = test.server([complete("UPDATE 1"), ready('I')]);
    assert_eq!(got, ["UPDATE 1", "ready I"]);
    assert!(test.own().is_empty() && test.relay.is_over());
}

#[test]
fn a_wrapped_request_that_meets_its_target_is_committed() {
    let mut test = TestRelay::wrapped(Wrap::Begin);
    assert_eq!(test.own(), ["Query BEGIN"]);
    test.client([query(&update("TARGET_AFFECT_ROW(2)"))]);
    assert!(test.server([complete("BEGIN"), ready('T')]).is_empty());
    assert!(test.server([complete("UPDATE 2"), ready('T')]).is_empty());
    assert_eq!(test.own(), ["Query COMMIT"]);
    assert_eq!(
        test.server([complete("COMMIT"), ready('I')]),
        ["UPDATE 2", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn a_wrapped_request_that_misses_its_target_is_rolled_back() {
    let mut test = TestRelay::wrapped(Wrap::Begin);
    test.client([query(&update("TARGET_AFFECT_ROW(1)"))]);
    test.own();
    let got = test.server([
        complete("BEGIN"),
        ready('T'),
        complete("UPDATE 0"),
        ready('T'),
    ]);
    assert_eq!(got, [MISSED]);
    assert_eq!(test.own(), ["Query ROLLBACK"]);
    assert_eq!(test.server([complete("ROLLBACK"), ready('I')]), ["ready I"]);
    assert!(test.relay.is_over());
}

#[test]
fn a_wrapped_request_that_fails_is_rolled_back() {
    let mut test = TestRelay::wrapped(Wrap::Begin);
    test.client([query(&update("TARGET_AFFECT_ROW(1)"))]);
    test.own();
    let got = test.server([
        complete("BEGIN"),
        ready('T'),
        error("23514", "check"),
        ready('E'),
    ]);
    assert_eq!(got, ["ERROR 23514: check"]);
    assert_eq!(test.own(), ["Query ROLLBACK"]);
    assert_eq!(test.server([complete("ROLLBACK"), ready('I')]), ["ready I"]);
}

/// A wrapped request with these messages after `Parse` and `Bind`. Returns the bytes that the server receives for them.
fn limited(target: u64, messages: &[Wire]) -> (TestRelay, Vec<u8>) {
    let mut test = TestRelay::wrapped(Wrap::Begin);
    test.own();
    let sql = format!("UPDATE /*+ TARGET_AFFECT_ROW({target}) */ t SET a = 1 RETURNING a");
    test.client([parse("", &sql), bind("")]);
    let sent = test.client_bytes(messages.concat());
    let begun = [complete("BEGIN"), ready('T'), parsed(), bound()];
    assert_eq!(test.server(begun), ["parsed", "bound"]);
    (test, sent)
}

#[test]
fn a_row_limit_is_raised_by_one_to_learn_the_number_of_rows() {
    for (limit, raised) in [
        (1, 2),
        (7, 8),
        (0, 0),
        (i32::MAX as u32, 0),
        (u32::MAX, u32::MAX),
    ] {
        let (_, sent) = limited(1, &[execute_portal("", limit), sync()]);
        assert_eq!(
            sent,
            [execute_portal("", raised), sync()].concat(),
            "{limit}"
        );
    }
}

#[test]
fn a_portal_whose_rows_end_at_the_limit_is_suspended() {
    let (mut test, _) = limited(1, &[execute_portal("", 1), execute_portal("", 1), sync()]);
    assert_eq!(test.server([row(&["1"]), complete("UPDATE 1")]), ["row 1"]);
    let got = test.server([complete("UPDATE 0"), ready('T')]);
    assert_eq!(got, ["suspended"]);
    assert_eq!(test.own(), ["Query COMMIT"]);
    let got = test.server([complete("COMMIT"), ready('I')]);
    assert_eq!(got, ["UPDATE 0", "ready I"]);
}

#[test]
fn a_statement_without_rows_is_not_suspended() {
    let (mut test, _) = limited(1, &[execute_portal("", 1), sync()]);
    test.server([complete("UPDATE 1"), ready('T')]);
    assert_eq!(test.own(), ["Query COMMIT"]);
    let got = test.server([complete("COMMIT"), ready('I')]);
    assert_eq!(got, ["UPDATE 1", "ready I"]);
}

#[test]
fn more_rows_than_the_limit_miss_the_target() {
    let more = "ERROR 21000: statement affected at least 2 rows, but its hint demands TARGET_AFFECT_ROW(1)";
    let unknown =
        "ERROR 0A000: a row limit of less than 2 is not supported with TARGET_AFFECT_ROW(2)";
    for (target, error) in [(1, more), (2, unknown)] {
        let (mut test, _) = limited(target, &[execute_portal("", 1), sync()]);
        let got = test.server([row(&["1"]), row(&["1"]), suspended(), ready('T')]);
        assert_eq!(got, ["row 1", "row 1", error]);
        assert_eq!(test.own(), ["Query ROLLBACK"]);
        assert_eq!(test.server([complete("ROLLBACK"), ready('I')]), ["ready I"]);
    }
}

#[test]
fn bare_hints_reach_the_server_as_a_comment() {
    let mut test = TestRelay::new();
    let sent = test.client([query(
        "UPDATE COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL t SET a = 1",
    )]);
    let [sent] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert!(
        sent.starts_with("Query UPDATE /*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL */"),
        "{sent}"
    );
}

/// A client in autocommit has sent a part of a request.
fn mid_request() -> TestRelay {
    let mut test = TestRelay::new();
    assert!(!test.relay.is_mid_request());
    test.client([parse("", "INSERT INTO log VALUES (1)"), bind(""), execute()]);
    assert!(test.relay.is_mid_request());
    test
}

#[test]
fn a_target_late_in_a_request_makes_all_of_it_a_transaction() {
    for (touched, ends, received) in [
        ("UPDATE 0", "Query ROLLBACK", vec![MISSED, "ready I"]),
        ("UPDATE 1", "Query COMMIT", vec!["UPDATE 1", "ready I"]),
    ] {
        let mut test = mid_request();
        let mut out = BytesMut::new();
        test.relay.begin_mid_request(&mut out);
        assert!(!test.relay.is_mid_request(), "once");
        assert_eq!(
            read_out::to_server(&out),
            [
                "Parse paceline: own: BEGIN",
                "Bind paceline: own to paceline: own",
                "Execute paceline: own",
                "Close portal paceline: own",
                "Close paceline: own",
            ]
        );
        let aim = update("TARGET_AFFECT_ROW(1)");
        test.client([parse("", &aim), bind(""), execute(), sync()]);
        let got = test.server([parsed(), bound(), complete("INSERT 0 1")]);
        assert_eq!(got, ["parsed", "bound", "INSERT 0 1"]);
        let got = test.server([
            [parsed(), bound(), complete("BEGIN"), closed(), closed()].concat(),
            [parsed(), bound(), complete(touched), ready('T')].concat(),
        ]);
        assert_eq!(got[..2], ["parsed", "bound"]);
        let mut received = received.into_iter();
        if ends.contains("ROLLBACK") {
            assert_eq!(got[2..], [received.next().unwrap()]);
        }
        assert_eq!(test.own(), [ends]);
        let got = test.server([complete("ROLLBACK"), ready('I')]);
        assert_eq!(got, received.collect::<Vec<_>>());
        assert!(test.relay.is_over());
    }
}

#[test]
fn after_an_error_before_the_target_no_transaction_is_open() {
    let mut test = mid_request();
    test.relay.begin_mid_request(&mut BytesMut::new());
    test.client([bind(""), execute(), sync()]);
    let got = test.server([parsed(), error("22012", "division by zero"), ready('I')]);
    assert_eq!(got.last().map(String::as_str), Some("ready I"));
    assert!(test.own().is_empty() && test.relay.is_over());
}

#[test]
fn a_request_that_begins_a_transaction_block_gets_no_other() {
    let mut test = TestRelay::new();
    test.client([parse("", "BEGIN"), bind(""), execute()]);
    assert!(!test.relay.is_mid_request());
    test.client([sync()]);
    test.server([parsed(), bound(), complete("BEGIN"), ready('T')]);
    test.client([parse("", "SELECT 1"), bind(""), execute()]);
    assert!(!test.relay.is_mid_request());
}

//! PREPARE, EXECUTE and DEALLOCATE use the same names as messages, on any server.

use super::test_relay::TestRelay;
use crate::session::CLIENT_STATEMENTS_MAX;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const PREPARE: &str = "PREPARE p (int) AS SELECT $1";
/// PREPARE is sent as a `Parse`. In its text the statement has the same position, so that errors report the client's
/// positions.
const PARSED: &str = "Parse s1:                    SELECT $1";

fn prepared() -> TestRelay {
    let mut test = TestRelay::new();
    let sent = test.client([query(PREPARE)]);
    assert_eq!(sent, [PARSED, "Sync"]);
    let got = test.server([parsed(), ready('I')]);
    assert_eq!(got, ["PREPARE", "ready I"]);
    assert!(test.relay.is_over());
    test
}

#[test]
fn a_statement_prepared_by_sql_is_executed_by_sql() {
    let mut test = prepared();
    let sent = test.client([query("EXECUTE p(7)")]);
    assert_eq!(sent, ["Query EXECUTE \"s1\"(7)"]);
    let got = test.server([
        columns(&["a"]),
        row(&["7"]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(got, ["columns a", "row 7", "SELECT 1", "ready I"]);
}

#[test]
fn another_server_prepares_the_statement_before_executing_it() {
    let mut test = prepared();
    test.on_another_server(10);
    let sent = test.client([query("EXPLAIN EXECUTE p(7)")]);
    assert_eq!(sent, [PARSED, "Sync"]);
    assert!(!test.relay.awaits_client());
    assert!(test.server([parsed(), ready('I')]).is_empty());
    assert_eq!(test.own(), ["Query EXPLAIN EXECUTE \"s1\"(7)"]);
    let got = test.server([complete("EXPLAIN"), ready('I')]);
    assert_eq!(got, ["EXPLAIN", "ready I"]);
    assert!(test.relay.is_over());
}

#[test]
fn if_the_parse_fails_the_statement_is_not_executed() {
    let mut test = prepared();
    test.on_another_server(10);
    test.client([query("EXECUTE p(7)")]);
    let got = test.server([error("42P01", "gone"), ready('I')]);
    assert_eq!(got, ["ERROR 42P01: gone", "ready I"]);
    assert!(test.own().is_empty() && test.relay.is_over());
}

#[test]
fn messages_and_sql_have_one_name_space() {
    let mut test = prepared();
    let sent = test.client([bind("p"), execute(), sync()]);
    assert_eq!(sent, ["Bind s1", "Execute", "Sync"]);
    test.server([bound(), complete("SELECT 1"), ready('I')]);
    let sent = test.client([query("PREPARE p AS SELECT 2")]);
    let taken = [
        "Close s2taken",
        "Parse s2taken: ",
        "Parse s2taken:              SELECT 2",
        "Sync",
    ];
    assert_eq!(sent, taken);
    let got = test.server([closed(), parsed(), error("42P05", "exists"), ready('I')]);
    assert_eq!(got, ["ERROR 42P05: exists", "ready I"]);
    test.next_relay();
    test.server([closed()]);
    test.client([parse("m", "SELECT 3"), sync()]);
    test.server([parsed(), ready('I')]);
    assert_eq!(test.client([query("EXECUTE m")]), ["Query EXECUTE \"s3\""]);
}

#[test]
fn the_extended_protocol_prepares_executes_and_deallocates_too() {
    let mut test = TestRelay::new();
    let sent = test.client([parse("", PREPARE), bind(""), execute(), sync()]);
    assert_eq!(sent[2..], [PARSED, "Sync"]);
    let got = test.server([parsed(), bound(), parsed(), ready('I')]);
    assert_eq!(got, ["parsed", "bound", "PREPARE", "ready I"]);
    test.on_another_server(10);
    let sent = test.client([parse("e", "EXECUTE p(1)"), bind("e"), execute(), sync()]);
    assert_eq!(sent[0], PARSED);
    assert!(sent[1].contains("EXECUTE \"paceline_"), "{sent:?}");
    let got = test.server([
        parsed(),
        parsed(),
        bound(),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(got, ["parsed", "bound", "SELECT 1", "ready I"]);
    let sent = test.client([parse("", "DEALLOCATE p"), bind(""), execute(), sync()]);
    assert_eq!(sent.len(), 3, "{sent:?}");
    let got = test.server([parsed(), bound(), ready('I')]);
    assert_eq!(got, ["parsed", "bound", "DEALLOCATE", "ready I"]);
    assert!(test.session.statements.get(b"p").is_none());
}

#[test]
fn a_name_with_pacelines_prefix_finds_no_statement() {
    let mut test = prepared();
    let sent = test.client([query("EXECUTE paceline_1_0(1)")]);
    assert!(sent[0].ends_with(" \"(1)"), "{sent:?}");
}

#[test]
fn a_statement_above_the_limit_is_rejected() {
    let mut test = TestRelay::new();
    let template = test.templates.prepared("SELECT 1", &[0, 0]);
    for number in 0..CLIENT_STATEMENTS_MAX {
        test.session
            .statements
            .prepare(number.to_string().as_bytes(), template.clone());
    }
    test.client([parse("more", "SELECT 1"), sync()]);
    let got = test.server([error("34000", "no portal"), ready('I')]);
    assert_eq!(
        got,
        ["ERROR 53400: too many prepared statements", "ready I"]
    );
    test.client([close_statement("0"), parse("more", "SELECT 1"), sync()]);
    assert_eq!(
        test.server([parsed(), ready('I')]),
        ["closed", "parsed", "ready I"]
    );
}

#[test]
fn in_a_failed_transaction_the_server_decides_about_a_parse() {
    let mut test = prepared();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([query("SELECT 1/0")]);
    test.server([error("22012", "no"), ready('E')]);
    let sent = test.client([parse("other", "SELECT $1"), sync()]);
    assert_eq!(sent, ["Parse unnamed: SELECT $1", "Sync"]);
    let got = test.server([error("25P02", "failed"), ready('E')]);
    assert_eq!(got, ["ERROR 25P02: failed", "ready E"]);
    assert!(test.session.statements.get(b"other").is_none());
}

#[test]
fn a_name_prepared_twice_and_closed_is_free() {
    let mut test = prepared();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([query("PREPARE p AS SELECT 2")]);
    test.server([parsed(), error("42P05", "exists"), ready('E')]);
    test.client([close_statement("p"), sync()]);
    test.server([ready('E')]);
    let sent = test.client([bind("p"), sync()]);
    assert_eq!(
        sent,
        ["Close p", "Bind p", "Sync"],
        "no placeholder is found"
    );
}

#[test]
fn statements_prepared_after_deallocate_all_remain() {
    for sql in ["DEALLOCATE ALL", "DISCARD ALL"] {
        let mut test = TestRelay::new();
        test.client([parse("a", "SELECT 1"), sync()]);
        test.server([parsed(), ready('I')]);
        let text = "SELECT 1";
        let said = test.client([
            parse("", sql),
            bind(""),
            execute(),
            parse("b", text),
            sync(),
        ]);
        let mut answer = vec![parsed(), bound()];
        let parses = said.iter().position(|line| line == "Close s1");
        assert_eq!(said[parses.unwrap() + 1], "Parse s1: SELECT 1");
        if sql == "DISCARD ALL" {
            answer.push(complete(sql));
        }
        answer.extend([closed(), parsed()]);
        answer.push(ready('I'));
        let got = test.server([answer.concat()]);
        assert_eq!(got, ["parsed", "bound", sql, "parsed", "ready I"]);
        assert!(test.session.statements.get(b"a").is_none(), "{sql}");
        assert!(test.session.statements.get(b"b").is_some(), "{sql}");
    }
}

#[test]
fn after_a_failed_deallocate_all_the_statements_remain() {
    let mut test = TestRelay::new();
    test.client([parse("a", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    let fails = [parse("", "DISCARD ALL"), bind(""), execute(), sync()];
    test.client(fails);
    test.server([parsed(), bound(), error("25001", "no"), ready('I')]);
    assert!(test.session.statements.get(b"a").is_some());
    let sent = test.client([bind("a"), execute(), sync()]);
    assert_eq!(
        sent[..3],
        ["Query DISCARD SEQUENCES", "Close s1", "Parse s1: SELECT 1"],
        "as it may be there"
    );
}

#[test]
fn a_name_that_only_a_function_knows_is_not_found() {
    let mut test = TestRelay::new();
    let sent = test.client([query("EXECUTE p")]);
    assert_eq!(sent, ["Close p", "Query EXECUTE p"]);
    test.server([closed(), error("26000", "no"), ready('I')]);
    let sent = test.client([bind("p"), sync()]);
    assert_eq!(sent[0], "Close p");
}

#[test]
fn a_statement_that_cannot_move_is_found_on_its_server() {
    let mut test = TestRelay::new();
    test.client([query("BEGIN")]);
    test.server([complete("BEGIN"), ready('T')]);
    test.client([query("PREPARE p (mine) AS SELECT $1")]);
    test.server([complete("PREPARE"), ready('T')]);
    assert_eq!(test.client([query("EXECUTE p(1)")]), ["Query EXECUTE p(1)"]);
}

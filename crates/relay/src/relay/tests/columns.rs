//! A client that knows the columns of a statement receives no rows with other columns.

use super::test_relay::TestRelay;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// A client that knows the columns of its prepared statements, on a server that has not parsed them.
fn test() -> TestRelay {
    let mut test = TestRelay::new();
    for name in ["a", "b"] {
        let sql = format!("SELECT {name} FROM t");
        test.client([parse(name, &sql), describe_statement(name), sync()]);
        test.server([parsed(), parameters(&[]), columns(&[name]), ready('I')]);
    }
    test.on_another_server(100);
    test
}

#[test]
fn the_columns_are_compared_before_the_statement_is_executed() {
    let mut test = test();
    let sent = test.client([bind("a"), execute(), bind("b"), execute(), sync()]);
    assert_eq!(sent, ["Parse s1: SELECT a FROM t", "Describe s1", "Flush"]);
    test.server([parsed(), parameters(&[]), columns(&["a"])]);
    let sent = test.own();
    let second = ["Parse s2: SELECT b FROM t", "Describe s2", "Flush"];
    assert_eq!(sent, [&["Bind s1", "Execute"][..], &second].concat());
    test.server([bound(), complete("SELECT 0"), parsed()]);
    test.server([parameters(&[]), columns(&["b"])]);
    assert_eq!(test.own(), ["Bind s2", "Execute", "Sync"]);
    let received = test.server([bound(), complete("SELECT 0"), ready('I')]);
    assert_eq!(received, ["bound", "SELECT 0", "ready I"]);
    // The server has it now.
    let sent = test.client([bind("a"), execute(), sync()]);
    assert_eq!(sent, ["Bind s1", "Execute", "Sync"]);
}

#[test]
fn other_columns_are_an_error() {
    let mut test = test();
    test.client([bind("a"), execute(), sync()]);
    test.server([parsed(), parameters(&[]), columns(&["a", "more"])]);
    let own = test.own();
    assert_eq!(own[0], "Describe portal paceline: refused");
    let received = test.server([error("34000", "no such portal"), ready('I')]);
    assert_eq!(
        received,
        [
            "ERROR 0A000: cached plan must not change result type",
            "ready I"
        ]
    );
}

/// With unknown effect, the statement could have another name on the server each time.
#[test]
fn a_statement_with_unknown_effect_is_described_once() {
    for text in [r"SELECT 'it\'s'", "SELECT 1 ?"] {
        let mut test = TestRelay::new();
        test.client([parse("a", text), describe_statement("a"), sync()]);
        test.server([parsed(), parameters(&[]), columns(&["a"]), ready('I')]);
        test.on_another_server(100);
        test.client([bind("a"), execute(), sync()]);
        test.server([parsed(), parameters(&[]), columns(&["a"])]);
        let sent = test.own();
        assert!(sent.iter().any(|line| line.starts_with("Bind")), "{sent:?}");
        let received = test.server([bound(), complete("SELECT 1"), ready('I')]);
        assert_eq!(received, ["bound", "SELECT 1", "ready I"]);
    }
}

//! Prepared statements: servers prepare them when needed, under names of Paceline, and they follow the client.

use super::test_relay::TestRelay;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// Prepares a named statement and answers it.
fn prepare(test: &mut TestRelay, name: &str, text: &str) -> Vec<String> {
    let sent = test.client([parse(name, text), sync()]);
    let parses = sent.iter().any(|line| line.starts_with("Parse"));
    let closes = sent.iter().any(|line| line.starts_with("Close"));
    let mut answer = if closes { closed() } else { Vec::new() };
    answer.extend(if parses { parsed() } else { Vec::new() });
    assert_eq!(test.server([answer, ready('I')]), ["parsed", "ready I"]);
    assert!(test.relay.is_over());
    sent
}

#[test]
fn a_named_statement_gets_a_name_that_all_clients_share() {
    let mut test = TestRelay::new();
    assert_eq!(
        prepare(&mut test, "mine", "SELECT 1"),
        ["Parse s1: SELECT 1", "Sync"]
    );
    let sent = test.client([bind("mine"), describe_portal(), execute(), sync()]);
    assert_eq!(sent, ["Bind s1", "Describe portal", "Execute", "Sync"]);
    let got = test.server([
        bound(),
        columns(&["a"]),
        row(&["1"]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(got, ["bound", "columns a", "row 1", "SELECT 1", "ready I"]);
    assert!(test.relay.is_over());
    // Each Parse of a client is one on the server. Two statements of one client have different names there.
    assert_eq!(
        prepare(&mut test, "yours", "SELECT 1"),
        ["Parse s2: SELECT 1", "Sync"]
    );
    test.client([close_statement("mine"), close_statement("yours"), sync()]);
    test.server([ready('I')]);
    assert_eq!(
        prepare(&mut test, "mine", "SELECT 1"),
        ["Close s1", "Parse s1: SELECT 1", "Sync"]
    );
}

#[test]
fn paceline_answers_what_no_server_needs_to_answer() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    let sent = test.client([
        bind("a"),
        close_statement("a"),
        parse("c", "SELECT 2"),
        close_statement("b"),
        sync(),
    ]);
    assert_eq!(sent, ["Bind s1", "Parse s2: SELECT 2", "Sync"]);
    assert_eq!(test.server([bound()]), ["bound", "closed"]);
    assert_eq!(test.server([parsed()]), ["parsed", "closed"]);
    assert_eq!(test.server([ready('I')]), ["ready I"]);
}

#[test]
fn another_server_prepares_a_statement_when_needed() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    test.on_another_server(100);
    let sent = test.client([describe_statement("a"), bind("a"), execute(), sync()]);
    assert_eq!(
        sent,
        [
            "Parse s1: SELECT 1",
            "Describe s1",
            "Bind s1",
            "Execute",
            "Sync"
        ]
    );
    let got = test.server([parsed(), parameters(&[]), columns(&["a"]), bound()]);
    assert_eq!(
        got,
        ["parameters []", "columns a", "bound"],
        "of the Parse the client knows nothing"
    );
    assert_eq!(
        test.server([complete("SELECT 0"), ready('I')]),
        ["SELECT 0", "ready I"]
    );
}

#[test]
fn a_full_server_closes_its_least_used_statement_first() {
    let mut test = TestRelay::new();
    test.on_another_server(1);
    prepare(&mut test, "a", "SELECT 1");
    let sent = prepare(&mut test, "b", "SELECT 2");
    assert_eq!(sent, ["Close s1", "Parse s2: SELECT 2", "Sync"]);
    let sent = test.client([bind("a"), execute(), sync()]);
    assert_eq!(
        sent,
        [
            "Close s2",
            "Parse s1: SELECT 1",
            "Bind s1",
            "Execute",
            "Sync"
        ]
    );
    let got = test.server([
        closed(),
        parsed(),
        bound(),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(got, ["bound", "SELECT 1", "ready I"]);
}

#[test]
fn the_unnamed_statement_follows_to_another_server() {
    let mut test = TestRelay::new();
    let sent = test.client([parse("", "SELECT 1"), sync()]);
    assert_eq!(sent, ["Parse unnamed: SELECT 1", "Sync"]);
    assert_eq!(test.server([parsed(), ready('I')]), ["parsed", "ready I"]);
    test.next_relay();
    assert_eq!(
        test.client([bind(""), execute(), sync()]),
        ["Bind unnamed", "Execute", "Sync"]
    );
    test.server([bound(), complete("SELECT 1"), ready('I')]);
    test.on_another_server(100);
    let sent = test.client([bind(""), execute(), sync()]);
    assert_eq!(
        sent,
        ["Parse unnamed: SELECT 1", "Bind unnamed", "Execute", "Sync"]
    );
    let got = test.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert_eq!(got, ["bound", "SELECT 1", "ready I"]);
}

#[test]
fn a_simple_query_destroys_the_unnamed_statement() {
    let mut test = TestRelay::new();
    test.client([parse("", "SELECT 1"), sync()]);
    test.server([parsed(), ready('I')]);
    assert_eq!(test.client([query("SELECT 2")]), ["Query SELECT 2"]);
    test.server([complete("SELECT 1"), ready('I')]);
    // PostgreSQL itself reports the error.
    assert_eq!(
        test.client([bind(""), sync()]),
        ["Close unnamed", "Bind unnamed", "Sync"]
    );
    let got = test.server([
        closed(),
        error("26000", "unnamed prepared statement does not exist"),
        ready('I'),
    ]);
    assert_eq!(
        got,
        [
            "ERROR 26000: unnamed prepared statement does not exist",
            "ready I"
        ]
    );
}

#[test]
fn another_clients_unnamed_statement_is_not_found() {
    let mut test = TestRelay::new();
    test.server.unnamed = Some(4_711);
    let sent = test.client([bind(""), execute(), sync()]);
    assert_eq!(sent, ["Close unnamed", "Bind unnamed", "Execute", "Sync"]);
    let got = test.server([closed(), error("26000", "no"), ready('I')]);
    assert_eq!(got, ["ERROR 26000: no", "ready I"]);
}

#[test]
fn clients_cannot_use_pacelines_own_names() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    let template = test.session.statements.get(b"a").expect("it is prepared");
    let theirs = test.server.name(template.id);
    let sent = test.client([bind(&theirs), sync()]);
    assert_eq!(
        sent,
        ["Bind s1 ", "Sync"],
        "with a space: no statement has this name"
    );
    test.server([error("26000", "no"), ready('I')]);
}

#[test]
fn closing_a_statement_leaves_it_on_the_server_for_others() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    let sent = test.client([
        close_statement("a"),
        close_portal("p"),
        close_statement("never"),
        sync(),
    ]);
    assert_eq!(sent, ["Close portal p", "Sync"]);
    assert_eq!(
        test.server([closed(), ready('I')]),
        ["closed", "closed", "closed", "ready I"]
    );
    assert!(test.session.statements.get(b"a").is_none());
    let sent = prepare(&mut test, "a", "SELECT 1");
    assert_eq!(sent, ["Close s1", "Parse s1: SELECT 1", "Sync"]);
}

#[test]
fn postgresql_rejects_a_name_in_use() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    let sent = test.client([parse("a", "SELECT 2"), sync()]);
    assert_eq!(sent[2..], ["Parse s2taken: SELECT 2", "Sync"]);
    let taken = |name: &str| format!("prepared statement \"{name}\" already exists");
    let refused = error("42P05", &taken("paceline_taken"));
    let got = test.server([closed(), parsed(), refused, ready('I')]);
    let received = format!("ERROR 42P05: {}", taken("a"));
    assert_eq!(got, [received, "ready I".to_owned()]);
    let template = test
        .session
        .statements
        .get(b"a")
        .expect("the first one remains");
    assert_eq!(template.text, "SELECT 1");
    assert_eq!(
        test.next_relay(),
        ["Close s2taken"],
        "the placeholder is closed before the next client"
    );
    assert!(test.server([closed()]).is_empty());
    assert!(test.relay.is_over());
}

#[test]
fn deallocate_of_a_statement_known_by_protocol_is_answered_by_an_empty_query() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    assert_eq!(test.client([query("DEALLOCATE a")]), ["Query "]);
    assert_eq!(
        test.server([empty_query(), ready('I')]),
        ["DEALLOCATE", "ready I"]
    );
    assert!(test.session.statements.get(b"a").is_none());
    assert_eq!(
        test.client([query("DEALLOCATE a")]),
        ["Query DEALLOCATE a"],
        "PostgreSQL says so better"
    );
}

#[test]
fn deallocate_all_forgets_everything_on_both_sides() {
    let mut test = TestRelay::new();
    prepare(&mut test, "a", "SELECT 1");
    test.client([query("DEALLOCATE ALL")]);
    assert_eq!(
        test.server([complete("DEALLOCATE ALL"), ready('I')]),
        ["DEALLOCATE ALL", "ready I"]
    );
    assert!(test.session.statements.get(b"a").is_none());
    assert_eq!(
        prepare(&mut test, "a", "SELECT 1"),
        ["Parse s1: SELECT 1", "Sync"]
    );
}

#[test]
fn a_local_show_is_prepared_as_a_select() {
    let mut test = TestRelay::new();
    let sent = test.client([parse("a", "SHOW hotspot"), sync()]);
    assert_eq!(
        sent,
        [
            "Parse s1: SELECT * FROM (VALUES (NULL::pg_catalog.text), ('on')) AS t(\"hotspot\") OFFSET 1",
            "Sync"
        ]
    );
}

#[test]
fn an_unnamed_local_show_is_a_select_on_another_server_too() {
    const SELECT: &str = "Parse unnamed: SELECT * FROM (VALUES (NULL::pg_catalog.text), ('on')) AS t(\"hotspot\") OFFSET 1";
    let mut test = TestRelay::new();
    let sent = test.client([parse("", "SHOW hotspot"), sync()]);
    assert_eq!(sent, [SELECT, "Sync"]);
    test.server([parsed(), ready('I')]);
    test.on_another_server(10);
    let sent = test.client([bind(""), execute(), sync()]);
    assert_eq!(sent, [SELECT, "Bind unnamed", "Execute", "Sync"]);
}

//! Commits that count, and whether they have written.

use super::test_relay::TestRelay;
use crate::commits::CommitCounts;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// The client sends this query. The server answers with these command tags and this transaction status. Returns the commits that may
/// have written, and those that have.
fn executed(test: &mut TestRelay, text: &str, tags: &[&str], status: char) -> [u64; 2] {
    test.client([query(text)]);
    for tag in tags {
        test.server([complete(tag)]);
    }
    test.server([ready(status)]);
    taken(test)
}

fn taken(test: &mut TestRelay) -> [u64; 2] {
    let CommitCounts { possible, certain } = test.relay.take_commits();
    [possible, certain]
}

#[test]
fn an_autocommit_statement_is_a_commit() {
    for (text, tag, commits) in [
        ("UPDATE a SET b = 1", "UPDATE 2", [1, 1]),
        ("UPDATE a SET b = 1", "UPDATE 0", [1, 0]),
        ("SELECT b FROM a", "SELECT 1", [0, 0]),
        ("SELECT f()", "SELECT 1", [1, 0]),
        (
            "WITH c AS (DELETE FROM a RETURNING b) SELECT b FROM c",
            "SELECT 1",
            [1, 0],
        ),
        ("SELECT b INTO c FROM a", "SELECT 1", [1, 0]),
        ("SET a.b = 1", "SET", [0, 0]),
        ("CREATE TABLE a ()", "CREATE TABLE", [1, 0]),
    ] {
        let mut test = TestRelay::new();
        assert_eq!(executed(&mut test, text, &[tag], 'I'), commits, "{text}");
        assert_eq!(taken(&mut test), [0, 0], "they are returned once");
    }
}

#[test]
fn a_transaction_counts_when_it_is_committed() {
    let mut test = TestRelay::new();
    let mut run = |text, tag, status| executed(&mut test, text, &[tag], status);
    run("BEGIN", "BEGIN", 'T');
    assert_eq!(run("UPDATE a SET b = 1", "UPDATE 1", 'T'), [0, 0]);
    assert_eq!(run("SELECT f()", "SELECT 1", 'T'), [0, 0]);
    assert_eq!(run("COMMIT", "COMMIT", 'I'), [1, 1]);
    test.next_relay();
    let mut run = |text, tag, status| executed(&mut test, text, &[tag], status);
    run("BEGIN", "BEGIN", 'T');
    run("SELECT b FROM a", "SELECT 1", 'T');
    assert_eq!(run("COMMIT", "COMMIT", 'I'), [0, 0]);
}

#[test]
fn what_is_rolled_back_does_not_count() {
    let mut test = TestRelay::new();
    let mut run = |text, tag, status| executed(&mut test, text, &[tag], status);
    run("BEGIN", "BEGIN", 'T');
    run("UPDATE a SET b = 1", "UPDATE 1", 'T');
    assert_eq!(run("ROLLBACK", "ROLLBACK", 'I'), [0, 0]);
    test.next_relay();
    let mut run = |text, tag, status| executed(&mut test, text, &[tag], status);
    run("BEGIN", "BEGIN", 'T');
    run("SAVEPOINT s", "SAVEPOINT", 'T');
    run("UPDATE a SET b = 1", "UPDATE 1", 'T');
    run("ROLLBACK TO s", "ROLLBACK", 'T');
    assert_eq!(run("COMMIT", "COMMIT", 'I'), [1, 0]);
    test.next_relay();
    test.client([query("UPDATE a SET b = 1; SELECT 1/0")]);
    test.server([complete("UPDATE 1"), error("22012", "no"), ready('I')]);
    assert_eq!(taken(&mut test), [0, 0]);
}

#[test]
fn each_commit_within_a_text_counts() {
    let mut test = TestRelay::new();
    let text = "UPDATE a SET b = 1; COMMIT; UPDATE a SET b = 2; SELECT 1/0";
    test.client([query(text)]);
    test.server([
        complete("UPDATE 1"),
        complete("COMMIT"),
        complete("UPDATE 1"),
        error("22012", "no"),
        ready('I'),
    ]);
    assert_eq!(taken(&mut test), [1, 1]);
    test.next_relay();
    let tags = ["ROLLBACK", "UPDATE 1"];
    let text = "ROLLBACK; UPDATE a SET b = 1";
    assert_eq!(executed(&mut test, text, &tags, 'I'), [1, 1]);
}

#[test]
fn requests_of_a_pipeline_are_commits_of_their_own() {
    let mut test = TestRelay::new();
    let one = [
        parse("", "INSERT INTO a VALUES (1)"),
        bind(""),
        execute(),
        sync(),
    ]
    .concat();
    test.client([one.clone(), one]);
    let answer = [parsed(), bound(), complete("INSERT 0 1"), ready('I')].concat();
    test.server([answer.clone(), answer]);
    assert_eq!(taken(&mut test), [2, 2]);
}

/// Paceline ends the transaction with a COMMIT of its own.
#[test]
fn a_hinted_transaction_counts_at_its_end() {
    let mut test = TestRelay::new();
    executed(&mut test, "BEGIN", &["BEGIN"], 'T');
    let text = "UPDATE /*+ COMMIT_ON_SUCCESS */ a SET b = 1";
    assert_eq!(executed(&mut test, text, &["UPDATE 1"], 'T'), [0, 0]);
    test.server([complete("COMMIT"), ready('I')]);
    assert_eq!(taken(&mut test), [1, 1]);
}

//! Transactions that count as DDL.

use super::test_relay::TestRelay;
use crate::relay::Ddl;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// The client sends this query. The server answers with this command tag and transaction status.
fn executed(test: &mut TestRelay, text: &str, tag: &str, status: char) -> bool {
    test.client([query(text)]);
    test.server([complete(tag), ready(status)]);
    test.relay.take_ended_ddl().is_some()
}

#[test]
fn ddl_counts_when_its_transaction_ends() {
    let mut test = TestRelay::new();
    assert!(executed(
        &mut test,
        "CREATE TABLE a ()",
        "CREATE TABLE",
        'I'
    ));
    test.next_relay();
    assert!(!executed(&mut test, "SELECT 1", "SELECT 1", 'I'));
    test.next_relay();
    assert!(!executed(&mut test, "BEGIN", "BEGIN", 'T'));
    assert!(!executed(&mut test, "DROP TABLE a", "DROP TABLE", 'T'));
    assert!(test.relay.open_ddl().is_some());
    assert!(!executed(&mut test, "UPDATE b SET c = 1", "UPDATE 1", 'T'));
    assert!(executed(&mut test, "COMMIT", "COMMIT", 'I'));
    assert!(test.relay.open_ddl().is_none());
    assert!(test.relay.take_ended_ddl().is_none(), "it is returned once");
}

#[test]
fn an_empty_text_changes_nothing() {
    let mut test = TestRelay::new();
    test.client([query("")]);
    test.server([vec![b'I', 0, 0, 0, 4], ready('I')]);
    assert_eq!(test.relay.take_ended_ddl(), None);
}

#[test]
fn the_greatest_change_of_a_transaction_counts() {
    let mut test = TestRelay::new();
    for (tag, status) in [("BEGIN", 'T'), ("CREATE VIEW", 'T'), ("DROP TABLE", 'T')] {
        assert!(!executed(&mut test, "/* any */", tag, status));
    }
    test.client([query("COMMIT")]);
    test.server([complete("COMMIT"), ready('I')]);
    assert_eq!(test.relay.take_ended_ddl(), Some(Ddl::Meanings));
    test.client([query("CREATE TEMP TABLE a ()")]);
    test.server([complete("CREATE TABLE"), ready('I')]);
    assert_eq!(test.relay.take_ended_ddl(), Some(Ddl::Relations));
}

#[test]
fn a_command_counts_unless_it_is_known_not_to_change_the_catalog() {
    for (tag, changes) in [
        ("INSERT 0 1", false),
        ("COMMIT", false),
        ("COMMIT PREPARED", true),
        ("SET", false),
        ("DO", true),
        ("CALL", true),
        ("ALTER TABLE", true),
        ("A NEW COMMAND", true),
    ] {
        let mut test = TestRelay::new();
        assert_eq!(executed(&mut test, "/* any */", tag, 'I'), changes, "{tag}");
    }
}

/// Applications send them all the time, and replicas go on serving reads.
#[test]
fn only_definitions_change_what_names_mean() {
    for (tag, change) in [
        ("ALTER TABLE", Ddl::Meanings),
        ("CREATE FUNCTION", Ddl::Meanings),
        ("DROP SCHEMA", Ddl::Meanings),
        ("IMPORT FOREIGN SCHEMA", Ddl::Meanings),
        ("CREATE INDEX", Ddl::Relations),
        ("COMMIT PREPARED", Ddl::Relations),
        ("CALL", Ddl::Relations),
        ("DO", Ddl::Relations),
        ("GRANT", Ddl::Relations),
        ("LOAD", Ddl::Relations),
        ("REFRESH MATERIALIZED VIEW", Ddl::Relations),
    ] {
        let mut test = TestRelay::new();
        test.client([query("/* any */")]);
        test.server([complete(tag), ready('I')]);
        assert_eq!(test.relay.take_ended_ddl(), Some(change), "{tag}");
    }
}

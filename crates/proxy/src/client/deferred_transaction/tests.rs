//! Transactions that may be deferred, and the status at the end of an answer.

use super::*;
use paceline_relay::settings::SettingsInterner;
use paceline_sql::SessionChange;
use paceline_wire::ErrorResponse;
use paceline_wire::frontend::{write_query, write_sync};

fn query(text: &str) -> BytesMut {
    let mut out = BytesMut::new();
    write_query(&mut out, text);
    out
}

fn settings(name: &str, sql: &str) -> Arc<SessionSettings> {
    let interner = SettingsInterner::default();
    let none = interner.none();
    let change = SessionChange::Set {
        name: name.to_owned(),
        sql: sql.to_owned(),
    };
    interner.after(&none, &none, &change)
}

#[test]
fn only_a_single_query_is_looked_at() {
    assert_eq!(query_text(&query("BEGIN").freeze()), Some("BEGIN"));
    let mut two = query("BEGIN");
    write_query(&mut two, "COMMIT");
    assert_eq!(query_text(&two.freeze()), None);
    let mut sync = BytesMut::new();
    write_sync(&mut sync);
    assert_eq!(query_text(&sync.freeze()), None);
    // PostgreSQL rejects bytes behind the text.
    let malformed = Bytes::from_static(b"Q\0\0\0\x0bBEGIN\0x");
    assert_eq!(query_text(&malformed), None);
}

#[test]
fn a_transaction_reads_if_its_text_or_the_client_says_so() {
    let none = SettingsInterner::default().none();
    let explicit = Begin {
        read_only: true,
        ..Begin::default()
    };
    assert!(is_read_only(explicit, &none));
    assert!(!is_read_only(Begin::default(), &none));
    for (sql, expected) in [
        ("SET default_transaction_read_only TO 'on'", true),
        ("SET default_transaction_read_only = TRUE", true),
        (
            "SELECT pg_catalog.set_config('default_transaction_read_only', 'on', false)",
            true,
        ),
        ("SET default_transaction_read_only TO off", false),
        ("SELECT something()", false),
    ] {
        let set = settings(READ_ONLY, sql);
        assert_eq!(is_read_only(Begin::default(), &set), expected, "{sql}");
    }
}

#[test]
fn the_level_is_that_of_the_client_or_of_the_server() {
    let none = SettingsInterner::default().none();
    assert!(is_read_committed(&none, true) && !is_read_committed(&none, false));
    let committed = settings(
        ISOLATION,
        "SET default_transaction_isolation TO 'Read Committed'",
    );
    assert!(is_read_committed(&committed, false));
    let repeatable = settings(
        ISOLATION,
        "SET default_transaction_isolation TO 'repeatable read'",
    );
    assert!(!is_read_committed(&repeatable, true));
}

#[test]
fn an_answer_ends_with_the_status_of_the_transaction() {
    let mut answer = BytesMut::new();
    ErrorResponse::error("57014", "canceling statement due to user request").write(&mut answer);
    let error = answer.clone();
    Status::Idle.write(&mut answer);
    for (status, letter) in [(Status::Transaction, b'T'), (Status::Failed, b'E')] {
        let mut answer = answer.clone();
        replace_status(&mut answer, status);
        assert_eq!(answer[..], [&error[..], b"Z\0\0\0\x05", &[letter]].concat());
    }
    // Nothing else is changed.
    let mut unfinished = error.clone();
    replace_status(&mut unfinished, Status::Failed);
    assert_eq!(unfinished, error);
}

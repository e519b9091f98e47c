//! Texts that begin or end a transaction.

use super::*;
use crate::parse;

const READ_ONLY: Begin = Begin {
    starts: false,
    read_only: true,
    read_committed: false,
};

const PLAIN: Begin = Begin {
    starts: false,
    read_only: false,
    read_committed: false,
};

const BOTH: Begin = Begin {
    starts: false,
    read_only: true,
    read_committed: true,
};

fn started(begin: Begin) -> Begin {
    Begin {
        starts: true,
        ..begin
    }
}

#[test]
fn transactions_that_begin_alone_are_recognized() {
    for (text, expected) in [
        ("BEGIN", PLAIN),
        (" begin work ; ;\n", PLAIN),
        ("START TRANSACTION", started(PLAIN)),
        ("BEGIN READ ONLY", READ_ONLY),
        ("begin\ttransaction\nread  only;", READ_ONLY),
        (
            "START TRANSACTION READ ONLY, NOT DEFERRABLE",
            started(READ_ONLY),
        ),
        ("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", BOTH),
        ("BEGIN READ ONLY ,isolation level read committed", BOTH),
        ("BEGIN READ ONLY,READ ONLY", READ_ONLY),
    ] {
        assert_eq!(begins_alone(text), Some(expected), "{text}");
        let parsed = parse(text).unwrap();
        assert!(parsed.begins && parsed.statements == 1, "{text}");
    }
}

#[test]
fn other_texts_are_not_taken_for_a_begin() {
    for text in [
        "",
        ";",
        "BEGI",
        "BEGINNING",
        "BEGIN READ",
        "BEGIN READ WRITE",
        "BEGIN READ ONLY READ WRITE",
        "BEGIN READ ONLY DEFERRABLE",
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "BEGIN ISOLATION LEVEL READ UNCOMMITTED READ ONLY",
        "BEGIN , READ ONLY",
        "BEGIN READ ONLY,",
        "BEGIN READ ONLY,,READ ONLY",
        "BEGIN WORK TRANSACTION",
        "START WORK",
        "START",
        "BEGIN READ ONLY; SELECT",
        "BEGIN; COMMIT",
        "BEGIN READ ONLY -- why",
        "BEGIN /* x */ READ ONLY",
        "BEGIN READ\u{a0}ONLY",
        // A space since PostgreSQL 16.
        "BEGIN READ\u{b}ONLY",
        "COMMIT",
    ] {
        assert_eq!(begins_alone(text), None, "{text}");
    }
    assert_eq!(begins_alone(&format!("BEGIN{}", " ".repeat(1000))), None);
}

#[test]
fn texts_that_end_a_transaction_are_recognized() {
    for (text, expected) in [
        ("COMMIT", TransactionEnd::Commit),
        ("end transaction;", TransactionEnd::Commit),
        ("commit work and no chain", TransactionEnd::Commit),
        ("ROLLBACK", TransactionEnd::Rollback),
        (" Abort Work ;;", TransactionEnd::Rollback),
    ] {
        assert_eq!(ends_alone(text), Some(expected), "{text}");
        parse(text).unwrap();
    }
    for text in [
        "",
        "COMMIT AND CHAIN",
        "ROLLBACK TO s",
        "ROLLBACK TO SAVEPOINT s",
        "COMMIT PREPARED",
        "COMMIT; SELECT",
        "COMMIT, COMMIT",
        "COMMIT AND NO",
        "ENDING",
        "BEGIN",
    ] {
        assert_eq!(ends_alone(text), None, "{text}");
    }
}

#[test]
fn each_begin_has_its_command_tag() {
    assert_eq!(PLAIN.command(), "BEGIN");
    assert_eq!(started(READ_ONLY).command(), "START TRANSACTION");
}

#[test]
fn a_failed_transaction_is_never_committed() {
    let command = |end: TransactionEnd| [end.command(false), end.command(true)];
    assert_eq!(command(TransactionEnd::Commit), ["COMMIT", "ROLLBACK"]);
    assert_eq!(command(TransactionEnd::Rollback), ["ROLLBACK", "ROLLBACK"]);
}

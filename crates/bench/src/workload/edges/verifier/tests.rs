//! Acknowledged, doubtful and late writes, compared with the table.

use super::*;

const EDGE: Edge = (1, 2);

fn at(unixnano: i64) -> Write {
    Write {
        unixnano,
        status: unixnano % 2,
    }
}

fn lost() -> Result<(), Failure> {
    Err(Failure::Lost("it broke".to_owned()))
}

fn refused(sqlstate: &str) -> Result<(), Failure> {
    Err(Failure::Refused {
        sqlstate: sqlstate.to_owned(),
        message: "no".to_owned(),
    })
}

/// The findings for a table with these rows after these writes to one edge.
fn findings(writes: &[(Write, Result<(), Failure>)], rows: &[(Edge, Write)]) -> Findings {
    let mut verifier = Verifier::default();
    for (write, answer) in writes {
        verifier.sent(EDGE, *write);
        verifier.answered(EDGE, *write, answer);
    }
    let mut audit = verifier.audit();
    for (edge, found) in rows {
        audit.row(*edge, *found);
    }
    audit.end()
}

#[test]
fn the_newest_write_applies_however_late_an_older_one_arrives() {
    let writes = [(at(5), Ok(())), (at(9), Ok(())), (at(7), Ok(()))];
    let found = findings(&writes, &[(EDGE, at(9))]);
    assert!(found.hold(), "{}", found.says());
    assert_eq!((found.rows, found.acknowledged, found.open), (1, 3, 0));
    for older in [5, 7] {
        assert_eq!(findings(&writes, &[(EDGE, at(older))]).other, 1);
    }
}

#[test]
fn a_row_has_the_status_of_its_newest_write() {
    let upside_down = Write {
        status: 1 - at(9).status,
        ..at(9)
    };
    let found = findings(&[(at(9), Ok(()))], &[(EDGE, upside_down)]);
    assert!(!found.hold(), "{}", found.says());
}

#[test]
fn every_acknowledged_edge_exists_and_no_other() {
    let found = findings(&[(at(1), Ok(()))], &[]);
    assert_eq!((found.missing, found.other), (1, 0));
    assert!(!found.hold(), "{}", found.says());
    let found = findings(&[(at(1), Ok(()))], &[(EDGE, at(1)), ((3, 4), at(1))]);
    assert_eq!((found.missing, found.other), (0, 1));
}

#[test]
fn a_write_in_doubt_may_apply_and_a_refused_one_may_not() {
    for in_doubt in [lost(), refused("08006"), refused("57P01")] {
        let writes = [(at(5), Ok(())), (at(9), in_doubt.clone())];
        for row in [5, 9] {
            let found = findings(&writes, &[(EDGE, at(row))]);
            assert!(found.hold() && found.open == 1, "{}", found.says());
        }
        assert!(findings(&[(at(9), in_doubt)], &[]).hold());
    }
    let writes = [(at(5), Ok(())), (at(9), refused("40P01"))];
    assert!(findings(&writes, &[(EDGE, at(5))]).hold());
    assert!(!findings(&writes, &[(EDGE, at(9))]).hold());
}

#[test]
fn a_write_in_doubt_does_not_excuse_an_older_row() {
    let writes = [(at(5), lost()), (at(9), Ok(()))];
    assert!(!findings(&writes, &[(EDGE, at(5))]).hold());
}

#[test]
fn a_write_without_an_answer_stays_open() {
    let mut verifier = Verifier::default();
    verifier.sent(EDGE, at(3));
    let mut audit = verifier.audit();
    audit.row(EDGE, at(3));
    let found = audit.end();
    assert!(found.hold() && found.open == 1, "{}", found.says());
}

#[test]
fn initial_writes_are_expected_but_not_counted() {
    let mut verifier = Verifier::starting([(EDGE, at(1)), (EDGE, at(4)), (EDGE, at(2))]);
    assert_eq!(verifier.newest(), [(EDGE, at(4))]);
    let found = verifier.audit().end();
    assert_eq!((found.missing, found.acknowledged), (1, 0));
}

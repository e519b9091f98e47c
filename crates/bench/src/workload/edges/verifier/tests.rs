//! Writes that are acknowledged, in doubt, or overtaken, against what the table holds.

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

/// What a table with these rows comes to when one edge was written so.
fn findings(writes: &[(Write, Result<(), Failure>)], rows: &[(Edge, Write)]) -> Findings {
    let verifier = Verifier::default();
    for (write, answer) in writes {
        verifier.sends(EDGE, *write);
        verifier.answered(EDGE, *write, answer);
    }
    let mut audit = verifier.audit();
    for (edge, found) in rows {
        audit.row(*edge, *found);
    }
    audit.end()
}

#[test]
fn the_newest_wins_however_late_an_older_one_comes() {
    let writes = [(at(5), Ok(())), (at(9), Ok(())), (at(7), Ok(()))];
    let found = findings(&writes, &[(EDGE, at(9))]);
    assert!(found.hold(), "{}", found.says());
    assert_eq!((found.rows, found.acknowledged, found.open), (1, 3, 0));
    for older in [5, 7] {
        assert_eq!(findings(&writes, &[(EDGE, at(older))]).other, 1);
    }
}

#[test]
fn a_row_says_what_its_newest_write_said() {
    let upside_down = Write {
        status: 1 - at(9).status,
        ..at(9)
    };
    let found = findings(&[(at(9), Ok(()))], &[(EDGE, upside_down)]);
    assert!(!found.hold(), "{}", found.says());
}

#[test]
fn an_edge_that_was_acknowledged_is_there_and_no_other_is() {
    let found = findings(&[(at(1), Ok(()))], &[]);
    assert_eq!((found.missing, found.other), (1, 0));
    assert!(!found.hold(), "{}", found.says());
    let found = findings(&[(at(1), Ok(()))], &[(EDGE, at(1)), ((3, 4), at(1))]);
    assert_eq!((found.missing, found.other), (0, 1));
}

#[test]
fn a_write_in_doubt_may_have_been_done_and_one_that_was_refused_may_not() {
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
fn one_in_doubt_does_not_excuse_a_row_that_is_older_than_the_newest() {
    let writes = [(at(5), lost()), (at(9), Ok(()))];
    assert!(!findings(&writes, &[(EDGE, at(5))]).hold());
}

#[test]
fn who_never_came_back_leaves_the_write_open() {
    let verifier = Verifier::default();
    verifier.sends(EDGE, at(3));
    let mut audit = verifier.audit();
    audit.row(EDGE, at(3));
    let found = audit.end();
    assert!(found.hold() && found.open == 1, "{}", found.says());
}

#[test]
fn what_was_there_before_counts_but_nobody_was_told() {
    let verifier = Verifier::starting([(EDGE, at(1)), (EDGE, at(4)), (EDGE, at(2))]);
    assert_eq!(verifier.newest(), [(EDGE, at(4))]);
    let found = verifier.audit().end();
    assert_eq!((found.missing, found.acknowledged), (1, 0));
}

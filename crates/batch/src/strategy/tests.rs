//! The reasons why members return, and the row versions that a group's statement has written. The tests of each strategy check the answers.

use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::template_stats::Fallback::{self, *};
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, table};
use crate::testing::group_run::{GroupRun, unchanged};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;

/// Members that returned, with the reason, and the number of written rows.
type GroupOutcome = (Vec<(usize, Fallback)>, u64);

fn outcome(strategy: Strategy, members: &[PlannedRequest], answers: &[Wire]) -> GroupOutcome {
    let prelude = Prelude::new(&Templates::default());
    let mut server = ServerSide::new(SettingsInterner::default().none(), 100);
    let mut run = GroupRun::send(strategy, members, &prelude, &mut server)
        .expect("these members share a group");
    run.answer([[parsed(), bound()].concat()]);
    answers
        .iter()
        .for_each(|answer| drop(run.answer([answer.clone()])));
    run.answer([ready('I')]);
    assert!(run.is_over());
    let mut back = run.retried.clone();
    back.sort_by_key(|(member, _)| *member);
    (back, run.batch.rows_written())
}

/// `SET n = n - $1` on these rows.
fn fold(rows: &[&str], answers: &[Wire]) -> GroupOutcome {
    fold_of("n = n - $1", rows, answers)
}

fn fold_of(set: &str, rows: &[&str], answers: &[Wire]) -> GroupOutcome {
    let table = table(&[("id", INT8), ("n", INT4)], &["id"]);
    let text = format!("UPDATE t SET {set} WHERE id = $2");
    let mut folding = FoldStatement::prepared(&text, &table, &[INT4, INT8], Vec::new());
    let members: Vec<PlannedRequest> = rows.iter().map(|row| folding.texts(&["1", row])).collect();
    outcome(Strategy::Fold, &members, answers)
}

fn bit(yes: bool) -> Option<&'static [u8]> {
    Some(if yes { &[1] } else { &[0] })
}

/// The row of a member in the result: its place from 1, whether constraints hold, whether its row was updated.
fn member(place: i32, fine: bool, hit: bool) -> Wire {
    let place = place.to_be_bytes();
    values(&[unchanged(true), Some(&place[..]), bit(fine), bit(hit)])
}

fn all(members: usize, why: Fallback) -> Vec<(usize, Fallback)> {
    (0..members).map(|member| (member, why)).collect()
}

fn timeout() -> Wire {
    error("55P03", "canceling statement due to lock timeout")
}

#[test]
fn a_fold_writes_each_row_once_however_many_change_it() {
    let one_row = [
        member(1, true, true),
        member(2, true, true),
        member(3, true, false),
    ];
    assert_eq!(fold(&["7", "7", "7"], &one_row), (vec![], 1));
    let two_rows = [
        member(1, true, true),
        member(2, true, true),
        member(3, true, true),
    ];
    assert_eq!(fold(&["7", "8", "7"], &two_rows), (vec![], 2));
    let unchanged = [member(1, true, false), member(2, true, false)];
    assert_eq!(fold(&["7", "7"], &unchanged), (vec![], 0));
}

#[test]
fn a_violation_returns_its_member_and_those_behind_it() {
    // Places: the members on row 7 have 1 to 3, the one on row 8 has 4.
    let answers = [
        member(1, true, true),
        member(2, false, false),
        member(4, true, true),
    ];
    let back = vec![(1, Error), (3, Error)];
    assert_eq!(fold(&["7", "7", "8", "7"], &answers), (back, 2));
}

#[test]
fn locked_and_missing_rows_are_busy() {
    let answers = [member(1, true, true), member(2, true, true)];
    assert_eq!(fold(&["7", "7", "8"], &answers), (vec![(2, Busy)], 1));
}

#[test]
fn a_member_whose_error_the_fold_may_miss_is_executed_alone() {
    let missing = values(&[unchanged(true), None, None, None]);
    let (back, rows) = fold_of("n = 10 / $1", &["7", "7"], &[missing]);
    assert_eq!((back, rows), (all(2, NoRow), 0));
}

#[test]
fn a_failed_fold_has_a_reason() {
    let one_row = ["7", "7"];
    let changed = values(&[bit(false), None, None, None]);
    assert_eq!(fold(&one_row, &[changed]), (all(2, Ddl), 0));
    let refused = error("42501", "permission denied for table t");
    assert_eq!(fold(&one_row, &[refused]), (all(2, Refused), 0));
    let failed = error("22003", "integer out of range");
    let failed = [failed];
    assert_eq!(fold(&one_row, &failed), (all(2, Error), 0));
    let one_each = ["7", "8"];
    assert_eq!(fold(&one_each, &[timeout()]), (all(2, Timeout), 0));
    assert_eq!(fold(&one_each, &failed), (all(2, Error), 0));
}

fn take(answers: &[Wire]) -> GroupOutcome {
    let queue = table(&[("id", INT8)], &["id"]);
    let text = "DELETE FROM t WHERE id = (SELECT id FROM t ORDER BY id LIMIT 1)";
    let mut pops = PlannedStatement::taking(text, &queue, &[], Vec::new());
    let members = [pops.texts(&[]), pops.texts(&[]), pops.texts(&[])];
    outcome(Strategy::Take, &members, answers)
}

#[test]
fn a_take_writes_the_rows_that_it_distributes_and_a_failed_one_has_a_reason() {
    let taken = |number: i32| values(&[unchanged(true), Some(&number.to_be_bytes()[..])]);
    assert_eq!(take(&[taken(1), taken(2)]), (vec![], 2));
    assert_eq!(take(&[values(&[bit(false), None])]), (all(3, Ddl), 0));
    assert_eq!(take(&[timeout()]), (all(3, Timeout), 0));
    let refused = error("42501", "permission denied for table t");
    assert_eq!(take(&[refused]), (all(3, Refused), 0));
    let uncertain = error("22P02", "invalid input: \"paceline: true\"");
    assert_eq!(take(&[uncertain]), (all(3, Uncertain), 0));
    let gone = error("22P02", "invalid input: \"paceline: gone: true\"");
    assert_eq!(take(&[gone]), (all(3, Busy), 0));
    assert_eq!(take(&[error("23503", "a key")]), (all(3, Error), 0));
}

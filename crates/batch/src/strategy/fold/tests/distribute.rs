//! The result of each member.

use super::{a_server, counter, leave, stock};
use crate::strategy::GroupPlan;
use crate::strategy::Invalidation;
use crate::strategy::PlannedRequest;
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, single, table};
use crate::testing::group_run::{GroupRun, unchanged};
use paceline_relay::parsed::{ClientParse, ColumnsId};
use paceline_relay::server::ServerSide;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client;
use paceline_testing::messages::server::*;
use std::sync::Arc;

const MISSED: &str =
    "ERROR 21000: statement affected 0 rows, but its hint demands TARGET_AFFECT_ROW(1)";

fn bit(yes: bool) -> Option<&'static [u8]> {
    Some(if yes { &[1] } else { &[0] })
}

/// The row of a member in the result: its place from 1, whether constraints hold, whether it was updated, RETURNING.
fn member(place: i32, fine: bool, hit: bool, returning: &[Option<&[u8]>]) -> Wire {
    let place = place.to_be_bytes();
    let mut row = vec![unchanged(true), Some(&place[..]), bit(fine), bit(hit)];
    row.extend_from_slice(returning);
    values(&row)
}

/// The only row of a fold that changed nothing.
fn no_rows(same_facts: bool) -> Wire {
    values(&[unchanged(same_facts), None, None, None])
}

fn end() -> Wire {
    [complete("SELECT 9"), ready('I')].concat()
}

/// A group that updates these rows.
fn group<'a>(rows: &[&str], server: &'a mut ServerSide) -> GroupRun<'a> {
    let mut folding = counter("");
    let members: Vec<_> = rows.iter().map(|row| folding.texts(&["1", row])).collect();
    leave(&members, server).expect("these members share a group")
}

#[test]
fn each_member_gets_the_answer_that_it_would_get_alone() {
    let mut folding = stock();
    let members = [
        folding.texts(&["1", "7"]),
        folding.texts(&["9", "8"]),
        folding.texts(&["2", "7"]),
    ];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let rows = [
        parsed(),
        bound(),
        member(3, true, false, &[None]),
        member(1, true, true, &[Some(b"41")]),
        member(2, true, true, &[Some(b"39")]),
    ];
    assert!(
        run.answer(rows).is_empty(),
        "no member is answered before the commit"
    );
    let mut results = run.answer([end()]);
    results.sort();
    let expected = [
        "0: parsed, bound, columns qty, row 41, UPDATE 1, ready I",
        "1: parsed, bound, columns qty, UPDATE 0, ready I",
        "2: parsed, bound, columns qty, row 39, UPDATE 1, ready I",
    ];
    assert_eq!(results, expected);
    assert!(run.is_over() && !run.batch.failed() && run.batch.invalidation().is_none());
}

#[test]
fn the_answer_has_the_form_of_the_request() {
    let table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    let text = "UPDATE t SET qty = 1 WHERE id = 5 RETURNING qty";
    let mut folding = FoldStatement::simple(text, &table, &[INT4, INT4], vec![column("qty", 23)]);
    let members = [folding.query(text)];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let results = run.answer([
        parsed(),
        bound(),
        member(1, true, true, &[Some(b"1")]),
        end(),
    ]);
    assert_eq!(results, ["0: columns qty, row 1, UPDATE 1, ready I"]);
}

#[test]
fn an_answer_describes_columns_only_on_describe_and_confirms_a_parse_only_on_parse() {
    let mut folding = stock();
    let template = folding.texts(&["1", "7"]).request.template;
    folding.session.statements.prepare(b"p", template);
    let values: [(bool, Option<&[u8]>); 2] = [(false, Some(b"1")), (false, Some(b"7"))];
    let messages = [
        client::bind_values("p", &values, &[1]),
        client::execute(),
        client::sync(),
    ];
    let mut request = single(&mut folding.session, &folding.templates, messages.concat());
    request.plan = Some(Arc::clone(&folding.plan) as Arc<dyn GroupPlan>);
    let mut server = a_server();
    let mut run = leave(&[request], &mut server).expect("these members share a group");
    let results = run.answer([
        parsed(),
        bound(),
        member(1, true, true, &[Some(b"\0\0\0\x07")]),
        end(),
    ]);
    assert_eq!(results, ["0: bound, row \0\0\0\u{7}, UPDATE 1, ready I"]);
}

/// PostgreSQL raises the error for a client that expects other columns.
#[test]
fn a_client_with_other_columns_runs_alone() {
    let mut folding = stock();
    let mut request = folding.texts(&["1", "7"]);
    let own = folding.plan.described.fields.iter();
    let own = ColumnsId::of(own.map(|f| (&*f.name, f.type_oid, f.type_modifier)));
    for (columns, fits) in [
        (Some(own), true),
        (
            Some(ColumnsId::of([(&b"qty"[..], 700, -1)].into_iter())),
            false,
        ),
        (None, true),
    ] {
        request.client_parse = Some(ClientParse {
            columns,
            ..ClientParse::default()
        });
        assert_eq!(
            folding.plan.group_and_keys(&request).is_some(),
            fits,
            "{columns:?}"
        );
    }
}

#[test]
fn described_columns_have_the_bound_format() {
    let mut folding = stock();
    let request = folding.bound(&[(false, Some(b"1")), (false, Some(b"7"))], &[1]);
    let mut server = a_server();
    let mut run = leave(&[request], &mut server).expect("these members share a group");
    let results = run.answer([parsed(), bound(), member(1, true, false, &[None]), end()]);
    assert_eq!(
        results,
        ["0: parsed, bound, columns qty:b, UPDATE 0, ready I"]
    );
}

#[test]
fn members_behind_a_violation_on_the_row_are_retried_in_order() {
    let mut server = a_server();
    // Places: the members on row 7 have 1 to 4, the one on row 8 has 5.
    let mut run = group(&["7", "7", "8", "7", "7"], &mut server);
    let results = run.answer([
        parsed(),
        bound(),
        member(1, true, true, &[]),
        member(2, false, false, &[]),
        member(5, true, true, &[]),
        end(),
    ]);
    let expected = [
        "0: parsed, bound, no data, UPDATE 1, ready I",
        "1: retry Alone",
        "3: retry Line",
        "4: retry Line",
        "2: parsed, bound, no data, UPDATE 1, ready I",
    ];
    assert_eq!(results, expected);
}

#[test]
fn a_missing_row_is_certain_only_if_the_statement_waited_for_its_lock() {
    let mut server = a_server();
    let mut one_row = group(&["7", "7"], &mut server);
    let results = one_row.answer([parsed(), bound(), no_rows(true), end()]);
    let none = "parsed, bound, no data, UPDATE 0, ready I";
    assert_eq!(results, [format!("0: {none}"), format!("1: {none}")]);
    let hit = "parsed, bound, no data, UPDATE 1, ready I";
    let mut many_rows = group(&["7", "8", "7", "9"], &mut server);
    let results = many_rows.answer([parsed(), bound(), member(3, true, true, &[]), end()]);
    let hit_1 = format!("1: {hit}");
    assert_eq!(
        results,
        ["0: retry Row", "2: retry Row", &hit_1, "3: retry Row"]
    );
    let mut one_each = group(&["7", "8"], &mut server);
    let results = one_each.answer([parsed(), bound(), member(2, true, true, &[]), end()]);
    assert_eq!(results, [format!("0: {none}"), format!("1: {hit}")]);
}

#[test]
fn a_violation_on_another_row_does_not_affect_a_missing_row() {
    let mut server = a_server();
    let mut run = group(&["7", "8", "8"], &mut server);
    let results = run.answer([parsed(), bound(), member(1, false, false, &[]), end()]);
    assert_eq!(results, ["0: retry Alone", "1: retry Row", "2: retry Row"]);
}

#[test]
fn a_member_that_fails_to_change_its_target_row_gets_an_error() {
    let mut folding = counter("/*+ TARGET_AFFECT_ROW(1) */");
    let members = [folding.texts(&["1", "7"]), folding.texts(&["1", "7"])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let rows = [member(1, true, true, &[]), member(2, true, false, &[])];
    let [one, two] = rows;
    let results = run.answer([parsed(), bound(), one, two, end()]);
    let expected = [
        "0: parsed, bound, no data, UPDATE 1, ready I".to_owned(),
        format!("1: parsed, bound, no data, {MISSED}, ready I"),
    ];
    assert_eq!(results, expected);
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let results = run.answer([bound(), no_rows(true), end()]);
    assert!(
        results.iter().all(|line| line.contains(MISSED)),
        "{results:?}"
    );
}

#[test]
fn changed_facts_invalidate_the_plan_and_answer_no_member() {
    let mut server = a_server();
    let mut run = group(&["7", "8"], &mut server);
    let results = run.answer([parsed(), bound(), no_rows(false), end()]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert!(
        run.batch.invalidation() == Some(Invalidation::Changed),
        "the facts must be read again"
    );
    assert!(!run.batch.failed());
}

#[test]
fn an_error_retries_the_group_in_halves() {
    let mut server = a_server();
    let mut run = group(&["7", "8", "7", "9", "8"], &mut server);
    let rows = [
        parsed(),
        bound(),
        member(1, true, true, &[]),
        error("22003", "integer out of range"),
    ];
    assert!(run.answer(rows).is_empty());
    let results = run.answer([ready('I')]);
    let expected = [
        "0: retry FirstHalf",
        "1: retry FirstHalf",
        "2: retry FirstHalf",
        "3: retry SecondHalf",
        "4: retry SecondHalf",
    ];
    assert_eq!(results, expected);
    assert!(run.batch.failed() && run.batch.invalidation().is_none());
}

#[test]
fn after_a_refusal_each_member_is_executed_alone_and_the_plan_is_dropped() {
    let mut server = a_server();
    let mut run = group(&["7", "8", "7"], &mut server);
    let results = run.answer([error("42501", "permission denied for table t"), ready('I')]);
    assert_eq!(
        results,
        ["0: retry Alone", "1: retry Alone", "2: retry Alone"]
    );
    let invalidation = run.batch.invalidation();
    assert!(matches!(invalidation, Some(Invalidation::Refused(_))));
    // The server did not execute the Parse.
    let mut run = group(&["7", "8", "7"], &mut server);
    assert!(run.sent()[0].starts_with("Parse"));
    run.answer([parsed(), bound(), no_rows(true), end()]);
}

#[test]
fn a_lock_time_out_of_a_group_on_one_row_blocks_it() {
    let mut server = a_server();
    let timed_out = || {
        let text = "storniere Anfrage wegen Zeit\u{fc}berschreitung einer Sperre";
        error("55P03", text)
    };
    let mut one_row = group(&["7", "7"], &mut server);
    let results = one_row.answer([parsed(), bound(), timed_out(), ready('I')]);
    assert_eq!(results, ["0: retry Blocked", "1: retry Blocked"]);
    let mut many_rows = group(&["7", "8", "7"], &mut server);
    let results = many_rows.answer([parsed(), bound(), timed_out(), ready('I')]);
    let halves = [
        "0: retry FirstHalf",
        "1: retry FirstHalf",
        "2: retry SecondHalf",
    ];
    assert_eq!(results, halves);
}

/// A statement timeout, or a cancel request: the member that causes it is found in halves.
#[test]
fn a_cancelled_group_is_retried_in_halves() {
    for message in [
        "canceling statement due to statement timeout",
        "canceling autovacuum task",
        "storniere Anfrage",
    ] {
        let mut server = a_server();
        let mut one_row = group(&["7", "7"], &mut server);
        let results = one_row.answer([parsed(), bound(), error("57014", message), ready('I')]);
        assert_eq!(results, ["0: retry FirstHalf", "1: retry SecondHalf"]);
    }
}

#[test]
fn after_an_error_groups_on_different_rows_use_the_other_statement() {
    for (sqlstate, message) in [
        ("55P03", "canceling statement due to lock timeout"),
        ("23514", "a check"),
        ("42501", "permission denied for table t"),
    ] {
        let mut folding = counter("");
        let members = [folding.texts(&["1", "7"]), folding.texts(&["1", "8"])];
        let mut server = a_server();
        let mut run = leave(&members, &mut server).expect("these members share a group");
        let results = run.answer([parsed(), bound(), error(sqlstate, message), ready('I')]);
        assert_eq!(results, ["0: retry Line", "1: retry Line"]);
        assert!(
            run.batch.invalidation().is_none(),
            "the fold itself is not refused"
        );
        let again = leave(&members, &mut server)
            .expect("these members share a group")
            .sent();
        assert!(again[0].contains("SKIP LOCKED"), "{}", again[0]);
    }
}

/// PostgreSQL may evaluate a part of this update although there is no row.
fn fails_unseen(rows: &[&str]) -> (FoldStatement, Vec<PlannedRequest>) {
    let table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    let text = "UPDATE t SET qty = qty + (1 / $1) WHERE id = $2 AND qty > 0";
    let mut folding = FoldStatement::prepared(text, &table, &[INT4, INT8], Vec::new());
    let members = rows.iter().map(|row| folding.texts(&["1", row])).collect();
    (folding, members)
}

#[test]
fn a_member_that_may_fail_without_a_row_runs_alone_if_there_is_none() {
    let (_, members) = fails_unseen(&["7", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let results = run.answer([parsed(), bound(), no_rows(true), end()]);
    assert_eq!(
        results,
        ["0: retry Alone", "1: retry Alone"],
        "the row is missing"
    );
}

#[test]
fn a_partitioned_table_waits_for_no_partition_that_a_member_may_not_need() {
    let mut table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    table.extent.tree = vec![1, 2, 3];
    let text = "UPDATE t SET qty = qty + $1 WHERE id = $2";
    let mut folding = FoldStatement::prepared(text, &table, &[INT4, INT8], Vec::new());
    let members = [folding.texts(&["1", "7"]), folding.texts(&["1", "7"])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let sent = run.sent();
    assert!(sent[0].contains("lock_timeout"), "{}", sent[0]);
    assert_eq!(sent.iter().filter(|line| *line == "Sync").count(), 1);
    let limits = [
        parsed(),
        bound(),
        row(&["20ms", "200ms"]),
        complete("SELECT 1"),
    ]
    .concat();
    let late = error("55P03", "canceling statement due to lock timeout");
    let results = run.answer([limits.clone(), parsed(), bound(), late, ready('I')]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let rows = [member(1, true, true, &[]), member(2, true, true, &[])].concat();
    let limits = [bound(), row(&["20ms", "200ms"]), complete("SELECT 1")].concat();
    let results = run.answer([limits, bound(), rows, end()]);
    assert!(
        results
            .iter()
            .all(|line| line.ends_with("UPDATE 1, ready I")),
        "{results:?}"
    );
    assert_eq!(results.len(), 2);
}

//! Upserts of several rows without a server: which requests fit, what is sent, and the result of each member.

use crate::line::{GroupId, LineKeys};
use crate::strategy::Invalidation;
use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::testing::fold_statement::{INT4, INT8, TEXT, Type, table};
use crate::testing::group_run::{GroupRun, unchanged};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;

/// Two rows; the fifth parameter is added to existing rows.
const ADD: &str = "INSERT INTO t (id, n) VALUES ($1, $2), ($3, $4) \
    ON CONFLICT (id) DO UPDATE SET n = t.n + EXCLUDED.n + $5 RETURNING n";
const NOTHING: &str =
    "INSERT INTO t (id, n) VALUES ($1, $2), ($3, $4) ON CONFLICT (id) DO NOTHING RETURNING n";

fn upserts(text: &str, id: Type) -> PlannedStatement {
    let table = table(&[("id", id), ("n", INT4)], &["id"]);
    let parameters = [id, INT4, id, INT4, INT4];
    let parameters = &parameters[..if text == ADD { 5 } else { 4 }];
    PlannedStatement::upserting_multi_row(text, &table, parameters, vec![column("n", 23)])
}

fn place(upserts: &mut PlannedStatement, values: &[&str]) -> Option<(GroupId, LineKeys)> {
    let request = upserts.texts(values);
    upserts.plan.group_and_keys(&request)
}

fn a_server() -> ServerSide {
    ServerSide::new(SettingsInterner::default().none(), 100)
}

fn leave<'a>(members: &[PlannedRequest], server: &'a mut ServerSide) -> Option<GroupRun<'a>> {
    let prelude = Prelude::new(&Templates::default());
    GroupRun::send(Strategy::Merge, members, &prelude, server)
}

/// A row of the result.
fn event(key: i64, n: &[u8]) -> Wire {
    values(&[unchanged(true), Some(&key.to_be_bytes()), Some(n)])
}

/// The only row of a result in which no member has one.
fn no_rows(same_facts: bool) -> Wire {
    values(&[unchanged(same_facts), None, None])
}

#[test]
fn a_request_waits_for_each_row_once_and_joins_requests_with_the_same_shared_values() {
    let mut add = upserts(ADD, INT8);
    let (group, keys) =
        place(&mut add, &["7", "1", "8", "1", "2"]).expect("these members share a group");
    assert_eq!(group.strategy, Strategy::Merge);
    assert_eq!(keys.as_slice().len(), 2);
    let turned = place(&mut add, &["8", "3", "7", "4", "2"]);
    assert_eq!(turned, Some((group, keys.clone())), "in whatever order");
    let (other, same_keys) =
        place(&mut add, &["7", "1", "8", "1", "3"]).expect("these members share a group");
    assert_ne!(group, other, "they add something else");
    assert_eq!(keys, same_keys);
    // A request on only one of these rows waits for the same key.
    let mut one = PlannedStatement::upserting(
        "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING",
        &table(&[("id", INT8), ("n", INT4)], &["id"]),
        &[INT8, INT4],
        Vec::new(),
    );
    let (_, on_one) = place(&mut one, &["8", "1"]).expect("these members share a group");
    assert!(keys.as_slice().contains(&on_one.as_slice()[0]));
}

#[test]
fn a_request_that_only_postgresql_can_answer_runs_alone() {
    let mut add = upserts(ADD, INT8);
    let twice = place(&mut add, &["7", "1", "7", "1", "2"]);
    assert_eq!(twice, None, "a row that DO UPDATE meets twice is an error");
    assert_eq!(place(&mut add, &["7", "1", "007x", "1", "2"]), None);
    let null: [_; 5] = [Some(&b"7"[..]), Some(b"1"), None, Some(b"1"), Some(b"2")];
    let null = add.bound(&null.map(|value| (false, value)));
    assert_eq!(add.plan.group_and_keys(&null), None);
    let eight = 8_i64.to_be_bytes();
    let mixed = [
        (false, &b"7"[..]),
        (false, b"1"),
        (true, &eight),
        (false, b"1"),
    ];
    let mut nothing = upserts(NOTHING, INT8);
    let mixed = nothing.bound(&mixed.map(|(binary, value)| (binary, Some(value))));
    assert_eq!(
        nothing.plan.group_and_keys(&mixed),
        None,
        "an array has one format"
    );
    let (_, keys) = place(&mut nothing, &["7", "1", "7", "2"]).expect("the second one is skipped");
    assert!(matches!(&keys, LineKeys::MultiRow(keys) if keys.len() == 1));
    let mut words = upserts(NOTHING, TEXT);
    assert!(place(&mut words, &["a", "1", "b", "1"]).is_some());
    assert_eq!(place(&mut words, &["a", "1", "b ", "1"]), None);
}

#[test]
fn each_member_gets_its_rows_and_their_number() {
    let mut nothing = upserts(NOTHING, INT8);
    let members = [
        nothing.texts(&["7", "1", "8", "2"]),
        nothing.texts(&["9", "3", "10", "4"]),
        nothing.texts(&["11", "5", "12", "6"]),
    ];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let executes = run.sent().iter().filter(|m| m.contains("Execute")).count();
    assert_eq!(executes, 1);
    let rows = [
        parsed(),
        bound(),
        event(7, b"1"),
        event(8, b"2"),
        event(10, b"4"),
    ]
    .concat();
    assert!(run.answer([rows, complete("SELECT 3")]).is_empty());
    let results = run.answer([ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, row 1, row 2, INSERT 0 2, ready I",
        "1: parsed, bound, columns n, row 4, INSERT 0 1, ready I",
        "2: parsed, bound, columns n, INSERT 0 0, ready I",
    ];
    assert_eq!(results, expected);
    assert_eq!(run.batch.rows_written(), 3);
    assert!(run.is_over() && !run.batch.failed() && run.batch.invalidation().is_none());
}

/// The line does not put such members into one group, unless rows or shared values have the same hash.
#[test]
fn members_on_one_row_share_no_group() {
    let mut add = upserts(ADD, INT8);
    let mut group = |one: [&str; 5], other: [&str; 5]| {
        let members = [add.texts(&one), add.texts(&other)];
        leave(&members, &mut a_server()).is_some()
    };
    assert!(group(["7", "1", "8", "1", "2"], ["9", "1", "10", "1", "2"]));
    assert!(!group(["7", "1", "8", "1", "2"], ["9", "1", "8", "1", "2"]));
    assert!(!group(
        ["7", "1", "8", "1", "2"],
        ["9", "1", "10", "1", "3"]
    ));
}

#[test]
fn errors_and_ddl_retry_all_members() {
    let mut add = upserts(ADD, INT8);
    let members = [
        add.texts(&["7", "1", "8", "2", "1"]),
        add.texts(&["9", "3", "10", "4", "1"]),
    ];
    for (answer, expected, failed, invalidates) in [
        (
            error("23514", "a check"),
            ["FirstHalf", "SecondHalf"],
            true,
            None,
        ),
        (
            error("55P03", "canceling statement due to lock timeout"),
            ["FirstHalf", "SecondHalf"],
            true,
            None,
        ),
        (
            error("42501", "permission denied for table t"),
            ["Alone", "Alone"],
            true,
            Some(true),
        ),
        (no_rows(false), ["Alone", "Alone"], false, Some(false)),
    ] {
        let mut server = a_server();
        let mut run = leave(&members, &mut server).expect("these members share a group");
        let results = run.answer([answer, ready('I')]);
        let expected: Vec<String> = (0..)
            .zip(expected)
            .map(|(n, how)| format!("{n}: retry {how}"))
            .collect();
        assert_eq!(results, expected);
        assert_eq!(run.batch.failed(), failed);
        assert_eq!(
            run.batch
                .invalidation()
                .map(|now| now != Invalidation::Changed),
            invalidates
        );
    }
}

#[test]
fn a_committed_row_with_an_unknown_key_is_reported() {
    let mut nothing = upserts(NOTHING, INT8);
    let members = [nothing.texts(&["7", "1", "8", "2"])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let results = run.answer([event(9, b"1"), complete("SELECT 1"), ready('I')]);
    assert!(
        results.iter().all(|line| line.contains("08007")),
        "{results:?}"
    );
}

//! Upserts without a server: which requests fit, what is sent, and the result of each member.

use crate::strategy::Invalidation;
use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::testing::fold_statement::{INT4, INT8, NUMERIC, TEXT, Type, table};
use crate::testing::group_run::{GroupRun, have_analysis_time, unchanged};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;

const COLUMNS: [(&str, Type); 2] = [("id", INT8), ("n", INT4)];

/// Adds `$2` to row `$1`.
fn counter() -> PlannedStatement {
    let text = "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = t.n + $2 RETURNING n";
    let table = table(&COLUMNS, &["id"]);
    PlannedStatement::upserting(text, &table, &[INT8, INT4], vec![column("n", 23)])
}

fn nothing(target: &str) -> PlannedStatement {
    let text =
        format!("INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT{target} DO NOTHING RETURNING n");
    let table = table(&COLUMNS, &["id"]);
    PlannedStatement::upserting(&text, &table, &[INT8, INT4], vec![column("n", 23)])
}

fn group(statement: &mut PlannedStatement, keys: &[&str]) -> Vec<PlannedRequest> {
    keys.iter()
        .map(|key| statement.texts(&[key, "1"]))
        .collect()
}

fn a_server() -> ServerSide {
    ServerSide::new(SettingsInterner::default().none(), 100)
}

fn leave<'a>(members: &[PlannedRequest], server: &'a mut ServerSide) -> GroupRun<'a> {
    let prelude = Prelude::new(&Templates::default());
    GroupRun::send(Strategy::Merge, members, &prelude, server).expect("these members share a group")
}

/// A row of the INSERT's result.
fn inserted(key: i64, n: &[u8]) -> Wire {
    values(&[unchanged(true), Some(&key.to_be_bytes()), Some(n)])
}

/// The only row of a result in which no row was inserted.
fn none(same_facts: bool) -> Wire {
    values(&[unchanged(same_facts), None, None])
}

/// A row of the fold's result.
fn folded(number: i32, n: &[u8]) -> Wire {
    values(&[
        unchanged(true),
        Some(&number.to_be_bytes()),
        Some(&[1]),
        Some(&[1]),
        Some(n),
    ])
}

fn none_updated() -> Wire {
    values(&[unchanged(true), None, None, None, None])
}

#[test]
fn the_first_member_is_inserted_and_the_others_update_its_row() {
    let mut counter = counter();
    let members = group(&mut counter, &["7", "8", "7", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    assert_eq!(
        run.sent()
            .iter()
            .filter(|line| line.contains("Execute"))
            .count(),
        2
    );
    let rows = [
        [parsed(), bound(), inserted(7, b"1"), complete("SELECT 1")].concat(),
        // Ordered by row, then by arrival: 7 7 7 8.
        [
            parsed(),
            bound(),
            folded(2, b"2"),
            folded(3, b"3"),
            folded(4, b"9"),
            complete("SELECT 3"),
        ]
        .concat(),
    ];
    assert!(
        run.answer(rows).is_empty(),
        "no member is answered before the commit"
    );
    let mut results = run.answer([ready('I')]);
    results.sort();
    let expected = [
        "0: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
        "1: parsed, bound, columns n, row 9, INSERT 0 1, ready I",
        "2: parsed, bound, columns n, row 2, INSERT 0 1, ready I",
        "3: parsed, bound, columns n, row 3, INSERT 0 1, ready I",
    ];
    assert_eq!(results, expected);
    assert!(!run.batch.failed() && run.batch.invalidation().is_none());
    assert_eq!(have_analysis_time(&run.sent), [false, false]);
    let run = leave(&members, &mut server);
    assert_eq!(have_analysis_time(&run.sent), [true, true]);
}

#[test]
fn members_on_deleted_or_locked_rows_are_retried() {
    let mut counter = counter();
    // On one row the member is retried alone, because only an index may take its key for equal to the existing one.
    for (keys, how) in [(["7", "7"], "Alone"), (["7", "8"], "Row")] {
        let members = group(&mut counter, &keys);
        let mut server = a_server();
        let mut run = leave(&members, &mut server);
        let results = run.answer([
            none(true),
            complete("SELECT 1"),
            none_updated(),
            complete("SELECT 1"),
            ready('I'),
        ]);
        let retried = [0, 1].map(|member| format!("{member}: retry {how}"));
        assert_eq!(results, retried);
    }
}

#[test]
fn a_member_with_an_existing_key_inserts_nothing() {
    let mut nothing = nothing(" (id)");
    let mut server = a_server();
    let members = group(&mut nothing, &["7", "8"]);
    let mut run = leave(&members, &mut server);
    let results = run.answer([inserted(7, b"1"), complete("SELECT 1"), ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
        "1: parsed, bound, columns n, INSERT 0 0, ready I",
    ];
    assert_eq!(results, expected);
}

/// Another session has deleted row 7 after the first member had met it.
#[test]
fn of_members_with_one_key_the_one_whose_row_was_inserted_is_told() {
    let mut nothing = nothing(" (id)");
    let members = group(&mut nothing, &["7", "8", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let third = values(&[unchanged(true), Some(&3_i32.to_be_bytes()), Some(b"1")]);
    let results = run.answer([third, complete("SELECT 1"), ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, INSERT 0 0, ready I",
        "1: parsed, bound, columns n, INSERT 0 0, ready I",
        "2: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
    ];
    assert_eq!(results, expected);
}

#[test]
fn if_another_key_may_conflict_the_second_member_on_a_row_returns_to_the_line() {
    let mut nothing = nothing("");
    let members = group(&mut nothing, &["7", "8", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([inserted(8, b"1"), complete("SELECT 1"), ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, INSERT 0 0, ready I",
        "1: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
        "2: retry Line",
    ];
    assert_eq!(results, expected);
}

#[test]
fn errors_undo_and_retry_all_members() {
    let mut nothing = nothing(" (id)");
    let members = group(&mut nothing, &["7", "8"]);
    for (error, expected, invalidates) in [
        (
            error("23514", "a check"),
            ["0: retry FirstHalf", "1: retry SecondHalf"],
            false,
        ),
        (
            error("55P03", "canceling statement due to lock timeout"),
            ["0: retry Alone", "1: retry Alone"],
            false,
        ),
        (
            error("42501", "permission denied for table t"),
            ["0: retry Alone", "1: retry Alone"],
            true,
        ),
    ] {
        let mut server = a_server();
        let mut run = leave(&members, &mut server);
        assert_eq!(run.answer([error, ready('I')]), expected);
        assert_eq!(run.batch.invalidation().is_some(), invalidates);
        assert!(run.batch.failed());
    }
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([none(false), complete("SELECT 1"), ready('I')]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert_eq!(run.batch.invalidation(), Some(Invalidation::Changed));
}

#[test]
fn a_committed_row_with_an_unknown_key_is_reported() {
    let mut nothing = nothing(" (id)");
    let members = group(&mut nothing, &["7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([inserted(9, b"1"), complete("SELECT 1"), ready('I')]);
    assert!(
        results.iter().all(|line| line.contains("08007")),
        "{results:?}"
    );
}

#[test]
fn keys_that_a_column_may_store_differently_run_alone() {
    let sql = "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
    let words = table(&[("id", TEXT), ("n", INT4)], &["id"]);
    let mut words = PlannedStatement::upserting(sql, &words, &[TEXT, INT4], Vec::new());
    let plan = words.plan.clone();
    assert!(plan.group_and_keys(&words.texts(&["a b", "1"])).is_some());
    assert_eq!(plan.group_and_keys(&words.texts(&["a ", "1"])), None);
    let null = words.bound(&[(false, None), (false, Some(b"1"))]);
    assert_eq!(plan.group_and_keys(&null), None);
    // Only PostgreSQL can compare numerics: only equal bytes share a group.
    let prices = table(&[("id", NUMERIC), ("n", INT4)], &["id"]);
    let mut prices = PlannedStatement::upserting(sql, &prices, &[NUMERIC, INT4], Vec::new());
    let plan = prices.plan.clone();
    let mut group = |price: &str| {
        plan.group_and_keys(&prices.texts(&[price, "1"]))
            .expect("these members share a group")
            .0
    };
    assert_eq!(group("1.0"), group("1.0"));
    assert_ne!(group("1.0"), group("1.00"));
}

/// Rows are inserted, and then the fold reports changed facts: members with inserted rows are answered, the others are retried.
#[test]
fn inserted_members_are_answered_even_if_facts_change_before_the_fold() {
    let mut counter = counter();
    let members = group(&mut counter, &["7", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let changed = values(&[unchanged(false), None, None, None, None]);
    let insert = [parsed(), bound(), inserted(7, b"1"), complete("SELECT 1")].concat();
    let fold = [parsed(), bound(), changed, complete("SELECT 1")].concat();
    let results = run.answer([insert, fold, ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
        "1: retry Alone",
    ];
    assert_eq!(results, expected);
    assert_eq!(run.batch.invalidation(), Some(Invalidation::Changed));
}

/// The same statement with the proposed value.
fn excluded() -> PlannedStatement {
    let text = "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = t.n + EXCLUDED.n RETURNING n";
    let table = table(&COLUMNS, &["id"]);
    PlannedStatement::upserting(text, &table, &[INT8, INT4], vec![column("n", 23)])
}

#[test]
fn members_on_different_keys_need_one_statement() {
    let mut excluded = excluded();
    let members = group(&mut excluded, &["7", "8", "9"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let executes = |run: &GroupRun<'_>| {
        run.sent()
            .iter()
            .filter(|line| line.contains("Execute"))
            .count()
    };
    assert_eq!(executes(&run), 1);
    let results = run.answer([
        inserted(9, b"1"),
        inserted(7, b"4"),
        complete("SELECT 2"),
        ready('I'),
    ]);
    let expected = [
        "0: parsed, bound, columns n, row 4, INSERT 0 1, ready I",
        "1: parsed, bound, columns n, INSERT 0 0, ready I",
        "2: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
    ];
    assert_eq!(results, expected);
    // After an error, groups use two statements for a while.
    let mut run = leave(&members, &mut server);
    let results = run.answer([
        error("55P03", "canceling statement due to lock timeout"),
        ready('I'),
    ]);
    assert_eq!(results, ["0: retry Line", "1: retry Line", "2: retry Line"]);
    assert_eq!(executes(&leave(&members, &mut server)), 2);
    let twice = group(&mut excluded, &["7", "8", "7"]);
    assert_eq!(executes(&leave(&twice, &mut server)), 2);
}

//! Upserts without a server: who fits, what is sent, and what each member gets for what comes back.

use crate::strategy::Invalidation;
use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::testing::fold_statement::{INT4, INT8, NUMERIC, TEXT, Type, table};
use crate::testing::group_run::GroupRun;
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsBook;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;

const COLUMNS: [(&str, Type); 2] = [("id", INT8), ("n", INT4)];

/// Counts up `$2` on row `$1`.
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
    ServerSide::new(SettingsBook::default().none(), 100)
}

fn leave<'a>(members: &[PlannedRequest], server: &'a mut ServerSide) -> GroupRun<'a> {
    let prelude = Prelude::new(&Templates::default());
    GroupRun::send(Strategy::Merge, members, &prelude, server).expect("it travels")
}

/// A row of the INSERT's result.
fn inserted(key: i64, n: &[u8]) -> Wire {
    values(&[Some(&[1]), Some(&key.to_be_bytes()), Some(n)])
}

/// The one row of a result in which nothing was inserted.
fn none(same_facts: u8) -> Wire {
    values(&[Some(&[same_facts]), None, None])
}

/// A row of the fold's result.
fn folded(number: i32, n: &[u8]) -> Wire {
    values(&[
        Some(&[1]),
        Some(&number.to_be_bytes()),
        Some(&[1]),
        Some(&[1]),
        Some(n),
    ])
}

fn nobody_folded() -> Wire {
    values(&[Some(&[1]), None, None, None, None])
}

#[test]
fn who_is_first_is_inserted_and_the_others_are_applied_to_its_row() {
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
        // In order of (row, arrival): 7 7 7 8.
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
        "nobody hears of it before the commit"
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
}

#[test]
fn a_row_that_is_gone_again_or_locked_by_an_outsider_is_tried_again() {
    let mut counter = counter();
    // On one row, alone: it may be equal to the one that is there for an index only.
    for (keys, how) in [(["7", "7"], "Alone"), (["7", "8"], "Row")] {
        let members = group(&mut counter, &keys);
        let mut server = a_server();
        let mut run = leave(&members, &mut server);
        let results = run.answer([
            none(1),
            complete("SELECT 1"),
            nobody_folded(),
            complete("SELECT 1"),
            ready('I'),
        ]);
        let retried = [0, 1].map(|member| format!("{member}: retry {how}"));
        assert_eq!(results, retried);
    }
}

#[test]
fn who_meets_a_row_gets_nothing() {
    let mut nothing = nothing(" (id)");
    let members = group(&mut nothing, &["7", "8", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([inserted(7, b"1"), complete("SELECT 1"), ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
        "1: parsed, bound, columns n, INSERT 0 0, ready I",
        "2: parsed, bound, columns n, INSERT 0 0, ready I",
    ];
    assert_eq!(results, expected);
}

#[test]
fn where_the_conflict_may_be_with_another_key_the_second_on_a_row_goes_another_time() {
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
fn errors_undo_all_and_send_them_again() {
    let mut nothing = nothing(" (id)");
    let members = group(&mut nothing, &["7", "8"]);
    for (error, expected, void) in [
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
        assert_eq!(run.batch.invalidation().is_some(), void);
        assert!(run.batch.failed());
    }
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([none(0), complete("SELECT 1"), ready('I')]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert_eq!(run.batch.invalidation(), Some(Invalidation::Changed));
}

#[test]
fn a_committed_row_that_is_nobodys_is_not_kept_quiet() {
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
fn keys_that_may_come_back_as_something_else_do_not_travel() {
    let sql = "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
    let words = table(&[("id", TEXT), ("n", INT4)], &["id"]);
    let mut words = PlannedStatement::upserting(sql, &words, &[TEXT, INT4], Vec::new());
    let plan = words.plan.clone();
    assert!(plan.fits(&words.texts(&["a b", "1"])).is_some());
    assert_eq!(plan.fits(&words.texts(&["a ", "1"])), None);
    let null = words.bound(&[(false, None), (false, Some(b"1"))]);
    assert_eq!(plan.fits(&null), None);
    // Only PostgreSQL can tell numerics apart: they travel with their equals in bytes.
    let prices = table(&[("id", NUMERIC), ("n", INT4)], &["id"]);
    let mut prices = PlannedStatement::upserting(sql, &prices, &[NUMERIC, INT4], Vec::new());
    let plan = prices.plan.clone();
    let mut group = |price: &str| {
        plan.fits(&prices.texts(&[price, "1"]))
            .expect("it travels")
            .0
    };
    assert_eq!(group("1.0"), group("1.0"));
    assert_ne!(group("1.0"), group("1.00"));
}

/// It has inserted, and the fold behind it finds that facts have moved: what is inserted is answered, the rest goes again.
#[test]
fn who_was_inserted_is_answered_even_if_facts_move_before_the_fold() {
    let mut counter = counter();
    let members = group(&mut counter, &["7", "7"]);
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let moved = values(&[Some(&[0]), None, None, None, None]);
    let insert = [parsed(), bound(), inserted(7, b"1"), complete("SELECT 1")].concat();
    let fold = [parsed(), bound(), moved, complete("SELECT 1")].concat();
    let results = run.answer([insert, fold, ready('I')]);
    let expected = [
        "0: parsed, bound, columns n, row 1, INSERT 0 1, ready I",
        "1: retry Alone",
    ];
    assert_eq!(results, expected);
    assert_eq!(run.batch.invalidation(), Some(Invalidation::Changed));
}

/// The same, with the proposed value.
fn excluded() -> PlannedStatement {
    let text = "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = t.n + EXCLUDED.n RETURNING n";
    let table = table(&COLUMNS, &["id"]);
    PlannedStatement::upserting(text, &table, &[INT8, INT4], vec![column("n", 23)])
}

#[test]
fn members_on_keys_of_their_own_need_one_statement() {
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
    // After an error they go by two for a while.
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

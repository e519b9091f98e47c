//! Scripts of users: they change the tables of the user and have no check.

use crate::support::{Awaited, Postgres, block_on, execute_briefly, failing, plan, working};
use paceline_bench::{Choice, Protocol, Record, Script, Stage};
use std::sync::Arc;

const CLIENTS: usize = 4;

const TRANSFER: &str = "\
\\set amount random(1, 100)
\\set here :client_id * 2 + 1
\\set there :here + 1
BEGIN;
UPDATE account SET balance = balance - :amount
  WHERE id = :here; -- one side
UPDATE account SET balance = balance + :amount, note = ':amount'::text WHERE id = :there;
COMMIT;
INSERT INTO journal VALUES (:here, :amount, :city);
";

const SETUP: &str = "\
CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, note text);
INSERT INTO account SELECT g, 0, '' FROM generate_series(1, 100) g;
CREATE TABLE journal (id int, amount bigint, city text);
VACUUM ANALYZE account;
";

fn script(text: &str) -> Arc<Script> {
    let definitions = [("city".to_owned(), "42".to_owned())];
    Arc::new(Script::parse("test.sql", text, &definitions).unwrap())
}

fn run(postgres: &Postgres, text: &str, protocol: Protocol, awaited: Awaited) -> Record {
    let mut plan = plan(postgres, vec![Choice::of_script(script(text), &[CLIENTS])]);
    plan.sizes.protocol = protocol;
    execute_briefly(&plan, awaited).pop().unwrap()
}

async fn number(postgres: &Postgres, sql: &str) -> i64 {
    let outsider = postgres.outsider().await;
    outsider.query_one(sql, &[]).await.unwrap().get(0)
}

#[test]
fn a_script_has_the_same_effect_in_every_protocol() {
    let postgres = Postgres::start();
    block_on(script(SETUP).run_once(&postgres.target())).unwrap();
    let mut runs = 0;
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let record = run(&postgres, TRANSFER, protocol, working);
        let ran = record.ran().unwrap();
        assert!(ran.units > 0 && ran.errors.is_empty(), "{ran:?}");
        assert_eq!((&ran.check, ran.cost.dead_rows), (&None, None));
        assert_eq!(
            (record.scenario.as_str(), record.variant.as_str()),
            ("sql", "test.sql")
        );
        let table = paceline_bench::table(std::slice::from_ref(&record), false);
        assert!(
            table.contains("no check") && !table.contains("✓"),
            "{table}"
        );
        assert!(paceline_bench::all_hold(std::slice::from_ref(&record)));
        // Units that end after the measured time are executed but not counted.
        let rows = block_on(number(&postgres, "SELECT count(*) FROM journal"));
        runs += i64::try_from(ran.units).unwrap();
        let late = i64::try_from(CLIENTS).unwrap() * 3;
        assert!(
            (runs..=runs + late).contains(&rows),
            "{runs} runs, {rows} rows"
        );
    }
    let moved = "SELECT sum(balance)::bigint FROM account WHERE id % 2 = 0";
    let entered = "SELECT sum(amount)::bigint FROM journal";
    assert_eq!(
        block_on(number(&postgres, moved)),
        block_on(number(&postgres, entered))
    );
    let untouched =
        "SELECT count(*) FROM account WHERE balance <> 0 AND id > 8 OR note NOT IN ('', ':amount')";
    assert_eq!(block_on(number(&postgres, untouched)), 0);
    assert!(postgres.is_clean());
}

#[test]
fn errors_are_counted_and_their_transactions_rolled_back() {
    let postgres = Postgres::start();
    let target = postgres.target();
    block_on(
        script("CREATE TABLE once (id int PRIMARY KEY); CREATE TABLE tried (id int);")
            .run_once(&target),
    )
    .unwrap();
    let text = "BEGIN; INSERT INTO tried VALUES (:client_id); INSERT INTO once VALUES (:client_id); COMMIT;";
    let record = run(&postgres, text, Protocol::Prepared, failing);
    let errors = &record.ran().unwrap().errors;
    assert!(errors["23505"].count > 0, "{errors:?}");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(block_on(number(&postgres, "SELECT count(*) FROM tried")), 4);

    let record = run(
        &postgres,
        "\\set x 1 / (:client_id - 2)\nSELECT :x::int;",
        Protocol::Prepared,
        working,
    );
    let ran = record.ran().unwrap();
    assert_eq!(
        ran.errors["22012"].first,
        "test.sql:1: division by zero (SQLSTATE 22012)"
    );
    assert!(
        ran.units > 0,
        "one client that fails leaves the others no time"
    );
}

#[test]
fn a_script_ends_at_its_first_error() {
    let postgres = Postgres::start();
    let failing = script("CREATE TABLE a (); CREATE TABLE a (); CREATE TABLE b ();");
    let failure = block_on(failing.run_once(&postgres.target())).unwrap_err();
    assert_eq!(failure.kind(), "42P07");
    let tables = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname IN ('a', 'b')";
    assert_eq!(block_on(number(&postgres, tables)), 1);
}

/// Failed turns beyond the first turn of each client.
fn failing_often(stage: Stage) -> bool {
    matches!(stage, Stage::Running { failed, .. } if failed > CLIENTS as u64)
}

#[test]
fn a_statement_that_fails_on_first_execution_is_not_prepared_twice() {
    let postgres = Postgres::start();
    let record = run(
        &postgres,
        "SELECT 1 / (:client_id - 2 + 0 * :city);",
        Protocol::Prepared,
        failing_often,
    );
    let errors = &record.ran().unwrap().errors;
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["22012"], "{errors:?}");
}

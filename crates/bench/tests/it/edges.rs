//! The edge store.

use crate::trial::{Outsider, Short, Trial};
use paceline_bench::Protocol;

fn edges(variant: &'static str, clients: usize) -> Short {
    Short {
        scenario: "edges",
        variant,
        clients,
        rows: 6_000,
        protocol: Protocol::Prepared,
    }
}

const VARIANTS: [&str; 6] = [
    "upsert",
    "five-statements",
    "short-connections",
    "bounded-pool",
    "upsert-degree",
    "mixed",
];

#[test]
fn every_edge_holds_its_newest_write_in_every_variant() {
    let trial = Trial::start(60);
    for variant in VARIANTS {
        let ran = trial.run(edges(variant, 40));
        assert!(
            ran.check.as_ref().unwrap().holds,
            "{variant}: {}",
            ran.check.as_ref().unwrap().says
        );
        assert!(ran.units > 0, "{variant}: nothing was done");
        // Two clients inserted the same edge at the same time; the transaction does not handle that.
        let other = ran.errors.keys().find(|kind| *kind != "23505");
        assert_eq!(other, None, "{variant}: {:?}", ran.errors);
        assert!(trial.is_clean(), "{variant} left something behind");
    }
    let simple = Short {
        protocol: Protocol::Simple,
        ..edges("mixed", 8)
    };
    let ran = trial.run(simple);
    assert!(
        ran.check.as_ref().unwrap().holds && ran.errors.is_empty(),
        "{ran:?}"
    );
}

#[test]
fn the_check_detects_changes_by_an_outsider() {
    let trial = Trial::start(60);
    let cases = [
        (
            "upsert",
            "DELETE FROM paceline_lab.edge WHERE (id, target) = \
             (SELECT id, target FROM paceline_lab.edge LIMIT 1)",
            ": 0 are not at their newest, 1 are missing",
        ),
        (
            "upsert",
            "INSERT INTO paceline_lab.edge VALUES (0, 0, 0, 0)",
            ": 1 are not at their newest, 0 are missing",
        ),
        (
            "mixed",
            "UPDATE paceline_lab.edge SET unixnano = unixnano - 1 WHERE id = 1",
            " are not at their newest, 0 are missing",
        ),
        (
            "five-statements",
            "UPDATE paceline_lab.degree SET degree = degree + 1 WHERE id = 1",
            "1 degrees are not the number of set edges",
        ),
        (
            "upsert-degree",
            "DELETE FROM paceline_lab.degree WHERE id = 1",
            "1 degrees are not the number of set edges",
        ),
    ];
    for (variant, sql, words) in cases {
        let ran = trial.run_with(edges(variant, 4), Outsider::After(sql));
        assert!(
            !ran.check.as_ref().unwrap().holds,
            "{variant}, {sql}: {}",
            ran.check.as_ref().unwrap().says
        );
        assert!(
            ran.check.as_ref().unwrap().says.contains(words),
            "{sql}: {}",
            ran.check.as_ref().unwrap().says
        );
    }
}

#[test]
fn a_bounded_pool_uses_no_more_connections_than_its_size() {
    // 32 connections of the pool, and those of the lab.
    let trial = Trial::start(40);
    let count = "DO $$ BEGIN ASSERT 40 >= (SELECT sessions FROM pg_stat_database \
         WHERE datname = current_database()), 'connections are not kept'; END $$";
    let ran = trial.run_with(edges("bounded-pool", 60), Outsider::After(count));
    assert!(
        ran.check.as_ref().unwrap().holds,
        "{}",
        ran.check.as_ref().unwrap().says
    );
    assert!(!ran.errors.contains_key("53300"), "{:?}", ran.errors);
    let why = trial.refusal(edges("five-statements", 60));
    assert!(why.contains("53300"), "{why}");
}

#[test]
fn rejected_short_connections_are_counted() {
    let trial = Trial::start(10);
    let ran = trial.run(edges("short-connections", 40));
    assert!(
        ran.check.as_ref().unwrap().holds,
        "{}",
        ran.check.as_ref().unwrap().says
    );
    assert!(ran.units > 0);
    let refused = ran.errors.get("53300").map_or(0, |errors| errors.count);
    assert!(refused > 0, "{:?}", ran.errors);
}

#[test]
fn a_write_on_a_terminated_connection_may_have_been_executed() {
    let trial = Trial::start(60);
    // First terminates all clients except the connection of the lab, which is the oldest, at any point: a write may have
    // been executed. Then terminates a client that is certainly in a statement, because it waits for the lock on the
    // table. Both loops poll for their condition; if it is not met, the last attempt raises an error.
    let end = "DO $$ DECLARE ended int := 0; more int; BEGIN FOR attempt IN 1..10000 LOOP \
         SELECT count(pg_terminate_backend(pid)) INTO more FROM pg_stat_activity \
         WHERE application_name = 'paceline bench' AND backend_start > (SELECT min(backend_start) \
         FROM pg_stat_activity WHERE application_name = 'paceline bench'); \
         ended := ended + more; EXIT WHEN ended >= 10; \
         PERFORM pg_stat_clear_snapshot(), pg_sleep(0.001); END LOOP; \
         IF ended < 10 THEN RAISE 'too few clients'; END IF; LOCK paceline_lab.edge; FOR attempt IN 1..10000 LOOP \
         SELECT count(pg_terminate_backend(pid)) INTO more FROM pg_locks \
         WHERE relation = 'paceline_lab.edge'::regclass AND NOT granted; EXIT WHEN more > 0; \
         PERFORM pg_sleep(0.001); END LOOP; IF more = 0 THEN RAISE 'no client waits'; END IF; END $$";
    for variant in VARIANTS {
        let ran = trial.run_with(edges(variant, 20), Outsider::Amid(end));
        assert!(
            ran.check.as_ref().unwrap().holds,
            "{variant}: {}",
            ran.check.as_ref().unwrap().says
        );
        let ended = ["57P01", "lost"].map(|kind| ran.errors.contains_key(kind));
        assert!(ended.contains(&true), "{variant}: {:?}", ran.errors);
    }
}

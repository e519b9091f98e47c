//! `queue_reorder_time`: groups of consumers that start at a position of the queue. Rows that become visible before it are
//! taken within the time, or as soon as the rest is not enough.

use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

const SETUP: &str = "CREATE TABLE q (id int PRIMARY KEY)";
const TAKE: &str = "DELETE FROM q WHERE id = \
    (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";

/// Longer than any test: only the first group, and those with too few rows, read the whole queue.
const LONG: &str = "1h";

/// A stage with one server connection. `None` when PostgreSQL is the target: it takes all rows in order.
fn stage(reorder_time: &str, setup: &str) -> Option<Stage> {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true")
        .set(&format!("queue_reorder_time={reorder_time}"))
        .open();
    stage.direct().ok(setup);
    (stage.target() == Target::Paceline).then_some(stage)
}

/// A client whose statement Paceline has analyzed.
fn consumer(stage: &Stage, take: &str) -> RawClient {
    let mut client = stage.client();
    client.ask(&unit(take, &[])).expect_ok(take);
    stage.await_analysis();
    client
}

/// The order that a consumer gets; `None` if there was no row.
fn taken(client: &mut RawClient, take: &str) -> Option<i64> {
    let rows = client.ask(&unit(take, &[])).expect_ok(take).rows();
    let value = rows.first()?.first()?.as_ref()?;
    Some(value.parse().unwrap())
}

fn all_taken(client: &mut RawClient, take: &str) -> Vec<i64> {
    std::iter::from_fn(|| taken(client, take)).collect()
}

fn fill(direct: &mut RawClient, from: i64, to: i64) {
    direct.ok(&format!(
        "INSERT INTO q SELECT generate_series({from}, {to})"
    ));
}

#[test]
fn a_late_commit_before_the_position_is_taken_when_the_rest_is_not_enough() {
    let Some(stage) = stage(LONG, SETUP) else {
        return;
    };
    let (mut direct, mut late) = (stage.direct(), stage.direct());
    let mut client = consumer(&stage, TAKE);
    fill(&mut direct, 10, 16);
    assert_eq!(taken(&mut client, TAKE), Some(10));
    late.ok("BEGIN; INSERT INTO q VALUES (5)");
    assert_eq!(taken(&mut client, TAKE), Some(11));
    late.ok("COMMIT");
    assert_eq!(all_taken(&mut client, TAKE), [12, 13, 14, 15, 16, 5]);
    // An empty answer is an answer about the whole queue.
    direct.ok("INSERT INTO q VALUES (1)");
    assert_eq!(all_taken(&mut client, TAKE), [1]);
}

#[test]
fn a_row_that_is_given_back_before_the_position_is_taken_when_the_rest_is_not_enough() {
    let Some(stage) = stage(LONG, SETUP) else {
        return;
    };
    let (mut direct, mut outsider) = (stage.direct(), stage.direct());
    let mut client = consumer(&stage, TAKE);
    fill(&mut direct, 1, 6);
    assert_eq!(taken(&mut client, TAKE), Some(1));
    outsider.ok("BEGIN; DELETE FROM q WHERE id = 2");
    assert_eq!(taken(&mut client, TAKE), Some(3));
    outsider.ok("ROLLBACK");
    assert_eq!(all_taken(&mut client, TAKE), [4, 5, 6, 2]);
}

#[test]
fn rows_before_the_position_are_taken_within_the_time_however_many_are_behind() {
    let Some(stage) = stage("50ms", SETUP) else {
        return;
    };
    let (mut direct, mut outsider) = (stage.direct(), stage.direct());
    let mut client = consumer(&stage, TAKE);
    fill(&mut direct, 1_000, 1_010);
    outsider.ok("BEGIN; DELETE FROM q WHERE id = 1000");
    assert_eq!(taken(&mut client, TAKE), Some(1_001));
    direct.ok("INSERT INTO q VALUES (5)");
    outsider.ok("ROLLBACK");
    let mut next = 1_011;
    let mut early = Vec::new();
    until("the rows before the position are taken", || {
        // The queue never becomes empty.
        fill(&mut direct, next, next);
        next += 1;
        let row = taken(&mut client, TAKE).expect("a row");
        early.extend((row <= 1_000).then_some(row));
        early.len() == 2
    });
    assert_eq!(early, [5, 1_000]);
}

#[test]
fn a_group_of_several_consumers_gets_the_earlier_rows_first() {
    let Some(stage) = stage(LONG, SETUP) else {
        return;
    };
    let mut direct = stage.direct();
    let mut client = consumer(&stage, TAKE);
    fill(&mut direct, 10, 13);
    assert_eq!(taken(&mut client, TAKE), Some(10));
    fill(&mut direct, 1, 2);
    let mut gate = Gate::close(&stage);
    let mut clients = stage.clients(6);
    for client in &mut clients {
        gate.submit(client, &unit(TAKE, &[]));
    }
    gate.open();
    let reply = |client: &mut RawClient| client.reply().expect_ok("a consumer").rows();
    let rows: Vec<_> = clients.iter_mut().flat_map(reply).flatten().collect();
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    assert_eq!(rows, ["1", "2", "11", "12", "13"]);
    stage.assert_grouped(6, 6);
}

const JOBS: &str = "CREATE TABLE job (id int PRIMARY KEY, priority smallint NOT NULL DEFAULT 0, \
        at timestamptz NOT NULL DEFAULT '2026-01-01', state text NOT NULL DEFAULT 'ready'); \
    CREATE INDEX ON job (state, priority DESC, at, id)";
const CLAIM: &str = "UPDATE job SET state = 'taken' WHERE id = (SELECT id FROM job WHERE state = 'ready' \
    ORDER BY priority DESC, at, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";

#[test]
fn an_urgent_job_behind_the_time_waits_only_while_others_are_enough() {
    let Some(stage) = stage(LONG, JOBS) else {
        return;
    };
    let mut direct = stage.direct();
    let mut client = consumer(&stage, CLAIM);
    direct.ok("INSERT INTO job SELECT i, i / 10 FROM generate_series(10, 34, 3) i");
    // 31 and 34 have priority 3.
    assert_eq!(taken(&mut client, CLAIM), Some(31));
    assert_eq!(taken(&mut client, CLAIM), Some(34));
    direct.ok("INSERT INTO job VALUES (1, 9), (2, 2), (3, 0)");
    let rest = [2, 22, 25, 28, 10, 13, 16, 19, 3, 1];
    assert_eq!(all_taken(&mut client, CLAIM), rest);
}

#[test]
fn a_retry_with_an_older_key_is_claimed_again() {
    let Some(stage) = stage(LONG, JOBS) else {
        return;
    };
    let mut direct = stage.direct();
    let mut client = consumer(&stage, CLAIM);
    direct.ok("INSERT INTO job (id) SELECT generate_series(1, 5)");
    assert_eq!(taken(&mut client, CLAIM), Some(1));
    assert_eq!(taken(&mut client, CLAIM), Some(2));
    direct.ok("UPDATE job SET state = 'ready', at = at - interval '1 day' WHERE id = 1");
    assert_eq!(all_taken(&mut client, CLAIM), [3, 4, 5, 1]);
    assert_eq!(
        direct.number("SELECT count(*) FROM job WHERE state = 'taken'"),
        5
    );
}

#[test]
fn orders_that_no_position_has_read_the_whole_queue() {
    let Some(stage) = stage(LONG, "CREATE TABLE q (id int PRIMARY KEY, at int)") else {
        return;
    };
    let mut direct = stage.direct();
    for order in ["at, id", "abs(id)", "id + 1"] {
        let take = TAKE.replace("ORDER BY id", &format!("ORDER BY {order}"));
        let mut client = consumer(&stage, &take);
        direct.ok("INSERT INTO q SELECT i, i FROM generate_series(10, 14) i");
        assert_eq!(taken(&mut client, &take), Some(10));
        assert_eq!(taken(&mut client, &take), Some(11));
        direct.ok("INSERT INTO q VALUES (1, 1)");
        assert_eq!(all_taken(&mut client, &take), [1, 12, 13, 14], "{order}");
    }
}

#[test]
fn a_partition_has_positions_and_the_whole_queue_has_none() {
    let partitioned = "CREATE TABLE q (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE q_low PARTITION OF q FOR VALUES FROM (1) TO (100)";
    let Some(stage) = stage(LONG, partitioned) else {
        return;
    };
    let mut direct = stage.direct();
    for (table, rest) in [("q", [5, 12, 13, 14]), ("q_low", [12, 13, 14, 5])] {
        let take = TAKE.replace("FROM q", &format!("FROM {table}"));
        let mut client = consumer(&stage, &take);
        fill(&mut direct, 10, 14);
        assert_eq!(taken(&mut client, &take), Some(10));
        assert_eq!(taken(&mut client, &take), Some(11));
        direct.ok("INSERT INTO q VALUES (5)");
        assert_eq!(all_taken(&mut client, &take), rest, "{table}");
    }
}

/// Number of index entries that a take reads after 3,000 others, while a transaction keeps their dead rows.
fn entries_read(reorder_time: &str) -> Option<i64> {
    const READ: &str =
        "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'q_pkey'";
    let stage = stage(reorder_time, SETUP)?;
    let mut direct = stage.direct();
    if direct.number("SHOW server_version_num") < 150_000 {
        println!("skipped: PostgreSQL 15 and later write statistics on demand");
        return None;
    }
    let mut client = consumer(&stage, TAKE);
    fill(&mut direct, 1, 4_000);
    // PostgreSQL uses the index.
    direct.ok("VACUUM (ANALYZE) q");
    let mut idle = stage.direct();
    idle.ok("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM q LIMIT 1");
    let many = TAKE
        .replace("id =", "id IN")
        .replace("LIMIT 1", "LIMIT 100");
    client.ask(&unit(&many, &[])).expect_ok("a batch");
    stage.await_analysis();
    for _ in 0..29 {
        client.ask(&unit(&many, &[])).expect_ok("a batch");
    }
    // The positions of the two templates are their own.
    assert_eq!(taken(&mut client, TAKE), Some(3_001));
    client.ok("SELECT pg_stat_force_next_flush()");
    let before = direct.number(READ);
    assert_eq!(taken(&mut client, TAKE), Some(3_002));
    client.ok("SELECT pg_stat_force_next_flush()");
    Some(direct.number(READ) - before)
}

#[test]
fn under_a_pinned_horizon_a_group_does_not_read_the_dead_rows() {
    let Some((whole, short)) = entries_read("0").zip(entries_read(LONG)) else {
        return;
    };
    assert!(whole >= 3_000, "{whole} entries");
    assert!(short <= 20, "{short} entries");
}

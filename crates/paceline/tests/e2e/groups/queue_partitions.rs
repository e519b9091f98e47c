//! Consumers that name a partition of a queue: they are grouped like consumers of a table of its own.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::harness::driver::connect;
use crate::harness::message::{query, unit};
use crate::harness::stage::Target;
use crate::harness::together::Tables;
use crate::harness::{Gate, Stage, until, wait};

const SETUP: &str = "
    CREATE TABLE q (id bigint PRIMARY KEY, lane int NOT NULL, prio int, body text NOT NULL, state text NOT NULL, worker int, cost int NOT NULL)
        PARTITION BY HASH (id);
    CREATE TABLE q_0 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 0) WITH (autovacuum_enabled = off);
    CREATE TABLE q_1 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 1) WITH (autovacuum_enabled = off);
    CREATE TABLE done (id bigint PRIMARY KEY, body text, worker int) PARTITION BY HASH (id);
    CREATE TABLE done_0 PARTITION OF done FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE done_1 PARTITION OF done FOR VALUES WITH (MODULUS 2, REMAINDER 1)";
const TABLES: Tables = Tables {
    fill: "DELETE FROM q; DELETE FROM done;
        INSERT INTO q SELECT i, i % 2, NULLIF((i * 7) % 5, 0), 'body ' || i, 'ready', NULL, 5 FROM generate_series(1, 40) i",
    content: "SELECT 'q', id, body, state, worker FROM q UNION ALL SELECT 'done', id, body, NULL, worker FROM done ORDER BY 1, 2",
};

/// Statements of consumers that are grouped; `$1` is the consumer's number, `$2` the lane.
const TOGETHER: [&str; 8] = [
    "DELETE FROM q_1 WHERE id = (SELECT id FROM q_1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *, $1::int",
    "DELETE FROM q_1 WHERE id IN (SELECT id FROM q_1 WHERE lane = $2 ORDER BY prio DESC NULLS LAST, id LIMIT 2 FOR UPDATE) RETURNING id, prio",
    "DELETE FROM q_1 WHERE ctid = (SELECT ctid FROM q_1 WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1) RETURNING id, body",
    "UPDATE q_1 SET state = 'taken by ' || $1, worker = $1::int WHERE ctid = ANY (ARRAY(SELECT ctid FROM q_1 WHERE state = 'ready' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED)) RETURNING id, state",
    "WITH t AS (DELETE FROM q_1 WHERE id = (SELECT id FROM q_1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body) INSERT INTO done SELECT id, body, $1::int FROM t RETURNING id",
    "WITH t AS (DELETE FROM q_1 WHERE id = (SELECT id FROM q_1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body) INSERT INTO done_1 SELECT id, body, $1::int FROM t RETURNING id",
    // The partition is named by a condition.
    "DELETE FROM q WHERE id = (SELECT id FROM q WHERE satisfies_hash_partition('q'::regclass, 2, 1, id) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
    "DELETE FROM q_1 AS a WHERE a.id = (SELECT b.id FROM q_1 b WHERE satisfies_hash_partition('q'::regclass, 4, 3, b.id) ORDER BY b.id LIMIT 1 FOR UPDATE OF b SKIP LOCKED) RETURNING a.id",
];

/// Statements that are not grouped: no consumers, not all of it in the partition, or back into the queue.
const ALONE: [&str; 6] = [
    "UPDATE q_1 SET cost = cost + 1, worker = $1::int WHERE id = 3 RETURNING cost",
    "INSERT INTO done_1 VALUES ($1::int, 'bounds', 0) RETURNING id",
    "INSERT INTO done_1 VALUES ($1::int, 'bounds', 0) ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body RETURNING id",
    "DELETE FROM q WHERE id = (SELECT id FROM q_1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
    "WITH t AS (DELETE FROM q_1 WHERE id = (SELECT id FROM q_1 ORDER BY id LIMIT 1) RETURNING *) INSERT INTO q SELECT id + 100, lane, prio, body, state, $1::int, cost FROM t RETURNING id",
    "DELETE FROM q WHERE id = (SELECT id FROM q WHERE tableoid = 'q_1'::regclass ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
];

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

#[track_caller]
fn assert_not_grouped(stage: &Stage) {
    let counters = stage.counters();
    assert_eq!(counters.groups, 0, "{counters:?}");
}

#[test]
fn each_consumer_gets_its_rows_by_the_extended_protocol() {
    TABLES.compare_groups(&stage(), &TOGETHER, true);
}

#[test]
fn each_consumer_gets_its_rows_by_the_simple_protocol() {
    TABLES.compare_groups(&stage(), &TOGETHER, false);
}

#[test]
fn other_statements_that_name_a_partition_run_one_at_a_time() {
    let stage = stage();
    for sql in ALONE {
        TABLES.compare(&stage, sql, true);
    }
    assert_not_grouped(&stage);
}

/// A row that does not fit into its partition is an error of its consumer only.
#[test]
fn a_row_out_of_bounds() {
    let stage = stage();
    stage.direct().ok(
        "CREATE TABLE moved (id bigint, worker int) PARTITION BY RANGE (worker);
         CREATE TABLE moved_low PARTITION OF moved FOR VALUES FROM (0) TO (4);
         CREATE TABLE lanes (id bigint, lane int, body text) PARTITION BY RANGE (lane);
         CREATE TABLE lanes_low PARTITION OF lanes FOR VALUES FROM (0) TO (4)",
    );
    let tables = Tables {
        fill: "DELETE FROM q; DELETE FROM moved; DELETE FROM lanes;
            INSERT INTO q SELECT i, i % 2, 1, 'body ' || i, 'ready', NULL, 5 FROM generate_series(1, 40) i;
            INSERT INTO lanes SELECT i, 0, 'ready' FROM generate_series(1, 20) i",
        content: "SELECT 'q', id, 0 FROM q UNION ALL SELECT 'moved', id, worker FROM moved UNION ALL SELECT 'lanes', id, lane FROM lanes ORDER BY 1, 2",
    };
    for sql in [
        "WITH t AS (DELETE FROM q_1 WHERE id = (SELECT id FROM q_1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id) INSERT INTO moved_low SELECT id, $1::int FROM t RETURNING id, worker",
        "UPDATE lanes_low SET lane = $1::int, body = 'taken' WHERE ctid = (SELECT ctid FROM lanes_low WHERE body = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, lane",
    ] {
        let groups = stage.counters().groups;
        tables.compare(&stage, sql, true);
        let grouped = stage.counters().groups > groups || stage.target() == Target::Bare;
        assert!(grouped, "{sql}");
    }
}

/// The second row cannot be deleted before the third one, but both could be at once.
#[test]
fn a_foreign_key_of_the_whole_queue() {
    let stage = stage();
    stage
        .direct()
        .ok("ALTER TABLE q ADD after bigint REFERENCES q");
    let tables = Tables {
        fill: "DELETE FROM q; DELETE FROM done;
            INSERT INTO q SELECT i, i % 2, 1, 'body ' || i, 'ready', NULL, 5 FROM generate_series(1, 40) i;
            UPDATE q SET after = (SELECT id FROM q_1 ORDER BY id OFFSET 1 LIMIT 1) WHERE id = (SELECT id FROM q_1 ORDER BY id OFFSET 2 LIMIT 1)",
        ..TABLES
    };
    tables.compare(&stage, TOGETHER[0], true);
    assert_not_grouped(&stage);
}

/// PostgreSQL copies row triggers into partitions; before version 15 the copies were marked as internal.
#[test]
fn a_trigger_of_the_whole_queue() {
    let stage = stage();
    stage
        .direct()
        .ok("CREATE FUNCTION spare() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF (SELECT count(*) FROM q) > 35 THEN RETURN OLD; END IF; RETURN NULL; END $$;
         CREATE TRIGGER spare BEFORE DELETE ON q FOR EACH ROW EXECUTE FUNCTION spare()");
    stage
        .direct()
        .ok("UPDATE pg_trigger SET tgisinternal = true WHERE tgname = 'spare' AND tgrelid <> 'q'::regclass");
    let tables = Tables {
        fill: "TRUNCATE q; DELETE FROM done;
            INSERT INTO q SELECT i, i % 2, 1, 'body ' || i, 'ready', NULL, 5 FROM generate_series(1, 40) i",
        ..TABLES
    };
    tables.compare(&stage, TOGETHER[0], true);
    assert_not_grouped(&stage);
}

/// A foreign key of the whole queue is created while consumers of a partition are in the line. If the queue has had a
/// trigger before, `pg_class` does not change.
#[test]
fn a_foreign_key_that_is_created_meanwhile() {
    const TRIGGER: &str =
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
        CREATE TRIGGER nothing BEFORE DELETE ON q FOR EACH ROW EXECUTE FUNCTION nothing();
        DROP TRIGGER nothing ON q";
    for before in ["", TRIGGER] {
        let stage = stage();
        let mut direct = stage.direct();
        direct.ok("ALTER TABLE q ADD after bigint");
        direct.ok(before);
        let ask = unit(TOGETHER[0], &[Some("1")]);
        direct.ok(TABLES.fill);
        stage.client().ask(&ask).expect_ok("alone");
        stage.await_analysis();
        let mut clients = stage.clients(4);
        let mut gate = Gate::close(&stage);
        direct.ok(TABLES.fill);
        direct.ok("UPDATE q SET after = (SELECT min(id) FROM q_1)
            WHERE id = (SELECT min(id) FROM q_1 WHERE id > (SELECT min(id) FROM q_1));
            ALTER TABLE q ADD FOREIGN KEY (after) REFERENCES q");
        for client in &mut clients {
            gate.submit(client, &ask);
        }
        gate.open();
        for client in &mut clients {
            client.reply().expect_error("23503");
        }
    }
}

const ORDERS: i64 = 3_000;

/// Takes from a table until the queue is empty. Returns the bodies of the rows that it got.
async fn work_on(url: Arc<str>, table: &'static str, number: i32) -> Vec<String> {
    let client = connect(&url).await.unwrap();
    let key = if table == "q" { "id" } else { "ctid" };
    let take = format!(
        "WITH t AS (DELETE FROM {table} WHERE {key} = (SELECT {key} FROM {table} ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body) \
         INSERT INTO done SELECT id, body, $1::int FROM t RETURNING body"
    );
    let take = client.prepare(&take).await.unwrap();
    let mut got = Vec::new();
    let empty = "SELECT FROM q LIMIT 1";
    while client.query_opt(empty, &[]).await.unwrap().is_some() {
        // PostgreSQL reports a row that has moved to another partition as an error.
        if let Ok(rows) = client.query(&take, &[&number]).await {
            got.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        }
    }
    got
}

/// Moves rows to other ids, and so to other partitions, until the queue is empty.
async fn move_rows(url: Arc<str>) {
    let client = connect(&url).await.unwrap();
    let remaining = "SELECT count(*) FROM q";
    while client
        .query_one(remaining, &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        > 0
    {
        let _ = client
            .execute("UPDATE q SET id = id + 100000 WHERE id IN (SELECT id FROM q WHERE id < 100000 ORDER BY id LIMIT 3)", &[])
            .await;
    }
}

/// Consumers of the partitions and of the whole queue, while rows move between partitions and a partition is detached and
/// attached: every row is taken once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn moving_rows_and_partitions() {
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=3")
        .open();
    let mut direct = stage.direct();
    direct.ok(SETUP);
    direct.ok(&format!(
        "INSERT INTO q SELECT i, 0, 0, 'order ' || i, 'ready', NULL, 0 FROM generate_series(1, {ORDERS}) i"
    ));
    let mut consumers = JoinSet::new();
    for number in 0..10 {
        for table in ["q_0", "q_1", "q"] {
            consumers.spawn(work_on(stage.url().into(), table, number));
        }
    }
    let mut mover = JoinSet::new();
    mover.spawn(move_rows(stage.direct_url().into()));
    for step in 1..=4 {
        let target = ORDERS * step / 6;
        until("some orders are done", || {
            direct.number("SELECT count(*) FROM done") >= target
        });
        direct.ask(&query(
            "BEGIN; LOCK TABLE q IN ACCESS EXCLUSIVE MODE; ALTER TABLE q DETACH PARTITION q_1; \
             ALTER TABLE q ATTACH PARTITION q_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); COMMIT",
        ));
        direct.ask(&query("ROLLBACK"));
    }
    let mut got = consumers.join_all().await.concat();
    wait::ended("the queue is empty", mover).await;
    assert_eq!(got.len() as i64, ORDERS);
    got.sort();
    got.dedup();
    assert_eq!(got.len() as i64, ORDERS);
    assert_eq!(
        direct.number("SELECT count(DISTINCT body) FROM done"),
        ORDERS
    );
    let counters = stage.counters();
    println!("{counters:?}");
    assert!(
        counters.members > 0 || stage.target() == Target::Bare,
        "no request was grouped"
    );
}

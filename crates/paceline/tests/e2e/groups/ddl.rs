//! Changes to a table's definition under load: nothing is lost, nothing is wrong, and what the change asks for (a trigger,
//! a check) holds for every update after it.

use std::sync::atomic::Ordering;

use crate::harness::Stage;
use crate::harness::load::{Load, ROWS};
use crate::harness::raw::RawClient;

const CLIENTS: usize = 12;
/// Updates that must be acknowledged between two changes.
const PROGRESS: i64 = 150;

/// Rows start far apart, so that a unique index on `n` is no obstacle.
const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, spare text, other int DEFAULT 1);
    INSERT INTO t SELECT i, i * 1000000, 'spare' FROM generate_series(1, 5) i";

async fn start() -> (Stage, Load, RawClient) {
    let stage = Stage::on_shared().set("default_pool_size=2").open();
    let mut direct = stage.direct();
    direct.ok(SETUP);
    let load = Load::start(&stage.url(), CLIENTS);
    load.progress(PROGRESS).await;
    (stage, load, direct)
}

/// Stops the load for a moment and compares the table with the acknowledged updates.
async fn check(load: &Load, direct: &mut RawClient, after: &str) {
    let paused = load.pause().await;
    for row in 0..ROWS {
        let expected =
            (row as i64 + 1) * 1_000_000 + load.tally.acknowledged[row].load(Ordering::SeqCst);
        let found = direct.number(&format!("SELECT n FROM t WHERE id = {}", row + 1));
        assert_eq!(found, expected, "row {row} after {after}");
        assert_eq!(
            load.tally.unknown[row].load(Ordering::SeqCst),
            0,
            "lost connections after {after}"
        );
    }
    drop(paused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_indexes_and_a_new_table() {
    let (stage, load, mut direct) = start().await;
    let changes = [
        "ALTER TABLE t DROP COLUMN other",
        "ALTER TABLE t ADD COLUMN added text NOT NULL DEFAULT 'x'",
        "ALTER TABLE t ALTER COLUMN n TYPE bigint",
        "ALTER TABLE t ALTER COLUMN n TYPE numeric",
        "ALTER TABLE t ALTER COLUMN n TYPE int",
        "CREATE INDEX t_n ON t (n)",
        "DROP INDEX t_n",
        "CREATE UNIQUE INDEX t_n ON t (n)",
        "DROP INDEX t_n",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD CONSTRAINT key PRIMARY KEY (id)",
        "BEGIN; ALTER TABLE t RENAME TO old; CREATE TABLE t (LIKE old INCLUDING ALL); INSERT INTO t TABLE old; COMMIT",
        "BEGIN; CREATE TABLE new (spare text, n int NOT NULL, id int PRIMARY KEY); LOCK TABLE t; \
         INSERT INTO new (id, n) SELECT id, n FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT",
        "BEGIN; ALTER TABLE t RENAME TO rows; CREATE VIEW t AS TABLE rows; COMMIT",
        "BEGIN; LOCK TABLE t; DROP VIEW t; ALTER TABLE rows RENAME TO t; COMMIT",
    ];
    for sql in changes {
        println!("{sql}");
        direct.ok(sql);
        load.progress(PROGRESS).await;
        check(&load, &mut direct, sql).await;
    }
    let tally = load.stop().await;
    assert!(
        tally.refused.lock().unwrap().is_empty(),
        "{:?}",
        tally.refused
    );
    stage.assert_grouped(100, 3);
}

/// Every update after the trigger's commit fires it, once, with the row as it was and as it became.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_fires_for_every_update() {
    let (_stage, load, mut direct) = start().await;
    direct.ok("CREATE TABLE fired (id int, old int, new int);
         CREATE TABLE before (id int, n int);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO fired VALUES (new.id, old.n, new.n); RETURN new; END $$;");
    for kind in ["AFTER", "BEFORE"] {
        direct.ok(&format!(
            "BEGIN; TRUNCATE fired, before;
             CREATE TRIGGER noted {kind} UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();
             INSERT INTO before SELECT id, n FROM t; COMMIT"
        ));
        load.progress(PROGRESS).await;
        check(&load, &mut direct, kind).await;
        direct.ok("BEGIN; DROP TRIGGER noted ON t;
             CREATE TEMP TABLE after AS SELECT id, n FROM t; COMMIT");
        let wrong = direct.ok(
            "SELECT * FROM (SELECT id, after.n - before.n AS wanted,
                 (SELECT count(*) FROM fired f WHERE f.id = before.id AND f.new = f.old + 1) AS fired,
                 (SELECT count(DISTINCT new) FROM fired f WHERE f.id = before.id) AS different
               FROM before JOIN after USING (id)) _
             WHERE wanted <> fired OR wanted <> different",
        );
        assert_eq!(
            wrong.rows(),
            Vec::<Vec<Option<String>>>::new(),
            "{kind}: id, updates, fired, different"
        );
        assert!(direct.number("SELECT count(*) FROM fired") >= PROGRESS / 2);
        direct.ok("DROP TABLE after");
        load.progress(PROGRESS).await;
        check(&load, &mut direct, "dropping the trigger").await;
    }
    load.stop().await;
}

/// A check that the rows soon reach: each stops exactly there, and further requests get an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_holds_for_every_update() {
    let (_stage, load, mut direct) = start().await;
    direct.ok("DO $$ DECLARE top int; BEGIN
           LOCK TABLE t; SELECT max(n % 1000000) + 100 INTO top FROM t;
           EXECUTE format('ALTER TABLE t ADD CONSTRAINT top CHECK (n %% 1000000 <= %s)', top);
         END $$");
    load.until(|tally| tally.refused("23514") > 200).await;
    let mut observer = direct;
    loop_until_all_rows_are_full(&load, &mut observer).await;
    check(&load, &mut observer, "adding a check").await;
    observer.ok("ALTER TABLE t DROP CONSTRAINT top");
    load.progress(PROGRESS).await;
    check(&load, &mut observer, "dropping the check").await;
    let tally = load.stop().await;
    let refused = tally.refused.lock().unwrap();
    assert_eq!(refused.keys().collect::<Vec<_>>(), ["23514"], "{refused:?}");
}

async fn loop_until_all_rows_are_full(load: &Load, direct: &mut RawClient) {
    let mut left = i64::MAX;
    while left > 0 {
        let refused = load.tally.refused("23514");
        load.until(|tally| tally.refused("23514") > refused).await;
        left = direct.number(&format!(
            "SELECT count(*) FROM t, pg_constraint WHERE conname = 'top' AND conrelid = 't'::regclass AND id <= {ROWS} \
             AND n % 1000000 < substring(pg_get_constraintdef(pg_constraint.oid) from '<= (\\d+)')::int"
        ));
        assert_eq!(
            direct.number(
                "SELECT count(*) FROM t, pg_constraint WHERE conname = 'top' AND conrelid = 't'::regclass \
                 AND n % 1000000 > substring(pg_get_constraintdef(pg_constraint.oid) from '<= (\\d+)')::int"
            ),
            0
        );
    }
}

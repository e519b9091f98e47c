//! The order queue: every variant empties it, and the check detects changes by an outsider.

use crate::support::{Postgres, block_on, plan, variants};
use paceline_bench::{Interrupt, Observer, Plan, Protocol, Ran, Record, Run, RunResult, Stage};
use std::time::Duration;

const ORDERS: u64 = 400;
/// One consumer per shard, so that every order is taken.
const CONSUMERS: usize = 16;
/// Far longer than it takes to empty the queue.
const HOUR: Duration = Duration::from_secs(3_600);

/// Keeps the records, and runs statements of an outsider before each check.
struct Tampering<'a> {
    postgres: &'a Postgres,
    sql: &'a str,
    records: Vec<Record>,
}

impl Observer for Tampering<'_> {
    fn on_stage(&mut self, _run: &Run<'_>, stage: Stage) {
        if matches!(stage, Stage::Checking) {
            self.postgres.execute(self.sql);
        }
    }

    fn on_end(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

/// Runs the variant with this name, or all variants, for `duration`. Before each check an outsider runs `sql`.
fn run(
    postgres: &Postgres,
    variant: Option<&str>,
    protocol: Protocol,
    duration: Duration,
    sql: &str,
) -> Vec<Record> {
    let mut choices = variants("queue", CONSUMERS);
    choices.retain(|choice| variant.is_none_or(|name| choice.work.name() == name));
    let mut plan: Plan = plan(postgres, choices);
    plan.duration = duration;
    plan.threads = 2;
    plan.sizes.rows = Some(ORDERS);
    plan.sizes.protocol = protocol;
    let mut tampering = Tampering {
        postgres,
        sql,
        records: Vec::new(),
    };
    block_on(paceline_bench::bench(
        &plan,
        &Interrupt::default(),
        &mut tampering,
    ));
    assert_eq!(tampering.records.len(), plan.choices.len());
    tampering.records
}

#[track_caller]
fn ran(record: &Record) -> &Ran {
    match &record.result {
        RunResult::Ran(ran) => ran,
        RunResult::Failed { why } => panic!("{} did not run: {why}", record.variant),
    }
}

#[test]
fn every_variant_empties_the_queue() {
    let postgres = Postgres::start();
    for protocol in [Protocol::Prepared, Protocol::Simple] {
        let records = run(&postgres, None, protocol, HOUR, "");
        assert_eq!(records.len(), variants("queue", CONSUMERS).len());
        for record in &records {
            let ran = ran(record);
            let says = format!(
                "{}: {:?} {}",
                record.variant,
                ran.errors,
                ran.check.as_ref().unwrap().says
            );
            assert!(ran.check.as_ref().unwrap().holds, "{says}");
            let all = format!("of {ORDERS} orders {ORDERS} were taken and 0 wait");
            assert!(ran.check.as_ref().unwrap().says.starts_with(&all), "{says}");
            assert!(ran.errors.is_empty(), "{says}");
            match record.variant.as_str() {
                "batches" => assert!(ran.units >= ORDERS / 10 && ran.units < ORDERS, "{says}"),
                _ => assert_eq!(ran.units, ORDERS, "{says}"),
            }
            assert!(ran.seconds > 0.0 && ran.seconds < HOUR.as_secs_f64());
        }
        assert!(postgres.is_clean(), "the lab has left its schema");
    }
}

/// Interrupts the run when a session has had a snapshot since the beginning.
struct Pinned<'a> {
    postgres: &'a Postgres,
    interrupt: &'a Interrupt,
    records: Vec<Record>,
}

impl Observer for Pinned<'_> {
    fn on_stage(&mut self, _run: &Run<'_>, stage: Stage) {
        let holding = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' \
            AND backend_xmin IS NOT NULL \
            AND EXISTS (SELECT FROM paceline_lab.t_order_u WHERE xmin::text::bigint > backend_xmin::text::bigint)";
        let running = matches!(stage, Stage::Running { .. });
        if running && self.postgres.execute(holding).as_deref() == Some("1") {
            self.interrupt.set();
        }
    }

    fn on_end(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

#[test]
fn a_transaction_holds_the_oldest_snapshot_while_the_pinned_variant_runs() {
    let postgres = Postgres::start();
    let mut choices = variants("queue", 3);
    choices.retain(|choice| choice.work.name() == "pinned");
    let mut plan: Plan = plan(&postgres, choices);
    plan.duration = HOUR;
    plan.rate = Some(200.0);
    plan.sizes.rows = Some(20_000);
    let interrupt = Interrupt::default();
    let mut pinned = Pinned {
        postgres: &postgres,
        interrupt: &interrupt,
        records: Vec::new(),
    };
    block_on(paceline_bench::bench(&plan, &interrupt, &mut pinned));
    let [record] = pinned.records.as_slice() else {
        panic!("{:?}", pinned.records);
    };
    let ran = ran(record);
    assert!(ran.interrupted && ran.units > 0, "{ran:?}");
    assert!(ran.check.as_ref().unwrap().holds, "{ran:?}");
    assert!(ran.trend.is_some_and(|trend| trend.first.rate > 0.0));
}

#[test]
fn the_check_detects_changes_to_filed_orders() {
    let postgres = Postgres::start();
    for (variant, sql, fault) in [
        (
            "c",
            "DELETE FROM paceline_lab.t_order_u WHERE id = 7",
            "1 are lost, 1 were returned to a consumer but not taken",
        ),
        (
            "b",
            "UPDATE paceline_lab.t_order_u SET status = 2 WHERE id = 7",
            "1 are lost, 1 were returned to a consumer but not taken",
        ),
        (
            "batches",
            "INSERT INTO paceline_lab.t_order_q (order_id, cts) SELECT order_id, cts FROM paceline_lab.t_order_u WHERE id = 7",
            "1 were taken and still wait",
        ),
        (
            "d",
            "ALTER TABLE paceline_lab.t_order_u DROP CONSTRAINT t_order_u_order_id_key; \
             INSERT INTO paceline_lab.t_order_u (order_id, cts, uts, status) \
             SELECT order_id, cts, uts, status FROM paceline_lab.t_order_u WHERE id = 7",
            "1 are duplicates",
        ),
        (
            "shards",
            "UPDATE paceline_lab.t_order_u SET cts = now() WHERE id = 7",
            "1 are lost, 1 differ from what was inserted, 1 were returned to a consumer but not taken",
        ),
        (
            "claims",
            "UPDATE paceline_lab.t_order_q SET status = 0 WHERE id = 7",
            "1 were returned to a consumer but not taken",
        ),
    ] {
        let records = run(&postgres, Some(variant), Protocol::Prepared, HOUR, sql);
        expect_fault(&records, fault);
    }
}

#[test]
fn the_check_detects_changes_to_waiting_orders() {
    let postgres = Postgres::start();
    for (variant, sql, fault) in [
        (
            "c-vacuum",
            "DELETE FROM paceline_lab.t_order_q WHERE id = 7",
            "1 are lost",
        ),
        (
            "partitions",
            "DELETE FROM paceline_lab.t_order_q WHERE id = 7; \
             INSERT INTO paceline_lab.t_order_q (order_id, cts) VALUES (gen_random_uuid(), now())",
            "1 are lost, 1 differ from what was inserted",
        ),
        (
            "a",
            "WITH tmp AS (DELETE FROM paceline_lab.t_order_q WHERE id = 7 RETURNING order_id, cts) \
             INSERT INTO paceline_lab.t_order_u (order_id, cts, uts, status) SELECT order_id, cts, now(), 1 FROM tmp",
            "1 were taken but returned to no consumer",
        ),
    ] {
        // Nothing is taken in a run without duration.
        let records = run(
            &postgres,
            Some(variant),
            Protocol::Prepared,
            Duration::ZERO,
            sql,
        );
        expect_fault(&records, fault);
    }
}

#[track_caller]
fn expect_fault(records: &[Record], fault: &str) {
    for record in records {
        let check = ran(record).check.as_ref().unwrap();
        assert!(!check.holds, "{}: {}", record.variant, check.says);
        assert!(
            check.says.ends_with(&format!(": {fault}")),
            "{}: {}",
            record.variant,
            check.says
        );
    }
}

//! The order queue: every way to take from it empties it, and a check sees what an outsider does to the tables.

use paceline_bench::{
    Choice, Host, Interrupt, Observer, Plan, Protocol, Ran, Record, Run, RunResult, SCENARIOS,
    Scenario, Sizes, Stage, Target, Work,
};
use paceline_postgres::{Options, Server};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{NoTls, SimpleQueryMessage};

const ORDERS: u64 = 400;
/// One for each shard, so that every order has a consumer.
const CONSUMERS: usize = 16;
/// Long after the last order was taken.
const HOUR: Duration = Duration::from_secs(3_600);

/// A server whose data go with it.
struct Postgres {
    server: Server,
    _data: tempfile::TempDir,
}

impl Postgres {
    fn start() -> Self {
        let data = tempfile::Builder::new().prefix("lab").tempdir().unwrap();
        Self {
            server: Server::start(Options::new(data.path())).unwrap(),
            _data: data,
        }
    }

    fn target(&self) -> Target {
        Target {
            name: "direct".to_owned(),
            host: Host::Tcp("127.0.0.1".to_owned()),
            port: self.server.port(),
            user: self.server.superuser().to_owned(),
            password: None,
            database: "postgres".to_owned(),
        }
    }

    /// Runs statements and returns the first value of the last row, if there is one. On a thread of its own: an observer
    /// is called within a runtime.
    fn ask(&self, sql: &str) -> Option<String> {
        let url = self.server.url("postgres");
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| block_on(ask(&url, sql)));
            asked.join().unwrap()
        })
    }
}

async fn ask(url: &str, sql: &str) -> Option<String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let messages = client.simple_query(sql).await.unwrap();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.last().map(str::to_owned)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// Keeps the records, and does something to the tables before each check.
struct Meddler<'a> {
    postgres: &'a Postgres,
    meddle: &'a str,
    records: Vec<Record>,
}

impl Observer for Meddler<'_> {
    fn sees(&mut self, _run: &Run<'_>, stage: Stage) {
        if matches!(stage, Stage::Checking) {
            self.postgres.ask(self.meddle);
        }
    }

    fn ended(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

fn scenario() -> Scenario {
    let queue = SCENARIOS.iter().find(|scenario| scenario.name == "queue");
    *queue.unwrap()
}

/// Runs the variants with these names (all if there are none), and does `meddle` before each check.
fn run(postgres: &Postgres, variants: &[&str], plan: Plan, meddle: &str) -> Vec<Record> {
    let scenario = scenario();
    let wanted = |name| variants.is_empty() || variants.contains(&name);
    let variants = scenario.variants.iter().filter(|v| wanted(v.name));
    let plan = Plan {
        choices: variants
            .map(|variant| Choice {
                scenario,
                work: Work::Variant(*variant),
                clients: vec![CONSUMERS],
            })
            .collect(),
        targets: vec![Arc::new(postgres.target())],
        ..plan
    };
    let mut meddler = Meddler {
        postgres,
        meddle,
        records: Vec::new(),
    };
    block_on(paceline_bench::bench(
        &plan,
        &Interrupt::default(),
        &mut meddler,
    ));
    assert_eq!(meddler.records.len(), plan.choices.len());
    meddler.records
}

/// Until the queue is empty.
fn to_the_end(protocol: Protocol) -> Plan {
    Plan {
        targets: Vec::new(),
        choices: Vec::new(),
        warmup: Duration::ZERO,
        duration: HOUR,
        rounds: 1,
        rate: None,
        think: Duration::ZERO,
        sizes: Sizes {
            rows: Some(ORDERS),
            full: false,
            protocol,
            seed: 7,
        },
        threads: 2,
        keep_tables: false,
        command: String::new(),
    }
}

/// Nothing is taken.
fn not_at_all() -> Plan {
    Plan {
        duration: Duration::ZERO,
        ..to_the_end(Protocol::Prepared)
    }
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
        let records = run(&postgres, &[], to_the_end(protocol), "");
        assert_eq!(records.len(), scenario().variants.len());
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
        let left = postgres.ask("SELECT to_regnamespace('paceline_lab')::text");
        assert_eq!(left, None, "the lab has left its schema");
    }
}

#[test]
fn what_an_outsider_does_to_filed_orders_is_seen() {
    let postgres = Postgres::start();
    for (variant, meddle, fault) in [
        (
            "c",
            "DELETE FROM paceline_lab.t_order_u WHERE id = 7",
            "1 are lost, 1 were told to a consumer but not taken",
        ),
        (
            "b",
            "UPDATE paceline_lab.t_order_u SET status = 2 WHERE id = 7",
            "1 are lost, 1 were told to a consumer but not taken",
        ),
        (
            "batches",
            "INSERT INTO paceline_lab.t_order_q (order_id, cts) SELECT order_id, cts FROM paceline_lab.t_order_u WHERE id = 7",
            "1 were taken and wait still",
        ),
        (
            "d",
            "ALTER TABLE paceline_lab.t_order_u DROP CONSTRAINT t_order_u_order_id_key; \
             INSERT INTO paceline_lab.t_order_u (order_id, cts, uts, status) \
             SELECT order_id, cts, uts, status FROM paceline_lab.t_order_u WHERE id = 7",
            "1 are there once more",
        ),
        (
            "shards",
            "UPDATE paceline_lab.t_order_u SET cts = now() WHERE id = 7",
            "1 are lost, 1 are not as they were put in, 1 were told to a consumer but not taken",
        ),
        (
            "claims",
            "UPDATE paceline_lab.t_order_q SET status = 0 WHERE id = 7",
            "1 were told to a consumer but not taken",
        ),
    ] {
        let records = run(
            &postgres,
            &[variant],
            to_the_end(Protocol::Prepared),
            meddle,
        );
        expect_fault(&records, fault);
    }
}

#[test]
fn what_an_outsider_does_to_waiting_orders_is_seen() {
    let postgres = Postgres::start();
    for (variant, meddle, fault) in [
        (
            "c-vacuum",
            "DELETE FROM paceline_lab.t_order_q WHERE id = 7",
            "1 are lost",
        ),
        (
            "partitions",
            "DELETE FROM paceline_lab.t_order_q WHERE id = 7; \
             INSERT INTO paceline_lab.t_order_q (order_id, cts) VALUES (gen_random_uuid(), now())",
            "1 are lost, 1 are not as they were put in",
        ),
        (
            "a",
            "WITH tmp AS (DELETE FROM paceline_lab.t_order_q WHERE id = 7 RETURNING order_id, cts) \
             INSERT INTO paceline_lab.t_order_u (order_id, cts, uts, status) SELECT order_id, cts, now(), 1 FROM tmp",
            "1 were taken but told to nobody",
        ),
    ] {
        let records = run(&postgres, &[variant], not_at_all(), meddle);
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

//! A PostgreSQL of a test's own, and short runs of the lab against it.

use paceline_bench::{
    Choice, Host, Interrupt, Observer, Plan, Protocol, Ran, Record, Run, RunResult, SCENARIOS,
    Sizes, Stage, Target, Work, bench,
};
use paceline_postgres::{Options, Server};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A server in a folder that goes with it.
pub(crate) struct Trial {
    server: Server,
    _folder: TempDir,
}

/// What is run, for a short time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Short {
    pub(crate) scenario: &'static str,
    pub(crate) variant: &'static str,
    pub(crate) clients: usize,
    pub(crate) rows: u64,
    pub(crate) protocol: Protocol,
}

/// What somebody else does to the tables or connections of a run, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outsider {
    /// Once, while it runs.
    Amid(&'static str),
    /// When all clients have ended, before the check.
    After(&'static str),
}

impl Trial {
    /// A server for so many connections.
    pub(crate) fn start(max_connections: usize) -> Self {
        let folder = tempfile::Builder::new().prefix("lab").tempdir().unwrap();
        let mut options = Options::new(folder.path());
        let room = ("max_connections".to_owned(), max_connections.to_string());
        options.settings.push(room);
        Self {
            server: Server::start(options).unwrap(),
            _folder: folder,
        }
    }

    /// Runs it; it must be able to run.
    pub(crate) fn run(&self, short: Short) -> Ran {
        self.run_with(short, None)
    }

    /// The same, disturbed.
    pub(crate) fn run_with(&self, short: Short, outsider: impl Into<Option<Outsider>>) -> Ran {
        match self.record(short, outsider.into()).result {
            RunResult::Ran(ran) => *ran,
            RunResult::Failed { why } => panic!("{short:?} did not run: {why}"),
        }
    }

    /// Why it could not run at all.
    pub(crate) fn refusal(&self, short: Short) -> String {
        match self.record(short, None).result {
            RunResult::Ran(ran) => panic!("{short:?} ran: {}", ran.check.as_ref().unwrap().says),
            RunResult::Failed { why } => why,
        }
    }

    /// Whether nothing of the lab's is left.
    pub(crate) fn is_clean(&self) -> bool {
        let sql = "SELECT to_regnamespace('paceline_lab') IS NULL";
        let url = self.server.url("postgres");
        block_on(async {
            let client = connect(&url).await;
            client.query_one(sql, &[]).await.unwrap().get(0)
        })
    }

    /// Done by somebody else.
    pub(crate) fn execute(&self, sql: &str) {
        let done = async {
            let client = connect(&self.server.url("postgres")).await;
            client.batch_execute(sql).await
        };
        block_on(done).unwrap();
    }

    /// The number that somebody else is told.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let ask = async {
            let client = connect(&self.server.url("postgres")).await;
            client.query_one(sql, &[]).await.unwrap().get(0)
        };
        // The thread of an observer is inside the lab's runtime.
        std::thread::scope(|scope| scope.spawn(|| block_on(ask)).join().unwrap())
    }

    fn record(&self, short: Short, outsider: Option<Outsider>) -> Record {
        let mut watcher = Watcher {
            url: self.server.url("postgres"),
            outsider,
            records: Vec::new(),
        };
        block_on(bench(
            &self.plan(short),
            &Interrupt::default(),
            &mut watcher,
        ));
        assert_eq!(watcher.records.len(), 1);
        assert!(watcher.outsider.is_none(), "the outsider never came");
        watcher.records.remove(0)
    }

    /// What carries it out.
    pub(crate) fn plan(&self, short: Short) -> Plan {
        let scenario = SCENARIOS.iter().find(|known| known.name == short.scenario);
        let scenario = *scenario.unwrap();
        let mut variants = scenario.variants.iter();
        let variant = *variants.find(|known| known.name == short.variant).unwrap();
        Plan {
            targets: vec![Arc::new(Target {
                name: "direct".to_owned(),
                host: Host::Tcp("127.0.0.1".to_owned()),
                port: self.server.port(),
                user: self.server.superuser().to_owned(),
                password: None,
                database: "postgres".to_owned(),
            })],
            choices: vec![Choice {
                scenario,
                work: Work::Variant(variant),
                clients: vec![short.clients],
            }],
            warmup: Duration::ZERO,
            duration: Duration::from_millis(500),
            rounds: 1,
            rate: None,
            think: Duration::ZERO,
            sizes: Sizes {
                rows: Some(short.rows),
                full: false,
                protocol: short.protocol,
                seed: 7,
            },
            threads: 2,
            keep_tables: false,
            command: String::new(),
        }
    }
}

/// Keeps the records, and lets the outsider in.
struct Watcher {
    url: String,
    outsider: Option<Outsider>,
    records: Vec<Record>,
}

impl Observer for Watcher {
    fn sees(&mut self, _run: &Run<'_>, stage: Stage) {
        let sql = match (self.outsider, stage) {
            (Some(Outsider::Amid(sql)), Stage::Running { .. })
            | (Some(Outsider::After(sql)), Stage::Checking) => sql,
            _ => return,
        };
        self.outsider = None;
        let work = async { connect(&self.url).await.batch_execute(sql).await };
        // This thread is inside the lab's runtime.
        let done = std::thread::scope(|scope| scope.spawn(|| block_on(work)).join());
        done.unwrap().unwrap();
    }

    fn ended(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

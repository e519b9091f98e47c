//! A PostgreSQL of a test's own, and short runs against it.

use paceline_bench::{
    Choice, Host, Interrupt, Observer, Plan, Protocol, Record, Run, SCENARIOS, Sizes, Stage,
    Target, Work,
};
use paceline_postgres::{Options, Server};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Ends with the test.
pub(crate) struct Postgres {
    server: Server,
    _folder: TempDir,
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lab").tempdir().unwrap();
        Self {
            server: Server::start(Options::new(folder.path())).unwrap(),
            _folder: folder,
        }
    }

    pub(crate) fn target(&self) -> Arc<Target> {
        Arc::new(Target {
            name: "direct".to_owned(),
            host: Host::Tcp("127.0.0.1".to_owned()),
            port: self.server.port(),
            user: self.server.superuser().to_owned(),
            password: None,
            database: "postgres".to_owned(),
        })
    }

    /// A connection that is none of the lab's.
    pub(crate) async fn outsider(&self) -> tokio_postgres::Client {
        let url = self.server.url("postgres");
        let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Schemas that the lab has left.
    pub(crate) async fn remains(&self) -> i64 {
        let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = 'paceline_lab'";
        self.outsider()
            .await
            .query_one(sql, &[])
            .await
            .unwrap()
            .get(0)
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// A run of each of `choices` against `postgres`, to be ended when enough was seen.
pub(crate) fn plan(postgres: &Postgres, choices: Vec<Choice>) -> Plan {
    Plan {
        targets: vec![postgres.target()],
        choices,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(60),
        rounds: 1,
        rate: None,
        think: Duration::ZERO,
        sizes: Sizes {
            rows: Some(2_000),
            full: false,
            protocol: Protocol::Prepared,
            seed: 1,
        },
        threads: 1,
        keep_tables: false,
        command: "a test".to_owned(),
    }
}

/// A choice for each variant of the scenario.
pub(crate) fn variants(scenario: &str, clients: usize) -> Vec<Choice> {
    let known = SCENARIOS.iter().find(|known| known.name == scenario);
    let scenario = known.unwrap();
    let choice = |variant| Choice {
        scenario: *scenario,
        work: Work::Variant(variant),
        clients: vec![clients],
    };
    scenario.variants.iter().copied().map(choice).collect()
}

/// What a test waits for in a run.
pub(crate) type Sign = fn(Stage) -> bool;

/// Work is being done.
pub(crate) fn working(stage: Stage) -> bool {
    matches!(stage, Stage::Running { rate, .. } if rate > 0.0)
}

/// Turns have failed.
pub(crate) fn failing(stage: Stage) -> bool {
    matches!(stage, Stage::Running { failed, .. } if failed > 0)
}

/// What the lab tells goes here.
struct Scribe<'a> {
    records: Vec<Record>,
    sign: Sign,
    seen: &'a Notify,
}

impl Observer for Scribe<'_> {
    fn sees(&mut self, _run: &Run<'_>, stage: Stage) {
        if (self.sign)(stage) {
            self.seen.notify_one();
        }
    }

    fn ended(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

/// Carries out `plan` until `meanwhile` is over, which is told of every `sign`.
pub(crate) fn carry_out(
    plan: &Plan,
    sign: Sign,
    meanwhile: impl AsyncFnOnce(&Notify),
) -> Vec<Record> {
    let (interrupt, seen) = (Interrupt::default(), Notify::new());
    let mut scribe = Scribe {
        records: Vec::new(),
        sign,
        seen: &seen,
    };
    block_on(async {
        let until = async {
            meanwhile(&seen).await;
            interrupt.set();
            std::future::pending().await
        };
        // A run that never shows the sign ends by itself.
        tokio::select! {
            () = paceline_bench::bench(plan, &interrupt, &mut scribe) => {}
            () = until => {}
        }
    });
    scribe.records
}

/// Carries out each choice of `plan` until there is a `sign`.
pub(crate) fn carry_out_briefly(plan: &Plan, sign: Sign) -> Vec<Record> {
    let brief = |choice: &Choice| {
        let plan = Plan {
            choices: vec![choice.clone()],
            ..plan.clone()
        };
        carry_out(&plan, sign, async |seen| seen.notified().await)
    };
    plan.choices.iter().flat_map(brief).collect()
}

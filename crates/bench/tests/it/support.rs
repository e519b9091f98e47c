//! A PostgreSQL for one test, and short runs against it.

use paceline_bench::{
    Choice, Host, Interrupt, Observer, Plan, Protocol, Record, Run, SCENARIOS, Sizes, Stage, Target,
};
use paceline_postgres::{Options, Server};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A server in a temporary folder; both end with the value.
pub(crate) struct Postgres {
    server: Server,
    _folder: TempDir,
}

impl Postgres {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional settings.
    pub(crate) fn start_with(settings: &[(&str, String)]) -> Self {
        let folder = tempfile::Builder::new().prefix("lab").tempdir().unwrap();
        let mut options = Options::new(folder.path());
        let settings = settings.iter();
        options
            .settings
            .extend(settings.map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self {
            server: Server::start(options).unwrap(),
            _folder: folder,
        }
    }

    pub(crate) fn target(&self) -> Arc<Target> {
        Arc::new(Target {
            name: "direct".to_owned(),
            host: Host::Tcp("127.0.0.1".to_owned()),
            port: self.server.port(),
            other_ports: Vec::new(),
            user: self.server.superuser().to_owned(),
            password: None,
            database: "postgres".to_owned(),
        })
    }

    /// Opens a connection that does not belong to the lab.
    pub(crate) async fn outsider(&self) -> tokio_postgres::Client {
        let url = self.server.url("postgres");
        let connected = tokio_postgres::connect(&url, NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Runs statements outside of the lab. Returns the first value of the last row, if there is one.
    pub(crate) fn execute(&self, sql: &str) -> Option<String> {
        let work = async {
            let messages = self.outsider().await.simple_query(sql).await.unwrap();
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            rows.last().map(str::to_owned)
        };
        // Observers call this function inside the runtime of the lab.
        std::thread::scope(|scope| scope.spawn(|| block_on(work)).join().unwrap())
    }

    /// Whether the lab has left no schema.
    pub(crate) fn is_clean(&self) -> bool {
        self.execute("SELECT to_regnamespace('paceline_lab')::text")
            .is_none()
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// A run of each of `choices` against `postgres`, which the test ends.
pub(crate) fn plan(postgres: &Postgres, choices: Vec<Choice>) -> Plan {
    Plan {
        targets: vec![postgres.target()],
        choices,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(60),
        rounds: 1,
        rate: None,
        think: Duration::ZERO,
        deadline: None,
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
    // On the named target, also if the variant is made for replicas.
    let choice = |variant| Choice::of_variant(scenario, variant, &[clients], true);
    scenario.variants.iter().map(choice).collect()
}

/// The stage of a run that a test waits for.
pub(crate) type Awaited = fn(Stage) -> bool;

/// Clients complete units of work.
pub(crate) fn working(stage: Stage) -> bool {
    matches!(stage, Stage::Running { rate, .. } if rate > 0.0)
}

/// Turns have failed.
pub(crate) fn failing(stage: Stage) -> bool {
    matches!(stage, Stage::Running { failed, .. } if failed > 0)
}

/// Keeps the records and reports when a run reaches the awaited stage.
struct Recorder<'a> {
    records: Vec<Record>,
    awaited: Awaited,
    reached: &'a Notify,
}

impl Observer for Recorder<'_> {
    fn on_stage(&mut self, _run: &Run<'_>, stage: Stage) {
        if (self.awaited)(stage) {
            self.reached.notify_one();
        }
    }

    fn on_end(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

/// Executes `plan` until `meanwhile` returns. `meanwhile` is notified whenever a run reaches the awaited stage.
pub(crate) fn execute(
    plan: &Plan,
    awaited: Awaited,
    meanwhile: impl AsyncFnOnce(&Notify),
) -> Vec<Record> {
    let (interrupt, reached) = (Interrupt::default(), Notify::new());
    let mut recorder = Recorder {
        records: Vec::new(),
        awaited,
        reached: &reached,
    };
    block_on(async {
        let until = async {
            meanwhile(&reached).await;
            interrupt.set();
            std::future::pending().await
        };
        // A run that never reaches the stage ends when its time is over.
        tokio::select! {
            () = paceline_bench::bench(plan, &interrupt, &mut recorder) => {}
            () = until => {}
        }
    });
    recorder.records
}

/// Executes each choice of `plan` until it reaches the awaited stage.
pub(crate) fn execute_briefly(plan: &Plan, awaited: Awaited) -> Vec<Record> {
    let brief = |choice: &Choice| {
        let plan = Plan {
            choices: vec![choice.clone()],
            ..plan.clone()
        };
        execute(&plan, awaited, async |reached| reached.notified().await)
    };
    plan.choices.iter().flat_map(brief).collect()
}

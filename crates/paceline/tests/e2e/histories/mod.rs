//! Histories of random transactions at all isolation levels, of clients of Paceline and of PostgreSQL itself at the same time. A checker
//! after Elle looks for anomalies: clients of Paceline must see none that PostgreSQL prevents. `PACELINE_TRANSACTIONS` is the number of
//! transactions; what is checked is in `paceline_testing::histories`.

mod client;
mod plan;

use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::{Target, counters};
use crate::harness::{Rng, Stage};
use client::{Clock, Recorder, carry_out, states};
use paceline_testing::histories::{
    Effect, Key, Level, Name, Operation, Outcome, Transaction, check,
};
use plan::{Plan, Planner, SETUP, any_level, read_all};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Clients at once. Every fifth one is connected to PostgreSQL itself.
const CLIENTS: usize = 40;
/// Transactions between two lost connections of the server.
const CALM: u32 = 100;

/// The state that the clients of a run share.
struct Run<'a> {
    stage: &'a Stage,
    /// The ports of the targets, which clients use in turn.
    ports: Vec<u16>,
    transactions: u32,
    begun: AtomicU32,
    values: AtomicU32,
    clock: Clock,
    history: Mutex<Vec<Transaction>>,
    /// Its holder ends a server process.
    disturber: Mutex<RawClient>,
}

/// The number of transactions of a run.
fn transactions() -> u32 {
    let transactions = std::env::var("PACELINE_TRANSACTIONS");
    transactions.map_or(3_000, |number| number.parse().unwrap())
}

fn settings(rng: &mut Rng) -> [String; 3] {
    [
        format!("default_pool_size={}", rng.between(1, 2)),
        "hotspot_for_autocommit=true".to_owned(),
        "server_login_retry=50ms".to_owned(),
    ]
}

#[test]
fn clients_see_nothing_that_postgresql_prevents() {
    let seed = paceline_testing::seed();
    let settings = settings(&mut Rng::new(seed));
    let stage = Stage::on_shared();
    let stage = settings.iter().fold(stage, |stage, set| stage.set(set));
    let stage = stage.open();
    let run = Run::new(&stage, vec![stage.port()], transactions());
    assert_possible(&run.carry_out(seed));
    println!("{:?}", stage.counters());
    stage.assert_grouped(i64::from(transactions()) / 100, 2);
}

/// Each of two processes groups what its own clients send, on the same rows.
#[test]
fn clients_of_two_processes_see_nothing_that_postgresql_prevents() {
    let seed = paceline_testing::seed();
    let mut rng = Rng::new(seed);
    let stage = Stage::on_shared().open();
    if stage.target() == Target::Bare {
        return;
    }
    let upstream = format!("postgres://127.0.0.1:{}", stage.cluster.port());
    let processes = [(); 2].map(|()| {
        let start = Paceline::start(&upstream);
        let settings = settings(&mut rng);
        let start = settings.iter().fold(start, |start, set| start.set(set));
        start.spawn()
    });
    let ports = processes.iter().map(Paceline::port).collect();
    let run = Run::new(&stage, ports, transactions());
    assert_possible(&run.carry_out(seed));
    for process in &processes {
        let login = [("user", "postgres"), ("database", &*stage.database)];
        let counters = counters(&mut RawClient::connect(process.port(), &login));
        println!("{counters:?}");
        assert!(counters.members >= i64::from(transactions()) / 200);
    }
}

/// The checker finds nothing either if Paceline is not involved.
#[test]
fn clients_of_postgresql_see_nothing_that_it_prevents() {
    let seed = paceline_testing::seed();
    let stage = Stage::on_shared().open();
    let run = Run::new(&stage, vec![stage.cluster.port()], 1_000);
    assert_possible(&run.carry_out(seed));
}

/// Two clients of PostgreSQL read what the other one writes. At REPEATABLE READ both commit, a write skew; at SERIALIZABLE one fails.
#[test]
fn a_write_skew_in_postgresql_is_found() {
    for (level, claimed, expected) in [
        (Level::RepeatableRead, Level::RepeatableRead, None),
        (
            Level::RepeatableRead,
            Level::Serializable,
            Some(Name::G2Item),
        ),
        (Level::Serializable, Level::Serializable, None),
    ] {
        let history = write_skew(level, claimed);
        let anomalies = check(&history);
        let found = anomalies.first().map(|anomaly| anomaly.name);
        assert_eq!(found, expected, "{anomalies:?}");
    }
}

/// The history of two transactions at a level, one during the other. It claims another level.
fn write_skew(level: Level, claimed: Level) -> Vec<Transaction> {
    let stage = Stage::on_shared().open();
    let run = Run::new(&stage, Vec::new(), 0);
    let [outer, inner] = [(1, 2), (2, 1)].map(|(read, write)| Plan::skew(level, read, write));
    let mut client = stage.direct();
    let mut recorder = Recorder::new(&run.clock, &outer);
    let (before, after) = outer.requests.split_at(2);
    for request in before {
        recorder.step(&mut client, request).unwrap();
    }
    let (_, inner) = carry_out(stage.direct(), &inner, &run.clock);
    for request in after {
        recorder.step(&mut client, request).unwrap();
    }
    let mut history = vec![recorder.transaction(), inner];
    for transaction in &mut history {
        transaction.level = claimed;
    }
    history.extend(run.last_reads());
    history
}

impl<'a> Run<'a> {
    fn new(stage: &'a Stage, ports: Vec<u16>, transactions: u32) -> Self {
        let mut disturber = stage.direct();
        disturber.ok(SETUP);
        // Transactions of several rows in any order often deadlock.
        let database = &stage.database;
        disturber.ok(&format!(
            "ALTER DATABASE {database} SET deadlock_timeout = '20ms'"
        ));
        Self {
            stage,
            ports,
            transactions,
            begun: AtomicU32::new(0),
            values: AtomicU32::new(1),
            clock: Clock::default(),
            history: Mutex::new(Vec::new()),
            disturber: Mutex::new(disturber),
        }
    }

    /// Returns the transactions of all clients, and a last one that reads all.
    fn carry_out(self, seed: u64) -> Vec<Transaction> {
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let rng = Rng::new(seed.wrapping_add(number as u64));
                let run = &self;
                scope.spawn(move || run.work(number, rng));
            }
        });
        let last = self.last_reads();
        let mut history = self.history.into_inner().unwrap();
        history.extend(last);
        history
    }

    fn work(&self, number: usize, mut rng: Rng) {
        let port = match number.is_multiple_of(5) {
            true => self.stage.cluster.port(),
            false => self.ports[number % self.ports.len()],
        };
        let default = match rng.chance(70) {
            true => Level::ReadCommitted,
            false => any_level(&mut rng),
        };
        let mut planner = Planner { rng, default };
        let mut connected = None;
        for _ in 0..self.transactions / CLIENTS as u32 {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            if number % CALM == CALM / 2 {
                self.disturb();
            }
            let client = connected
                .take()
                .unwrap_or_else(|| self.connect(port, default));
            let value = || self.values.fetch_add(1, Ordering::SeqCst);
            let plan = planner.plan(number, value);
            let (client, transaction) = carry_out(client, &plan, &self.clock);
            connected = client;
            self.history.lock().unwrap().push(transaction);
        }
    }

    fn connect(&self, port: u16, default: Level) -> RawClient {
        let login = [("user", "postgres"), ("database", &*self.stage.database)];
        loop {
            // The server process that serves the client may be ended at any time.
            let Ok(mut client) = RawClient::try_connect(port, &login) else {
                continue;
            };
            if client::set_level(&mut client, default).is_some() {
                return client;
            }
        }
    }

    fn disturb(&self) {
        self.disturber.lock().unwrap().ok(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
             AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1",
        );
    }

    /// A read of each table, after all other transactions.
    fn last_reads(&self) -> [Transaction; 2] {
        [true, false].map(|registers| {
            let began = self.clock.tick();
            let reply = self.disturber.lock().unwrap().ask(&read_all(registers));
            let rows = reply.expect_ok("the last read").0;
            let rows: Vec<_> = rows
                .into_iter()
                .filter(|message| message.tag == b'D')
                .collect();
            let keys: Vec<Key> = rows
                .iter()
                .map(|row| row.values()[0].as_ref().unwrap().parse().unwrap())
                .collect();
            let operation = Operation {
                began,
                ended: self.clock.tick(),
                effect: Effect::Read(states(&keys, &rows)),
            };
            Transaction {
                level: Level::ReadCommitted,
                outcome: Outcome::Committed,
                operations: vec![operation],
                ended: self.clock.tick(),
            }
        })
    }
}

#[track_caller]
fn assert_possible(history: &[Transaction]) {
    let count = |outcome| {
        let same = history
            .iter()
            .filter(|transaction| transaction.outcome == outcome);
        same.count()
    };
    println!(
        "{} transactions committed, {} aborted, {} unknown",
        count(Outcome::Committed),
        count(Outcome::Aborted),
        count(Outcome::Unknown)
    );
    assert!(count(Outcome::Committed) > history.len() / 4);
    let anomalies = check(history);
    for anomaly in anomalies.iter().take(10) {
        println!("{anomaly}");
        for place in &anomaly.transactions {
            println!("  {place}: {:?}", history[*place]);
        }
    }
    let names: Vec<Name> = anomalies.iter().map(|anomaly| anomaly.name).collect();
    assert_eq!(names, []);
}

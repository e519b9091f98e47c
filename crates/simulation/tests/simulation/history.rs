//! Runs one history: a program from a seed, in one thread and in virtual time.

use crate::check;
use crate::client::{Client, Event, Record};
use crate::mutation::{Groups, Mutator};
use crate::panics;
use crate::postgres::catalog::Catalog;
use crate::postgres::schema::DDL;
use crate::postgres::server::{Captured, Delays, Server};
use crate::program::{Action, Fault, LISTS, Program, Protocol, ROOMY, Step};
use crate::random::Random;
use paceline_config::Config;
use paceline_net::memory::listen;
use paceline_proxy::proxy::Proxy;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// Virtual time after which a client that has not ended starves.
const LIMIT: Duration = Duration::from_secs(600);

/// The results of a history.
#[derive(Debug, PartialEq)]
pub(crate) struct History {
    pub(crate) events: Vec<Event>,
    /// The committed rows of each table, as text.
    pub(crate) tables: Vec<Vec<Vec<String>>>,
    pub(crate) jobs: i32,
    pub(crate) has_faults: bool,
    /// No request waits for a server connection.
    pub(crate) is_roomy: bool,
    pub(crate) steps: u64,
    pub(crate) groups: Groups,
    pub(crate) crashes: u64,
    pub(crate) captured: Captured,
}

impl History {
    /// Prints all events, if `PACELINE_TRACE` is set.
    fn print(&self) {
        if std::env::var_os("PACELINE_TRACE").is_none() {
            return;
        }
        for event in &self.events {
            println!("{event:?}");
        }
        println!("{:?} {:?}", self.groups, self.tables);
    }
}

/// Runs the history of this seed and checks it.
pub(crate) fn run(seed: u64, catalog: &Rc<Catalog>, mutator: Mutator) -> Result<History, String> {
    let history = run_unchecked(seed, catalog, mutator)?;
    check::check(&history).inspect_err(|_| history.print())?;
    Ok(history)
}

/// Runs the history of this seed.
pub(crate) fn run_unchecked(
    seed: u64,
    catalog: &Rc<Catalog>,
    mutator: Mutator,
) -> Result<History, String> {
    let mut random = Random::new(seed);
    let program = Program::new(&mut random);
    panics::none_in(|| simulate(&program, &mut random, catalog, mutator))
}

/// Runs the history of this seed with one server connection, which is not lost.
pub(crate) fn run_serially(seed: u64, catalog: &Rc<Catalog>) -> Result<History, String> {
    let mut random = Random::new(seed);
    let program = Program::new(&mut random).on_one_connection();
    panics::none_in(|| simulate(&program, &mut random, catalog, Mutator::default()))
}

fn simulate(
    program: &Program,
    random: &mut Random,
    catalog: &Rc<Catalog>,
    mutator: Mutator,
) -> Result<History, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let local = LocalSet::new();
    let delays = Delays {
        statement_ms: program.statement_ms,
        commit_ms: program.commit_ms,
        connect_ms: 3,
        network_ms: program.network_ms,
    };
    let server = Rc::new(Server::new(catalog, random.fork(), delays, mutator));
    local.block_on(&runtime, scenario(program, &server))
}

async fn scenario(program: &Program, server: &Rc<Server>) -> Result<History, String> {
    fill(program, server);
    let folder = PathBuf::from("/simulated");
    let listener = listen(folder.join(".s.PGSQL.5432"));
    let listening = spawn_local(Rc::clone(server).listen(listener));
    let proxy = Arc::new(Proxy::new(config(program, &folder)));
    let maintenance = tokio::spawn(Arc::clone(&proxy.pools).maintain());
    let record = Rc::new(Record::new(Arc::clone(&proxy)));
    let ended = timeout(LIMIT, all(program, server, &record)).await;
    maintenance.abort();
    listening.abort();
    if ended.is_err() {
        return Err(format!("a client has not ended after {LIMIT:?}"));
    }
    Ok(History {
        events: record.events.take(),
        tables: committed(server),
        jobs: program.jobs,
        has_faults: program.has_faults(),
        is_roomy: program.pool_size == ROOMY,
        steps: server.steps.get(),
        groups: server.mutator.groups.get(),
        crashes: server.crashes.get(),
        captured: server.captured.take(),
    })
}

fn config(program: &Program, folder: &std::path::Path) -> Config {
    let url = format!("postgres://postgres@/?host={}", folder.display());
    let mut config = Config::for_upstream(&url).unwrap();
    config.set("hotspot_for_autocommit=true").unwrap();
    config
        .set(&format!("default_pool_size={}", program.pool_size))
        .unwrap();
    config.set("server_login_retry=1s").unwrap();
    config
}

/// The rows that exist before the clients begin.
fn fill(program: &Program, server: &Server) {
    use crate::postgres::value::Value;
    let mut storage = server.storage.borrow_mut();
    let xid = storage.begin();
    let snapshot = storage.snapshot(xid);
    let mut insert = |table: usize, values: Vec<Value>| {
        storage.insert(snapshot, table, values).unwrap().unwrap();
    };
    for list in 1..=LISTS {
        insert(0, vec![Value::Int4(list), Value::text(""), Value::Int4(0)]);
    }
    for job in 1..=program.jobs {
        insert(2, vec![Value::Int4(job), Value::text("job")]);
    }
    storage.commit(xid);
    assert_eq!(DDL.len(), 3, "each table is filled");
}

fn committed(server: &Server) -> Vec<Vec<Vec<String>>> {
    let mut storage = server.storage.borrow_mut();
    let tables = 0..server.catalog.schema.tables.len();
    let rows = tables.map(|table| {
        let rows = storage.all_committed(table).into_iter();
        rows.map(|row| row.iter().map(|value| value.to_text().unwrap()).collect())
            .collect()
    });
    rows.collect()
}

/// Runs each template once, so that all are analyzed; then the clients, and the faults.
async fn all(program: &Program, server: &Rc<Server>, record: &Rc<Record>) {
    Client::new(0, record).run(warm_up()).await;
    let clients = program.clients.iter().cloned().enumerate();
    let clients: Vec<_> = clients
        .map(|(number, steps)| spawn_local(Client::new(number + 1, record).run(steps)))
        .collect();
    let faults = spawn_local(strike(program.faults.clone(), Rc::clone(server)));
    for client in clients {
        client.await.unwrap();
    }
    faults.await.unwrap();
}

async fn strike(faults: Vec<(u64, Fault)>, server: Rc<Server>) {
    for (pause, fault) in faults {
        sleep(Duration::from_millis(pause)).await;
        match fault {
            Fault::Kill => server.kill_one(),
            Fault::Crash(down_ms) => {
                server.crash();
                sleep(Duration::from_millis(down_ms)).await;
                server.restart();
            }
        }
    }
}

fn warm_up() -> Vec<Step> {
    let mut element = 1_000_000;
    let mut next = || {
        element += 1;
        element
    };
    let list = 1;
    let mut actions = Vec::new();
    for protocol in [Protocol::Simple, Protocol::Unnamed] {
        let append = |element, size_max| Action::Append {
            list,
            element,
            size_max,
        };
        let all = [
            append(next(), None),
            append(next(), Some(1_000)),
            Action::Upsert {
                list,
                element: next(),
            },
            Action::Insert { element: next() },
            Action::Read { list },
            Action::Take,
        ];
        actions.extend(all.map(|action| (action, protocol)));
    }
    let step = |(action, protocol)| Step {
        pause_ms: 100,
        action,
        protocol,
        binary: false,
        leaves: false,
        split: false,
    };
    actions.into_iter().map(step).collect()
}

//! Processes that are killed, networks that fail, disks that are full, under every strategy. Each client keeps a ledger; afterwards the
//! database is compared with the ledgers. `make chaos` makes many runs.

mod clients;
mod copies;
mod copying;
mod faults;
mod ledger;
mod listening;
mod notices;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::harness::cluster::Cluster;
use crate::harness::network::Network;
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::raw::RawClient;
use crate::harness::wait::{LIMIT, ended};
use crate::harness::{Rng, until};
use clients::{Form, Load, work};
use faults::{FAULTS, Fault, direct, strike};
use ledger::{Entry, Findings, Found, Kind, Outcome, Tally, compare};
use listening::Listener;
use notices::{CHANNELS, LAST, Notice};

/// The number of runs; the sample of `make test` makes a few.
const RUNS: &str = "PACELINE_RUNS";
const SAMPLE: u64 = 4;
const CLIENTS: usize = 24;
const DIRECT_CLIENTS: usize = 2;
/// Clients that copy, notify and listen; one more of each kind is connected to PostgreSQL itself.
const COPYING: usize = 3;
const NOTIFYING: usize = 2;
const LISTENING: usize = 3;
/// The number of operations without faults after the last fault of a run.
const CALM: u64 = 150;
/// The same for COPY in each direction, and for notifications that arrive.
const CALM_COPIES: usize = 4;
const CALM_NOTIFICATIONS: usize = 10;
/// The number of operations before the first fault: the templates are analyzed, and requests run in groups.
const WARM_UP: u64 = 300;
/// Small ones, so that requests wait for each other.
const POOL_SIZES: [usize; 4] = [1, 1, 1, 2];
/// SQLSTATEs of refused operations: a deadlock, and a write that fails because the disk is full, which is `internal_error` for a limit on the
/// size of files.
const REFUSED: [&str; 2] = ["40P01", "XX000"];

const TABLES: &str = "
    DROP TABLE IF EXISTS hot, counts, queue, journal, loaded;
    CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, seen int[] NOT NULL DEFAULT '{}');
    CREATE TABLE counts (LIKE hot INCLUDING ALL);
    CREATE TABLE queue (id int PRIMARY KEY, taken_by int);
    CREATE TABLE journal (tag int NOT NULL);
    CREATE TABLE loaded (tag int NOT NULL, part int NOT NULL, filler text NOT NULL);
    INSERT INTO hot SELECT generate_series(1, 3);
    INSERT INTO queue SELECT generate_series(1, 20000)";

/// The number of requests that were executed by each strategy.
type Strategies = BTreeMap<String, i64>;

/// All strategies; a long run that has not used each of them has failed.
const STRATEGIES: [&str; 8] = [
    "solo", "lease", "fold", "take", "merge", "chain", "pipeline", "share",
];
const LONG_RUN: u64 = 100;

/// The values of `listen_mode` and `listen_lost`.
const LISTEN_MODES: [[&str; 2]; 3] = [["session", "error"], ["shared", "error"], ["shared", "log"]];
/// The log line of a Paceline whose clients may have missed notifications.
const MISSED: &str = "notifications may have been missed";
/// Between two of the last notifications of a run.
const AGAIN: Duration = Duration::from_millis(20);

/// The differences between runs.
#[derive(Debug)]
struct Plan {
    faults: Vec<Fault>,
    pacelines: usize,
    listen: [&'static str; 2],
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            faults: (0..rng.between(1, 3)).map(|_| *rng.pick(&FAULTS)).collect(),
            pacelines: if rng.chance(25) { 2 } else { 1 },
            listen: *rng.pick(&LISTEN_MODES),
        }
    }
}

/// A server, and one or two Pacelines before it, with networks between.
struct Scene {
    cluster: Arc<Cluster>,
    server: Network,
    pacelines: Vec<Paceline>,
    clients: Vec<Network>,
    /// Leads past Paceline, and refuses no connection while the server is away.
    past: Network,
    settings: Vec<String>,
    /// A Paceline that was killed had logged [`MISSED`].
    killed_has_missed: bool,
}

impl Scene {
    async fn open(cluster: Arc<Cluster>, plan: &Plan, rng: &mut Rng) -> Self {
        let [mode, lost] = plan.listen;
        let server = Network::before(cluster.port()).await;
        let settings = vec![
            format!("default_pool_size={}", rng.pick(&POOL_SIZES)),
            format!("hotspot_for_autocommit={}", rng.chance(70)),
            format!("hotspot_lock_type={}", rng.chance(70)),
            format!("listen_mode={mode}"),
            format!("listen_lost={lost}"),
            "server_login_retry=20ms".to_owned(),
        ];
        let mut scene = Self {
            past: Network::before(cluster.port()).await,
            cluster,
            server,
            pacelines: Vec::new(),
            clients: Vec::new(),
            settings,
            killed_has_missed: false,
        };
        for _ in 0..plan.pacelines {
            let paceline = scene.start_paceline().await;
            scene.clients.push(Network::before(paceline.port()).await);
            scene.pacelines.push(paceline);
        }
        scene
    }

    async fn start_paceline(&self) -> Paceline {
        let upstream = format!(
            "postgres://postgres@127.0.0.1:{}/postgres",
            self.server.port()
        );
        let builder = Paceline::start(&upstream);
        let set = |builder: Builder, setting: &String| builder.set(setting);
        let builder = self.settings.iter().fold(builder, set);
        tokio::task::spawn_blocking(|| builder.spawn())
            .await
            .unwrap()
    }

    /// The ports of so many clients of the Pacelines, in turn, and of so many of PostgreSQL itself.
    fn ports(&self, through: usize, past: usize) -> Vec<u16> {
        let pacelines = self.clients.iter().map(Network::port).cycle();
        let past = std::iter::repeat_n(self.past.port(), past);
        pacelines.take(through).chain(past).collect()
    }

    /// Whether clients that still listen may have missed notifications.
    fn has_missed(&self, plan: &Plan) -> bool {
        let has_logged = self
            .pacelines
            .iter()
            .any(|paceline| paceline.logged(MISSED));
        plan.listen == ["shared", "log"] && (self.killed_has_missed || has_logged)
    }

    /// Kills one and starts another in its place.
    async fn restart_paceline(&mut self, place: usize) {
        self.pacelines[place].signal("KILL");
        let paceline = self.start_paceline().await;
        self.clients[place].lead_to(paceline.port());
        let killed = std::mem::replace(&mut self.pacelines[place], paceline);
        self.killed_has_missed |= killed.logged(MISSED);
        tokio::task::spawn_blocking(|| drop(killed)).await.unwrap();
    }
}

/// One run: clients work, faults strike in between, and the ledgers are compared.
async fn run(cluster: &Arc<Cluster>, seed: u64, plan: &Plan) -> (Findings, Strategies) {
    let mut rng = Rng::new(seed);
    direct(cluster).ok(TABLES);
    let mut scene = Scene::open(cluster.clone(), plan, &mut rng).await;
    let load = Arc::new(Load {
        ledger: Default::default(),
        copies: Default::default(),
        notices: Default::default(),
        heard: 0.into(),
        stop: false.into(),
        kills: rng.below(20),
        usual: Form::any(&mut rng),
    });
    let listeners = start_listeners(&scene, &load, &mut rng);
    let workers = start_workers(&scene, &load, &mut rng);
    progress(&load, WARM_UP).await;
    for fault in &plan.faults {
        progress(&load, rng.below(120) as u64).await;
        strike(*fault, &mut scene, &mut rng).await;
    }
    calm(&load).await;
    load.stop.store(true, Ordering::SeqCst);
    ended("every client has its last answer", workers).await;
    end_listeners(cluster.clone(), load.clone(), listeners).await;
    let mut strategies = Strategies::new();
    for paceline in &scene.pacelines {
        count_strategies(paceline, &mut strategies);
    }
    let mut observer = direct(cluster);
    end_sessions(&mut observer);
    let mut findings = compare(&load.ledger.entries(), &Found::read(&mut observer));
    load.copies
        .compare(&copies::read(&mut observer), &mut findings);
    load.notices.compare(scene.has_missed(plan), &mut findings);
    tokio::task::spawn_blocking(|| drop(scene)).await.unwrap();
    (findings, strategies)
}

fn start_workers(scene: &Scene, load: &Arc<Load>, rng: &mut Rng) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for port in scene.ports(CLIENTS, DIRECT_CLIENTS) {
        tasks.spawn(work(
            load.clone(),
            url("postgres", port),
            Rng::new(rng.next()),
        ));
    }
    for port in scene.ports(COPYING, 1) {
        let (load, rng) = (load.clone(), Rng::new(rng.next()));
        tasks.spawn_blocking(move || copying::work(&load, port, rng));
    }
    for (sender, port) in (1..).zip(scene.ports(NOTIFYING, 1)) {
        let rng = Rng::new(rng.next());
        tasks.spawn(listening::notify(
            load.clone(),
            url("postgres", port),
            sender,
            rng,
        ));
    }
    tasks
}

/// Each listener has a pool of its own: with `listen_mode=session` it keeps a server connection.
fn start_listeners(scene: &Scene, load: &Arc<Load>, rng: &mut Rng) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (place, port) in scene.ports(LISTENING, 1).into_iter().enumerate() {
        let is_direct = place == LISTENING;
        let user = if is_direct {
            "postgres".to_owned()
        } else {
            format!("listener{place}")
        };
        let listener = Listener {
            load: load.clone(),
            url: url(&user, port),
            sender: (NOTIFYING + 2 + place) as i32,
            is_direct,
            rng: Rng::new(rng.next()),
        };
        tasks.spawn(listener.work());
    }
    tasks
}

fn url(user: &str, port: u16) -> String {
    format!("postgres://{user}@127.0.0.1:{port}/postgres")
}

/// Notifies until each listener has got a last notification: a listener that was disconnected a moment ago may miss the first ones.
async fn end_listeners(cluster: Arc<Cluster>, load: Arc<Load>, listeners: JoinSet<()>) {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = has_ended.clone();
    let notifying = tokio::task::spawn_blocking(move || {
        let mut sender = direct(&cluster);
        let numbers = (LAST..).step_by(CHANNELS.len());
        for first in numbers.take_while(|_| !ends.load(Ordering::SeqCst)) {
            for (number, place) in (first..).zip(0..CHANNELS.len()) {
                let begun = load.ledger.tick();
                sender.ok(&format!("NOTIFY {}, '{number}'", CHANNELS[place]));
                let notice = Notice::last(place, number, begun, load.ledger.tick());
                load.notices.add(notice);
            }
            std::thread::sleep(AGAIN);
        }
    });
    ended("every listener gets a last notification", listeners).await;
    has_ended.store(true, Ordering::SeqCst);
    notifying.await.unwrap();
}

/// Adds the requests of a Paceline by strategy. Those of one that was killed are not counted.
fn count_strategies(paceline: &Paceline, strategies: &mut Strategies) {
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut client = RawClient::connect(paceline.port(), &parameters);
    for row in client.ok("SHOW GROUPS").rows() {
        let [_, strategy, units, ..] = &row[..] else {
            panic!("{row:?}");
        };
        let strategy = strategy.clone().unwrap();
        let units: i64 = units.as_ref().unwrap().parse().unwrap();
        *strategies.entry(strategy).or_default() += units;
    }
}

/// Returns when `count` more operations were acknowledged. Fails, and names the last operation, if there is no progress.
async fn progress(load: &Load, count: u64) {
    let wanted = load.ledger.acknowledged() + count;
    if !reached(|| load.ledger.acknowledged() >= wanted).await {
        panic!("no progress: {:?}", load.ledger.entries().last());
    }
}

/// Returns when clients of every kind have worked without faults for a while.
async fn calm(load: &Load) {
    let (loads, readings) = load.copies.done();
    let heard = load.heard.load(Ordering::SeqCst);
    progress(load, CALM).await;
    let copied = || {
        let (loads_now, readings_now) = load.copies.done();
        loads_now >= loads + CALM_COPIES && readings_now >= readings + CALM_COPIES
    };
    assert!(reached(copied).await, "COPY makes no progress");
    let arrives = || load.heard.load(Ordering::SeqCst) >= heard + CALM_NOTIFICATIONS;
    assert!(reached(arrives).await, "no notifications arrive");
}

/// Whether the condition holds before the limit.
async fn reached(condition: impl Fn() -> bool) -> bool {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT * 2, holds).await.is_ok()
}

/// Ends all other sessions, so that no unfinished work of a client is done afterwards.
fn end_sessions(observer: &mut RawClient) {
    let others =
        "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    until("all sessions have ended", || {
        observer.simple(&format!("SELECT pg_terminate_backend(pid) {others}"));
        observer.number(&format!("SELECT count(*) {others}")) == 0
    });
}

fn server() -> Arc<Cluster> {
    Cluster::with(&[
        ("max_connections", "40"),
        ("shared_buffers", "8MB"),
        ("max_wal_size", "64MB"),
        ("min_wal_size", "32MB"),
    ])
}

fn assert_exact(findings: &Findings, what: &str) {
    let exact = findings.lists().iter().all(|list| list.is_empty());
    let expected = |state: &String| REFUSED.contains(&state.as_str());
    let known = findings.refused.keys().all(expected);
    assert!(exact && known, "{what}: {findings:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_made_twice() {
    let seed = paceline_testing::seed();
    let runs = std::env::var(RUNS).map_or(SAMPLE, |runs| runs.parse().unwrap());
    let cluster = server();
    let (mut acknowledged, mut unknown) = (0, 0);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut strategies = Strategies::new();
    let mut struck: BTreeMap<Fault, usize> = BTreeMap::new();
    let (mut copies, mut notices) = (Tally::default(), Tally::default());
    let mut listened: BTreeMap<[&str; 2], usize> = BTreeMap::new();
    for number in 0..runs {
        // Each run has a seed of its own, so that it can be repeated alone.
        let own = seed.wrapping_add(number);
        let mut rng = Rng::new(own);
        let plan = Plan::draw(&mut rng);
        println!("run {number}: PACELINE_SEED={own:#x} {plan:?}");
        let (findings, by_strategy) = run(&cluster, rng.next(), &plan).await;
        assert_exact(&findings, &format!("PACELINE_SEED={own:#x} {RUNS}=1"));
        acknowledged += findings.acknowledged;
        unknown += findings.unknown;
        copies += findings.copies;
        notices += findings.notices;
        *listened.entry(plan.listen).or_default() += 1;
        for (state, count) in findings.refused {
            *refused.entry(state).or_default() += count;
        }
        for (strategy, count) in by_strategy {
            *strategies.entry(strategy).or_default() += count;
        }
        for fault in plan.faults {
            *struck.entry(fault).or_default() += 1;
        }
    }
    println!("{runs} runs, {struck:?}");
    println!("requests by strategy: {strategies:?}");
    println!("{acknowledged} acknowledged, {unknown} unknown, refused {refused:?}");
    println!(
        "COPY FROM STDIN: {} committed, {} undone, {} unknown; COPY TO STDOUT: {}",
        copies.done, copies.undone, copies.unknown, copies.read
    );
    println!(
        "transactions with NOTIFY: {} committed, {} rolled back, {} unknown; {} notifications arrived; {listened:?}",
        notices.done, notices.undone, notices.unknown, notices.read
    );
    println!("0 lost, 0 twice, 0 wrong, 0 hung");
    let missing = STRATEGIES.map(|strategy| !strategies.contains_key(strategy));
    let is_complete = missing == [false; 8] && listened.len() == LISTEN_MODES.len();
    assert!(
        runs < LONG_RUN || is_complete,
        "a strategy or a listen_mode was not used"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pacelines_before_one_server_are_exact() {
    let seed = paceline_testing::seed();
    let plan = Plan {
        faults: Vec::new(),
        pacelines: 2,
        listen: *Rng::new(seed).pick(&LISTEN_MODES),
    };
    let (findings, _) = run(&server(), seed, &plan).await;
    assert_exact(&findings, "two before one server");
}

/// The comparison finds each fault for which it exists.
#[test]
fn the_comparison_finds_each_fault() {
    let entry = |tag, begun, outcome| Entry {
        kind: Kind::Update,
        tag,
        key: 1,
        begun,
        ended: begun + 1,
        outcome,
    };
    let done = |tag, begun, n| entry(tag, begun, Outcome::Acknowledged(n));
    let check = |entries: &[Entry], tags: &[i32]| {
        let hot = BTreeMap::from([(1, tags.to_vec())]);
        let found = Found {
            hot,
            ..Found::default()
        };
        compare(entries, &found)
            .lists()
            .map(|list| !list.is_empty())
    };
    let right = [done(1, 0, 1), done(2, 2, 2)];
    assert_eq!(check(&right, &[1, 2]), [false; 4]);
    // A lost and a doubled update cancel out in a total, but not here.
    assert_eq!(check(&right, &[1, 1]), [true, true, true, false]);
    assert_eq!(check(&right, &[2, 1]), [false, false, true, false]);
    let unknown = entry(3, 4, Outcome::Unknown);
    for tags in [&[1, 2][..], &[1, 2, 3]] {
        let entries = [right[0].clone(), right[1].clone(), unknown.clone()];
        assert_eq!(check(&entries, tags), [false; 4]);
    }
    let refused = entry(3, 4, Outcome::Refused("55P03".to_owned()));
    assert_eq!(check(&[refused], &[3]), [false, false, true, false]);
    assert_eq!(
        check(&[entry(1, 0, Outcome::Hung)], &[]),
        [false, false, false, true]
    );
    let mut stale = entry(4, 9, Outcome::Found(vec![1]));
    stale.kind = Kind::Read;
    let entries = [right[0].clone(), right[1].clone(), stale];
    assert_eq!(check(&entries, &[1, 2]), [false, false, true, false]);
}

//! Processes that are killed, networks that fail, disks that are full, under every strategy. Each client keeps a ledger; afterwards the
//! database is compared with the ledgers. `make chaos` makes many runs.

mod clients;
mod faults;
mod ledger;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
use ledger::{Entry, Findings, Found, Kind, Ledger, Outcome, compare};

/// The number of runs; the sample of `make test` makes a few.
const RUNS: &str = "PACELINE_RUNS";
const SAMPLE: u64 = 4;
const CLIENTS: usize = 24;
const DIRECT_CLIENTS: usize = 2;
/// The number of operations without faults after the last fault of a run.
const CALM: u64 = 150;
/// The number of operations before the first fault: the templates are analyzed, and requests run in groups.
const WARM_UP: u64 = 300;
/// Small ones, so that requests wait for each other.
const POOL_SIZES: [usize; 4] = [1, 1, 1, 2];
/// SQLSTATEs of refused operations: a deadlock, and a write that fails because the disk is full, which is `internal_error` for a limit on the
/// size of files.
const REFUSED: [&str; 2] = ["40P01", "XX000"];

const TABLES: &str = "
    DROP TABLE IF EXISTS hot, counts, queue, journal;
    CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, seen int[] NOT NULL DEFAULT '{}');
    CREATE TABLE counts (LIKE hot INCLUDING ALL);
    CREATE TABLE queue (id int PRIMARY KEY, taken_by int);
    CREATE TABLE journal (tag int NOT NULL);
    INSERT INTO hot SELECT generate_series(1, 3);
    INSERT INTO queue SELECT generate_series(1, 20000)";

/// The number of requests that were executed by each strategy.
type Strategies = BTreeMap<String, i64>;

/// All strategies; a long run that has not used each of them has failed.
const STRATEGIES: [&str; 8] = [
    "solo", "lease", "fold", "take", "merge", "chain", "pipeline", "share",
];
const LONG_RUN: u64 = 100;

/// A server, and one or two Pacelines before it, with networks between.
struct Scene {
    cluster: Arc<Cluster>,
    server: Network,
    pacelines: Vec<Paceline>,
    clients: Vec<Network>,
    settings: Vec<String>,
}

impl Scene {
    async fn open(cluster: Arc<Cluster>, pacelines: usize, rng: &mut Rng) -> Self {
        let server = Network::before(cluster.port()).await;
        let settings = vec![
            format!("default_pool_size={}", rng.pick(&POOL_SIZES)),
            format!("hotspot_for_autocommit={}", rng.chance(70)),
            format!("hotspot_lock_type={}", rng.chance(70)),
            "server_login_retry=20ms".to_owned(),
        ];
        let mut scene = Self {
            cluster,
            server,
            pacelines: Vec::new(),
            clients: Vec::new(),
            settings,
        };
        for _ in 0..pacelines {
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

    /// Kills one and starts another in its place.
    async fn restart_paceline(&mut self, place: usize) {
        self.pacelines[place].signal("KILL");
        let paceline = self.start_paceline().await;
        self.clients[place].lead_to(paceline.port());
        let killed = std::mem::replace(&mut self.pacelines[place], paceline);
        tokio::task::spawn_blocking(|| drop(killed)).await.unwrap();
    }
}

/// One run: clients work, faults strike in between, and the ledgers are compared.
async fn run(
    cluster: &Arc<Cluster>,
    seed: u64,
    faults: &[Fault],
    pacelines: usize,
) -> (Findings, Strategies) {
    let mut rng = Rng::new(seed);
    direct(cluster).ok(TABLES);
    let mut scene = Scene::open(cluster.clone(), pacelines, &mut rng).await;
    let load = Arc::new(Load {
        ledger: Ledger::default(),
        stop: false.into(),
        kills: rng.below(20),
        usual: Form::any(&mut rng),
    });
    let mut tasks = JoinSet::new();
    let through = scene
        .clients
        .iter()
        .map(Network::port)
        .cycle()
        .take(CLIENTS);
    let past = std::iter::repeat_n(cluster.port(), DIRECT_CLIENTS);
    for port in through.chain(past) {
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        tasks.spawn(work(load.clone(), url, Rng::new(rng.next())));
    }
    progress(&load, WARM_UP).await;
    for fault in faults {
        progress(&load, rng.below(120) as u64).await;
        strike(*fault, &mut scene, &mut rng).await;
    }
    progress(&load, CALM).await;
    load.stop.store(true, Ordering::SeqCst);
    ended("every client has its last answer", tasks).await;
    let mut strategies = Strategies::new();
    for paceline in &scene.pacelines {
        count_strategies(paceline, &mut strategies);
    }
    let mut observer = direct(cluster);
    end_sessions(&mut observer);
    let findings = compare(&load.ledger.entries(), &Found::read(&mut observer));
    tokio::task::spawn_blocking(|| drop(scene)).await.unwrap();
    (findings, strategies)
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
    let reached = async {
        while load.ledger.acknowledged() < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let moved = tokio::time::timeout(LIMIT * 2, reached).await;
    assert!(
        moved.is_ok(),
        "no progress: {:?}",
        load.ledger.entries().last()
    );
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
    for number in 0..runs {
        // Each run has a seed of its own, so that it can be repeated alone.
        let own = seed.wrapping_add(number);
        let mut rng = Rng::new(own);
        let faults: Vec<Fault> = (0..rng.between(1, 3)).map(|_| *rng.pick(&FAULTS)).collect();
        let pacelines = if rng.chance(25) { 2 } else { 1 };
        println!("run {number}: PACELINE_SEED={own:#x} {faults:?}, {pacelines} before the server");
        let (findings, by_strategy) = run(&cluster, rng.next(), &faults, pacelines).await;
        assert_exact(&findings, &format!("PACELINE_SEED={own:#x} {RUNS}=1"));
        acknowledged += findings.acknowledged;
        unknown += findings.unknown;
        for (state, count) in findings.refused {
            *refused.entry(state).or_default() += count;
        }
        for (strategy, count) in by_strategy {
            *strategies.entry(strategy).or_default() += count;
        }
        for fault in faults {
            *struck.entry(fault).or_default() += 1;
        }
    }
    println!("{runs} runs, {struck:?}");
    println!("requests by strategy: {strategies:?}");
    println!("{acknowledged} acknowledged, {unknown} unknown, refused {refused:?}");
    println!("0 lost, 0 twice, 0 wrong, 0 hung");
    let missing = STRATEGIES.map(|strategy| !strategies.contains_key(strategy));
    assert!(
        runs < LONG_RUN || missing == [false; 8],
        "a strategy was not used"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pacelines_before_one_server_are_exact() {
    let seed = paceline_testing::seed();
    let (findings, _) = run(&server(), seed, &[], 2).await;
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

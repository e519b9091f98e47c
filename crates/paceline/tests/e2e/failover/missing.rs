//! After a promotion Paceline reports how many acknowledged commits are missing: never fewer than `missing_min`, never more than
//! `missing_max`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use super::{Fate, Pair, console, shown};
use crate::harness::driver::{connect, is_connection_failure};
use crate::harness::open_metrics::Scrape;
use crate::harness::paceline::Paceline;
use crate::harness::wait::LIMIT;
use crate::harness::{Rng, http, until};

const TABLE: &str = "CREATE TABLE w (id int8 PRIMARY KEY)";

/// The last row of `SHOW FAILOVERS`.
fn last_failover(paceline: &Paceline) -> Option<BTreeMap<String, String>> {
    let reply = console(paceline).ok("SHOW FAILOVERS");
    let values = reply
        .rows()
        .pop()?
        .into_iter()
        .map(Option::unwrap_or_default);
    Some(reply.0[0].columns().into_iter().zip(values).collect())
}

/// The bounds of `SHOW FAILOVERS`, once it has the promotion to this timeline.
pub(super) fn bounds(paceline: &Paceline, timeline: u32) -> (i64, i64) {
    let mut found = (0, 0);
    until("the failover was compared", || {
        let Some(row) = last_failover(paceline) else {
            return false;
        };
        found = (
            row["missing_min"].parse().unwrap(),
            row["missing_max"].parse().unwrap(),
        );
        row["timeline"] == timeline.to_string()
    });
    found
}

impl Pair {
    /// Returns when `count` probes of the primary have ended.
    fn await_probes(&self, count: usize) {
        let (mut before, mut seen) = (u64::MAX, 0);
        until("the primary was probed", || {
            let age = shown(&self.paceline, self.primary.port(), &["probe_age_ms"]);
            let age = age.parse().unwrap_or(u64::MAX);
            seen += usize::from(age < before);
            before = age;
            seen > count
        });
    }

    /// The replica receives nothing more from the primary.
    fn detach(&self) {
        let mut replica = self.replica.client("postgres");
        replica.ok("ALTER SYSTEM SET primary_conninfo = ''");
        replica.ok("SELECT pg_reload_conf()");
        until("the replica is detached", || {
            replica.value("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
        });
    }

    /// The replica has the whole log of the primary.
    fn await_log(&self) {
        let mut primary = self.primary.client("postgres");
        let mut replica = self.replica.client("postgres");
        let end = primary.value("SELECT pg_current_wal_insert_lsn()");
        until("the replica has all", || {
            replica.value(&format!("SELECT pg_last_wal_replay_lsn() >= '{end}'")) == "t"
        });
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let answer = http::get(&self.paceline.metrics(), "/metrics");
        Scrape::read(&answer.body).value(name, &[("database", "postgres")])
    }
}

/// Commits before and after the loss of the link: `kept`, and twice `lost` with a probe in between. Then the primary is killed.
fn lose(pair: &Pair, kept: i64, lost: i64) -> (i64, i64) {
    let mut client = pair.client();
    let mut add = |from: i64, count: i64| {
        for id in from..from + count {
            client.ok(&format!("INSERT INTO w VALUES ({id})"));
        }
    };
    add(0, kept);
    pair.await_log();
    pair.await_probes(2);
    pair.detach();
    add(1_000, lost);
    // More than the new primary writes before it is probed.
    let mut primary = pair.primary.client("postgres");
    primary.ok("SELECT pg_logical_emit_message(false, 'gap', repeat('x', 4000000))");
    pair.await_probes(2);
    add(2_000, lost);
    pair.primary.kill();
    pair.promote();
    pair.await_promotion();
    let bounds = bounds(&pair.paceline, 2);
    assert_eq!(
        pair.replica
            .client("postgres")
            .number("SELECT count(*) FROM w"),
        kept
    );
    bounds
}

#[test]
fn a_promotion_reports_what_it_has_lost() {
    let Some(pair) = Pair::start(&["metrics_listen=127.0.0.1:0"]) else {
        return;
    };
    pair.client().ok(TABLE);
    let (at_least, at_most) = lose(&pair, 30, 20);
    println!("{at_least} to {at_most} of 40 are missing");
    assert!((20..=40).contains(&at_least), "{at_least}");
    assert_eq!(at_most, 40);
    let counted =
        ["min", "max"].map(|bound| pair.metric(&format!("paceline_missing_commits_{bound}_total")));
    assert_eq!(counted, [at_least, at_most].map(|bound| Some(bound as f64)));
    assert_eq!(pair.metric("paceline_failovers_total"), Some(1.0));
    assert!(
        pair.paceline
            .logged("the promotion has lost acknowledged commits")
    );
    let row = last_failover(&pair.paceline).unwrap();
    assert_eq!(row["database"], "postgres");
    let address = |port: u16| format!("127.0.0.1:{port}");
    assert_eq!(row["host_before"], address(pair.primary.port()));
    assert_eq!(row["host"], address(pair.replica.port()));
    assert_eq!(row["timeline_before"], "1");
    let mut replica = pair.replica.client("postgres");
    let file = replica.value("SELECT pg_read_file('pg_wal/00000002.history')");
    assert_eq!(file.split('\t').nth(1), Some(row["switch_point"].as_str()));
}

/// The monitor may not read the history file of the new timeline.
#[test]
fn without_the_history_the_bounds_are_wider() {
    let settings = ["monitor_user=mon", "failover_timeout=60s"];
    let Some(pair) = Pair::start(&settings) else {
        return;
    };
    let mut primary = pair.primary.client("postgres");
    primary.ok("CREATE ROLE mon LOGIN; GRANT pg_monitor TO mon");
    pair.client().ok(TABLE);
    let (at_least, at_most) = lose(&pair, 30, 40);
    println!("{at_least} to {at_most} of 80 are missing");
    assert!((40..=80).contains(&at_least), "{at_least}");
    assert!((80..=111).contains(&at_most), "{at_most}");
    let row = last_failover(&pair.paceline).unwrap();
    assert!(row["switch_point"].contains(" to "), "{row:?}");
}

#[test]
fn a_switchover_loses_nothing() {
    let Some(pair) = Pair::start(&[]) else { return };
    let mut client = pair.client();
    client.ok(TABLE);
    client.ok("INSERT INTO w SELECT generate_series(1, 10)");
    client.ok("BEGIN");
    client.ok("DELETE FROM w WHERE id < 4");
    client.ok("COMMIT");
    pair.await_probes(2);
    pair.primary.stop();
    pair.promote();
    pair.await_promotion();
    assert_eq!(bounds(&pair.paceline, 2), (0, 0));
    assert!(
        pair.paceline
            .logged("the promotion has lost no acknowledged commit")
    );
}

/// Clients that insert each number once, and the acknowledged numbers.
struct Inserts {
    next: AtomicI64,
    acknowledged: Mutex<BTreeSet<i64>>,
    stop: AtomicBool,
    running: RwLock<()>,
}

impl Inserts {
    fn start(url: &str, clients: usize) -> (Arc<Self>, JoinSet<()>) {
        let inserts = Arc::new(Self {
            next: AtomicI64::new(0),
            acknowledged: Mutex::default(),
            stop: AtomicBool::new(false),
            running: RwLock::default(),
        });
        let mut clients_of_it = JoinSet::new();
        for _ in 0..clients {
            clients_of_it.spawn(Arc::clone(&inserts).work(url.to_owned()));
        }
        (inserts, clients_of_it)
    }

    async fn work(self: Arc<Self>, url: String) {
        let mut client = None;
        while !self.stop.load(Ordering::SeqCst) {
            let _running = self.running.read().await;
            let Some(connected) = &client else {
                client = connect(&url).await.ok();
                continue;
            };
            let id = self.next.fetch_add(1, Ordering::SeqCst);
            match insert(connected, id).await {
                Ok(()) => drop(self.acknowledged.lock().unwrap().insert(id)),
                Err(error) if is_connection_failure(&error) => client = None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns when `count` more are acknowledged.
    async fn progress(&self, count: usize) {
        let acknowledged = || self.acknowledged.lock().unwrap().len();
        let wanted = acknowledged() + count;
        let reached = async {
            while acknowledged() < wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let reached = tokio::time::timeout(LIMIT, reached).await;
        assert!(reached.is_ok(), "the load makes no progress");
    }

    /// Forgets and counts those that the new primary does not have.
    fn take_missing(&self, pair: &Pair) -> usize {
        let reply = pair.replica.client("postgres").ok("SELECT id FROM w");
        let rows = reply.rows().into_iter();
        let found: BTreeSet<i64> = rows
            .map(|row| row[0].as_ref().unwrap().parse().unwrap())
            .collect();
        let mut acknowledged = self.acknowledged.lock().unwrap();
        let before = acknowledged.len();
        acknowledged.retain(|id| found.contains(id));
        before - acknowledged.len()
    }
}

/// Alone or in a transaction, by the simple and the extended protocol.
async fn insert(client: &Client, id: i64) -> Result<(), Error> {
    let sql = format!("INSERT INTO w VALUES ({id})");
    match id % 4 {
        0 => client.batch_execute(&format!("BEGIN; {sql}; COMMIT")).await,
        1 => {
            client.batch_execute("BEGIN").await?;
            client.execute("INSERT INTO w VALUES ($1)", &[&id]).await?;
            client.batch_execute("COMMIT").await
        }
        2 => client.batch_execute(&sql).await,
        _ => {
            let inserted = client.execute("INSERT INTO w VALUES ($1)", &[&id]).await;
            inserted.map(drop)
        }
    }
}

/// Two servers change their roles again and again under load, with asynchronous replication. `make failover` does it more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failovers_report_what_is_missing() {
    let times = std::env::var("PACELINE_FAILOVERS").map_or(3, |times| times.parse().unwrap());
    let seed = paceline_testing::seed();
    let mut rng = Rng::new(seed);
    let Some(mut pair) = tokio::task::block_in_place(|| Pair::start(&[])) else {
        return;
    };
    pair.client().ok(TABLE);
    let (inserts, clients) = Inserts::start(&pair.url(), 12);
    let mut all_missing = 0;
    for number in 0..times {
        inserts.progress(rng.between(1, 800) as usize).await;
        let detached = rng.chance(50);
        if detached {
            tokio::task::block_in_place(|| pair.detach());
            inserts.progress(rng.between(1, 1_500) as usize).await;
        }
        let fate = *rng.pick(&[Fate::Killed, Fate::Killed, Fate::Frozen, Fate::Alive]);
        fate.befall(&pair.primary);
        pair.promote();
        inserts.progress(rng.between(1, 200) as usize).await;
        let paused = inserts.running.write().await;
        let (at_least, at_most) =
            tokio::task::block_in_place(|| bounds(&pair.paceline, number + 2));
        let missing = inserts.take_missing(&pair) as i64;
        println!("{number}: {fate:?}, detached: {detached}; {at_least} <= {missing} <= {at_most}");
        assert!(at_least <= missing && missing <= at_most);
        all_missing += missing;
        drop(paused);
        tokio::task::block_in_place(|| pair.primary.follow(&pair.replica));
        std::mem::swap(&mut pair.primary, &mut pair.replica);
    }
    println!("{all_missing} were missing");
    inserts.stop.store(true, Ordering::SeqCst);
    clients.join_all().await;
}

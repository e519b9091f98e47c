//! Load for the tests of faults and of DDL: clients of the real driver that add 1 to one of a few rows, again and again,
//! and count acknowledged and refused updates, and those with an unknown outcome.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{RwLock, RwLockWriteGuard};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error, Statement};

use crate::harness::driver::{connect, is_connection_failure, sqlstate};
use crate::harness::raw::RawClient;
use crate::harness::wait::LIMIT;

const ADD: &str = "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + $1 WHERE id = $2";
/// Between two attempts to connect to a server that is down.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Rows that are hit: ids 1 to this.
pub(crate) const ROWS: usize = 3;

/// The results so far.
#[derive(Default)]
pub(crate) struct Tally {
    /// Updates that were acknowledged, by row.
    pub(crate) acknowledged: [AtomicI64; ROWS],
    /// Updates whose connection was lost before an answer arrived, by row.
    pub(crate) unknown: [AtomicI64; ROWS],
    /// Updates that the server has refused, by SQLSTATE.
    pub(crate) refused: Mutex<BTreeMap<String, i64>>,
    stop: AtomicBool,
    running: RwLock<()>,
}

/// Clients that work until the load is stopped.
pub(crate) struct Load {
    pub(crate) tally: Arc<Tally>,
    workers: JoinSet<()>,
}

impl Tally {
    pub(crate) fn acknowledged(&self) -> i64 {
        let each = self
            .acknowledged
            .iter()
            .map(|count| count.load(Ordering::SeqCst));
        each.sum()
    }

    /// Fails unless every acknowledged update exists, none was made twice, and none was refused.
    #[track_caller]
    pub(crate) fn check(&self, direct: &mut RawClient) {
        for row in 0..ROWS {
            let acknowledged = self.acknowledged[row].load(Ordering::SeqCst);
            let unknown = self.unknown[row].load(Ordering::SeqCst);
            let found = direct.number(&format!("SELECT n FROM t WHERE id = {}", row + 1));
            println!("row {row}: {acknowledged} acknowledged, {unknown} unknown, {found} found");
            assert!(found >= acknowledged, "acknowledged updates are missing");
            assert!(found <= acknowledged + unknown, "updates were made twice");
        }
        let refused = self.refused.lock().unwrap();
        assert!(refused.is_empty(), "{refused:?}");
    }

    pub(crate) fn refused(&self, state: &str) -> i64 {
        self.refused
            .lock()
            .unwrap()
            .get(state)
            .copied()
            .unwrap_or(0)
    }
}

impl Load {
    /// Starts clients that work until the load is stopped. Half of them use the simple protocol.
    pub(crate) fn start(url: &str, clients: usize) -> Load {
        let tally = Arc::new(Tally::default());
        let mut workers = JoinSet::new();
        for number in 0..clients {
            workers.spawn(work(url.to_owned(), number, tally.clone()));
        }
        Load { tally, workers }
    }

    /// Returns when `count` more updates have been acknowledged.
    pub(crate) async fn progress(&self, count: i64) {
        let wanted = self.tally.acknowledged() + count;
        self.until(|tally| tally.acknowledged() >= wanted).await;
    }

    /// Polls until something is true of the tally.
    pub(crate) async fn until(&self, condition: impl Fn(&Tally) -> bool) {
        let reached = async {
            while !condition(&self.tally) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let refused = &self.tally.refused;
        if tokio::time::timeout(LIMIT, reached).await.is_err() {
            panic!(
                "the load makes no progress; refused so far: {:?}",
                refused.lock().unwrap()
            );
        }
    }

    /// Holds the load between two updates of each client, until the guard is dropped.
    pub(crate) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.tally.running.write().await
    }

    /// Ends it; every client has had its last answer.
    pub(crate) async fn stop(self) -> Arc<Tally> {
        self.tally.stop.store(true, Ordering::SeqCst);
        self.workers.join_all().await;
        self.tally
    }
}

async fn work(url: String, number: usize, tally: Arc<Tally>) {
    let mut session = None;
    let mut round = number;
    while !tally.stop.load(Ordering::SeqCst) {
        let _running = tally.running.read().await;
        let Some((client, statement)) = &session else {
            session = open(&url).await;
            if session.is_none() {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            continue;
        };
        round += 1;
        let row = round % ROWS;
        match add(client, statement, number, row).await {
            Ok(1) => drop(tally.acknowledged[row].fetch_add(1, Ordering::SeqCst)),
            Ok(other) => panic!("{other} rows were updated"),
            Err(error) if is_connection_failure(&error) => {
                tally.unknown[row].fetch_add(1, Ordering::SeqCst);
                session = None;
            }
            Err(error) => {
                *tally
                    .refused
                    .lock()
                    .unwrap()
                    .entry(sqlstate(&error))
                    .or_default() += 1;
            }
        }
    }
}

/// `None` while the server cannot be reached.
async fn open(url: &str) -> Option<(Client, Statement)> {
    let client = connect(url).await.ok()?;
    let statement = client.prepare(ADD).await.ok()?;
    Some((client, statement))
}

async fn add(
    client: &Client,
    statement: &Statement,
    number: usize,
    row: usize,
) -> Result<u64, Error> {
    if number.is_multiple_of(2) {
        return client
            .execute(statement, &[&1_i32, &(row as i32 + 1)])
            .await;
    }
    let sql = ADD.replace("$1", "1").replace("$2", &(row + 1).to_string());
    let messages = client.simple_query(&sql).await?;
    let count = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    });
    Ok(count.unwrap_or(0))
}

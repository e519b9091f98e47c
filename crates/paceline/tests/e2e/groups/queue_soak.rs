//! A queue through Paceline with `queue_reorder_time`, and beside it one whose consumers connect to PostgreSQL directly, while
//! a transaction stays open: each job is taken once. Prints for each interval the takes, their latencies and the jobs that wait.
//!
//! `PACELINE_QUEUE_SOAK_SECONDS` sets the duration; `make soak-queue` runs for ten minutes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::harness::Stage;
use crate::harness::driver::connect;
use crate::harness::stage::Target;

/// Time between two commits of a producer.
const TICK: Duration = Duration::from_millis(10);
const INTERVALS: u32 = 10;
const SECONDS: u64 = 1;

/// Producer and consumers of one queue.
struct Queue {
    name: &'static str,
    /// Jobs per second.
    rate: u64,
    consumers: usize,
    /// One permit for each committed job that no consumer has claimed: a consumer asks only if there is a job.
    jobs: Semaphore,
    taken: Mutex<Taken>,
    produced: Mutex<u64>,
}

#[derive(Default)]
struct Taken {
    ids: HashSet<i64>,
    duplicates: u64,
    /// Latencies since the last line.
    latencies: Vec<Duration>,
}

impl Queue {
    fn new(name: &'static str, rate: u64, consumers: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            rate,
            consumers,
            jobs: Semaphore::new(0),
            taken: Mutex::default(),
            produced: Mutex::default(),
        })
    }

    fn setup(&self) -> String {
        let name = self.name;
        format!("CREATE TABLE {name} (id bigserial PRIMARY KEY, body text NOT NULL)")
    }

    fn take(&self) -> String {
        let name = self.name;
        format!(
            "DELETE FROM {name} WHERE id = (SELECT id FROM {name} ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        )
    }

    /// Inserts jobs for this time.
    async fn produce(self: Arc<Self>, url: String, time: Duration) {
        let client = connect(&url).await.unwrap();
        let jobs = self.rate * TICK.as_millis() as u64 / 1_000;
        let insert = format!(
            "INSERT INTO {} (body) SELECT repeat('x', 100) FROM generate_series(1, {jobs})",
            self.name
        );
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + time;
        while Instant::now() < end {
            ticks.tick().await;
            client.execute(&insert, &[]).await.unwrap();
            *self.produced.lock().unwrap() += jobs;
            self.jobs.add_permits(jobs as usize);
        }
    }

    /// Takes jobs until the semaphore is closed.
    async fn consume(self: Arc<Self>, url: String) {
        let client = connect(&url).await.unwrap();
        let take = client.prepare(&self.take()).await.unwrap();
        while let Ok(job) = self.jobs.acquire().await {
            job.forget();
            let sent = Instant::now();
            let row = client.query_opt(&take, &[]).await.unwrap();
            let mut taken = self.taken.lock().unwrap();
            taken.latencies.push(sent.elapsed());
            match row.map(|row| row.get(0)) {
                Some(id) => {
                    let new = taken.ids.insert(id);
                    taken.duplicates += u64::from(!new);
                }
                // All jobs were locked by other consumers at that moment.
                None => self.jobs.add_permits(1),
            }
        }
    }

    fn print(&self, number: u32) {
        let mut taken = self.taken.lock().unwrap();
        let mut latencies = std::mem::take(&mut taken.latencies);
        latencies.sort_unstable();
        let at = |percent: usize| latencies.get(latencies.len() * percent / 100);
        println!(
            "{:<12} {number:>2}: {:>8} takes, p50 {:?}, p99 {:?}, {} jobs wait",
            self.name,
            latencies.len(),
            at(50).copied().unwrap_or_default(),
            at(99).copied().unwrap_or_default(),
            self.jobs.available_permits(),
        );
    }

    /// Compares the taken jobs with the table.
    fn check(&self, waiting: i64) {
        let (taken, produced) = (self.taken.lock().unwrap(), *self.produced.lock().unwrap());
        assert_eq!(taken.duplicates, 0, "{}: a job went to two", self.name);
        let all = taken.ids.len() as i64 + waiting;
        assert_eq!(all, produced as i64, "{}: jobs are lost", self.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_job_is_taken_once_while_a_transaction_stays_open() {
    let seconds = std::env::var("PACELINE_QUEUE_SOAK_SECONDS");
    let seconds = seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let stage = Stage::on_shared()
        .set("default_pool_size=4")
        .set("hotspot_for_autocommit=true")
        .set("queue_reorder_time=30s")
        .open();
    let paceline = Queue::new("paceline", 2_000, 32);
    let direct = Queue::new("direct", 200, 4);
    let mut admin = stage.direct();
    let queues = [(&paceline, stage.url()), (&direct, stage.direct_url())];
    let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
    for (queue, url) in queues {
        admin.ok(&queue.setup());
        for _ in 0..queue.consumers {
            consumers.spawn(Arc::clone(queue).consume(url.clone()));
        }
        producers.spawn(Arc::clone(queue).produce(stage.direct_url(), time));
    }
    let mut idle = stage.direct();
    idle.ok("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM paceline, direct");
    let mut lines = tokio::time::interval(time / INTERVALS);
    lines.tick().await;
    for number in 1..=INTERVALS {
        lines.tick().await;
        for queue in [&paceline, &direct] {
            queue.print(number);
        }
    }
    producers.join_all().await;
    for queue in [&paceline, &direct] {
        queue.jobs.close();
    }
    consumers.join_all().await;
    for queue in [&paceline, &direct] {
        queue.check(admin.number(&format!("SELECT count(*) FROM {}", queue.name)));
    }
    let groups = stage.client().ok("SHOW GROUPS").rows();
    let takes = |row: &Vec<Option<String>>| row[1].as_deref() == Some("take");
    assert!(
        groups.iter().any(takes) || stage.target() == Target::Bare,
        "{groups:#?}"
    );
}

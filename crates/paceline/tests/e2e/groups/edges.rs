//! The edge store of a social graph under a celebrity: newest wins, and the degree is the number of set edges, whether
//! an edge is written by five statements in a transaction or by one upsert.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::harness::driver::connect;
use crate::harness::raw::RawClient;
use crate::harness::wait::until;
use crate::harness::{Rng, Stage};

const SETUP: &str = "
    CREATE TABLE edge (id bigint, target bigint, unixnano bigint NOT NULL, status int NOT NULL, UNIQUE (id, target));
    CREATE TABLE degree (id bigint PRIMARY KEY, degree bigint NOT NULL)";
const CELEBRITY: i64 = 1;
const UPSERT: &str = "INSERT INTO edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4) ON CONFLICT (id, target) \
    DO UPDATE SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status WHERE edge.unixnano < EXCLUDED.unixnano";
const COUNT: &str = "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + $2";

/// "id follows target", or no longer.
#[derive(Debug, Clone, Copy)]
struct Write {
    id: i64,
    target: i64,
    unixnano: i64,
    /// 0: set.
    status: i32,
}

impl Write {
    /// The `number`th of all writes: no two have the same time, and times are not in order.
    fn generate(number: usize, rng: &mut Rng) -> Self {
        Self {
            id: if rng.chance(60) {
                CELEBRITY
            } else {
                rng.between(2, 9)
            },
            target: rng.between(1, 12),
            unixnano: rng.between(0, 1_000) * 10_000 + number as i64,
            status: i32::from(rng.chance(35)),
        }
    }
}

/// As an application without upserts does it.
async fn write_in_five(client: &mut Client, write: Write) -> Result<(), Error> {
    let Write {
        id,
        target,
        unixnano,
        status,
    } = write;
    let transaction = client.transaction().await?;
    let found = "SELECT unixnano, status FROM edge WHERE id = $1 AND target = $2 FOR UPDATE";
    let found = transaction.query_opt(found, &[&id, &target]).await?;
    let before: Option<(i64, i32)> = found.map(|row| (row.get(0), row.get(1)));
    let newer = before.is_none_or(|(known, _)| known < unixnano);
    if before.is_none() {
        let insert = "INSERT INTO edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4)";
        transaction
            .execute(insert, &[&id, &target, &unixnano, &status])
            .await?;
    } else if newer {
        let update = "UPDATE edge SET unixnano = $3, status = $4 WHERE id = $1 AND target = $2";
        transaction
            .execute(update, &[&id, &target, &unixnano, &status])
            .await?;
    }
    let was_set = i64::from(before.is_some_and(|(_, status)| status == 0));
    let step = i64::from(status == 0) - was_set;
    if newer && step != 0 {
        transaction.execute(COUNT, &[&id, &step]).await?;
    }
    let read = "SELECT unixnano FROM edge WHERE id = $1 AND target = $2";
    let left: i64 = transaction.query_one(read, &[&id, &target]).await?.get(0);
    assert!(
        left >= unixnano,
        "an older write won: {left} over {write:?}"
    );
    transaction.commit().await
}

/// If two clients insert the same edge at once, one of them tries again, as it would without Paceline.
fn is_race(error: &Error) -> bool {
    let race = [SqlState::UNIQUE_VIOLATION, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| race.contains(code))
}

async fn in_five(url: Arc<str>, writes: Vec<Write>) {
    let mut client = connect(&url).await.unwrap();
    for write in writes {
        while let Err(error) = write_in_five(&mut client, write).await {
            assert!(is_race(&error), "{error}");
        }
    }
}

/// Writes that were acknowledged.
type Done = Arc<Mutex<Vec<Write>>>;

async fn in_one(url: Arc<str>, writes: Vec<Write>, done: Done) {
    let client = connect(&url).await.unwrap();
    let upsert = client.prepare(UPSERT).await.unwrap();
    let count = client.prepare(COUNT).await.unwrap();
    for write in writes {
        let Write {
            id,
            target,
            unixnano,
            status,
        } = write;
        let written = client
            .execute(&upsert, &[&id, &target, &unixnano, &status])
            .await;
        assert!(written.unwrap() <= 1);
        let step = i64::from(status == 0);
        assert_eq!(client.execute(&count, &[&id, &step]).await.unwrap(), 1);
        done.lock().unwrap().push(write);
    }
}

/// The newest write of each edge, as the result must be.
fn newest(writes: &[Write]) -> BTreeMap<(i64, i64), (i64, i64)> {
    let mut newest = BTreeMap::new();
    for write in writes {
        let edge = newest.entry((write.id, write.target)).or_insert((-1, 0));
        *edge = (*edge).max((write.unixnano, i64::from(write.status)));
    }
    newest
}

fn numbers(direct: &mut RawClient, sql: &str) -> Vec<Vec<i64>> {
    let rows = direct.ok(sql).rows();
    let number = |value: Option<String>| value.unwrap().parse().unwrap();
    rows.into_iter()
        .map(|row| row.into_iter().map(number).collect())
        .collect()
}

fn check_edges(direct: &mut RawClient, writes: &[Write]) {
    let found = numbers(direct, "SELECT id, target, unixnano, status FROM edge");
    let found: BTreeMap<_, _> = found
        .iter()
        .map(|row| ((row[0], row[1]), (row[2], row[3])))
        .collect();
    assert_eq!(found, newest(writes), "the newest write of each edge");
}

/// The writes of each client, and a stage for them.
fn plan(clients: usize, each: usize, pool: &str) -> (Stage, Vec<Vec<Write>>) {
    let mut rng = Rng::new(paceline_testing::seed());
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set(pool)
        .open();
    stage.direct().ok(SETUP);
    let mut number = 0;
    let mut write = || {
        number += 1;
        Write::generate(number, &mut rng)
    };
    let writes = (0..clients).map(|_| (0..each).map(|_| write()).collect());
    (stage, writes.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn five_statements_keep_the_newest_and_the_degree() {
    let (stage, plan) = plan(24, 30, "default_pool_size=5");
    let mut clients = JoinSet::new();
    for writes in plan.clone() {
        clients.spawn(in_five(stage.url().into(), writes));
    }
    clients.join_all().await;
    let mut direct = stage.direct();
    let writes = plan.concat();
    check_edges(&mut direct, &writes);
    let set = "SELECT id, count(*) FROM edge WHERE status = 0 GROUP BY id ORDER BY id";
    let degrees = "SELECT id, degree FROM degree WHERE degree <> 0 ORDER BY id";
    assert_eq!(numbers(&mut direct, set), numbers(&mut direct, degrees));
}

/// Checks the counts of ids against what must and what may have been counted.
fn check_counts(direct: &mut RawClient, acknowledged: &[Write], sent: &[Write]) {
    let count = |writes: &[Write], id: i64| {
        let set = writes
            .iter()
            .filter(|write| write.id == id && write.status == 0);
        set.count() as i64
    };
    for row in numbers(direct, "SELECT id, degree FROM degree") {
        let (id, degree) = (row[0], row[1]);
        let range = count(acknowledged, id)..=count(sent, id);
        assert!(range.contains(&degree), "{degree} of {range:?} for {id}");
    }
    let ids: BTreeSet<i64> = acknowledged.iter().map(|write| write.id).collect();
    let counted = direct.number("SELECT count(*) FROM degree");
    assert!(counted >= ids.len() as i64, "ids are missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_upsert_keeps_the_newest_and_the_count() {
    let (stage, plan) = plan(64, 40, "default_pool_size=2");
    let mut clients = JoinSet::new();
    for writes in plan.clone() {
        clients.spawn(in_one(stage.url().into(), writes, Done::default()));
    }
    clients.join_all().await;
    let mut direct = stage.direct();
    let writes = plan.concat();
    check_edges(&mut direct, &writes);
    check_counts(&mut direct, &writes, &writes);
    stage.assert_grouped(1_000, 4);
}

/// Clients are killed, others write beside Paceline, and the tables change under them: nothing acknowledged is lost, and
/// nothing is applied twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn upserts_survive_kills_direct_writers_and_ddl() {
    let (stage, plan) = plan(60, 40, "default_pool_size=3");
    let mut direct = stage.direct();
    let done: Vec<Done> = plan.iter().map(|_| Done::default()).collect();
    let mut clients = JoinSet::new();
    let mut victims = Vec::new();
    for (number, (writes, done)) in plan.iter().zip(&done).enumerate() {
        let url = if number % 10 == 0 {
            stage.direct_url()
        } else {
            stage.url()
        };
        let handle = clients.spawn(in_one(url.into(), writes.clone(), done.clone()));
        if number % 7 == 3 {
            victims.push(handle);
        }
    }
    let acknowledged = || -> Vec<Write> {
        done.iter()
            .flat_map(|done| done.lock().unwrap().clone())
            .collect()
    };
    for (number, victim) in (1..).zip(victims) {
        until("some writes are done", || {
            acknowledged().len() >= number * 120
        });
        victim.abort();
        direct.ok(
            "ALTER TABLE edge ADD COLUMN note text; ALTER TABLE degree ADD CHECK (degree >= 0)",
        );
        direct.ok("ALTER TABLE edge DROP COLUMN note; ALTER TABLE degree DROP CONSTRAINT degree_degree_check");
    }
    while let Some(ended) = clients.join_next().await {
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
    }
    until("Paceline is idle", || {
        direct.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'") == 1
    });
    let (acknowledged, sent) = (acknowledged(), plan.concat());
    check_counts(&mut direct, &acknowledged, &sent);
    let all = newest(&sent);
    for row in numbers(&mut direct, "SELECT id, target, unixnano FROM edge") {
        assert!(row[2] <= all[&(row[0], row[1])].0, "never sent: {row:?}");
    }
    for ((id, target), (unixnano, _)) in newest(&acknowledged) {
        let sql = format!("SELECT unixnano FROM edge WHERE id = {id} AND target = {target}");
        assert!(
            direct.number(&sql) >= unixnano,
            "lost: {id} {target} {unixnano}"
        );
    }
}

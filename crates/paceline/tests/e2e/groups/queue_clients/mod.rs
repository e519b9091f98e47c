//! Real clients of queues run jobs of their own through Paceline: nothing is lost, nothing is done twice.
//!
//! Each library has a folder here with a small program that uses it as an application would, with these commands:
//!
//! | command | what it does |
//! |---|---|
//! | `URL migrate` | makes the library's tables, by its own means |
//! | `URL enqueue FROM TO` | enqueues the jobs with these numbers, one by one |
//! | `URL work` | takes jobs, 8 at a time, and writes the number of each into `done`; until SIGTERM |
//! | `URL recover` | gives back, by the library's own means, what killed workers held |
//!
//! `scripts/queue-clients.sh` installs what they need. A library that cannot be installed is skipped, with a message.

mod library;

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;

use library::{Library, Worker};

use crate::harness::raw::RawClient;
use crate::harness::{Stage, until};

/// Jobs that exist before the workers start.
const BACKLOG: i64 = 300;
const JOBS: i64 = 600;
const WORKERS: usize = 3;

const GRAPHILE_WORKER: Library = Library {
    name: "graphile_worker",
    program: |sources, installed| {
        let mut command = Command::new("node");
        command.env("NODE_PATH", installed.join("node_modules"));
        command.arg(sources.join("client.js"));
        command
    },
    unfinished: "SELECT (payload->>'job')::int AS job, locked_at IS NOT NULL AS held FROM graphile_worker._private_jobs",
};

const PROCRASTINATE: Library = Library {
    name: "procrastinate",
    program: |sources, installed| {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", installed);
        command.arg(sources.join("client.py"));
        command
    },
    unfinished: "SELECT (args->>'job')::int AS job, status = 'doing' AS held FROM procrastinate_jobs WHERE status <> 'succeeded'",
};

const RIVER: Library = Library {
    name: "river",
    program: |_, installed| Command::new(installed.join("river")),
    unfinished: "SELECT (args->>'job')::int AS job, state = 'running' AS held FROM river_job WHERE state <> 'completed'",
};

#[test]
fn graphile_worker() {
    check(&GRAPHILE_WORKER);
}

#[test]
fn procrastinate() {
    check(&PROCRASTINATE);
}

#[test]
fn river() {
    check(&RIVER);
}

/// A backlog during which a worker is killed, then jobs for idle workers, then what the killed worker held.
fn check(library: &Library) {
    if !library.is_installed() {
        return;
    }
    // Each worker keeps a connection on which it listens.
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=8")
        .open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE done (job int NOT NULL)");
    library.run(&stage.url(), &["migrate"]);
    enqueue(library, &stage, 1, BACKLOG);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| library.work(&stage.url())).collect();
    until("some jobs are done", || done(&mut direct) >= BACKLOG / 4);
    workers.remove(0).kill();
    until_taken(library, &mut direct);
    until_listening(&mut direct, workers.len());
    enqueue(library, &stage, BACKLOG + 1, JOBS);
    until_taken(library, &mut direct);
    workers.into_iter().for_each(Worker::stop);
    let held = unfinished(library, &mut direct, "held");
    println!("the killed worker held {held:?}; {:?}", stage.counters());
    library.run(&stage.url(), &["recover"]);
    let heir = library.work(&stage.url());
    until("every job is completed", || {
        unfinished(library, &mut direct, "true").is_empty()
    });
    heir.kill();
    check_done(&mut direct, &held);
}

/// Enqueues jobs by two processes at once.
fn enqueue(library: &Library, stage: &Stage, first: i64, last: i64) {
    let half = (first + last) / 2;
    let url = stage.url();
    thread::scope(|scope| {
        for (from, to) in [(first, half), (half + 1, last)] {
            let command = ["enqueue".to_owned(), from.to_string(), to.to_string()];
            let url = &url;
            scope.spawn(move || library.run(url, &command.each_ref().map(String::as_str)));
        }
    });
}

/// Returns when every job is completed or held by a worker.
fn until_taken(library: &Library, direct: &mut RawClient) {
    until("no job waits for a worker", || {
        unfinished(library, direct, "NOT held").is_empty()
    });
}

/// Returns when this many workers wait for notifications.
fn until_listening(direct: &mut RawClient, workers: usize) {
    // Through Paceline the last statement is its own query, whether the session still listens.
    let listeners = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND state = 'idle' AND pid <> pg_backend_pid() \
        AND (query ILIKE 'listen%' OR query LIKE '%pg_listening_channels%')";
    until("the workers listen", || {
        direct.number(listeners) == workers as i64
    });
}

fn done(direct: &mut RawClient) -> i64 {
    direct.number("SELECT count(*) FROM done")
}

/// The jobs that the library does not call completed.
fn unfinished(library: &Library, direct: &mut RawClient, which: &str) -> BTreeSet<i64> {
    numbers(
        direct,
        &format!(
            "SELECT job FROM ({}) AS jobs WHERE {which}",
            library.unfinished
        ),
    )
}

/// Every job is done, and once; but those that a killed worker held may have been done before it died, too.
fn check_done(direct: &mut RawClient, held: &BTreeSet<i64>) {
    let jobs = numbers(direct, "SELECT job FROM done");
    assert!(jobs.iter().copied().eq(1..=JOBS), "not every job: {jobs:?}");
    let twice = numbers(
        direct,
        "SELECT job FROM done GROUP BY job HAVING count(*) > 1",
    );
    assert!(
        twice.is_subset(held),
        "done twice: {twice:?}, held: {held:?}"
    );
}

fn numbers(direct: &mut RawClient, sql: &str) -> BTreeSet<i64> {
    let rows = direct.ok(sql).rows();
    let values = rows.iter().flatten().flatten();
    values.map(|value| value.parse().unwrap()).collect()
}

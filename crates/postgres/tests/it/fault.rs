//! `kill -9` of the whole server and of the postmaster alone: acknowledged rows survive, and the next start succeeds.

use std::fs;

use paceline_postgres::{Error, Server};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::support::{Scratch, ask, block_on, connect, execute};

/// Inserts rows until the server ends; returns the number of acknowledged rows. Signals `killer` after row 100.
async fn insert_until_dead(url: String, killer: tokio::sync::oneshot::Sender<()>) -> i64 {
    let client = connect(&url).await;
    let mut killer = Some(killer);
    for acknowledged in 0.. {
        if client
            .batch_execute(&format!("insert into rows values ({acknowledged})"))
            .await
            .is_err()
        {
            return acknowledged;
        }
        if acknowledged == 100 {
            killer.take().unwrap().send(()).unwrap();
        }
    }
    unreachable!()
}

#[test]
fn acknowledged_rows_survive_kill() {
    let scratch = Scratch::new();
    let mut server = Server::start(scratch.options()).unwrap();
    execute(&server, "create table rows (n bigint)");
    let (url, port, pid) = (server.url("postgres"), server.port(), server.pid());
    let (mut server, acknowledged) = block_on(async {
        let (killer, killed) = tokio::sync::oneshot::channel();
        let inserts = tokio::spawn(insert_until_dead(url, killer));
        killed.await.unwrap();
        let kill = tokio::task::spawn_blocking(move || server.kill().map(|()| server));
        let server = kill.await.unwrap().unwrap();
        (server, inserts.await.unwrap())
    });
    assert!(acknowledged > 100);
    assert!(
        scratch.path().join("pgdata/postmaster.pid").exists(),
        "the server stopped cleanly instead of crashing"
    );

    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    let found: i64 = ask(&server, "select count(*)::text from rows")
        .parse()
        .unwrap();
    // The server may have committed the last row without its answer reaching the client.
    assert!(
        found == acknowledged || found == acknowledged + 1,
        "{acknowledged} acknowledged, {found} found"
    );
    let log = fs::read_to_string(scratch.path().join("postgresql.log")).unwrap();
    assert!(
        log.contains("was not properly shut down"),
        "the log shows no recovery"
    );
}

#[test]
fn kill_leaves_no_process() {
    let scratch = Scratch::new();
    let mut server = Server::start(scratch.options()).unwrap();
    let query = "select string_agg(pid::text, ' ') from pg_stat_activity";
    let pids: Vec<u32> = ask(&server, query)
        .split(' ')
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(pids.len() > 3, "{pids:?}");
    let postmaster = server.pid();
    server.kill().unwrap();
    for pid in pids.into_iter().chain([postmaster]) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(
            stat.is_empty() || stat.contains(") Z "),
            "process {pid} still exists: {stat}"
        );
    }
    server.kill().unwrap();
    server.stop().unwrap();
    Server::start(scratch.options()).unwrap().stop().unwrap();
}

#[test]
fn restart_works_after_another_process_killed_the_postmaster() {
    let scratch = Scratch::new();
    let mut server = Server::start(scratch.options()).unwrap();
    execute(
        &server,
        "create table rows (n bigint); insert into rows values (7)",
    );
    let postmaster = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    kill_process(postmaster, Signal::KILL).unwrap();
    server.restart().unwrap();
    assert_eq!(ask(&server, "select n::text from rows"), "7");
}

#[test]
fn start_ignores_a_stale_pid_file_that_names_an_unrelated_process() {
    let scratch = Scratch::new();
    let mut server = Server::start(scratch.options()).unwrap();
    server.kill().unwrap();
    drop(server);
    let path = scratch.path().join("pgdata/postmaster.pid");
    let contents = fs::read_to_string(&path).unwrap();
    let (_, rest) = contents.split_once('\n').unwrap();
    fs::write(&path, format!("{}\n{rest}", std::process::id())).unwrap();
    Server::start(scratch.options()).unwrap();
}

/// If the process that started the server is killed, the server continues to run.
#[test]
fn the_error_names_a_server_that_outlived_its_owner() {
    let scratch = Scratch::new();
    let lost = Server::start(scratch.options()).unwrap();
    let postmaster = lost.pid();
    std::mem::forget(lost);
    match Server::start(scratch.options()).map(|server| server.pid()) {
        Err(Error::InUse { pid, .. }) => assert_eq!(pid, postmaster),
        other => panic!("{other:?}"),
    }
    let postmaster = Pid::from_raw(i32::try_from(postmaster).unwrap()).unwrap();
    kill_process(postmaster, Signal::KILL).unwrap();
    waitid(
        WaitId::Pid(postmaster),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .unwrap();
    // The postmaster is a zombie and its children are about to exit: the cluster is not in use.
    Server::start(scratch.options()).unwrap();
    waitid(WaitId::Pid(postmaster), WaitIdOptions::EXITED).unwrap();
}

#[test]
fn an_interrupted_initdb_is_repeated() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("pgdata.new")).unwrap();
    fs::write(scratch.path().join("pgdata.new/PG_VERSION"), "15\n").unwrap();
    let server = Server::start(scratch.options()).unwrap();
    assert_eq!(ask(&server, "select 1::text"), "1");
    assert!(!scratch.path().join("pgdata.new").exists());
}

#[test]
fn of_two_starts_in_one_folder_one_succeeds() {
    let scratch = Scratch::new();
    let start = || Server::start(scratch.options());
    let (one, other) = std::thread::scope(|scope| {
        let racer = scope.spawn(start);
        (start(), racer.join().unwrap())
    });
    match (one, other) {
        (Ok(winner), Err(Error::InUse { pid, .. }))
        | (Err(Error::InUse { pid, .. }), Ok(winner)) => {
            assert_eq!(pid, winner.pid());
        }
        other => panic!("{other:?}"),
    }
}

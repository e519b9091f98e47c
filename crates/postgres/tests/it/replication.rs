//! Replicas, made by `pg_basebackup` and by the replication protocol.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use paceline_postgres::{Error, Server, find_installations};

use crate::support::{Scratch, ask, execute, until};

#[test]
fn a_replica_has_the_data_and_can_be_promoted() {
    let Some(installation) = find_installations().into_iter().next() else {
        eprintln!("skipped: no PostgreSQL on this machine");
        return;
    };
    check_replica(installation.bin_dir);
}

#[test]
fn a_replica_is_made_without_client_programs() {
    let scratch = Scratch::new();
    match server_alone(&scratch) {
        Some(bin_dir) => check_replica(bin_dir),
        None => eprintln!("skipped: no PostgreSQL on this machine"),
    }
}

/// A folder with the server of this machine and `initdb`, and no other program.
fn server_alone(scratch: &Scratch) -> Option<PathBuf> {
    let installed = find_installations().into_iter().next()?.bin_dir;
    let bin_dir = scratch.path().join("bin");
    fs::create_dir(&bin_dir).unwrap();
    for program in ["postgres", "initdb"] {
        fs::copy(installed.join(program), bin_dir.join(program)).unwrap();
    }
    // The server finds its libraries beside the folder of its programs.
    for beside in fs::read_dir(installed.parent().unwrap()).unwrap().flatten() {
        if beside.file_name() != "bin" {
            symlink(beside.path(), scratch.path().join(beside.file_name())).unwrap();
        }
    }
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    Some(bin_dir)
}

/// A replica made with these programs follows its primary, starts again, and can be promoted.
pub(crate) fn check_replica(bin_dir: PathBuf) {
    let (one, other) = (Scratch::new(), Scratch::new());
    let mut options = one.options();
    options.bin_dir = Some(bin_dir);
    let mut primary = Server::start(options).unwrap();
    execute(
        &primary,
        "create table kept as select n from generate_series(1, 100000) n",
    );
    let mut replica = primary.replica(other.options()).unwrap();
    assert_eq!(ask(&replica, "select pg_is_in_recovery()::text"), "true");
    assert_eq!(ask(&replica, "select count(*)::text from kept"), "100000");
    execute(&primary, "insert into kept values (42)");
    await_replay(&primary, &replica);
    assert_eq!(ask(&replica, "select count(*)::text from kept"), "100001");
    let files = ask(
        &replica,
        "select string_agg(name, ' ') from pg_ls_dir('.') name where name in ('standby.signal', 'backup_manifest')",
    );
    assert!(files.contains("standby.signal"), "{files}");
    replica.restart().unwrap();
    execute(&primary, "insert into kept values (43)");
    await_replay(&primary, &replica);
    primary.kill().unwrap();
    assert_eq!(ask(&replica, "select pg_promote()::text"), "true");
    execute(&replica, "insert into kept values (44)");
    assert_eq!(ask(&replica, "select count(*)::text from kept"), "100003");
}

/// Waits until the replica has everything that the primary has committed.
fn await_replay(primary: &Server, replica: &Server) {
    let end = ask(primary, "select pg_current_wal_insert_lsn()::text");
    let has_it = format!("select (pg_last_wal_replay_lsn() >= '{end}')::text");
    until("the replica has replayed all", || {
        ask(replica, &has_it) == "true"
    });
}

#[test]
fn a_server_with_other_tablespaces_is_not_copied_without_the_program() {
    let (programs, one, other) = (Scratch::new(), Scratch::new(), Scratch::new());
    let Some(bin_dir) = server_alone(&programs) else {
        eprintln!("skipped: no PostgreSQL on this machine");
        return;
    };
    let mut options = one.options();
    options.bin_dir = Some(bin_dir);
    let primary = Server::start(options).unwrap();
    // A folder that belongs to the user of the server.
    let elsewhere = one.path().join("socket/elsewhere");
    let elsewhere = elsewhere.display();
    execute(
        &primary,
        &format!("copy (select 1) to program 'mkdir {elsewhere}'"),
    );
    execute(
        &primary,
        &format!("create tablespace other location '{elsewhere}'"),
    );
    let error = primary.replica(other.options()).unwrap_err();
    assert!(matches!(error, Error::CopyFailed { .. }), "{error}");
    assert!(error.to_string().contains("tablespaces"), "{error}");
    assert!(!other.path().join("pgdata").exists());
}

#[test]
fn the_processor_time_of_a_server_includes_that_of_ended_backends() {
    let scratch = Scratch::new();
    let mut server = Server::start(scratch.options()).unwrap();
    let before = server.cpu_time().unwrap();
    // The backend ends with its connection.
    ask(
        &server,
        "select count(*)::text from generate_series(1, 1000000) n where n % 7 = 0",
    );
    until("the time of the backend counts", || {
        server.cpu_time().unwrap() >= before + Duration::from_millis(20)
    });
    server.kill().unwrap();
    assert_eq!(server.cpu_time(), None);
}

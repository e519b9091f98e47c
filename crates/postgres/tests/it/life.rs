//! Start, use, stop and restart.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use paceline_postgres::{Server, find_installations};

use rustix::process::{Pid, getpgid};

use crate::support::{Scratch, ask, block_on, connect, execute, is_root};

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn data_survives_a_stop() {
    let scratch = Scratch::new();
    let server = Server::start(scratch.options()).unwrap();
    execute(
        &server,
        "create table kept (n int); insert into kept values (42)",
    );
    let first = server.pid();
    server.stop().unwrap();
    assert!(!alive(first), "process {first} still exists after a stop");
    assert!(
        !scratch.path().join("pgdata/postmaster.pid").exists(),
        "not a clean stop"
    );

    let server = Server::start(scratch.options()).unwrap();
    assert_eq!(ask(&server, "select n::text from kept"), "42");
    let second = server.pid();
    drop(server);
    assert!(!alive(second), "process {second} still exists after a drop");
    assert!(
        !scratch.path().join("pgdata/postmaster.pid").exists(),
        "not a clean stop"
    );
}

#[test]
fn the_server_is_durable_and_listens_on_loopback_only() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options
        .settings
        .push(("work_mem".to_owned(), "5MB".to_owned()));
    let server = Server::start(options).unwrap();
    let show = |name: &str| ask(&server, &format!("select current_setting('{name}')"));
    assert_eq!(show("fsync"), "on");
    assert_eq!(show("full_page_writes"), "on");
    assert_eq!(show("synchronous_commit"), "on");
    assert_eq!(show("listen_addresses"), "127.0.0.1");
    assert_eq!(show("max_connections"), "200");
    assert_eq!(show("work_mem"), "5MB");
    assert_eq!(show("server_encoding"), "UTF8");
    assert_eq!(show("port"), server.port().to_string());
    let collation = "select datcollate::text from pg_database where datname = 'template1'";
    assert_eq!(ask(&server, collation), "C");
    assert_eq!(
        ask(&server, "select rolname::text from pg_roles where rolsuper"),
        server.superuser()
    );
    assert!(show("server_version").starts_with(&server.version().major.to_string()));
}

#[test]
fn a_given_max_connections_overrides_the_default() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options
        .settings
        .push(("max_connections".to_owned(), "23".to_owned()));
    let server = Server::start(options).unwrap();
    assert_eq!(
        ask(&server, "select current_setting('max_connections')"),
        "23"
    );
}

#[test]
fn a_long_data_folder_has_its_socket_in_socket_dir() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options.data_dir = scratch.path().join("x".repeat(120));
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let server = Server::start(options).unwrap();
    let socket_dir = server.socket_dir().to_path_buf();
    UnixStream::connect(socket_dir.join(format!(".s.PGSQL.{}", server.port()))).unwrap();
    server.stop().unwrap();
    assert!(
        !socket_dir.exists(),
        "{} still exists",
        socket_dir.display()
    );
}

#[test]
fn root_runs_the_server_as_another_user() {
    let scratch = Scratch::new();
    let server = Server::start(scratch.options()).unwrap();
    let owner = fs::metadata(format!("/proc/{}", server.pid()))
        .unwrap()
        .uid();
    assert_eq!(
        owner,
        fs::metadata(scratch.path().join("pgdata")).unwrap().uid()
    );
    assert_eq!(owner == rustix::process::geteuid().as_raw(), !is_root());
}

#[test]
fn the_server_has_its_own_process_group() {
    let scratch = Scratch::new();
    let server = Server::start(scratch.options()).unwrap();
    let postmaster = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    assert_eq!(getpgid(Some(postmaster)).unwrap(), postmaster);
}

#[test]
fn a_stop_does_not_wait_for_clients() {
    let scratch = Scratch::new();
    let server = Server::start(scratch.options()).unwrap();
    block_on(async {
        let client = connect(&server.url("postgres")).await;
        client
            .batch_execute("begin; create table gone (n int)")
            .await
            .unwrap();
        tokio::task::spawn_blocking(|| server.stop())
            .await
            .unwrap()
            .unwrap();
        client.batch_execute("commit").await.unwrap_err();
    });
    let server = Server::start(scratch.options()).unwrap();
    assert_eq!(
        ask(
            &server,
            "select coalesce(to_regclass('gone')::text, 'none')"
        ),
        "none"
    );
}

#[test]
fn restart_keeps_the_port() {
    let scratch = Scratch::new();
    let mut server = Server::start(scratch.options()).unwrap();
    execute(&server, "create table kept (n int)");
    let (port, pid) = (server.port(), server.pid());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(ask(&server, "select to_regclass('kept')::text"), "kept");
}

#[test]
fn installations_are_usable_and_sorted_newest_first() {
    let found = find_installations();
    assert!(
        found.is_sorted_by(|a, b| a.version >= b.version),
        "{found:?}"
    );
    for one in &found {
        assert!(one.bin_dir.join("postgres").is_file() && one.bin_dir.join("initdb").is_file());
        assert_eq!(
            found
                .iter()
                .filter(|other| other.bin_dir == one.bin_dir)
                .count(),
            1
        );
    }
    if let Some(newest) = found.first() {
        let scratch = Scratch::new();
        let server = Server::start(scratch.options()).unwrap();
        assert_eq!(server.version(), &newest.version);
    }
}

//! The configuration is read again (SIGHUP), under load and with transactions open.

use super::{await_line, file, scene, server_connections, table};
use crate::harness::cluster::Cluster;
use crate::harness::load::Load;
use crate::harness::message::query;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::until;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering;

#[test]
fn a_pool_grows_and_shrinks() {
    let Some(scene) = scene("default_pool_size = 1", |builder| builder) else {
        return;
    };
    let mut status = scene.client();
    let (mut first, mut second) = (scene.client(), scene.client());
    first.ok("BEGIN; SELECT 1");
    second.send(&query("BEGIN; SELECT 2"));
    await_line(&mut status, 1);
    scene.reload("default_pool_size = 2");
    second.reply().expect_ok("there is room for it now");
    scene.reload("default_pool_size = 1");
    first.ok("COMMIT");
    second.ok("COMMIT");
    let mut direct = scene.direct();
    until("one is left", || server_connections(&mut direct) == 1);
    first.ok("SELECT 1");
    second.ok("SELECT 1");
}

#[test]
fn switches_change_for_clients_that_are_there() {
    let Some(scene) = scene("", |builder| builder.set("pipeline=off")) else {
        return;
    };
    let mut client = scene.client();
    let shown = |client: &mut RawClient| {
        let rows = client.ok("SHOW hotspot_for_autocommit").rows();
        rows[0].last().cloned().flatten().unwrap()
    };
    assert_eq!(shown(&mut client), "off");
    scene.reload("hotspot_for_autocommit = true");
    assert_eq!(shown(&mut client), "on");
    assert_eq!(
        scene.paceline.heard("changed=[\"hotspot_for_autocommit\"]"),
        1
    );
    // The command line stays on top of the file.
    scene.reload("pipeline = true\nhotspot_for_autocommit = true");
    assert_eq!(scene.paceline.heard("changed=[]"), 1);
}

#[test]
fn what_is_wrong_changes_nothing() {
    let Some(scene) = scene("default_pool_size = 3", |builder| builder) else {
        return;
    };
    let mut client = scene.client();
    for (text, said) in [
        (
            "[paceline]\ndefault_pool_size = 0\n",
            "0 is outside its limits",
        ),
        ("[paceline\n", "this is not TOML"),
        ("", "no database is left in the configuration"),
    ] {
        scene.paceline.reload(text, said);
        assert_eq!(client.value("SELECT 7"), "7");
        scene.client().ok("SELECT 7");
    }
    assert_eq!(scene.paceline.heard("RELOAD failed, see logs"), 3);
    scene.reload("default_pool_size = 4");
    assert_eq!(scene.paceline.heard("changed=[\"default_pool_size\"]"), 1);
}

#[test]
fn what_is_made_at_the_start_is_named() {
    let Some(scene) = scene("", |builder| builder) else {
        return;
    };
    scene.reload("worker_threads = 2\nunix_socket_dir = \"/nowhere\"");
    for key in ["worker_threads", "unix_socket_dir"] {
        let said = format!("{key} has changed: restart paceline");
        assert_eq!(scene.paceline.heard(&said), 1, "{key}");
    }
    assert_eq!(scene.paceline.heard("listen has changed"), 0);
    scene.client().ok("SELECT 1");
}

/// A transaction ends where it began; what begins later finds the new server.
#[test]
fn a_database_moves_to_another_server() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let (here, there) = (Cluster::private(), Cluster::private());
    let paceline = Paceline::configured(&file("", &here)).spawn();
    let connect = || {
        let parameters = [("user", "postgres"), ("database", "postgres")];
        RawClient::connect(paceline.port(), &parameters)
    };
    let (mut at_work, mut idle) = (connect(), connect());
    const WHERE: &str = "SELECT inet_server_port()";
    at_work.ok("BEGIN");
    assert_eq!(at_work.number(WHERE), i64::from(here.port()));
    assert_eq!(idle.number(WHERE), i64::from(here.port()));
    paceline.reload(&file("", &there), "Reload: done");
    assert_eq!(idle.number(WHERE), i64::from(there.port()));
    assert_eq!(connect().number(WHERE), i64::from(there.port()));
    assert_eq!(at_work.number(WHERE), i64::from(here.port()));
    at_work.ok("COMMIT");
    assert_eq!(at_work.number(WHERE), i64::from(there.port()));
    let mut direct = here.client("postgres");
    until("nobody is left there", || {
        server_connections(&mut direct) == 0
    });
}

#[test]
fn a_database_that_vanishes_lets_its_clients_finish() {
    let Some(scene) = scene("", |builder| builder) else {
        return;
    };
    let mut client = scene.client();
    client.ok("BEGIN; SELECT 1");
    let other = file("", &scene.cluster).replace("\"*\"", "other");
    scene.paceline.reload(&other, "Reload: done");
    client.ok("COMMIT");
    assert_eq!(client.value("SELECT 7"), "7");
    let refused = RawClient::try_connect(scene.paceline.port(), &scene.parameters());
    let refused = refused.err().expect("there is no such database");
    assert_eq!(refused.sqlstate(), "3D000");
    scene.reload("");
    assert_eq!(scene.client().value("SELECT 8"), "8");
    assert_eq!(client.value("SELECT 9"), "9");
}

/// Sockets of a process between this port and any other, and whether TCP waits to ask for a sign of life there. (proc(5),
/// `/proc/net/tcp`: a timer of kind 2.)
fn keeps_alive(process: u32, port: u16) -> Vec<bool> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let sockets: HashSet<_> = sockets.collect();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    let timers = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, near, far, "01", _, timer, _, _, _, inode, ..] = columns[..] else {
            return None;
        };
        let here = near.ends_with(&port) || far.ends_with(&port);
        let own = sockets.contains(Path::new(&format!("socket:[{inode}]")));
        (here && own).then(|| timer.starts_with("02"))
    });
    timers.collect()
}

#[test]
fn signs_of_life_are_asked_of_clients_and_servers() {
    let Some(scene) = scene("", |builder| builder) else {
        return;
    };
    let process = scene.paceline.pid();
    let (clients, servers) = (scene.paceline.port(), scene.cluster.port());
    let mut first = scene.client();
    first.ok("SELECT 1");
    // A second client may get a second server connection.
    let all_servers = |keep: bool| {
        let servers = keeps_alive(process, servers);
        !servers.is_empty() && servers.iter().all(|kept| *kept == keep)
    };
    until("both are kept alive", || {
        keeps_alive(process, clients) == [true] && all_servers(true)
    });
    scene.reload("tcp_keepalive = false");
    first.ok("SELECT 1");
    let mut second = scene.client();
    second.ok("SELECT 1");
    until("only the first client is", || {
        let mut of_clients = keeps_alive(process, clients);
        of_clients.sort_unstable();
        of_clients == [false, true] && all_servers(false)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_lose_nothing() {
    let Some(scene) = scene("default_pool_size = 4", |builder| builder) else {
        return;
    };
    let mut direct = scene.direct();
    table(&mut direct);
    let load = Load::start(&scene.url(), 16);
    for settings in [
        "default_pool_size = 1",
        "default_pool_size = 6\nhotspot_for_autocommit = true",
        "hotspot_update_max_wait_time = \"2ms\"\nhotspot_for_autocommit = true",
        "group_size_max = 2\nhotspot_lock_type = false",
        "hotspot = false\npipeline = false\nmax_client_conn = 100",
        "server_idle_timeout = \"1ms\"",
    ] {
        load.progress(200).await;
        scene.reload(settings);
        // Another name of the same server: every connection is replaced.
        let moved = file(settings, &scene.cluster).replace("127.0.0.1", "localhost");
        scene.paceline.reload(&moved, "Reload: done");
    }
    load.progress(200).await;
    let tally = load.stop().await;
    let unknown = tally.unknown.iter().map(|row| row.load(Ordering::SeqCst));
    assert_eq!(unknown.sum::<i64>(), 0);
    assert!(tally.refused.lock().unwrap().is_empty());
    assert_eq!(direct.number("SELECT sum(n) FROM t"), tally.acknowledged());
}

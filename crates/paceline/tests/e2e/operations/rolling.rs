//! A rolling restart: a process takes over from another at the same address, and clients notice nothing.

use super::{Scene, scene, table};
use crate::harness::caretaker;
use crate::harness::load::Load;
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::programs::{output, program};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const RESTARTS: usize = 3;

fn shared(builder: Builder, folder: &Path) -> Builder {
    let folder = folder.display();
    builder
        .set("so_reuseport=on")
        .set("shutdown_timeout=1h")
        .set(&format!("unix_socket_dir={folder}"))
        .set(&format!("pidfile={folder}/paceline.pid"))
}

fn successor(scene: &Scene, folder: &Path) -> Paceline {
    let upstream = format!("postgres://127.0.0.1:{}", scene.cluster.port());
    let next = Paceline::start(&upstream).at(scene.paceline.port());
    shared(next, folder).spawn()
}

fn pgbench(scene: &Scene, host: &str, script: &Path) -> Command {
    let mut command = program("pgbench");
    command.args(["-n", "-C", "-c", "4", "-t", "25", "-U", "postgres"]);
    command.args(["-h", host, "-p", &scene.paceline.port().to_string()]);
    command.arg("-f").arg(script).arg(&scene.database);
    command
}

/// A new connection for each transaction, over TCP and over the Unix socket.
#[test]
fn clients_that_reconnect_notice_nothing() {
    let folder = caretaker::folder("r");
    let Some(mut scene) = scene("", |builder| shared(builder, &folder)) else {
        return;
    };
    let mut direct = scene.direct();
    direct.ok("CREATE TABLE done (n int)");
    let script = folder.join("script.sql");
    std::fs::write(&script, "INSERT INTO done VALUES (1);").unwrap();
    let stop = AtomicBool::new(false);
    let benches = ["127.0.0.1", folder.to_str().unwrap()];
    let mut benches = benches.map(|host| pgbench(&scene, host, &script));
    let rounds = thread::scope(|scope| {
        let running = benches.each_mut().map(|command| {
            scope.spawn(|| {
                let mut rounds = 0;
                while !stop.load(Ordering::SeqCst) {
                    let told = output(command);
                    assert!(told.contains("processed: 100/100"), "{told}");
                    rounds += 1;
                }
                rounds
            })
        });
        for _ in 0..RESTARTS {
            let next = successor(&scene, &folder);
            let mut last = std::mem::replace(&mut scene.paceline, next);
            last.signal("TERM");
            assert_eq!(last.ended(), Some(0));
        }
        stop.store(true, Ordering::SeqCst);
        running
            .map(|bench| bench.join().unwrap())
            .iter()
            .sum::<i64>()
    });
    assert_eq!(direct.number("SELECT count(*) FROM done"), rounds * 100);
    assert_files_go(scene, &folder);
}

/// The files belong to the newest process, which removes them at its end.
#[track_caller]
fn assert_files_go(mut scene: Scene, folder: &Path) {
    let socket = folder.join(format!(".s.PGSQL.{}", scene.paceline.port()));
    let pidfile = folder.join("paceline.pid");
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    assert_eq!(pid.trim(), scene.paceline.pid().to_string());
    assert!(socket.exists());
    assert_eq!(scene.paceline.stop(), Some(0));
    assert!(!socket.exists() && !pidfile.exists());
}

/// Sessions stay where they are until they end; the process then ends, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_stay_connected_notice_nothing() {
    let folder = caretaker::folder("r");
    let Some(mut scene) = scene("", |builder| shared(builder, &folder)) else {
        return;
    };
    let mut direct = scene.direct();
    table(&mut direct);
    let load = Load::start(&scene.url(), 8);
    load.progress(200).await;
    let next = successor(&scene, &folder);
    let mut last = std::mem::replace(&mut scene.paceline, next);
    last.signal_and_hear("TERM", "shutting down");
    load.progress(200).await;
    assert!(last.runs());
    scene.client().ok("SELECT 1");
    let tally = load.stop().await;
    assert_eq!(last.ended(), Some(0));
    let unknown = tally.unknown.iter().map(|row| row.load(Ordering::SeqCst));
    assert_eq!(unknown.sum::<i64>(), 0);
    assert!(tally.refused.lock().unwrap().is_empty());
    assert_eq!(direct.number("SELECT sum(n) FROM t"), tally.acknowledged());
}

/// Without so_reuseport the second process gets an error because the first one listens.
#[test]
fn no_process_takes_over_without_so_reuseport() {
    let folder = caretaker::folder("r");
    let socket_dir = format!("unix_socket_dir={}", folder.display());
    let pidfile = format!("pidfile={}/paceline.pid", folder.display());
    let files = |builder: Builder| builder.set(&socket_dir).set(&pidfile);
    let Some(scene) = scene("", files) else {
        return;
    };
    for (settings, said) in [
        (vec![&socket_dir], "cannot listen on"),
        (
            vec![&pidfile],
            "which runs: stop it, or choose another pidfile",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["serve", "--upstream", "postgres://127.0.0.1:1", "--listen"]);
        let port = if said.contains("listen") {
            scene.paceline.port()
        } else {
            0
        };
        command.arg(format!("127.0.0.1:{port}"));
        settings.iter().for_each(|setting| {
            command.args(["--set", setting]);
        });
        let refusal = command.output().unwrap();
        assert_eq!(refusal.status.code(), Some(1));
        let told = String::from_utf8(refusal.stderr).unwrap();
        assert!(told.contains(said), "{told}");
    }
    scene.client().ok("SELECT 1");
}

#[test]
fn the_socket_has_the_permissions_that_are_set() {
    use std::os::unix::fs::PermissionsExt;
    let folder = caretaker::folder("r");
    let socket_dir = format!("unix_socket_dir={}", folder.display());
    let set = |builder: Builder| builder.set(&socket_dir).set("unix_socket_mode=0750");
    let Some(scene) = scene("", set) else {
        return;
    };
    let socket = folder.join(format!(".s.PGSQL.{}", scene.paceline.port()));
    let mode = std::fs::metadata(socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

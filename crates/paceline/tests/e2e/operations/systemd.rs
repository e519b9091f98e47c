//! The test takes the part of systemd: it opens the sockets, and receives the notifications of the process.

use super::{Scene, scene};
use crate::harness::caretaker;
use crate::harness::http;
use crate::harness::message::{query, startup};
use crate::harness::paceline::Builder;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::wait::LIMIT;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;

/// Passes its standard input and output on as the first sockets, as `sd_listen_fds(3)` has it.
const PASS: &str = "exec 3<&0 4>&1 0</dev/null 1>/dev/null; LISTEN_PID=$$ exec \"$@\"";

fn started_with(builder: Builder, one: OwnedFd, other: OwnedFd, names: &str) -> Builder {
    let mut starter = Command::new("sh");
    starter.args(["-c", PASS, "sh"]);
    starter.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", names);
    builder.by(starter).passing(one, other)
}

#[test]
fn its_sockets_are_used_and_outlive_the_process() {
    let clients = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = clients.local_addr().unwrap().port();
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
    let monitoring = metrics.local_addr().unwrap().to_string();
    let start = || {
        scene("", |builder| {
            let clients = clients.try_clone().unwrap().into();
            let metrics = metrics.try_clone().unwrap().into();
            started_with(builder, clients, metrics, "clients:metrics")
        })
    };
    let Some(mut first) = start() else { return };
    assert_eq!(first.paceline.port(), port);
    first.client().ok("SELECT 1");
    assert_eq!(http::get(&monitoring, "/health").status, 200);
    assert_eq!(first.paceline.stop(), Some(0));
    // No Paceline runs: the connection waits in the socket.
    let mut early = RawClient::open(port);
    early.send(&startup(PROTOCOL, &first.parameters()));
    let next = start().unwrap();
    early.reply();
    early.ok("SELECT 1");
    drop(next);
}

#[test]
fn a_unix_socket_is_used() {
    let folder = caretaker::folder("u");
    let path = folder.join("clients");
    let unix = UnixListener::bind(&path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(mut scene) = scene("", |builder| {
        started_with(builder, unix.into(), tcp.into(), "")
    }) else {
        return;
    };
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    use std::io::{Read, Write};
    stream
        .write_all(&startup(PROTOCOL, &scene.parameters()))
        .unwrap();
    stream.write_all(&query("SELECT 7")).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"R");
    scene.client().ok("SELECT 1");
    drop(stream);
    assert_eq!(scene.paceline.stop(), Some(0));
    assert!(path.exists(), "the socket file is systemd's");
}

fn notified(folder: &Path, seconds_between: Option<&str>) -> (UnixDatagram, Option<Scene>) {
    let path = folder.join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(LIMIT)).unwrap();
    let scene = scene("", |builder| {
        let mut starter = Command::new("env");
        starter
            .arg("-u")
            .arg("LISTEN_FDS")
            .env("NOTIFY_SOCKET", path);
        if let Some(micros) = seconds_between {
            starter.env("WATCHDOG_USEC", micros);
        }
        builder.by(starter)
    });
    (systemd, scene)
}

fn hear(systemd: &UnixDatagram) -> String {
    let mut heard = [0; 256];
    let len = systemd.recv(&mut heard).unwrap();
    String::from_utf8_lossy(&heard[..len]).into_owned()
}

#[test]
fn systemd_is_notified_of_start_reload_and_end() {
    let folder = caretaker::folder("n");
    let (systemd, Some(mut scene)) = notified(&folder, None) else {
        return;
    };
    assert_eq!(hear(&systemd), "READY=1");
    scene.paceline.signal("HUP");
    let reloading = hear(&systemd);
    let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(micros.unwrap().parse::<u64>().unwrap() > 0, "{reloading}");
    assert_eq!(hear(&systemd), "READY=1");
    assert_eq!(scene.paceline.stop(), Some(0));
    assert_eq!(hear(&systemd), "STOPPING=1");
}

#[test]
fn the_watchdog_is_fed() {
    let folder = caretaker::folder("n");
    let (systemd, Some(_scene)) = notified(&folder, Some("20000")) else {
        return;
    };
    let mut fed = 0;
    while fed < 3 {
        match hear(&systemd).as_str() {
            "WATCHDOG=1" => fed += 1,
            other => assert_eq!(other, "READY=1"),
        }
    }
}

//! The targets of the log, with real files and sockets.

use super::standard_error::is_stream;
use super::syslog::Syslog;
use super::*;
use paceline_config::Config;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

fn logging(assignments: &[&str]) -> Logging {
    let mut config = Config::default();
    for assignment in assignments {
        config.set(assignment).unwrap();
    }
    config.paceline.logging
}

fn listen(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let len = socket.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[test]
fn the_systems_log_gets_facility_priority_name_and_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let system = listen(&path);
    let mut syslog = Syslog::at(
        &path,
        &logging(&["syslog_ident=pooler", "syslog_facility=local1"]),
    );
    let pid = std::process::id();
    for (level, code) in [
        (Level::ERROR, 139),
        (Level::WARN, 140),
        (Level::INFO, 142),
        (Level::DEBUG, 143),
    ] {
        syslog.write(level, " INFO here: something");
        assert_eq!(
            received(&system),
            format!("<{code}>pooler[{pid}]: INFO here: something")
        );
    }
}

/// The logging daemon is restarted, or starts later than this process.
#[test]
fn the_systems_log_may_be_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut syslog = Syslog::at(&path, &logging(&[]));
    syslog.write(Level::INFO, "lost");
    for round in 0..2 {
        let system = listen(&path);
        syslog.write(Level::INFO, &format!("round {round}"));
        assert!(received(&system).ends_with(&format!("round {round}")));
        drop(system);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_is_appended_to_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, rotated) = (folder.path().join("p.log"), folder.path().join("p.log.1"));
    std::fs::write(&path, "before\n").unwrap();
    let logging = logging(&[&format!("logfile={}", path.display())]);
    let mut targets = Targets::open(&logging).unwrap();
    targets.write(Level::INFO, "now ", "one");
    std::fs::rename(&path, &rotated).unwrap();
    targets.write(Level::INFO, "now ", "two");
    let mut targets = Targets::open(&logging).unwrap();
    targets.write(Level::INFO, "now ", "three");
    let text = |path| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&rotated), "before\nnow one\nnow two\n");
    assert_eq!(text(&path), "now three\n");
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let logging = logging(&["logfile=/dev/null/p.log"]);
    let error = Targets::open(&logging).err().unwrap().to_string();
    assert!(error.starts_with("logfile /dev/null/p.log: "), "{error}");
}

#[test]
fn the_journal_is_known_by_device_and_inode() {
    assert!(is_stream("8:14", 8, 14));
    for other in ["8:15", "9:14", "814", "", "8:", "8:14:1"] {
        assert!(!is_stream(other, 8, 14), "{other}");
    }
}

#[test]
fn every_line_begins_with_its_time() {
    let time = now();
    assert_eq!((time.len(), &time[19..20]), (28, "."), "{time}");
    assert!(time.ends_with("Z "), "{time}");
}

/// Clients choose the names of databases.
#[test]
fn control_characters_are_escaped() {
    assert_eq!(escaped("plain, größer"), "plain, größer");
    let quoted = escaped("shop\n2026-01-01 LOG all is well\u{1b}[31m\u{202e}\u{2028}").into_owned();
    assert_eq!(
        quoted,
        "shop\\n2026-01-01 LOG all is well\\u{1b}[31m\\u{202e}\\u{2028}"
    );
}

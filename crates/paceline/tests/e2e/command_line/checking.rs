//! `paceline check --connect`: its output for hosts that answer, are in recovery, or cannot be reached.

use std::process::Command;

use crate::harness::caretaker;
use crate::harness::cluster::{self, Cluster};

/// A port on which no server listens.
const CLOSED: u16 = 1;

/// The exit code of a check of a file with this text, and the lines about hosts.
fn check(text: &str) -> (Option<i32>, Vec<String>) {
    let file = caretaker::folder("k").join("paceline.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.arg("check").arg(&file).arg("--connect").output();
    let output = output.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines = printed.lines().filter(|line| line.contains(", host "));
    (output.status.code(), lines.map(str::to_owned).collect())
}

#[test]
fn a_host_that_answers_is_named_with_its_state() {
    let cluster = cluster::shared();
    let port = cluster.port();
    let text = format!("[databases.postgres]\nprimary = \"postgres://postgres@127.0.0.1:{port}\"");
    let about = format!("database postgres, host 127.0.0.1:{port}");
    let answer = format!("{about} as postgres: not in recovery, timeline 1");
    assert_eq!(check(&text), (Some(0), vec![answer]));
    let text = text.replace("postgres@", "");
    let reachable = format!("{about}: reachable; the URL names no user, so no login was tried");
    assert_eq!(check(&text), (Some(0), vec![reachable]));
}

#[test]
fn every_host_of_a_database_is_tried() {
    let cluster = cluster::shared();
    let port = cluster.port();
    let monitor = "it_check_monitor";
    cluster
        .client("postgres")
        .ok(&format!("CREATE ROLE {monitor} LOGIN"));
    let text = format!(
        "[databases.\"*\"]\nprimary = \"postgres://127.0.0.1:{CLOSED},127.0.0.1:{port}\"\nmonitor_user = \"{monitor}\""
    );
    let (code, lines) = check(&text);
    assert_eq!((code, lines.len()), (Some(1), 2), "{lines:?}");
    let about = |port| format!("database *, host 127.0.0.1:{port} as {monitor}: ");
    assert!(
        lines[0].starts_with(&about(CLOSED)) && lines[0].contains("refused"),
        "{lines:?}"
    );
    let answer = about(port) + "not in recovery, timeline 1";
    assert_eq!(lines[1], answer);
    let (code, lines) = check(&text.replace(monitor, "it_nobody"));
    assert_eq!(code, Some(1));
    assert!(
        lines[1].contains("role \"it_nobody\" does not exist"),
        "{lines:?}"
    );
}

#[test]
fn a_host_in_recovery_is_named_as_such() {
    let cluster = Cluster::private();
    cluster.go_into_recovery();
    let port = cluster.port();
    let text = format!("[databases.postgres]\nprimary = \"postgres://postgres@127.0.0.1:{port}\"");
    let (code, lines) = check(&text);
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
    assert!(
        lines[0].contains(" as postgres: in recovery, timeline not known: the server receives no"),
        "{lines:?}"
    );
}

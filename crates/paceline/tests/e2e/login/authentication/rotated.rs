//! Passwords in files and of commands that change while Paceline runs. Nothing is reloaded, unless a test says so.

use super::cluster;
use crate::harness::caretaker;
use crate::harness::cluster::Cluster;
use crate::harness::message::query;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::reply::Fields;
use crate::harness::until;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

const FIRST: &str = "first of the secrets";
const SECOND: &str = "second of the secrets";
const PID: &str = "SELECT pg_backend_pid()";

/// A role of the server whose password is in a file.
struct Rotated {
    cluster: Arc<Cluster>,
    admin: RawClient,
    role: &'static str,
    folder: PathBuf,
}

impl Rotated {
    fn new(role: &'static str, options: &str) -> Option<Self> {
        let cluster = cluster()?;
        let mut admin = cluster.client("postgres");
        admin.ok(&format!("CREATE ROLE {role} LOGIN {options}"));
        let mut rotated = Self {
            folder: caretaker::folder("r"),
            cluster,
            admin,
            role,
        };
        rotated.rotate(FIRST);
        Some(rotated)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn alter(&mut self, password: &str) {
        let role = self.role;
        self.admin
            .ok(&format!("ALTER ROLE {role} PASSWORD '{password}'"));
    }

    fn write(&self, password: &str) {
        std::fs::write(self.path("password"), format!("{password}\n")).unwrap();
    }

    fn rotate(&mut self, password: &str) {
        self.alter(password);
        self.write(password);
    }

    /// The server with this role, and the source of its password.
    fn database(&self, password: &str) -> String {
        let (role, port) = (self.role, self.cluster.port());
        format!("[databases.\"*\"]\nprimary = \"postgres://{role}@127.0.0.1:{port}\"\n{password}\n")
    }

    fn password_file(&self) -> String {
        format!("password_file = \"{}\"", self.path("password").display())
    }

    /// A command that notes each run, and then does what `script` says with `$1`, the folder.
    fn password_command(&self, script: &str) -> String {
        let folder = self.folder.display();
        format!(
            "password_command = [\"/bin/sh\", \"-c\", 'echo run >> \"$1/runs\"; {script}', \"sh\", \"{folder}\"]"
        )
    }

    fn runs(&self) -> usize {
        let runs = std::fs::read_to_string(self.path("runs"));
        runs.map_or(0, |runs| runs.lines().count())
    }

    /// The processes of the role's sessions, in order.
    fn sessions(&mut self) -> Vec<String> {
        let sql = format!(
            "SELECT pid FROM pg_stat_activity WHERE usename = '{}' ORDER BY pid",
            self.role
        );
        let rows = self.admin.ok(&sql).rows();
        rows.into_iter().filter_map(|row| row[0].clone()).collect()
    }

    /// Ends the role's sessions; returns when none of those is left.
    fn end_sessions(&mut self) {
        let ended = self.sessions();
        for pid in &ended {
            self.admin
                .ok(&format!("SELECT pg_terminate_backend({pid})"));
        }
        until("the sessions have ended", || {
            let left = self.sessions();
            !left.iter().any(|pid| ended.contains(pid))
        });
    }
}

#[track_caller]
fn client(paceline: &Paceline, database: &str) -> RawClient {
    let parameters = [("user", "any"), ("database", database)];
    RawClient::connect(paceline.port(), &parameters)
}

/// The value that a client gets, which connects in a thread and waits for a server connection.
fn waiting(paceline: &Paceline) -> JoinHandle<String> {
    let port = paceline.port();
    std::thread::spawn(move || {
        let parameters = [("user", "any"), ("database", "postgres")];
        RawClient::connect(port, &parameters).value("SELECT 'served'")
    })
}

/// The error with which a client's connection ends at its first request.
fn refusal(paceline: &Paceline) -> Fields {
    let mut client = client(paceline, "postgres");
    client.send(&query("SELECT 1"));
    let messages = client.receive_to_end();
    messages.last().unwrap().fields()
}

#[track_caller]
fn assert_hidden(paceline: &Paceline) {
    assert!(!paceline.logged(FIRST) && !paceline.logged(SECOND));
}

#[test]
fn a_password_file_is_read_for_each_connection() {
    let Some(mut rotated) = Rotated::new("by_file", "REPLICATION") else {
        return;
    };
    let text = rotated.database(&rotated.password_file());
    let paceline = Paceline::configured(&text)
        .set("default_pool_size=3")
        .spawn();
    let (mut first, mut second) = (client(&paceline, "postgres"), client(&paceline, "postgres"));
    first.ok("BEGIN");
    let one = first.value(PID);
    rotated.rotate(SECOND);
    let two = second.value(PID);
    assert_ne!(one, two);
    first.ok("COMMIT");
    let mut sessions = vec![one, two];
    sessions.sort_by_key(|pid| pid.parse::<u32>().unwrap());
    assert_eq!(rotated.sessions(), sessions, "the pool has kept both");
    paceline.signal_and_hear("HUP", "Reload: done");
    assert!(sessions.contains(&first.value(PID)));
    assert_eq!(rotated.sessions(), sessions, "also at a reload");
    rotated.end_sessions();
    assert_eq!(second.value("SELECT 'served'"), "served");
    let replication = [
        ("user", "any"),
        ("database", "postgres"),
        ("replication", "database"),
    ];
    let mut replication = RawClient::connect(paceline.port(), &replication);
    replication.ok("IDENTIFY_SYSTEM");
    assert!(!paceline.logged("28P01"));
    assert_hidden(&paceline);
}

/// Pools share a run. After a refusal the command runs once more, and the refusal is no error for clients.
#[test]
fn a_password_command_runs_when_its_password_is_refused() {
    let Some(mut rotated) = Rotated::new("by_command", "") else {
        return;
    };
    let text = rotated.database(&rotated.password_command("cat \"$1/password\""));
    let paceline = Paceline::configured(&text)
        .set("default_pool_size=2")
        .spawn();
    assert_eq!(rotated.runs(), 0, "the configuration does not run it");
    let (mut first, mut second) = (client(&paceline, "postgres"), client(&paceline, "postgres"));
    first.ok("BEGIN");
    second.ok("SELECT 1");
    client(&paceline, "template1").ok("SELECT 1");
    assert_eq!(rotated.runs(), 1);
    let kept = first.value(PID);
    rotated.rotate(SECOND);
    client(&paceline, "template1").ok("SELECT 1");
    assert_eq!(rotated.runs(), 1, "there was a connection");
    assert!(rotated.sessions().contains(&kept));
    first.ok("COMMIT");
    rotated.end_sessions();
    assert_eq!(first.value("SELECT 'served'"), "served");
    assert_eq!(rotated.runs(), 2);
    client(&paceline, "template1").ok("SELECT 1");
    assert_eq!(rotated.runs(), 2);
    assert!(!paceline.logged("no server connection"));
    assert_hidden(&paceline);
}

/// The password of the server has changed, and the file has not yet: a reload after the change is not delayed by the refusal.
#[test]
fn a_reload_reads_a_password_that_was_late() {
    let Some(mut rotated) = Rotated::new("late", "") else {
        return;
    };
    let text = rotated.database(&rotated.password_file());
    let paceline = Paceline::configured(&text)
        .set("server_login_retry=1h")
        .spawn();
    client(&paceline, "postgres").ok("SELECT 1");
    rotated.alter(SECOND);
    rotated.end_sessions();
    assert_eq!(refusal(&paceline).sqlstate(), "28P01");
    rotated.write(SECOND);
    let remembered = refusal(&paceline);
    assert!(remembered.text().contains("cached error"), "{remembered:?}");
    paceline.signal_and_hear("HUP", "Reload: done");
    client(&paceline, "postgres").ok("SELECT 1");
    assert_hidden(&paceline);
}

/// A client waits while the password cannot be read, as for a server that is away.
#[test]
fn a_password_that_cannot_be_read_is_named() {
    let Some(rotated) = Rotated::new("unreadable", "") else {
        return;
    };
    let missing = rotated.path("password").display().to_string();
    let script = "cat \"$1/password\" || { echo \"$1/runs\"; exit 3; }";
    for (source, error) in [
        (
            rotated.password_file(),
            format!("error=password_file: cannot read {missing}: No such file"),
        ),
        (
            rotated.password_command(script),
            "error=password_command: /bin/sh has failed, exit status: 3".to_owned(),
        ),
        (
            rotated.password_command("cat \"$1/password\" || echo"),
            "error=password_command: /bin/sh wrote no password".to_owned(),
        ),
    ] {
        rotated.write(FIRST);
        let paceline = Paceline::configured(&rotated.database(&source)).spawn();
        std::fs::remove_file(&missing).unwrap();
        let waiting = waiting(&paceline);
        until("the error is logged", || paceline.logged(&error));
        rotated.write(FIRST);
        assert_eq!(waiting.join().unwrap(), "served", "{source}");
        assert_hidden(&paceline);
    }
}

#[test]
fn a_command_that_hangs_is_killed_with_its_children() {
    let Some(rotated) = Rotated::new("hanging", "") else {
        return;
    };
    std::fs::remove_file(rotated.path("password")).unwrap();
    let script = "cat \"$1/password\" && exit; sleep 86400 & echo $! > \"$1/sleeper\"; wait";
    let text = rotated.database(&rotated.password_command(script));
    let paceline = Paceline::configured(&text)
        .set("server_connect_timeout=1")
        .spawn();
    let waiting = waiting(&paceline);
    let late = "error=password_command: /bin/sh has not ended within 1s";
    until("the command is late", || paceline.logged(late));
    let sleeper = std::fs::read_to_string(rotated.path("sleeper")).unwrap();
    rotated.write(FIRST);
    assert_eq!(waiting.join().unwrap(), "served");
    let command = Path::new("/proc").join(sleeper.trim()).join("cmdline");
    until("the child has ended", || {
        let line = std::fs::read(&command).unwrap_or_default();
        !line.starts_with(b"sleep\0")
    });
}

/// The connections of the monitor, of which one host does not exist.
#[test]
fn the_monitor_reads_its_password_file() {
    let Some(mut rotated) = Rotated::new("watching", "IN ROLE pg_monitor") else {
        return;
    };
    let port = rotated.cluster.port();
    let text = format!(
        "[databases.\"*\"]\nprimary = \"postgres://postgres@127.0.0.1:{port},127.0.0.1:1\"\n\
         monitor_user = \"watching\"\nmonitor_{}\n",
        rotated.password_file()
    );
    let paceline = Paceline::configured(&text).spawn();
    client(&paceline, "postgres").ok("SELECT 1");
    rotated.rotate(SECOND);
    rotated.end_sessions();
    until("the monitor is back", || !rotated.sessions().is_empty());
    client(&paceline, "postgres").ok("SELECT 1");
    assert_hidden(&paceline);
}

#[test]
fn a_check_runs_the_command() {
    let Some(rotated) = Rotated::new("checked", "") else {
        return;
    };
    let file = rotated.path("paceline.toml");
    let check = |script: &str| {
        let text = rotated.database(&rotated.password_command(script));
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        let output = command.arg("check").arg(&file).arg("--connect").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let answer = check("cat \"$1/password\"");
    assert!(answer.contains("as checked: not in recovery"), "{answer}");
    let answer = check("exit 7");
    assert!(
        answer.contains("/bin/sh has failed, exit status: 7"),
        "{answer}"
    );
}

//! PostgreSQL's own programs: psql, pgbench, pg_isready. They are run against the target, never simulated.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::caretaker;
use super::wait::LIMIT;
use super::watchdog::skipped;

/// A command for one of PostgreSQL's programs: from PATH, else from where Debian puts them.
#[track_caller]
pub(crate) fn program(name: &str) -> Command {
    find(name).unwrap_or_else(|| {
        panic!("{name} is not installed; on Debian: apt-get install postgresql postgresql-contrib")
    })
}

/// The same for a program that works with this major version of the server, not with later ones; says why and returns `None`
/// when there is none.
pub(crate) fn program_for(name: &str, major: i64) -> Option<Command> {
    let version = |mut command: Command| {
        let told = command.arg("--version").output().ok()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let (_, number) = told.split_once("(PostgreSQL) ")?;
        number
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    let found: Option<i64> = find(name).and_then(version);
    if found.is_some_and(|found| found >= major) {
        return find(name);
    }
    skipped(&format!(
        "{name} for PostgreSQL {major}; there is {found:?}"
    ));
    None
}

fn find(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(debian_folders())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    let mut command = Command::new(found?);
    // The caller's own settings must not change what a test does.
    for variable in [
        "PGHOST",
        "PGPORT",
        "PGUSER",
        "PGDATABASE",
        "PGOPTIONS",
        "PGSERVICE",
        "PGPASSWORD",
    ] {
        command.env_remove(variable);
    }
    command.env("PGSSLMODE", "prefer");
    Some(command)
}

/// Runs it, expects success within the limit and returns what it printed.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> String {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _adopted = caretaker::adopt("KILL", child.id());
    let printed = collect(child.stdout.take().unwrap());
    let complaints = collect(child.stderr.take().unwrap());
    let status = ended(&mut child);
    let (printed, complaints) = (printed.join().unwrap(), complaints.join().unwrap());
    match status {
        Some(status) if status.success() => printed,
        Some(_) => panic!("{command:?}\n{printed}\n{complaints}"),
        None => panic!("{command:?} hangs\n{printed}\n{complaints}"),
    }
}

/// The exit status; kills the process and returns `None` if it has not ended in time.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn debian_folders() -> Vec<PathBuf> {
    let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    folders.sort();
    folders.reverse();
    folders
}

//! PostgreSQL's own programs: psql, pgbench, pg_isready. They are run against the target, never simulated.

use std::path::PathBuf;
use std::process::Command;

/// A command for one of PostgreSQL's programs: from PATH, else from where Debian puts them.
#[track_caller]
pub(crate) fn program(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(debian_folders())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    let mut command = Command::new(found.unwrap_or_else(|| {
        panic!("{name} is not installed; on Debian: apt-get install postgresql postgresql-contrib")
    }));
    // The caller's own settings must not change what a test does.
    for variable in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS", "PGSERVICE", "PGPASSWORD"] {
        command.env_remove(variable);
    }
    command.env("PGSSLMODE", "prefer");
    command
}

/// Runs it, expects success and returns what it printed.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{printed}\n{complaints}");
    printed
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

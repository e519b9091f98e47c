//! Real drivers do what applications do with them: against bare PostgreSQL and through Paceline, with the same results.
//!
//! A program of `programs/` takes the URL of an empty database and prints what it sees: types there and back, NULLs,
//! arrays, JSON, values of 1 MiB, errors in the middle of transactions, savepoints, prepared statements, batches and
//! pipelines, cursors, COPY, notices, settings, unusual queries; all of this on four connections at once, with a pool of two.
//! Then, on one connection: cancelling, LISTEN, temporary tables, and the sum of what all have written to one row. As far as
//! its driver has these things.
//!
//! `scripts/drivers.sh` installs what they need. A language that cannot be installed is skipped, with a message.

mod compare;
mod dump;
mod pgbench;
mod psql;
mod tokio_postgres;

use std::path::{Path, PathBuf};
use std::process::Command;

use compare::check;

use crate::harness::installed::installed;
use crate::harness::programs;

/// Runs a program everywhere (see [`check`]), if its language is here: the command is made from where its sources are and where it is installed.
#[track_caller]
fn check_program(language: &str, keeps: u64, command: impl Fn(PathBuf, PathBuf) -> Command) {
    let Some(folder) = installed("drivers", language) else {
        return;
    };
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/drivers/programs");
    check(keeps, |url| {
        programs::output(command(programs.join(language), folder.clone()).arg(url))
    });
}

#[track_caller]
fn check_python(program: &str, keeps: u64) {
    check_program("python", keeps, |sources, installed| {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", installed);
        // The sources are no place for compiled modules.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(sources.join(program));
        command
    });
}

#[track_caller]
fn check_javascript(program: &str, keeps: u64) {
    check_program("javascript", keeps, |sources, installed| {
        let mut command = Command::new("node");
        command.env("NODE_PATH", installed.join("node_modules"));
        command.arg(sources.join(program));
        command
    });
}

#[test]
fn psycopg() {
    check_python("psycopg_sync.py", 3);
}

#[test]
fn psycopg_async() {
    check_python("psycopg_async.py", 1);
}

#[test]
fn asyncpg() {
    check_python("asyncpg_program.py", 1);
}

#[test]
fn sqlalchemy() {
    check_python("sqlalchemy_program.py", 0);
}

#[test]
fn node_postgres() {
    check_javascript("pg.js", 1);
}

#[test]
fn postgres_js() {
    check_javascript("postgres.js", 1);
}

#[test]
fn pgx() {
    check_program("golang", 1, |_, installed| {
        Command::new(installed.join("pgx"))
    });
}

#[test]
fn lib_pq() {
    check_program("golang", 1, |_, installed| {
        Command::new(installed.join("pq"))
    });
}

#[test]
fn pgjdbc() {
    check_program("java", 1, |_, installed| {
        let mut command = Command::new("java");
        let jar = installed.join("postgresql.jar");
        let classes = std::env::join_paths([installed, jar]).unwrap();
        // A short program: compiling it well costs more than it saves.
        command.args(["-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(classes).arg("Program");
        command
    });
}

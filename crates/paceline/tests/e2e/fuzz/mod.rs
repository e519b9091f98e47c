//! Mutated messages, for the pure code that reads them, and for a running Paceline.
//!
//! Mutations know the shape of messages (see [`mutate`]) and begin with `corpus/`. An input that shows something new joins
//! those that are mutated next. An ordinary run tries a bounded number of inputs; with `FUZZ_SECONDS` in the environment each
//! target runs for that long (`make fuzz`). `PACELINE_SEED` repeats a run. An input that fails is kept under
//! `target/fuzz`: with the fix it belongs into the corpus, all of which is tried first, as it is.

mod blocks;
mod mutate;
mod stream;
mod targets;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::harness::Rng;
use mutate::mutated;

/// Inputs per target in an ordinary run.
const INPUTS: usize = 20_000;

/// Inputs that are kept to be mutated.
const POOL_MAX: usize = 5_000;

/// Tries a target: it panics if a condition is violated, and returns its result as one number.
fn fuzz(folder: &str, target: impl Fn(&[u8]) -> u64) {
    let mut rng = Rng::new(paceline_testing::seed());
    let mut pool = corpus(folder);
    let mut seen: HashSet<u64> = pool
        .iter()
        .map(|input| attempt(folder, &target, input))
        .collect();
    let deadline = Instant::now() + long_run().unwrap_or_default();
    let mut tried = 0;
    while tried < INPUTS || Instant::now() < deadline {
        let input = mutated(&pool, &mut rng);
        tried += 1;
        if seen.insert(attempt(folder, &target, &input)) && pool.len() < POOL_MAX {
            pool.push(input);
        }
    }
    println!("{folder}: {tried} inputs, {} kinds of outcome", seen.len());
}

/// One input; kept in a file when the target fails.
fn attempt(folder: &str, target: impl Fn(&[u8]) -> u64, input: &[u8]) -> u64 {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|panic| {
        println!("this input fails: {}", keep(folder, input).display());
        resume_unwind(panic)
    })
}

/// Writes an input that fails to a file.
fn keep(folder: &str, input: &[u8]) -> PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/fuzz")
        .join(folder);
    std::fs::create_dir_all(&kept).unwrap();
    let file = kept.join(format!("failed{}", input.len()));
    std::fs::write(&file, input).unwrap();
    file
}

/// The inputs that are in the repository, in the order of their names.
fn corpus(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/e2e/fuzz/corpus")
        .join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 3);
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// The time for each target; `None` for an ordinary run.
fn long_run() -> Option<Duration> {
    let seconds = std::env::var("FUZZ_SECONDS").ok()?.parse().unwrap();
    Some(Duration::from_secs(seconds))
}

#[test]
fn frames() {
    fuzz("backend", targets::frames);
}

#[test]
fn server_messages() {
    fuzz("backend", targets::server_messages);
}

#[test]
fn client_messages() {
    fuzz("frontend", targets::client_messages);
}

#[test]
fn units() {
    fuzz("frontend", targets::units);
}

#[test]
fn startup_packets() {
    fuzz("startup", targets::startup_packets);
}

#[test]
fn logins_towards_a_server() {
    fuzz("login", targets::logins);
}

#[test]
fn logins_of_clients() {
    fuzz("proof", targets::proofs);
}

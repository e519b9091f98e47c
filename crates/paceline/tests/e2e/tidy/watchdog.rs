//! The time limit of tests, tried on this program itself.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::watchdog::{limit_of, overdue, special_tests, watch, watches};
use crate::harness::{caretaker, until};

/// Tells `stuck` to hang.
const HANG: &str = "PACELINE_E2E_HANG";

/// Hangs in a run that the test below starts.
#[test]
fn stuck() {
    watch();
    while std::env::var_os(HANG).is_some() {
        thread::park();
    }
}

#[test]
fn a_test_that_hangs_is_named_and_ends_the_run() {
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tidy::watchdog::stuck", "--test-threads=2"])
        .env(HANG, "yes")
        .env("PACELINE_E2E_TEST_LIMIT", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _adopted = caretaker::adopt("KILL", run.id());
    let mut status = None;
    until("the run has ended", || {
        status = run.try_wait().unwrap();
        status.is_some()
    });
    let mut told = String::new();
    run.stderr.unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(status.unwrap().code(), Some(101), "{told}");
    let expected = "test tidy::watchdog::stuck has run for more than 1 s: the run ends here";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_test_is_watched_until_its_thread_ends() {
    let name = "watchdog::of_another_thread";
    let thread = thread::Builder::new().name(name.to_owned());
    let inside = thread.spawn(move || {
        assert!(!watches(name));
        watch();
        watches(name)
    });
    assert!(inside.unwrap().join().unwrap());
    assert!(!watches(name));
}

#[test]
fn every_test_has_its_own_limit() {
    let limit = Duration::from_secs(10);
    assert_eq!(limit_of("errors::one", limit), Some(limit));
    assert_eq!(limit_of("session::walk::one", limit), Some(limit * 3));
    let begun = Instant::now();
    let tests = ["errors::one", "session::walk::one"].map(|test| (test.to_owned(), begun));
    let running = BTreeMap::from(tests);
    let after = |seconds| {
        let late = overdue(&running, begun + Duration::from_secs(seconds), limit);
        Vec::from_iter(late.into_iter().map(|(test, _)| test))
    };
    assert!(after(10).is_empty());
    assert_eq!(after(11), ["errors::one"]);
    assert_eq!(after(31), ["errors::one", "session::walk::one"]);
}

/// A test that moves to another module would silently lose its longer limit.
#[test]
fn tests_with_a_limit_of_their_own_exist() {
    let listed = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in special_tests() {
        let exists = listed.lines().any(|test| test.starts_with(name));
        assert!(exists, "no test begins with {name}");
    }
}

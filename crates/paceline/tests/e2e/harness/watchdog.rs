//! The time limit of every test. A test that runs for longer is reported by its name, and the run ends with a failure instead of hanging.
//!
//! A test is watched from the first time it starts or asks for something of the harness, to the end of its thread. The threads of libtest
//! have the names of their tests. With one test thread libtest runs all tests on the main thread, which has no such name: then there is no limit.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of a test, in seconds; `PACELINE_E2E_TEST_LIMIT` replaces it, for slow machines.
const TEST_LIMIT_S: u64 = 120;

/// Tests that need a multiple of the limit: the prefix of their names, and the factor.
const LONGER: [(&str, u32); 5] = [
    ("drivers::", 3),
    ("groups::order_variants::", 3),
    ("groups::queue_clients::", 3),
    ("session::history::", 3),
    ("session::walk::", 3),
];

/// Tests whose duration a variable of the environment sets: the prefix of their names, and the variable.
const UNLIMITED: [(&str, &str); 7] = [
    ("chaos::nothing", "PACELINE_RUNS"),
    ("failover::missing::repeated", "PACELINE_FAILOVERS"),
    ("failover::repeated", "PACELINE_FAILOVERS"),
    ("histories::", "PACELINE_TRANSACTIONS"),
    ("reads::pairs", "PACELINE_READS"),
    ("fuzz::", "FUZZ_SECONDS"),
    ("groups::orders::", "PACELINE_E2E_ORDERS"),
];

/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(200);

/// The exit code of libtest after a failure.
const FAILED: i32 = 101;

/// The tests that are watched, and since when.
static RUNNING: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

thread_local! {
    static TEST: Option<Watched> = Watched::of_this_thread();
}

/// A test in [`RUNNING`]; its thread drops this when it ends.
struct Watched(String);

impl Watched {
    fn of_this_thread() -> Option<Self> {
        let thread = thread::current();
        // The test's own threads and those of tokio have names of another kind, or none.
        let name = thread.name().filter(|name| name.contains("::"))?.to_owned();
        start();
        running().insert(name.clone(), Instant::now());
        Some(Self(name))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// Watches the test that runs on this thread, unless it is watched already.
pub(crate) fn watch() {
    // A thread that is about to end has no use for it.
    let _ = TEST.try_with(|_| ());
}

/// Is this test watched?
pub(crate) fn watches(test: &str) -> bool {
    running().contains_key(test)
}

/// Says why this test, or a part of it, is skipped on this machine. Not by a print macro: libtest hides its output if the test passes.
pub(crate) fn skipped(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

fn running() -> MutexGuard<'static, BTreeMap<String, Instant>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the watchdog, once.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let limit = limit();
        thread::spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                let overdue = overdue(&running(), Instant::now(), limit);
                if !overdue.is_empty() {
                    end(&overdue);
                }
            }
        });
    });
}

fn limit() -> Duration {
    let asked = std::env::var("PACELINE_E2E_TEST_LIMIT");
    Duration::from_secs(asked.map_or(TEST_LIMIT_S, |seconds| seconds.parse().unwrap()))
}

/// The time limit of this test; `None` for none.
pub(crate) fn limit_of(test: &str, limit: Duration) -> Option<Duration> {
    let begins = |name: &str| test.starts_with(name);
    let mut unlimited = UNLIMITED.iter();
    if unlimited.any(|(name, variable)| begins(name) && std::env::var_os(variable).is_some()) {
        return None;
    }
    let longer = LONGER.iter().find(|(name, _)| begins(name));
    Some(limit * longer.map_or(1, |(_, times)| *times))
}

/// The prefixes of the names of tests with a limit of their own.
pub(crate) fn special_tests() -> impl Iterator<Item = &'static str> {
    let longer = LONGER.iter().map(|(name, _)| *name);
    longer.chain(UNLIMITED.iter().map(|(name, _)| *name))
}

/// The tests that have run for longer than they may, each with its limit.
pub(crate) fn overdue(
    running: &BTreeMap<String, Instant>,
    now: Instant,
    limit: Duration,
) -> Vec<(String, Duration)> {
    running
        .iter()
        .filter_map(|(test, since)| Some((test, since, limit_of(test, limit)?)))
        .filter(|(_, since, limit)| now.duration_since(**since) > *limit)
        .map(|(test, _, limit)| (test.clone(), limit))
        .collect()
}

/// Ends the process; the caretaker then ends what the tests have started.
fn end(overdue: &[(String, Duration)]) -> ! {
    let mut stderr = std::io::stderr();
    for (test, limit) in overdue {
        let seconds = limit.as_secs();
        let _ = writeln!(
            stderr,
            "test {test} has run for more than {seconds} s: the run ends here"
        );
    }
    std::process::exit(FAILED)
}

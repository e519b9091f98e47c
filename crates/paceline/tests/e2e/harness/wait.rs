//! Waiting for something observable. The limit is for failures only: no test relies on how long anything takes.

use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// After this time an operation counts as hanging.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Polls until `condition` holds.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "gave up waiting until {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Polls until `condition` holds of `progress`; gives up when that has not changed for the limit. For conditions that may take long.
#[track_caller]
pub(crate) fn until_moving(
    what: &str,
    progress: impl Fn() -> i64,
    condition: impl Fn(i64) -> bool,
) {
    let (mut reached, mut since) = (progress(), Instant::now());
    while !condition(reached) {
        let stuck = since.elapsed() > LIMIT;
        assert!(!stuck, "stuck at {reached}, waiting until {what}");
        thread::sleep(POLL_INTERVAL);
        let now = progress();
        if now != reached {
            (reached, since) = (now, Instant::now());
        }
    }
}

/// The results of the tasks, when all have ended.
pub(crate) async fn ended<T: 'static>(what: &str, tasks: JoinSet<T>) -> Vec<T> {
    match tokio::time::timeout(LIMIT, tasks.join_all()).await {
        Ok(results) => results,
        Err(_) => panic!("gave up waiting until {what}"),
    }
}

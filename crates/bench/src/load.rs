//! The load: thousands of clients of one workload on a few threads, for a given time. Measures how long each turn takes and
//! counts the results.

mod arrivals;
mod measured;
mod options;
#[cfg(test)]
mod tests;
mod workers;

pub(crate) use arrivals::Arrivals;
pub(crate) use measured::Measured;
pub(crate) use options::{LoadOptions, RunStatus};

use crate::connection::{Failure, Result};
use crate::target::Target;
use crate::workload::AnyWorkload;
use options::Start;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{oneshot, watch};
use workers::Worker;

/// Runs the load and waits, within a limit, for its last answer. The time counts from the moment when all clients are
/// connected. If the run is stopped before, it never [starts](RunStatus::started).
///
/// # Errors
/// A client cannot connect; no client has done any work then.
pub(crate) async fn run(
    workload: Arc<dyn AnyWorkload>,
    target: &Arc<Target>,
    options: &LoadOptions,
    status: &Arc<RunStatus>,
) -> Result<Measured> {
    let (start, started) = watch::channel(Start::Wait);
    let shared_connections = workload.shared_connections();
    let threads = options.threads(shared_connections);
    let mut results = Vec::new();
    let mut ready = Vec::new();
    for thread in 0..threads {
        let (at_start, is_ready) = oneshot::channel();
        let (done, measured) = oneshot::channel();
        let worker = Worker {
            workload: Arc::clone(&workload),
            target: Arc::clone(target),
            options: options.clone(),
            status: Arc::clone(status),
            numbers: (thread..options.clients).step_by(threads).collect(),
            shared: shared_connections.map(|all| all.saturating_sub(thread).div_ceil(threads)),
            started: started.clone(),
        };
        std::thread::spawn(move || {
            // The receiver is gone if this function was cancelled.
            let _ = done.send(worker.run(at_start));
        });
        ready.push(is_ready);
        results.push(measured);
    }
    let mut refused = None;
    for worker in ready {
        if let Ok(Err(failure)) = worker.await {
            refused.get_or_insert(failure);
        }
    }
    // Workers that have ended ignore this message.
    let is_cancelled = refused.is_some() || status.stop.is_set();
    start.send_replace(if is_cancelled {
        Start::Cancelled
    } else {
        Start::At(*status.started.get_or_init(Instant::now))
    });
    let mut total = Measured::nothing();
    for result in results {
        match result.await {
            Ok(measured) => total.add(measured),
            Err(_) => return Err(Failure::Lost("a thread of the load has ended".to_owned())),
        }
    }
    refused.map_or(Ok(total), Err)
}

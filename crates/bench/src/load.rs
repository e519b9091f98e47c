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
use std::sync::{Arc, Barrier};
use tokio::sync::oneshot;
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
    let shared_connections = workload.shared_connections();
    let threads = options.threads(shared_connections);
    let barrier = Arc::new(Barrier::new(threads));
    let mut results = Vec::new();
    for thread in 0..threads {
        let worker = Worker {
            workload: Arc::clone(&workload),
            target: Arc::clone(target),
            options: options.clone(),
            status: Arc::clone(status),
            numbers: (thread..options.clients).step_by(threads).collect(),
            shared: shared_connections.map(|all| all.saturating_sub(thread).div_ceil(threads)),
            barrier: Arc::clone(&barrier),
        };
        let (done, measured) = oneshot::channel();
        std::thread::spawn(move || {
            // The receiver is gone if this function was cancelled.
            let _ = done.send(worker.run());
        });
        results.push(measured);
    }
    let mut total = Measured::nothing();
    for result in results {
        match result.await {
            Ok(measured) => total.add(measured),
            Err(_) => return Err(Failure::Lost("a thread of the load has ended".to_owned())),
        }
    }
    status.refused.get().cloned().map_or(Ok(total), Err)
}

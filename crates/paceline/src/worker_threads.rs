//! The number of threads that serve sockets if `worker_threads` is `auto`.

use std::num::NonZero;

/// With fewer cores there is one thread: only a single thread polls for messages, and it serves about as many requests as PostgreSQL
/// on the other cores.
const CORES_MIN: usize = 8;

/// PostgreSQL, or the kernel's work for the network, needs at least as much time for a request as Paceline.
const CORES_PER_THREAD: usize = 2;

/// Maximum number of threads. The line of one busy pool has one lock, which more threads do not make faster
/// (docs/benchmarks.md).
const AUTO_MAX: usize = 16;

/// The configured number of threads, or the number for this machine. The quota of a container (cgroup) and the process's CPU
/// affinity limit the cores.
pub(crate) fn worker_threads(configured: Option<usize>) -> usize {
    configured.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism();
        automatic(cores.map_or(1, NonZero::get))
    })
}

fn automatic(cores: usize) -> usize {
    if cores < CORES_MIN {
        return 1;
    }
    (cores / CORES_PER_THREAD).min(AUTO_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cores_have_one_thread_and_many_cores_half_as_many() {
        let threads = [1, 2, 4, 7, 8, 9, 16, 32, 33, 64, 256].map(automatic);
        assert_eq!(threads, [1, 1, 1, 1, 4, 4, 8, 16, 16, 16, 16]);
    }

    #[test]
    fn a_configured_number_is_used() {
        assert_eq!(worker_threads(Some(7)), 7);
        assert!(worker_threads(None) >= 1);
    }
}

//! Interrupts, and limits for waiting: no target can block the bench indefinitely.

use crate::connection::{Failure, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Ends a bench early. The current run ends and is checked; no further run begins.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<watch::Sender<Option<Instant>>>);

impl Interrupt {
    /// Requests the end.
    pub fn set(&self) {
        self.0.send_if_modified(|at| {
            let is_first = at.is_none();
            at.get_or_insert_with(Instant::now);
            is_first
        });
    }

    /// Whether the end was requested.
    pub fn is_set(&self) -> bool {
        self.at().is_some()
    }

    /// The time at which the end was requested.
    pub(crate) fn at(&self) -> Option<Instant> {
        *self.0.borrow()
    }

    /// Returns when the end is requested.
    pub(crate) async fn requested(&self) {
        // Fails only if the sender is dropped; `self` holds it.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

/// A limit for waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    /// The limit without an interrupt.
    pub(crate) limit: Duration,
    /// The limit after an interrupt.
    pub(crate) interrupted: Duration,
}

impl TimeLimit {
    /// Returns when the limit has passed.
    pub(crate) async fn elapsed(self, interrupt: &Interrupt) {
        let interrupted = async {
            interrupt.requested().await;
            tokio::time::sleep(self.interrupted).await;
        };
        tokio::select! {
            () = tokio::time::sleep(self.limit) => {}
            () = interrupted => {}
        }
    }

    /// Runs `work` within the limit.
    ///
    /// # Errors
    /// Those of the work; or the limit has passed.
    pub(crate) async fn with<T>(
        self,
        interrupt: &Interrupt,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let begun = Instant::now();
        tokio::select! {
            biased;
            done = work => done,
            () = self.elapsed(interrupt) => Err(Failure::Lost(format!(
                "no answer for {:.0} s",
                begun.elapsed().as_secs_f64()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// The result of work that never ends.
    fn outcome(patience: TimeLimit, interrupt: &Interrupt) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let work = std::future::pending();
        runtime.unwrap().block_on(patience.with(interrupt, work))
    }

    #[test]
    fn waiting_ends_at_the_limit() {
        let patience = TimeLimit {
            limit: Duration::from_millis(1),
            interrupted: HOUR,
        };
        let outcome = outcome(patience, &Interrupt::default());
        assert!(matches!(outcome, Err(Failure::Lost(_))), "{outcome:?}");
    }

    #[test]
    fn an_interrupt_shortens_the_wait() {
        let patience = TimeLimit {
            limit: HOUR,
            interrupted: Duration::ZERO,
        };
        let interrupt = Interrupt::default();
        let other = interrupt.clone();
        let asks = std::thread::spawn(move || other.set());
        assert!(outcome(patience, &interrupt).is_err());
        asks.join().unwrap();
        let first = interrupt.at();
        interrupt.set();
        assert_eq!(interrupt.at(), first);
    }
}

//! The end before its time, and how long anybody is waited for: nothing that the lab asks of a target may keep it for ever.

use crate::connection::Failure;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Set to end everything before its time: the run that goes on is measured up to then, its check is made, no other begins.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<watch::Sender<Option<Instant>>>);

impl Interrupt {
    /// Ends everything before its time.
    pub fn set(&self) {
        self.0.send_if_modified(|at| {
            let is_first = at.is_none();
            at.get_or_insert_with(Instant::now);
            is_first
        });
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.at().is_some()
    }

    /// When it was asked for.
    pub(crate) fn at(&self) -> Option<Instant> {
        *self.0.borrow()
    }

    /// Returns when it is asked for.
    pub(crate) async fn requested(&self) {
        // The sender is here, so the channel is open.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    /// At most.
    pub(crate) limit: Duration,
    /// At most after an interrupt.
    pub(crate) interrupted: Duration,
}

impl TimeLimit {
    /// Returns when there is none left.
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

    /// Does `work`, if it is done in time.
    ///
    /// # Errors
    /// Those of the work; or there was no answer in time.
    pub(crate) async fn with<T>(
        self,
        interrupt: &Interrupt,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
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

    /// What becomes of work that never ends.
    fn outcome(patience: TimeLimit, interrupt: &Interrupt) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let work = std::future::pending();
        runtime.unwrap().block_on(patience.with(interrupt, work))
    }

    #[test]
    fn nobody_is_waited_for_without_limit() {
        let patience = TimeLimit {
            limit: Duration::from_millis(1),
            interrupted: HOUR,
        };
        let outcome = outcome(patience, &Interrupt::default());
        assert!(matches!(outcome, Err(Failure::Lost(_))), "{outcome:?}");
    }

    #[test]
    fn an_interrupt_takes_the_patience_away() {
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

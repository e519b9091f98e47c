//! Busy polling: for a moment after a message the event loop asks for the next one instead of going to sleep. To be woken
//! takes longer than most statements do: the scheduler, a halted virtual core, cold caches. Linux does so for sockets
//! (`SO_BUSY_POLL`) and KVM for cores (`halt_poll_ns`); as there, it is given up for a while where it does not pay.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task;

/// Who gets the core back later than this had better sleep: then a message wakes it at once.
const SHARES_MAX: Duration = Duration::from_micros(100);

/// After a unit stood in line there is no polling for as many messages.
const CROWD_MESSAGES: u64 = 1_000;

/// Keeps the event loop awake.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    /// Messages that have come.
    messages: AtomicU64,
    /// The one with which polling begins again.
    begins_with: AtomicU64,
    /// The one from which on there is no crowd any more.
    calm_from: AtomicU64,
    wake: Notify,
}

impl BusyPoll {
    /// Something has come from a client or a server.
    pub(crate) fn heard(&self) {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        if number >= self.begins_with.load(Ordering::Relaxed) && self.is_calm() {
            self.wake.notify_one();
        }
    }

    /// A unit stands in line: what comes while the event loop sleeps is to travel with it.
    pub(crate) fn crowded(&self) {
        let messages = self.messages.load(Ordering::Relaxed);
        self.calm_from
            .store(messages + CROWD_MESSAGES, Ordering::Relaxed);
    }

    fn is_calm(&self) -> bool {
        self.messages.load(Ordering::Relaxed) >= self.calm_from.load(Ordering::Relaxed)
    }

    /// Polls for as long as the process lives. `limit`: how long after a message; zero is not at all.
    pub(crate) async fn run(&self, limit: impl Fn() -> Duration) {
        let goes_on = |silence| silence < limit() && !core_is_wanted();
        self.keep_on(goes_on).await;
    }

    /// There is to be no polling.
    pub(crate) fn never(&self) {
        self.begins_with.store(u64::MAX, Ordering::Relaxed);
    }

    /// `goes_on`: after a silence of this length?
    async fn keep_on(&self, goes_on: impl Fn(Duration) -> bool) {
        let mut doubt = Doubt::default();
        loop {
            self.wake.notified().await;
            self.never();
            self.poll(&goes_on, &mut doubt).await;
            let messages = self.messages.load(Ordering::Relaxed);
            self.begins_with
                .store(messages + doubt.messages(), Ordering::Relaxed);
        }
    }

    async fn poll(&self, goes_on: &impl Fn(Duration) -> bool, doubt: &mut Doubt) {
        let (mut messages, mut since) = (self.messages.load(Ordering::Relaxed), Instant::now());
        while self.is_calm() && goes_on(since.elapsed()) {
            task::yield_now().await;
            let now = self.messages.load(Ordering::Relaxed);
            if now != messages {
                (messages, since) = (now, Instant::now());
                doubt.lessen();
            }
        }
        doubt.grow();
    }
}

/// Lets others have the core that want it. Does anybody keep it?
fn core_is_wanted() -> bool {
    let before = Instant::now();
    thread::yield_now();
    before.elapsed() > SHARES_MAX
}

/// Does polling pay? Grows twice as fast as it lessens: a third of the moments may be in vain.
#[derive(Debug, Default)]
struct Doubt(u32);

impl Doubt {
    const MAX: u32 = 10;

    /// A message came while polling.
    fn lessen(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// None came in time.
    fn grow(&mut self) {
        self.0 = (self.0 + 2).min(Self::MAX);
    }

    /// As many messages do not make the event loop poll.
    fn messages(&self) -> u64 {
        (1 << self.0) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Polling under way, whose time is up when the test says so.
    struct Stage {
        busy: Arc<BusyPoll>,
        looked: Arc<AtomicU64>,
        over: Arc<AtomicBool>,
    }

    impl Stage {
        fn new() -> Self {
            let stage = Self {
                busy: Arc::default(),
                looked: Arc::default(),
                over: Arc::default(),
            };
            let (busy, looked, over) = (
                Arc::clone(&stage.busy),
                Arc::clone(&stage.looked),
                Arc::clone(&stage.over),
            );
            let goes_on = move |_| {
                looked.fetch_add(1, Ordering::Relaxed);
                !over.load(Ordering::Relaxed)
            };
            tokio::spawn(async move { busy.keep_on(goes_on).await });
            stage
        }

        /// Does it poll?
        async fn polls(&self) -> bool {
            // The first turn wakes it.
            task::yield_now().await;
            let before = self.looked.load(Ordering::Relaxed);
            for _ in 0..5 {
                task::yield_now().await;
            }
            self.looked.load(Ordering::Relaxed) >= before + 5
        }

        /// Its time is up; from the next message on it is not.
        async fn time_is_up(&self) {
            self.over.store(true, Ordering::Relaxed);
            assert!(!self.polls().await);
            self.over.store(false, Ordering::Relaxed);
            assert!(!self.polls().await);
        }

        /// Messages that it takes until it polls again.
        async fn messages_until_it_polls(&self) -> u64 {
            for number in 1..2000 {
                self.busy.heard();
                if self.polls().await {
                    return number;
                }
            }
            panic!("it has given up");
        }
    }

    #[tokio::test]
    async fn a_message_begins_it_and_it_ends_with_its_time() {
        let stage = Stage::new();
        assert!(!stage.polls().await);
        stage.busy.heard();
        assert!(stage.polls().await);
        stage.time_is_up().await;
    }

    #[tokio::test]
    async fn each_time_in_vain_makes_it_wait_for_more_messages() {
        let stage = Stage::new();
        let mut took = Vec::new();
        for _ in 0..6 {
            took.push(stage.messages_until_it_polls().await);
            stage.time_is_up().await;
        }
        assert_eq!(took, [1, 4, 16, 64, 256, 1024]);
        assert_eq!(stage.messages_until_it_polls().await, 1024);
    }

    #[tokio::test]
    async fn messages_that_come_while_it_polls_make_it_bolder() {
        let stage = Stage::new();
        for _ in 0..3 {
            stage.messages_until_it_polls().await;
            stage.time_is_up().await;
        }
        assert_eq!(stage.messages_until_it_polls().await, 64);
        for _ in 0..6 {
            stage.busy.heard();
            assert!(stage.polls().await);
        }
        stage.time_is_up().await;
        assert_eq!(stage.messages_until_it_polls().await, 4);
    }

    #[tokio::test]
    async fn a_crowd_ends_it_for_a_while() {
        let stage = Stage::new();
        stage.busy.heard();
        assert!(stage.polls().await);
        stage.busy.crowded();
        assert!(!stage.polls().await);
        let messages = stage.messages_until_it_polls().await;
        assert!(messages >= CROWD_MESSAGES, "{messages}");
    }
}

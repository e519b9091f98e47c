//! Busy polling: after a message the event loop polls for the next one for a short time instead of sleeping. Waking up takes longer
//! than most statements: the scheduler, a halted virtual core, cold caches. Linux does the same for sockets (`SO_BUSY_POLL`) and
//! KVM for cores (`halt_poll_ns`). As there, polling pauses while it does not pay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task;

/// If yielding the core takes longer, another thread has had the core.
const YIELD_ALONE_MAX: Duration = Duration::from_micros(10);

/// If yielding the core takes longer, another thread needs the core, and polling ends.
const YIELD_MAX: Duration = Duration::from_micros(100);

/// Number of messages without polling after a request had to wait for a server connection.
const QUEUED_MESSAGES: u64 = 1_000;

/// Keeps the event loop awake after messages.
#[derive(Debug, Default)]
pub struct BusyPoll {
    /// Polling is off until the process ends, and messages are not counted: several threads would write the same number.
    off: AtomicBool,
    /// Number of messages that have arrived.
    messages: AtomicU64,
    /// Number of the message that starts polling again.
    resume_at: AtomicU64,
    /// Number of the message from which on a queued request no longer prevents polling.
    calm_from: AtomicU64,
    wake: Notify,
}

impl BusyPoll {
    /// A message has arrived from a client or a server.
    pub fn message_received(&self) {
        if self.off.load(Ordering::Relaxed) {
            return;
        }
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        if number >= self.resume_at.load(Ordering::Relaxed) && self.is_calm() {
            self.wake.notify_one();
        }
    }

    /// A request waits for a server connection: the event loop sleeps, so that further requests can join its group.
    pub fn request_queued(&self) {
        if self.off.load(Ordering::Relaxed) {
            return;
        }
        let messages = self.messages.load(Ordering::Relaxed);
        self.calm_from
            .store(messages + QUEUED_MESSAGES, Ordering::Relaxed);
    }

    fn is_calm(&self) -> bool {
        self.messages.load(Ordering::Relaxed) >= self.calm_from.load(Ordering::Relaxed)
    }

    /// Polls until the process ends. `limit` returns how long to poll after a message; zero turns polling off.
    pub async fn run(&self, limit: impl Fn() -> Duration) {
        let look = |silence| match silence < limit() {
            true => yield_core(),
            false => Look::Ends,
        };
        self.keep_on(look).await;
    }

    /// Turns polling off until the process ends.
    pub fn turn_off(&self) {
        self.off.store(true, Ordering::Relaxed);
    }

    /// `look` decides whether to poll on after a time without messages.
    async fn keep_on(&self, look: impl Fn(Duration) -> Look) {
        let mut backoff = PollBackoff::default();
        loop {
            self.wake.notified().await;
            self.resume_at.store(u64::MAX, Ordering::Relaxed);
            self.poll(&look, &mut backoff).await;
            let messages = self.messages.load(Ordering::Relaxed);
            self.resume_at
                .store(messages + backoff.messages(), Ordering::Relaxed);
        }
    }

    async fn poll(&self, look: &impl Fn(Duration) -> Look, backoff: &mut PollBackoff) {
        let (mut messages, mut since) = (self.messages.load(Ordering::Relaxed), Instant::now());
        let mut was_alone = true;
        while self.is_calm() {
            match look(since.elapsed()) {
                Look::Alone => {}
                Look::Shared => was_alone = false,
                Look::Ends => break,
            }
            task::yield_now().await;
            let now = self.messages.load(Ordering::Relaxed);
            if now != messages {
                if !was_alone {
                    // The core was not idle: the thread could have slept.
                    break;
                }
                (messages, since) = (now, Instant::now());
                backoff.shrink();
            }
        }
        backoff.grow();
    }
}

/// The result of a look for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// No other thread has used the core.
    Alone,
    /// Another thread has used the core for a short time.
    Shared,
    /// Polling ends.
    Ends,
}

/// Yields the core to other threads.
fn yield_core() -> Look {
    let before = Instant::now();
    thread::yield_now();
    match before.elapsed() {
        took if took > YIELD_MAX => Look::Ends,
        took if took > YIELD_ALONE_MAX => Look::Shared,
        _ => Look::Alone,
    }
}

/// Exponential backoff of polling. It grows twice as fast as it shrinks, so that polling continues if at most a third of the polls
/// end without a message.
#[derive(Debug, Default)]
struct PollBackoff(u32);

impl PollBackoff {
    const MAX: u32 = 10;

    /// A message arrived while polling.
    fn shrink(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// No message arrived in time, or the core was not idle before.
    fn grow(&mut self) {
        self.0 = (self.0 + 2).min(Self::MAX);
    }

    /// Returns the number of messages that do not start polling.
    fn messages(&self) -> u64 {
        (1 << self.0) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Polling whose time limit is controlled by the test.
    struct Fixture {
        busy: Arc<BusyPoll>,
        rounds: Arc<AtomicU64>,
        over: Arc<AtomicBool>,
        shared: Arc<AtomicBool>,
    }

    impl Fixture {
        fn new() -> Self {
            let fixture = Self {
                busy: Arc::default(),
                rounds: Arc::default(),
                over: Arc::default(),
                shared: Arc::default(),
            };
            let (busy, rounds) = (Arc::clone(&fixture.busy), Arc::clone(&fixture.rounds));
            let (over, shared) = (Arc::clone(&fixture.over), Arc::clone(&fixture.shared));
            let look = move |_| {
                rounds.fetch_add(1, Ordering::Relaxed);
                match (over.load(Ordering::Relaxed), shared.load(Ordering::Relaxed)) {
                    (true, _) => Look::Ends,
                    (false, true) => Look::Shared,
                    (false, false) => Look::Alone,
                }
            };
            tokio::spawn(async move { busy.keep_on(look).await });
            fixture
        }

        /// Whether the event loop polls.
        async fn polls(&self) -> bool {
            // The first yield lets the task wake up.
            task::yield_now().await;
            let before = self.rounds.load(Ordering::Relaxed);
            for _ in 0..5 {
                task::yield_now().await;
            }
            self.rounds.load(Ordering::Relaxed) >= before + 5
        }

        /// Ends the current poll by its time limit.
        async fn time_is_up(&self) {
            self.over.store(true, Ordering::Relaxed);
            assert!(!self.polls().await);
            self.over.store(false, Ordering::Relaxed);
            assert!(!self.polls().await);
        }

        /// Returns the number of messages until it polls again.
        async fn messages_until_it_polls(&self) -> u64 {
            for number in 1..2000 {
                self.busy.message_received();
                if self.polls().await {
                    return number;
                }
            }
            panic!("polling does not resume");
        }
    }

    #[tokio::test]
    async fn a_message_starts_polling_and_the_limit_ends_it() {
        let fixture = Fixture::new();
        assert!(!fixture.polls().await);
        fixture.busy.message_received();
        assert!(fixture.polls().await);
        fixture.time_is_up().await;
    }

    #[tokio::test]
    async fn polling_that_is_off_counts_no_messages() {
        let fixture = Fixture::new();
        fixture.busy.turn_off();
        fixture.busy.message_received();
        assert!(!fixture.polls().await);
        assert_eq!(fixture.busy.messages.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn each_poll_without_message_doubles_the_backoff_twice() {
        let fixture = Fixture::new();
        let mut took = Vec::new();
        for _ in 0..6 {
            took.push(fixture.messages_until_it_polls().await);
            fixture.time_is_up().await;
        }
        assert_eq!(took, [1, 4, 16, 64, 256, 1024]);
        assert_eq!(fixture.messages_until_it_polls().await, 1024);
    }

    #[tokio::test]
    async fn messages_during_polling_shrink_the_backoff() {
        let fixture = Fixture::new();
        for _ in 0..3 {
            fixture.messages_until_it_polls().await;
            fixture.time_is_up().await;
        }
        assert_eq!(fixture.messages_until_it_polls().await, 64);
        for _ in 0..6 {
            fixture.busy.message_received();
            assert!(fixture.polls().await);
        }
        fixture.time_is_up().await;
        assert_eq!(fixture.messages_until_it_polls().await, 4);
    }

    /// On a core that other threads use, polling only takes time from them.
    #[tokio::test]
    async fn polling_on_a_shared_core_ends_with_the_next_message() {
        let fixture = Fixture::new();
        fixture.busy.message_received();
        assert!(fixture.polls().await);
        fixture.shared.store(true, Ordering::Relaxed);
        assert!(fixture.polls().await);
        fixture.busy.message_received();
        assert!(!fixture.polls().await);
        assert_eq!(fixture.messages_until_it_polls().await, 4);
    }

    #[tokio::test]
    async fn a_queued_request_stops_polling_for_a_while() {
        let fixture = Fixture::new();
        fixture.busy.message_received();
        assert!(fixture.polls().await);
        fixture.busy.request_queued();
        assert!(!fixture.polls().await);
        let messages = fixture.messages_until_it_polls().await;
        assert!(messages >= QUEUED_MESSAGES, "{messages}");
    }
}

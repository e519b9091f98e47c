//! A thread of the load and the clients that it runs.

use super::arrivals::Schedule;
use super::measured::{Measured, Tenth};
use super::options::{LoadOptions, RunStatus};
use crate::connection::{Failure, Result};
use crate::interrupt::TimeLimit;
use crate::session::{Pool, Session};
use crate::target::Target;
use crate::workload::{AnyClient, AnyWorkload, Turn};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

/// Maximum number of concurrent logins per thread: the listen queue of a server is short.
const LOGINS_MAX: usize = 64;
/// Limit for the last answers when the time is over.
const GRACE: Duration = Duration::from_secs(60);
/// Limit for the last answers when the run was stopped.
const GRACE_STOPPED: Duration = Duration::from_secs(5);
/// Pause of a client after it could not connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// A thread of the load.
pub(super) struct Worker {
    pub(super) workload: Arc<dyn AnyWorkload>,
    pub(super) target: Arc<Target>,
    pub(super) options: LoadOptions,
    pub(super) status: Arc<RunStatus>,
    /// The numbers of the clients of this thread.
    pub(super) numbers: Vec<usize>,
    /// Number of connections that these clients share; `None` gives each its own.
    pub(super) shared: Option<usize>,
    /// Holds back all threads until each has connected its clients.
    pub(super) barrier: Arc<Barrier>,
}

impl Worker {
    /// Connects all clients, waits for the other threads and runs the clients to the end.
    pub(super) fn run(self) -> Measured {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => LocalSet::new().block_on(&runtime, self.work()),
            Err(error) => {
                self.start(Err(Failure::Unreachable(error.to_string())));
                Measured::nothing()
            }
        }
    }

    /// Returns when the run began. It does not begin if a client of any thread could not connect, or if it was stopped.
    fn start(&self, connected: Result<()>) -> Option<Instant> {
        let status = &self.status;
        if let Err(failure) = connected {
            // Only the first failure counts.
            let _ = status.refused.set(failure);
        }
        let is_leader = self.barrier.wait().is_leader();
        if is_leader && status.refused.get().is_none() && !status.stop.is_set() {
            status.started.get_or_init(Instant::now);
        }
        self.barrier.wait();
        status.started.get().copied()
    }

    async fn work(self) -> Measured {
        let pool = self.shared.map(|most| Rc::new(Pool::new(most)));
        let mut clients = Vec::with_capacity(self.numbers.len());
        let connected = tokio::select! {
            connected = self.connect(pool.as_ref(), &mut clients) => connected,
            () = self.status.stop.requested() => Ok(()),
        };
        let Some(start) = self.start(connected) else {
            return Measured::nothing();
        };
        let begin = start + self.options.warmup;
        let window = Rc::new(Window {
            begin,
            end: begin + self.options.duration,
            deadline: self.options.deadline,
            status: Arc::clone(&self.status),
            measured: RefCell::new(Measured::nothing()),
        });
        let (mut tasks, mut schedules) = (JoinSet::new(), Vec::new());
        for client in clients {
            let rng = StdRng::seed_from_u64(client.seed);
            let schedule = Schedule::new(self.options.arrivals, start, rng);
            let schedule = Rc::new(RefCell::new(schedule));
            schedules.push(Rc::clone(&schedule));
            tasks.spawn_local(client.run(schedule, Rc::clone(&window)));
        }
        let grace = TimeLimit {
            limit: self.options.warmup + self.options.duration + GRACE,
            interrupted: GRACE_STOPPED,
        };
        let mut idle = Vec::new();
        let finished = tokio::select! {
            finished = wait_for_clients(&mut tasks, start, &mut idle) => finished,
            () = grace.elapsed(&self.status.stop) => None,
        };
        let mut measured = window.measured.replace(Measured::nothing());
        // If no work was left, the time after the last unit does not count.
        measured.lasted = window.measured_time(finished);
        for _ in 0..tasks.len() {
            measured.outcome.unknown += 1;
            let waited = "no answer, though the run had ended";
            measured.record_failure(&Failure::Lost(waited.to_owned()));
        }
        tasks.abort_all();
        window.count_behind(&schedules, &mut measured);
        window.count_under_way(&schedules, &mut measured);
        close(idle, pool).await;
        measured
    }

    async fn connect(&self, pool: Option<&Rc<Pool>>, clients: &mut Vec<ClientTask>) -> Result<()> {
        let permits = Rc::new(Semaphore::new(LOGINS_MAX));
        let connects_itself = self.workload.connects_itself();
        let mut tasks = JoinSet::new();
        for &number in &self.numbers {
            let mut rng = StdRng::seed_from_u64(self.options.seed);
            // Each client has its own generator, so that its random numbers do not depend on the speed of the others.
            let seed = rng.random::<u64>() ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let workload = Arc::clone(&self.workload);
            let mut task = ClientTask {
                client: workload.client(number, StdRng::seed_from_u64(seed)),
                session: Session::new(Arc::clone(&self.target), pool.cloned()),
                seed: !seed,
            };
            let (permits, status) = (Rc::clone(&permits), Arc::clone(&self.status));
            tasks.spawn_local(async move {
                // Fails only if the semaphore is closed, which never happens.
                let _permit = permits.acquire().await;
                if !connects_itself {
                    task.session.connection().await?;
                    task.session.release();
                }
                status.connected.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Failure>(task)
            });
        }
        while let Some(joined) = tasks.join_next().await {
            clients.push(joined.map_err(|error| Failure::Lost(error.to_string()))??);
        }
        Ok(())
    }
}

/// Closes the remaining connections after all clients have ended.
async fn close(idle: Vec<Session>, pool: Option<Rc<Pool>>) {
    let mut tasks = JoinSet::new();
    for mut session in idle {
        tasks.spawn_local(async move { session.close().await });
    }
    tasks.join_all().await;
    if let Some(pool) = pool {
        pool.close().await;
    }
}

/// The measured time of a run, and the results of this thread's clients.
struct Window {
    begin: Instant,
    end: Instant,
    deadline: Option<Duration>,
    status: Arc<RunStatus>,
    measured: RefCell<Measured>,
}

impl Window {
    /// The end of the measured time; earlier than [`Self::end`] if the run was stopped.
    fn actual_end(&self) -> Instant {
        let stopped = self.status.stop.at();
        stopped.map_or(self.end, |at| at.min(self.end))
    }

    /// The length of the measured time, given when all work was `finished`, if it was.
    fn measured_time(&self, finished: Option<Instant>) -> Duration {
        let end = self.actual_end();
        let last = finished.map_or(end, |finished| finished.min(end));
        last.saturating_duration_since(self.begin)
    }

    /// The tenth of the requested time that contains `now`, if it is the first or the last.
    fn tenth(&self, now: Instant) -> Option<Tenth> {
        Tenth::of(now, self.begin, self.end)
    }

    /// Counts the turns that were due but not answered at the end. Their latency is at least their age at that time.
    fn count_behind(&self, schedules: &[Rc<RefCell<Schedule>>], measured: &mut Measured) {
        let end = self.actual_end();
        if end <= self.begin {
            return;
        }
        for schedule in schedules {
            while let Some(due) = schedule.borrow_mut().next_behind(end) {
                measured.open_loop.offered += u64::from(due >= self.begin);
                measured.open_loop.behind += 1;
                measured.record_latency(end - due, self.tenth(end));
                measured.within_deadline.requests += u64::from(self.has_deadline_within(due));
            }
        }
    }

    /// Counts the turns of a closed loop that never had an answer. Those of an open loop count as behind.
    fn count_under_way(&self, schedules: &[Rc<RefCell<Schedule>>], measured: &mut Measured) {
        let schedules = schedules.iter().map(|schedule| schedule.borrow());
        let closed = schedules.filter(|schedule| !schedule.is_open_loop());
        let begun = closed.filter_map(|schedule| schedule.under_way);
        let within = begun.filter(|begun| self.has_deadline_within(*begun));
        measured.within_deadline.requests += within.count() as u64;
    }

    /// Whether the deadline of a request that began at `begun` is within the measured time.
    fn has_deadline_within(&self, begun: Instant) -> bool {
        let ends = self.deadline.map(|deadline| begun + deadline);
        begun >= self.begin && ends.is_some_and(|ends| ends <= self.actual_end())
    }

    /// Counts a request that began at `begun` and was answered at `now`, unless it will be counted as behind.
    fn count_request(&self, schedule: &Schedule, begun: Instant, now: Instant, succeeded: bool) {
        let is_behind = schedule.is_open_loop() && now >= self.actual_end();
        if self.has_deadline_within(begun) && !is_behind {
            let is_in_time = self
                .deadline
                .is_some_and(|deadline| now - begun <= deadline);
            let within = &mut self.measured.borrow_mut().within_deadline;
            within.requests += 1;
            within.answered += u64::from(succeeded && is_in_time);
        }
    }

    /// Records a completed turn.
    fn record_done(&self, now: Instant, took: Duration) {
        self.status.done(took);
        let mut measured = self.measured.borrow_mut();
        measured.outcome.acknowledged += 1;
        if now >= self.begin && now < self.actual_end() {
            measured.record(took, self.tenth(now));
        }
    }

    fn record_failure(&self, failure: &Failure) {
        self.status.failed.fetch_add(1, Ordering::Relaxed);
        let mut measured = self.measured.borrow_mut();
        measured.record_failure(failure);
        measured.outcome.unknown += u64::from(failure.is_in_doubt());
    }

    /// Waits until a turn is due. Returns `None` if the time is over or the run was stopped.
    async fn wait(&self, due: Instant) -> Option<Instant> {
        let now = Instant::now();
        if now >= self.actual_end() {
            return None;
        }
        if now >= due {
            return Some(now);
        }
        let until = due.min(self.end);
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => (due < self.end).then(Instant::now),
            () = self.status.stop.requested() => None,
        }
    }
}

/// The reason why a client takes no more turns.
enum ClientEnd {
    /// The time is over, or the run was stopped.
    OutOfTime,
    /// No work is left. Contains when the client completed its last unit, if it completed any.
    Finished(Option<Instant>),
    /// The client only stays connected until the others have ended.
    Idle(Session),
}

/// Waits until all clients have ended. If all clients with work finished it, returns when the last unit was completed.
async fn wait_for_clients(
    tasks: &mut JoinSet<ClientEnd>,
    start: Instant,
    idle: &mut Vec<Session>,
) -> Option<Instant> {
    let mut last = Some(start);
    while let Some(end) = tasks.join_next().await {
        match end {
            Ok(ClientEnd::Finished(own)) => {
                last = last.map(|others| others.max(own.unwrap_or(others)))
            }
            Ok(ClientEnd::Idle(session)) => idle.push(session),
            Ok(ClientEnd::OutOfTime) | Err(_) => last = None,
        }
    }
    last
}

/// A client and its connection.
struct ClientTask {
    client: Box<dyn AnyClient>,
    session: Session,
    /// Seed for the times of its turns.
    seed: u64,
}

impl ClientTask {
    /// Takes turns until the client ends.
    async fn run(mut self, schedule: Rc<RefCell<Schedule>>, window: Rc<Window>) -> ClientEnd {
        let mut done = None;
        let end = loop {
            let due = schedule.borrow().due();
            let Some(begun) = window.wait(due).await else {
                break ClientEnd::OutOfTime;
            };
            schedule.borrow_mut().under_way = Some(begun);
            let turn = self.client.turn(&mut self.session).await;
            schedule.borrow_mut().under_way = None;
            let mut now = Instant::now();
            let begun = schedule.borrow().counts_from(begun);
            if let Ok(Turn::Done) | Err(_) = turn {
                window.count_request(&schedule.borrow(), begun, now, turn.is_ok());
            }
            match turn {
                Ok(Turn::Done) => {
                    done = Some(now);
                    window.record_done(now, now - begun);
                }
                Ok(Turn::Idle) => {}
                Ok(Turn::StayConnected) => {
                    schedule.borrow_mut().end();
                    return ClientEnd::Idle(self.session);
                }
                Ok(Turn::Finished) => {
                    schedule.borrow_mut().end();
                    break ClientEnd::Finished(done);
                }
                Err(failure) => {
                    window.record_failure(&failure);
                    self.session.recover(&failure).await;
                    if failure.is_at_login() {
                        tokio::time::sleep(RECONNECT_PAUSE).await;
                    }
                    now = Instant::now();
                }
            }
            self.session.release();
            // A turn that was answered too late stays in the schedule and counts as behind.
            if now >= window.actual_end() {
                break ClientEnd::OutOfTime;
            }
            window.measured.borrow_mut().open_loop.offered += u64::from(due >= window.begin);
            schedule.borrow_mut().answered(now);
        };
        self.session.close().await;
        end
    }
}

//! The clients that share a thread.

use super::pace::Schedule;
use super::{Gauge, Load, MakeClient, Measured, Start};
use crate::connection::Failure;
use crate::interrupt::Patience;
use crate::session::{Pool, Session};
use crate::target::Target;
use crate::workload::{Client, Turn};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

/// Logins under way at the same time, per thread: a server's queue of new connections is short.
const LOGINS_MAX: usize = 64;
/// How long the last answers are waited for when the time is over.
const GRACE: Duration = Duration::from_secs(60);
/// The same when the run was stopped.
const GRACE_STOPPED: Duration = Duration::from_secs(5);
/// How long a client waits after it could not connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// The clients that share a thread.
pub(super) struct Crew {
    pub(super) clients: Arc<MakeClient>,
    pub(super) target: Arc<Target>,
    pub(super) load: Load,
    pub(super) gauge: Arc<Gauge>,
    /// Of the clients.
    pub(super) numbers: Vec<usize>,
    /// Connections that they share, if they do.
    pub(super) shared: Option<usize>,
    pub(super) started: watch::Receiver<Start>,
}

impl Crew {
    /// Connects all, tells `at_start`, waits for the start, runs to the end.
    pub(super) fn run(self, at_start: oneshot::Sender<Result<(), Failure>>) -> Measured {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                // Who asked may have been interrupted.
                let _ = at_start.send(Err(Failure::Unreachable(error.to_string())));
                return Measured::nothing();
            }
        };
        tokio::task::LocalSet::new().block_on(&runtime, self.work(at_start))
    }

    async fn work(self, at_start: oneshot::Sender<Result<(), Failure>>) -> Measured {
        let pool = self
            .shared
            .map(|connections| Rc::new(Pool::new(connections)));
        let connected = tokio::select! {
            connected = self.connect(pool.as_ref()) => connected,
            () = self.gauge.stop.asked() => return Measured::nothing(),
        };
        let riders = match connected {
            Ok(riders) => riders,
            Err(failure) => {
                let _ = at_start.send(Err(failure));
                return Measured::nothing();
            }
        };
        let _ = at_start.send(Ok(()));
        let mut started = self.started.clone();
        let start = started.wait_for(|start| *start != Start::Await).await;
        let Ok(Start::At(start)) = start.map(|start| *start) else {
            return Measured::nothing();
        };
        let measured = Rc::new(RefCell::new(Measured::nothing()));
        let watch = Watch {
            opens: start + self.load.warmup,
            closes: start + self.load.warmup + self.load.duration,
            gauge: Arc::clone(&self.gauge),
        };
        let (mut tasks, mut schedules) = (JoinSet::new(), Vec::new());
        for rider in riders {
            let rng = StdRng::seed_from_u64(rider.seed);
            let schedule = Rc::new(RefCell::new(Schedule::new(self.load.pace, start, rng)));
            schedules.push(Rc::clone(&schedule));
            tasks.spawn_local(rider.ride(schedule, watch.clone(), Rc::clone(&measured)));
        }
        let grace = Patience {
            limit: self.load.warmup + self.load.duration + GRACE,
            interrupted: GRACE_STOPPED,
        };
        let mut staying = Vec::new();
        let finished = tokio::select! {
            finished = all_left(&mut tasks, start, &mut staying) => finished,
            () = grace.ends(&self.gauge.stop) => None,
        };
        let mut measured = measured.replace(Measured::nothing());
        // If nothing was left to do, what came after the last unit is nobody's time.
        measured.lasted = watch.lasted(finished);
        for _ in 0..tasks.len() {
            measured.outcome.unknown += 1;
            let waited = "no answer, though the run had ended";
            measured.note(&Failure::Lost(waited.to_owned()));
        }
        tasks.abort_all();
        watch.count_behind(&schedules, &mut measured);
        close(staying, pool).await;
        measured
    }

    async fn connect(&self, pool: Option<&Rc<Pool>>) -> Result<Vec<Rider>, Failure> {
        let permits = Rc::new(Semaphore::new(LOGINS_MAX));
        let mut tasks = JoinSet::new();
        for &number in &self.numbers {
            let mut rng = StdRng::seed_from_u64(self.load.seed);
            // Each client has a generator of its own: what it draws does not depend on the others' speed.
            let seed = rng.random::<u64>() ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let rider = Rider {
                client: (self.clients)(number, StdRng::seed_from_u64(seed)),
                session: Session::new(Arc::clone(&self.target), pool.cloned()),
                seed: !seed,
            };
            let (permits, gauge) = (Rc::clone(&permits), Arc::clone(&self.gauge));
            tasks.spawn_local(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                let rider = rider.connect().await;
                gauge.connected.fetch_add(1, Ordering::Relaxed);
                rider
            });
        }
        let mut riders = Vec::with_capacity(self.numbers.len());
        while let Some(joined) = tasks.join_next().await {
            match joined {
                Ok(rider) => riders.push(rider?),
                Err(error) => return Err(Failure::Lost(error.to_string())),
            }
        }
        Ok(riders)
    }
}

/// Ends the connections that are left when all clients have ended.
async fn close(staying: Vec<Session>, pool: Option<Rc<Pool>>) {
    let mut tasks = JoinSet::new();
    for mut session in staying {
        tasks.spawn_local(async move { session.close().await });
    }
    tasks.join_all().await;
    if let Some(pool) = pool {
        pool.close().await;
    }
}

/// The time that is measured.
#[derive(Debug, Clone)]
struct Watch {
    opens: Instant,
    closes: Instant,
    gauge: Arc<Gauge>,
}

impl Watch {
    /// When the time is over; sooner if the run was stopped.
    fn ends(&self) -> Instant {
        let stopped = self.gauge.stop.at();
        stopped.map_or(self.closes, |at| at.min(self.closes))
    }

    /// The time measured, if all work was `finished` then.
    fn lasted(&self, finished: Option<Instant>) -> Duration {
        let ends = self.ends();
        let last = finished.map_or(ends, |finished| finished.min(ends));
        last.saturating_duration_since(self.opens)
    }

    /// Counts the turns that were due and had no answer at the end. Their age then is the least that they would have taken.
    fn count_behind(&self, schedules: &[Rc<RefCell<Schedule>>], measured: &mut Measured) {
        let ends = self.ends();
        if ends <= self.opens {
            return;
        }
        for schedule in schedules {
            while let Some(due) = schedule.borrow_mut().next_behind(ends) {
                measured.offered += u64::from(due >= self.opens);
                measured.behind += 1;
                measured.record_latency(ends - due);
            }
        }
    }

    /// Writes down a turn that was done.
    fn note_done(&self, now: Instant, took: Duration, measured: &RefCell<Measured>) {
        self.gauge.done(took);
        let mut measured = measured.borrow_mut();
        measured.outcome.acknowledged += 1;
        if now >= self.opens && now < self.ends() {
            measured.record(took);
        }
    }

    /// Waits until a turn is due. `None`: the time is over, or the run was stopped.
    async fn wait(&self, due: Instant) -> Option<Instant> {
        let now = Instant::now();
        if now >= self.ends() {
            return None;
        }
        if now >= due {
            return Some(now);
        }
        let until = due.min(self.closes);
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => (due < self.closes).then(Instant::now),
            () = self.gauge.stop.asked() => None,
        }
    }
}

/// Why a client takes no more turns.
enum Left {
    /// The time is over, or the run was stopped.
    OutOfTime,
    /// Nothing is left to do; the last unit was done at that time, if it did any.
    Finished(Option<Instant>),
    /// It does nothing, but its connection stays until the others have ended.
    Stays(Session),
}

/// Waits until all clients have left. If all that do anything have finished: when the last unit was done.
async fn all_left(
    tasks: &mut JoinSet<Left>,
    start: Instant,
    staying: &mut Vec<Session>,
) -> Option<Instant> {
    let mut last = Some(start);
    while let Some(left) = tasks.join_next().await {
        match left {
            Ok(Left::Finished(own)) => {
                last = last.map(|others| own.map_or(others, |own| others.max(own)));
            }
            Ok(Left::Stays(session)) => staying.push(session),
            Ok(Left::OutOfTime) | Err(_) => last = None,
        }
    }
    last
}

/// A client and its connection.
struct Rider {
    client: Box<dyn Client>,
    session: Session,
    /// For the times of its turns.
    seed: u64,
}

impl Rider {
    async fn connect(mut self) -> Result<Self, Failure> {
        if !self.client.comes_and_goes() {
            self.session.connection().await?;
            self.session.rest();
        }
        Ok(self)
    }

    /// Takes turns until there is a reason to leave.
    async fn ride(
        mut self,
        schedule: Rc<RefCell<Schedule>>,
        watch: Watch,
        measured: Rc<RefCell<Measured>>,
    ) -> Left {
        let mut done = None;
        let left = loop {
            let due = schedule.borrow().due();
            let Some(begun) = watch.wait(due).await else {
                break Left::OutOfTime;
            };
            let turn = self.client.turn(&mut self.session).await;
            let mut now = Instant::now();
            match turn {
                Ok(Turn::Done) => {
                    done = Some(now);
                    let took = now - schedule.borrow().counts_from(begun);
                    watch.note_done(now, took, &measured);
                }
                Ok(Turn::Idle) => {}
                Ok(Turn::Stays) => {
                    schedule.borrow_mut().end();
                    return Left::Stays(self.session);
                }
                Ok(Turn::Finished) => {
                    schedule.borrow_mut().end();
                    break Left::Finished(done);
                }
                Err(failure) => {
                    watch.gauge.failed.fetch_add(1, Ordering::Relaxed);
                    self.fail(&failure, &measured).await;
                    now = Instant::now();
                }
            }
            self.session.rest();
            // What was answered too late stays on the schedule.
            if now >= watch.ends() {
                break Left::OutOfTime;
            }
            measured.borrow_mut().offered += u64::from(due >= watch.opens);
            schedule.borrow_mut().answered(now);
        };
        self.session.close().await;
        left
    }

    async fn fail(&mut self, failure: &Failure, measured: &RefCell<Measured>) {
        {
            let mut measured = measured.borrow_mut();
            measured.note(failure);
            measured.outcome.unknown += u64::from(failure.is_in_doubt());
        }
        self.session.recover(failure).await;
        if matches!(
            failure,
            Failure::Unreachable(_) | Failure::NotAdmitted { .. }
        ) {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
}

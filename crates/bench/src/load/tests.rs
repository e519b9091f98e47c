//! Measured time and late turns, with clients that need no server.

use super::measured::Tenth;
use super::*;
use crate::interrupt::Interrupt;
use crate::record::{Trend, TrendPart};
use crate::session::Session;
use crate::target::Host;
use crate::workload::{Client, Turn, Workload};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Far longer than any test.
const HOUR: Duration = Duration::from_secs(3_600);

/// The turns of all clients. A client without further turns stops the run when all others have finished.
#[derive(Default)]
struct Script {
    /// By client.
    turns: Vec<Vec<Turn>>,
    /// The time at which each client began its last turn.
    last_turns: Mutex<Vec<Instant>>,
    stop: Interrupt,
}

impl Workload for Arc<Script> {
    /// The number of turns that the client has taken.
    type Memory = usize;

    async fn turn(
        &self,
        client: &mut Client<usize>,
        _session: &mut Session,
    ) -> Result<Turn, Failure> {
        let turn = self.turns[client.number].get(client.memory).copied();
        client.memory += 1;
        if turn.is_none() {
            while self.last_turns.lock().unwrap().len() + 1 < self.turns.len() {
                tokio::task::yield_now().await;
            }
        }
        if turn.is_none_or(|turn| turn == Turn::Finished) {
            self.last_turns.lock().unwrap().push(Instant::now());
        }
        if turn.is_none() {
            self.stop.set();
        }
        Ok(turn.unwrap_or(Turn::Idle))
    }

    fn connects_itself(&self) -> bool {
        true
    }
}

/// One client in a closed loop.
fn load() -> LoadOptions {
    LoadOptions {
        clients: 1,
        threads: 1,
        warmup: Duration::ZERO,
        duration: HOUR,
        arrivals: Arrivals::Closed {
            think: Duration::ZERO,
        },
        seed: 1,
        deadline: None,
    }
}

fn measure(workload: impl Workload, load: &LoadOptions, status: &Arc<RunStatus>) -> Measured {
    let nowhere = Arc::new(Target {
        host: Host::Unix("/nowhere".into()),
        ..Target::on_loopback("nowhere", 1, "nobody", "nothing")
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let run = run(Arc::new(workload), &nowhere, load, status);
    runtime.unwrap().block_on(run).unwrap()
}

/// The results, when the run began, and when the last client began its last turn.
fn act(turns: &[&[Turn]], threads: usize) -> (Measured, Instant, Instant) {
    let script = Arc::new(Script {
        turns: turns.iter().map(|turns| turns.to_vec()).collect(),
        ..Script::default()
    });
    let load = LoadOptions {
        clients: turns.len(),
        threads,
        ..load()
    };
    let status = Arc::new(RunStatus::new(script.stop.clone()));
    let measured = measure(Arc::clone(&script), &load, &status);
    let last_turns = script.last_turns.lock().unwrap();
    let last = last_turns.iter().max();
    let started = *status.started.get().unwrap();
    (measured, started, *last.unwrap())
}

#[test]
fn the_measured_time_ends_when_all_work_is_done() {
    let scripts: [&[Turn]; 2] = [
        &[Turn::Done, Turn::Done, Turn::Idle, Turn::Finished],
        &[Turn::Done, Turn::Finished],
    ];
    for threads in [1, 2] {
        let (measured, started, last) = act(&scripts, threads);
        assert_eq!((measured.done, measured.outcome.acknowledged), (3, 3));
        assert!(measured.lasted > Duration::ZERO);
        // The turn in which a client finds no more work does not count.
        assert!(started + measured.lasted <= last, "{:?}", measured.lasted);
    }
}

#[test]
fn the_measured_time_continues_while_a_client_works() {
    // The second client continues until it is stopped.
    let scripts: [&[Turn]; 2] = [&[Turn::Done, Turn::Finished], &[Turn::Done]];
    for threads in [1, 2] {
        let (measured, started, last) = act(&scripts, threads);
        assert_eq!(measured.done, 2);
        assert!(started + measured.lasted >= last, "{:?}", measured.lasted);
        assert!(measured.lasted < HOUR);
    }
}

/// A client whose turn takes as long as the measured time. It begins after that time has begun, so it ends too late on every
/// machine.
struct Slow(Duration);

impl Workload for Slow {
    type Memory = ();

    async fn turn(&self, _: &mut Client<()>, _: &mut Session) -> Result<Turn, Failure> {
        tokio::time::sleep(self.0).await;
        Ok(Turn::Done)
    }

    fn connects_itself(&self) -> bool {
        true
    }
}

#[test]
fn turns_that_were_due_without_an_answer_are_counted() {
    let load = LoadOptions {
        duration: Duration::from_millis(50),
        arrivals: Arrivals::Open { rate: 1_000.0 },
        deadline: Some(Duration::from_millis(20)),
        ..load()
    };
    let turn = load.duration;
    let status = Arc::new(RunStatus::new(Interrupt::default()));
    let measured = measure(Slow(turn), &load, &status);
    // The first turn ended too late, and the others never began.
    assert_eq!((measured.done, measured.outcome.acknowledged), (0, 1));
    assert!(measured.open_loop.behind > 10, "{measured:?}");
    assert_eq!(measured.open_loop.offered, measured.open_loop.behind);
    assert_eq!(measured.histogram.len(), measured.open_loop.behind);
    // Of these, the ones of the last 20 ms may still be answered in time.
    let within = measured.within_deadline;
    assert!(within.requests < measured.open_loop.behind, "{within:?}");
    assert!(within.requests > 5 && within.answered == 0, "{within:?}");
    // The waiting turns are part of the end.
    let trend = measured.trend(load.duration);
    assert_eq!((trend.first.p99, trend.last.rate), (None, 0.0));
    assert!(trend.last.p99.unwrap() > 25_000, "{trend:?}");
    // The oldest turn has the age of the run, the youngest was due at its end.
    assert!(measured.histogram.max() > 25_000 && measured.histogram.min() < 25_000);
}

#[test]
fn each_thread_has_a_client_and_a_connection() {
    let threads = |threads, clients, shared_connections| {
        let load = LoadOptions {
            threads,
            clients,
            ..load()
        };
        load.threads(shared_connections)
    };
    assert_eq!(threads(4, 100, None), 4);
    assert_eq!(threads(4, 3, None), 3);
    assert_eq!(threads(64, 100, Some(32)), 32);
    assert_eq!(threads(2, 0, Some(32)), 1);
}

/// A client whose login is rejected.
struct Outcast;

impl Workload for Outcast {
    type Memory = ();

    async fn turn(&self, _: &mut Client<()>, _: &mut Session) -> Result<Turn, Failure> {
        Err(Failure::NotAdmitted {
            sqlstate: "53300".to_owned(),
            message: "too many clients".to_owned(),
        })
    }

    fn connects_itself(&self) -> bool {
        true
    }
}

#[test]
fn a_rejected_client_pauses_before_it_tries_again() {
    let load = LoadOptions {
        duration: Duration::from_millis(50),
        deadline: Some(Duration::from_millis(1)),
        ..load()
    };
    let status = Arc::new(RunStatus::new(Interrupt::default()));
    let measured = measure(Outcast, &load, &status);
    // It tries immediately, and again after each pause within the run.
    assert!((1..=3).contains(&measured.errors["53300"].count));
    assert_eq!(measured.outcome.unknown, 0);
    // An error within the deadline is not in time.
    let within = measured.within_deadline;
    assert!(within.requests > 0 && within.answered == 0, "{within:?}");
}

#[test]
fn requests_within_the_deadline_are_counted() {
    let load = LoadOptions {
        duration: Duration::from_secs(2),
        deadline: Some(Duration::from_secs(1)),
        ..load()
    };
    let status = Arc::new(RunStatus::new(Interrupt::default()));
    let measured = measure(Slow(Duration::from_millis(5)), &load, &status);
    let within = measured.within_deadline;
    assert!(within.answered > 0, "{within:?}");
    // The deadlines of those in the second half are not within the run.
    assert!(within.requests < measured.done, "{within:?}");
}

#[test]
fn the_first_and_the_last_tenth_have_figures_of_their_own() {
    let begin = Instant::now();
    let end = begin + Duration::from_secs(10);
    let mut threads = [Measured::nothing(), Measured::nothing()];
    let turns = [
        (0, 4),
        (999, 4),
        (1_000, 50),
        (8_999, 50),
        (9_000, 7),
        (9_999, 9),
    ];
    for (number, (at, took)) in turns.into_iter().enumerate() {
        let tenth = Tenth::of(begin + Duration::from_millis(at), begin, end);
        threads[number % 2].record(Duration::from_micros(took), tenth);
    }
    let [mut all, other] = threads;
    all.add(other);
    let part = |rate, p99| TrendPart {
        rate,
        p99: Some(p99),
    };
    let expected = Trend {
        first: part(2.0, 4),
        last: part(2.0, 9),
    };
    assert_eq!(all.trend(end - begin), expected);
    assert_eq!((all.done, all.histogram.max()), (6, 50));
}

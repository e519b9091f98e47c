//! A simulated PostgreSQL behind a line, to compare the limit of groups that is found with limits that are configured.
//!
//! The server executes statements on its cores, in equal shares, and commits with one flush at a time, which serves all statements
//! that wait for it. The network and Paceline add a delay per group and per request. All times are in seconds, and those of
//! statements and flushes vary at random.

use super::super::{Limits, Line, LineKey, LockOutcome, NextStep};
use super::{fold, limits};
use crate::group_limit::{FlightId, GroupsMax, ServerLoad};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Standard deviation of the logarithm of the times.
const NOISE: f64 = 0.4;

/// Time of Paceline per request.
const PACELINE: f64 = 8e-6;

/// Time of a client between an answer and its next request.
const THINK: f64 = 20e-6;

/// Time of a request in a statement, besides that of its row.
const REQUEST: f64 = 2e-6;

/// By how much each further statement at work slows all of them down.
const COHERENCE: f64 = 0.01;

/// The parameters of a simulation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) cores: f64,
    /// Time of a flush; 0 for reads.
    pub(super) flush: f64,
    /// Time of a statement, and of each of its rows.
    pub(super) statement: f64,
    pub(super) row: f64,
    /// Round trip to the server.
    pub(super) network: f64,
    pub(super) clients: usize,
    /// Number of rows, of which each request names one at random.
    pub(super) rows: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize, usize),
    AtServer(u64),
    /// The statement that ends first has ended, if nothing has changed since.
    Executed(u64),
    Flushed,
    Answered(u64),
    Tick(usize),
}

/// A group on its way.
struct Job {
    pool: usize,
    flight: FlightId,
    requests: Vec<(LineKey, usize)>,
    /// The remaining work of the cores for it.
    work: f64,
}

/// A line and its clients.
struct ClientPool {
    line: Line<usize>,
    free: usize,
    scenario: Scenario,
    active: usize,
    served: u64,
    /// Paceline is busy until then.
    paceline_free: f64,
    /// The time at which the line is asked next.
    tick_at: f64,
}

/// The server and the pools in front of it.
pub(super) struct Simulation {
    pub(super) now: f64,
    start: Instant,
    load: Arc<ServerLoad>,
    random: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbered: u64,
    pools: Vec<ClientPool>,
    jobs: BTreeMap<u64, Job>,
    on_cores: BTreeSet<u64>,
    cores_since: f64,
    change: u64,
    flushing: Vec<u64>,
    to_flush: Vec<u64>,
    /// The server does nothing in this time.
    pub(super) stall: (f64, f64),
}

const CONNECTIONS: usize = 64;

fn line_limits(groups_max: GroupsMax) -> Limits {
    Limits {
        groups_max,
        connections_max: CONNECTIONS,
        ..limits(1024, 16, 0)
    }
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: 0.0,
            start: Instant::now(),
            load: Arc::default(),
            random: seed | 1,
            events: BinaryHeap::new(),
            numbered: 0,
            pools: Vec::new(),
            jobs: BTreeMap::new(),
            on_cores: BTreeSet::new(),
            cores_since: 0.0,
            change: 0,
            flushing: Vec::new(),
            to_flush: Vec::new(),
            stall: (0.0, 0.0),
        }
    }

    /// Adds a pool whose clients begin now.
    pub(super) fn with(mut self, scenario: Scenario, groups_max: GroupsMax) -> Self {
        self.pools.push(ClientPool {
            line: Line::new(line_limits(groups_max), Arc::clone(&self.load), self.start),
            free: CONNECTIONS,
            scenario,
            active: 0,
            served: 0,
            paceline_free: 0.0,
            tick_at: f64::INFINITY,
        });
        self.set_clients(self.pools.len() - 1, scenario.clients);
        self
    }

    /// From now on this number of clients is active.
    pub(super) fn set_clients(&mut self, pool: usize, clients: usize) {
        for client in self.pools[pool].active..clients {
            let after = 1e-5 * client as f64;
            self.after(after, Event::Arrival(pool, client));
        }
        self.pools[pool].active = clients;
    }

    /// Requests served until now.
    pub(super) fn served(&self, pool: usize) -> u64 {
        self.pools[pool].served
    }

    /// Goes on for this time, or until this number of requests has been served. Returns requests per second.
    pub(super) fn run(&mut self, pool: usize, seconds: f64, requests: u64) -> f64 {
        let (from, before) = (self.now, self.served(pool));
        while self.now < from + seconds && self.served(pool) - before < requests {
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.now = f64::from_bits(at);
            self.happens(event);
        }
        (self.served(pool) - before) as f64 / (self.now - from)
    }

    fn after(&mut self, seconds: f64, event: Event) {
        self.numbered += 1;
        // Positive floating-point numbers have the order of their bits.
        let at = (self.now + seconds).to_bits();
        self.events.push(Reverse((at, self.numbered, event)));
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.now)
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn uniform(&mut self) -> f64 {
        ((self.random() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A factor with mean 1 and a log-normal distribution.
    fn noise(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        (NOISE * normal - NOISE * NOISE / 2.0).exp()
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival(pool, client) => {
                let row = self.random() % self.pools[pool].scenario.rows;
                let now = self.instant();
                self.pools[pool].line.submit(now, fold(row), client);
                self.dispatch(pool);
            }
            Event::Tick(pool) => {
                let now = self.instant();
                self.pools[pool].tick_at = f64::INFINITY;
                self.pools[pool].line.tick(now);
                self.dispatch(pool);
            }
            Event::AtServer(job) => {
                self.use_cores();
                self.on_cores.insert(job);
                self.plan_cores();
            }
            Event::Executed(change) if change == self.change => self.executed(),
            Event::Executed(_) => {}
            Event::Flushed => {
                for job in std::mem::take(&mut self.flushing) {
                    self.send_back(job);
                }
                self.flush();
            }
            Event::Answered(job) => self.answered(job),
        }
    }

    fn dispatch(&mut self, place: usize) {
        let now = self.instant();
        loop {
            let pool = &mut self.pools[place];
            if pool.free == 0 || !pool.line.has_next(now) {
                break;
            }
            let Some(NextStep::Group(group)) = pool.line.next(now, pool.free) else {
                break;
            };
            pool.free -= 1;
            let request = |entry: &super::super::WaitEntry<usize>| {
                (entry.spec.keys.as_slice()[0], entry.request)
            };
            let requests: Vec<(LineKey, usize)> = group.entries.iter().map(request).collect();
            let rows: BTreeSet<LineKey> = requests.iter().map(|(row, _)| *row).collect();
            let scenario = pool.scenario;
            let work = scenario.statement
                + scenario.row * rows.len() as f64
                + REQUEST * requests.len() as f64;
            let job = Job {
                pool: place,
                flight: group.flight,
                requests,
                work: work * self.noise(),
            };
            self.numbered += 1;
            let number = self.numbered;
            self.jobs.insert(number, job);
            self.after(scenario.network / 2.0, Event::AtServer(number));
        }
        let Some(due) = self.pools[place].line.due() else {
            return;
        };
        let due = due.saturating_duration_since(now).as_secs_f64();
        // The resolution of the timers is a millisecond.
        let wait = (due * 1e3).ceil().max(1.0) / 1e3;
        if self.now + wait < self.pools[place].tick_at {
            self.pools[place].tick_at = self.now + wait;
            self.after(wait, Event::Tick(place));
        }
    }

    /// The share of a core for each statement.
    fn core_share(&self) -> f64 {
        let statements = self.on_cores.len() as f64;
        let cores = self.pools[0].scenario.cores;
        (cores / statements).min(1.0) / (1.0 + COHERENCE * (statements - 1.0))
    }

    fn use_cores(&mut self) {
        let (from, to) = self.stall;
        let stalled = (self.now.min(to) - self.cores_since.max(from)).max(0.0);
        let done = (self.now - self.cores_since - stalled) * self.core_share();
        for job in &self.on_cores {
            self.jobs.get_mut(job).expect("a job").work -= done;
        }
        self.cores_since = self.now;
    }

    fn plan_cores(&mut self) {
        self.change += 1;
        let work = self.on_cores.iter().map(|job| self.jobs[job].work);
        if let Some(least) = work.min_by(f64::total_cmp) {
            let wait = least.max(0.0) / self.core_share();
            let stall = self.stalled(wait);
            self.after(wait + stall, Event::Executed(self.change));
        }
    }

    /// By how much the stall prolongs something that begins now and takes this long.
    fn stalled(&self, takes: f64) -> f64 {
        let (from, to) = self.stall;
        match self.now + takes > from && self.now < to {
            true => to - self.now.max(from),
            false => 0.0,
        }
    }

    fn executed(&mut self) {
        self.use_cores();
        let ended = |job: &u64| self.jobs[job].work <= 1e-10;
        let ended: Vec<u64> = self.on_cores.iter().copied().filter(ended).collect();
        for job in ended {
            self.on_cores.remove(&job);
            match self.pools[self.jobs[&job].pool].scenario.flush > 0.0 {
                true => self.to_flush.push(job),
                false => self.send_back(job),
            }
        }
        self.plan_cores();
        self.flush();
    }

    fn flush(&mut self) {
        if self.flushing.is_empty() && !self.to_flush.is_empty() {
            self.flushing = std::mem::take(&mut self.to_flush);
            let takes = self.pools[0].scenario.flush * self.noise();
            let stalled = self.stalled(takes);
            self.after(takes + stalled, Event::Flushed);
        }
    }

    fn send_back(&mut self, job: u64) {
        let network = self.pools[self.jobs[&job].pool].scenario.network;
        self.after(network / 2.0, Event::Answered(job));
    }

    fn answered(&mut self, job: u64) {
        let job = self.jobs.remove(&job).expect("a job");
        let now = self.instant();
        let pool = &mut self.pools[job.pool];
        pool.free += 1;
        pool.served += job.requests.len() as u64;
        pool.line.flight_ended(now, job.flight);
        for (row, _) in &job.requests {
            pool.line.release_rows(now, *row, LockOutcome::Free);
        }
        self.dispatch(job.pool);
        for (_, client) in job.requests {
            let think = THINK * self.noise();
            let pool = &mut self.pools[job.pool];
            if client >= pool.active {
                continue;
            }
            pool.paceline_free = pool.paceline_free.max(self.now) + PACELINE;
            let after = pool.paceline_free - self.now + think;
            self.after(after, Event::Arrival(job.pool, client));
        }
    }
}

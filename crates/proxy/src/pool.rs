//! A pool: the server connections of one database and user, and the line in front of them.
//!
//! Whoever frees a connection asks the line who is next and hands the connection on; no queue stands in between.
//! All of it happens under one short lock that is never held across a wait.

mod groups;
mod seat;
mod tend;

pub(crate) use seat::{Delivery, Row, Seat, Submitted, Waiter};

use crate::proxy::Proxy;
use crate::server::{Address, ServerConn};
use crate::status::Counters;
use crate::trip;
use paceline_line::learned::{Learned, Policy};
use paceline_line::line::{Departure, Entry, Key, Limits, Line, Slip, Ticket};
use paceline_line::strategy::{Again, fold};
use paceline_line::tally::{Tallies, Tally};
use paceline_line::template::Template;
use paceline_line::unit::Unit;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Most reads in a pipeline.
const PIPELINE_DEPTH_MAX: usize = 32;

/// Templates about which something is remembered, per pool.
const LEARNED_MAX: usize = 8_192;

/// Statements of which it is remembered that PostgreSQL has taken them, per pool.
const ACCEPTED_MAX: usize = 8_192;

/// Settings whose parameters are remembered, per pool.
const WELCOMES_MAX: usize = 1_024;

/// How long a unit waits for what PostgreSQL is being asked about its template.
const ANSWER_AWAITED_MAX: Duration = Duration::from_millis(50);

/// How long a refusal is believed before the catalog is asked again.
const REFUSAL_LASTS: Duration = Duration::from_secs(60);

/// The server connections of one database and user.
pub(crate) struct Pool {
    /// Shared by all pools.
    pub(crate) proxy: Arc<Proxy>,
    /// Where its connections lead.
    pub(crate) address: Arc<Address>,
    /// What may travel together.
    pub(crate) policy: Policy,
    size: usize,
    inner: Mutex<Inner>,
    /// Something has come that the line's clock does not know of.
    look_again: Notify,
    /// More is known of a template.
    learned_more: Notify,
    /// Units that were neither a single read nor a single write.
    pub(crate) leases: AtomicU64,
}

struct Inner {
    line: Line<Waiter>,
    /// Used last, taken first.
    idle: Vec<ServerConn>,
    /// Connections that exist or are being opened.
    open: usize,
    opening: usize,
    /// After a failure no further connection is opened before this time, unless there is none.
    grow_not_before: Instant,
    /// By template and settings.
    learned: HashMap<(u64, u64), Known>,
    tallies: Tallies,
    /// Statements that PostgreSQL has taken, by template and settings.
    accepted: HashSet<(u64, u64)>,
    /// Parameters that PostgreSQL reports, by settings.
    welcomes: HashMap<u64, Vec<(String, String)>>,
    /// Somebody watches the line's clock.
    tended: bool,
}

/// What is known of a template, and where its units are counted.
struct Known {
    stage: Stage,
    tally: Arc<Tally>,
}

/// How far the pool has come with a template.
enum Stage {
    /// Somebody will find out when its own unit has been served.
    Pending,
    /// PostgreSQL is being asked.
    Asked,
    /// This, since then.
    Learned(Arc<Learned>, Instant),
}

impl Stage {
    /// What a unit may go by; `None`: PostgreSQL must be asked again.
    fn knowledge(&self) -> Option<Knowledge> {
        match self {
            Self::Pending => Some(Knowledge::Pending),
            Self::Asked => Some(Knowledge::Asked),
            Self::Learned(learned, since) => {
                let holds = learned.plan.is_ok() || since.elapsed() < REFUSAL_LASTS;
                holds.then(|| Knowledge::Learned(Arc::clone(learned)))
            }
        }
    }
}

/// What is known of a template when one of its units arrives.
pub(crate) enum Knowledge {
    /// This.
    Learned(Arc<Learned>),
    /// Nothing yet: somebody else will find out.
    Pending,
    /// Nothing yet: PostgreSQL is being asked at this moment.
    Asked,
    /// Nothing: the caller is to find out.
    Ask,
}

impl Pool {
    /// A pool without connections.
    pub(crate) fn new(proxy: Arc<Proxy>, address: Address, policy: Policy, size: usize) -> Self {
        let settings = &proxy.config.paceline;
        let limits = Limits {
            group_size_max: settings.group_size_max,
            pipeline_depth_max: PIPELINE_DEPTH_MAX,
            max_wait: settings.hotspot_update_max_wait_time,
        };
        Self {
            address: Arc::new(address),
            policy,
            size,
            inner: Mutex::new(Inner {
                line: Line::new(limits),
                idle: Vec::new(),
                open: 0,
                opening: 0,
                grow_not_before: Instant::now(),
                learned: HashMap::new(),
                tallies: Tallies::default(),
                accepted: HashSet::new(),
                welcomes: HashMap::new(),
                tended: false,
            }),
            look_again: Notify::new(),
            learned_more: Notify::new(),
            leases: AtomicU64::new(0),
            proxy,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> &Counters {
        &self.proxy.counters
    }

    /// A unit arrives. `unit` is what may travel with others.
    pub(crate) fn submit(
        self: &Arc<Self>,
        slip: Slip,
        would_group: bool,
        unit: impl FnOnce() -> Option<Arc<Unit>>,
    ) -> Submitted {
        let now = Instant::now();
        let mut inner = self.lock();
        if !inner.idle.is_empty() && inner.line.start_at_once(slip) {
            if let Some(conn) = self.take_idle(&mut inner) {
                return Submitted::Seat(Seat::new(self, conn, slip.key));
            }
            inner.line.land(now, slip.key);
        }
        if would_group {
            Counters::count(&self.counters().would_have_grouped);
        }
        let (answer, waits) = oneshot::channel();
        let waiter = Waiter {
            unit: unit(),
            answer,
        };
        let ticket = inner.line.submit(now, slip, waiter);
        self.counters().waiting.fetch_add(1, Ordering::Relaxed);
        if inner.open == 0 || !inner.idle.is_empty() {
            self.dispatch(&mut inner, now);
        }
        self.tend(&mut inner);
        Submitted::Waiting(ticket, waits)
    }

    /// A unit is cancelled by its client; its answer says so. False: nothing has happened, it has departed.
    pub(crate) fn cancel(&self, ticket: Ticket) -> bool {
        let withdrawn = self.lock().line.withdraw(Instant::now(), ticket);
        let Some(entry) = withdrawn else {
            return false;
        };
        self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
        let _ = entry.unit.answer.send(Delivery::cancelled());
        true
    }

    /// A row is free.
    fn land(self: &Arc<Self>, key: Option<Key>) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.line.land(now, key);
        self.dispatch(&mut inner, now);
    }

    /// A unit's client has left. False: it has departed.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        let withdrawn = self.lock().line.withdraw(Instant::now(), ticket);
        if withdrawn.is_some() {
            self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
        }
        withdrawn.is_some()
    }

    /// A connection comes back; `None`: it is lost.
    pub(crate) fn release(self: &Arc<Self>, conn: Option<ServerConn>, key: Option<Key>) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.line.land(now, key);
        match conn {
            Some(mut conn) => {
                conn.idle_since = now;
                inner.idle.push(conn);
            }
            None => self.lost(&mut inner),
        }
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    /// A trip is over: who goes again, which rows are free, and who is next on its connection?
    pub(crate) fn turn(
        self: &Arc<Self>,
        conn: &mut ServerConn,
        keys: Vec<Key>,
        again: Vec<(Entry<Waiter>, Again)>,
    ) -> Option<Departure<Waiter>> {
        let now = Instant::now();
        let mut inner = self.lock();
        self.put_back(&mut inner, now, again);
        inner.line.land(now, keys);
        conn.idle_since = now;
        let next = self.depart(&mut inner, now);
        // Rows that have landed may let others leave on connections that were idle for want of them.
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
        next
    }

    /// A trip's connection is lost.
    pub(crate) fn wreck(self: &Arc<Self>, keys: Vec<Key>, again: Vec<(Entry<Waiter>, Again)>) {
        let now = Instant::now();
        let mut inner = self.lock();
        self.put_back(&mut inner, now, again);
        inner.line.land(now, keys);
        self.lost(&mut inner);
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    /// A connection is gone: there is room for another one.
    fn lost(self: &Arc<Self>, inner: &mut Inner) {
        inner.open -= 1;
        if inner.line.has_ready() && inner.idle.is_empty() {
            self.grow(inner);
        }
        self.look_again.notify_one();
    }

    /// Members of a pipeline that has come to a halt go elsewhere.
    pub(crate) fn reroute(self: &Arc<Self>, again: Vec<(Entry<Waiter>, Again)>) {
        let now = Instant::now();
        let mut inner = self.lock();
        self.put_back(&mut inner, now, again);
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    fn put_back(&self, inner: &mut Inner, now: Instant, again: Vec<(Entry<Waiter>, Again)>) {
        let mut cohorts: HashMap<Again, u64> = HashMap::new();
        let mut entries = Vec::with_capacity(again.len());
        for (mut entry, how) in again {
            if entry.unit.answer.is_closed() {
                continue;
            }
            Counters::count(&self.counters().solo_fallbacks);
            self.counters().waiting.fetch_add(1, Ordering::Relaxed);
            let group = &mut entry.slip.group;
            match (how, entry.slip.key) {
                (Again::Line, _) => {}
                (Again::Row, Some(key)) => {
                    *group = group.map(|mut id| {
                        id.cohort = fold::row_cohort(key);
                        id
                    });
                }
                (Again::Alone | Again::Row, _) => *group = None,
                (Again::FirstHalf | Again::SecondHalf, _) => {
                    let cohort = cohorts
                        .entry(how)
                        .or_insert_with(|| inner.line.new_cohort());
                    *group = group.map(|mut id| {
                        id.cohort = *cohort;
                        id
                    });
                }
            }
            entries.push(entry);
        }
        inner.line.put_back(now, entries);
    }

    /// Hands idle connections to whoever is next.
    fn dispatch(self: &Arc<Self>, inner: &mut Inner, now: Instant) {
        inner.line.release_held(now);
        while !inner.idle.is_empty() {
            let Some(departure) = self.depart(inner, now) else {
                return;
            };
            match self.take_idle(inner) {
                Some(conn) => self.board(inner, conn, departure),
                None => {
                    // All idle connections turned out dead.
                    let keys: Vec<Key> = departure
                        .entries
                        .iter()
                        .filter_map(|e| e.slip.key)
                        .collect();
                    let again = departure
                        .entries
                        .into_iter()
                        .map(|entry| (entry, Again::Line));
                    self.put_back(inner, now, again.collect());
                    inner.line.land(now, keys);
                }
            }
        }
        if inner.open == 0 && inner.line.has_ready() {
            self.grow(inner);
        }
    }

    fn depart(&self, inner: &mut Inner, now: Instant) -> Option<Departure<Waiter>> {
        let departure = inner.line.next(now)?;
        let leaving = departure.entries.len();
        self.counters()
            .waiting
            .fetch_sub(leaving as u64, Ordering::Relaxed);
        let reads = |entry: &Entry<Waiter>| entry.slip.group.is_some_and(|id| id.strategy.reads());
        if leaving > 1 && !departure.entries.first().is_some_and(reads) {
            self.counters().departed(leaving);
        }
        Some(departure)
    }

    fn take_idle(&self, inner: &mut Inner) -> Option<ServerConn> {
        while let Some(mut conn) = inner.idle.pop() {
            if conn.is_alive() {
                return Some(conn);
            }
            inner.open -= 1;
        }
        None
    }

    /// One entry rides with its client, several take a trip.
    fn board(
        self: &Arc<Self>,
        inner: &mut Inner,
        conn: ServerConn,
        mut departure: Departure<Waiter>,
    ) {
        if departure.entries.len() > 1 {
            tokio::spawn(trip::drive(Arc::clone(self), conn, departure));
            return;
        }
        if let Some(entry) = departure.entries.pop()
            && let Some((conn, key)) = self.seat(entry, conn)
        {
            // The client left in this moment.
            inner.line.land(Instant::now(), key);
            inner.idle.push(conn);
        }
    }

    /// Gives a connection to the client whose unit is next; it comes back if that client has gone.
    pub(crate) fn seat(
        self: &Arc<Self>,
        entry: Entry<Waiter>,
        conn: ServerConn,
    ) -> Option<(ServerConn, Option<Key>)> {
        let seat = Seat::new(self, conn, entry.slip.key);
        match entry.unit.answer.send(Delivery::Seat(seat)) {
            Err(Delivery::Seat(seat)) => seat.unused(),
            _ => None,
        }
    }

    /// Closes connections that nobody has used for `server_idle_timeout`.
    pub(crate) fn close_idle(&self) {
        let limit = self.proxy.config.paceline.server_idle_timeout;
        if limit.is_zero() {
            return;
        }
        let mut inner = self.lock();
        let late: Vec<ServerConn> = inner
            .idle
            .extract_if(.., |conn| conn.idle_since.elapsed() >= limit)
            .collect();
        inner.open -= late.len();
        drop(inner);
        late.into_iter().for_each(ServerConn::say_goodbye);
    }

    /// What is known of a template, and where its units are counted. After [`Knowledge::Ask`] the caller owes
    /// [`Pool::learn`].
    pub(crate) fn knowledge(
        &self,
        template: &Arc<Template>,
        settings: u64,
    ) -> (Knowledge, Arc<Tally>) {
        let mut inner = self.lock();
        let Inner {
            learned, tallies, ..
        } = &mut *inner;
        let key = (template.id, settings);
        if let Some(known) = learned.get_mut(&key)
            && let Some(knowledge) = known.stage.knowledge()
        {
            if known.tally.is_forgotten() {
                known.tally = tallies.of(template);
            }
            return (knowledge, Arc::clone(&known.tally));
        }
        if learned.len() >= LEARNED_MAX {
            learned.clear();
        }
        let tally = tallies.of(template);
        let known = Known {
            stage: Stage::Pending,
            tally: Arc::clone(&tally),
        };
        learned.insert(key, known);
        (Knowledge::Ask, tally)
    }

    /// PostgreSQL is being asked about a template.
    pub(crate) fn asked(&self, template: u64, settings: u64) {
        // If it has been forgotten meanwhile, the next one asks again.
        if let Some(known) = self.lock().learned.get_mut(&(template, settings)) {
            known.stage = Stage::Asked;
        }
    }

    /// What is known of a template about which PostgreSQL is being asked: the answer is only moments away, and without
    /// it units on one row would fill the pool.
    pub(crate) async fn known_soon(&self, template: &Arc<Template>, settings: u64) -> Knowledge {
        let answered = async {
            loop {
                let learned = self.learned_more.notified();
                match self.knowledge(template, settings).0 {
                    Knowledge::Asked => learned.await,
                    known => return known,
                }
            }
        };
        let known = tokio::time::timeout(ANSWER_AWAITED_MAX, answered).await;
        known.unwrap_or(Knowledge::Pending)
    }

    /// PostgreSQL has taken these statements under these settings.
    pub(crate) fn accepted(&self, templates: &[u64], settings: u64) {
        let mut inner = self.lock();
        if inner.accepted.len() >= ACCEPTED_MAX {
            inner.accepted.clear();
        }
        inner
            .accepted
            .extend(templates.iter().map(|template| (*template, settings)));
    }

    /// Has PostgreSQL taken this statement under these settings before?
    pub(crate) fn has_accepted(&self, template: u64, settings: u64) -> bool {
        self.lock().accepted.contains(&(template, settings))
    }

    /// Notes what was found out; `None`: nothing, the next one asks again.
    pub(crate) fn learn(&self, template: u64, settings: u64, learned: Option<Learned>) {
        let mut inner = self.lock();
        let key = (template, settings);
        match (learned, inner.learned.get_mut(&key)) {
            (Some(learned), Some(known)) => {
                known.stage = Stage::Learned(Arc::new(learned), Instant::now());
            }
            (None, Some(_)) => {
                inner.learned.remove(&key);
            }
            (_, None) => {}
        }
        self.learned_more.notify_waiters();
    }

    /// The parameters with which PostgreSQL welcomes a client that has these settings, if that is known.
    pub(crate) fn welcome(&self, settings: u64) -> Option<Vec<(String, String)>> {
        self.lock().welcomes.get(&settings).cloned()
    }

    /// Notes them.
    pub(crate) fn set_welcome(&self, settings: u64, parameters: Vec<(String, String)>) {
        let mut inner = self.lock();
        if inner.welcomes.len() >= WELCOMES_MAX {
            inner.welcomes.clear();
        }
        inner.welcomes.insert(settings, parameters);
    }

    /// Does the template call functions that may change the session?
    pub(crate) fn taints(&self, template: u64, settings: u64) -> Option<bool> {
        match &self.lock().learned.get(&(template, settings))?.stage {
            Stage::Learned(learned, _) => Some(learned.taints),
            Stage::Pending | Stage::Asked => None,
        }
    }
}

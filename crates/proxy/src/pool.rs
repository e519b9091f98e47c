//! A pool: the server connections of one database and user, and the line in front of them.
//!
//! Whoever frees a connection asks the line who is next and hands the connection on; no queue stands in between.
//! All of it happens under one short lock that is never held across a wait.

mod check;
mod era;
mod exclusive;
mod failing;
mod groups;
mod hold;
mod known;
mod load;
mod quota;
mod replication;
mod room;
mod roster;
mod seat;
mod settings;
mod shape;
mod sweep;
mod tend;
#[cfg(test)]
mod tests;
mod wait;

pub(crate) use era::{Bond, Era};
pub(crate) use exclusive::{Exclusive, Place, Use};
pub(crate) use hold::{Hold, Summons};
pub(crate) use known::Knowledge;
pub(crate) use load::Load;
pub(crate) use quota::{Full, QuotaBook, Quotas, ServerPlace};
pub(crate) use replication::ReplicationServer;
pub(crate) use roster::{PoolName, Roster, ServerCard, ServerSeen};
pub(crate) use seat::{Asks, Delivery, Rows, Seat, Submitted, Waiter};
pub(crate) use settings::SettingsInForce;
pub(crate) use shape::Shape;
pub(crate) use sweep::sweep;
use wait::Unwanted;
pub(crate) use wait::{LockWait, Work};

use crate::auth::Learned;
use crate::metrics::PoolLabels;
use crate::proxy::Proxy;
use crate::server::ServerConn;
use crate::stats::Stats;
use crate::status::Counters;
use crate::trip;
use arc_swap::{ArcSwap, Cache, Guard};
use failing::Failing;
use known::{Known, Welcome};
use paceline_batch::line::{
    Dispatch, Line, LineKey, LineKeys, LockOutcome, NextStep, WaitEntry, WaitSpec, WaiterId,
};
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::strategy::Retry;
use paceline_batch::template_stats::{GroupSizes, StatsByTemplate};
use quota::Hunger;
use replication::Replicas;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};

/// The settings of a pool, as one client reads them: without a shared access unless they have changed.
pub(crate) type SettingsCache = Cache<Arc<ArcSwap<SettingsInForce>>, Arc<SettingsInForce>>;

/// The rows of all that leave, each once.
pub(crate) fn keys_of(entries: &[WaitEntry<Waiter>]) -> Vec<LineKey> {
    let keys = entries.iter().flat_map(|entry| entry.spec.keys.as_slice());
    let mut keys: Vec<LineKey> = keys.copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn release_rows(inner: &mut Inner, now: Instant, keys: &LineKeys) {
    for key in keys.as_slice() {
        inner.line.release_rows(now, *key, LockOutcome::Free);
    }
}

/// The server connections of one database and user.
pub(crate) struct Pool {
    /// Shared by all pools.
    pub(crate) proxy: Arc<Proxy>,
    policy: shape::PolicyCell,
    /// What its clients have shown, for logins of its own.
    pub(crate) learned: Learned,
    /// What metrics call it, since a client has logged in.
    pub(crate) labels: OnceLock<PoolLabels>,
    /// What clients call it, since one has been admitted.
    pub(crate) name: OnceLock<PoolName>,
    /// How many server connections and clients its database and user have.
    pub(crate) quotas: Quotas,
    settings: Arc<ArcSwap<SettingsInForce>>,
    inner: Mutex<Inner>,
    /// Something has come that the line's clock does not know of.
    look_again: Notify,
    /// A connection has come back while it is held, or an era is over.
    over: Arc<Notify>,
    /// More is known of a template.
    learned_more: Notify,
    /// The server's default for `idle_session_timeout`, in milliseconds, when a connection was opened last.
    idle_default_ms: AtomicU64,
    /// Units that were neither a single read nor a single write, and got a server connection.
    pub(crate) leases: AtomicU64,
    /// How large its groups were.
    pub(crate) sizes: GroupSizes,
    /// Clients that are logged in.
    pub(crate) clients: AtomicUsize,
    /// Those of them that replicate.
    pub(crate) replication_clients: AtomicUsize,
    /// What it has counted for `SHOW STATS`, and durations and errors for metrics.
    pub(crate) stats: Stats,
    /// Its server connections.
    pub(crate) roster: Roster,
}

struct Inner {
    line: Line<Waiter>,
    /// Units whose clients want no answer any more, though they had left; those that come back do not go again.
    unwanted: FxHashMap<WaiterId, Unwanted>,
    /// Used last, taken first.
    idle: Vec<Box<ServerConn>>,
    /// Kept while it is suspended; then none is idle.
    parked: Vec<Box<ServerConn>>,
    /// May work begin?
    hold: Hold,
    /// Replication clients, and those that wait for a place.
    replication: Replicas,
    /// Statements that need its database without other sessions; may name some that are over.
    uses: Vec<Weak<Use>>,
    /// Connections that are opened now are of this era …
    era: Arc<Era>,
    /// … and of these there are some yet.
    past: Vec<Weak<Era>>,
    /// When it was killed last.
    killed_at: Option<Instant>,
    /// To clients that do nothing.
    summons: watch::Sender<Summons>,
    /// Most connections, the reserve included.
    open_max: usize,
    /// Connections that exist or are being opened.
    open: usize,
    opening: usize,
    /// Of those that exist, being checked.
    checking: usize,
    /// After a failure no further connection is opened before this time, unless there is none.
    grow_not_before: Instant,
    /// There is none, and none could be opened.
    failing: Option<Failing>,
    /// There is none, and none may be opened.
    hunger: Option<Hunger>,
    /// Nobody has come for it since then, and the sweep has found neither clients nor connections.
    unused_since: Option<Instant>,
    /// No connection is closed for its age before this time.
    retire_not_before: Instant,
    /// Those who wait for long are told so at this time.
    notices_at: Instant,
    /// By template and settings.
    learned: FxHashMap<(u64, u64), Known>,
    tallies: StatsByTemplate,
    /// Statements that PostgreSQL has taken, by template and settings.
    accepted: FxHashSet<(u64, u64)>,
    /// Parameters that PostgreSQL reports, by settings.
    welcomes: FxHashMap<u64, Welcome>,
    /// They come from an earlier era; the next connection may lead to another server.
    welcomes_are_old: bool,
    /// Somebody watches the line's clock …
    tended: bool,
    /// … and looks at it next at this time.
    wakes_at: Instant,
}

impl Pool {
    /// A pool without connections.
    pub(crate) fn new(proxy: Arc<Proxy>, shape: Shape, quotas: Quotas, hold: Hold) -> Self {
        let now = Instant::now();
        let over = Arc::new(Notify::new());
        let summons = match hold {
            Hold::Closing => Summons::Closing,
            Hold::Open | Hold::Suspended | Hold::Paused => Summons::Stay,
        };
        Self {
            policy: shape::PolicyCell::new(shape.policy),
            learned: Learned::default(),
            labels: OnceLock::new(),
            name: OnceLock::new(),
            quotas,
            inner: Mutex::new(Inner {
                line: Line::new(shape.limits),
                unwanted: FxHashMap::default(),
                idle: Vec::new(),
                parked: Vec::new(),
                hold,
                replication: Replicas::default(),
                uses: Vec::new(),
                era: Era::new(Arc::new(shape.address), &over),
                past: Vec::new(),
                killed_at: None,
                summons: watch::Sender::new(summons),
                open_max: shape.settings.open_max(),
                open: 0,
                opening: 0,
                checking: 0,
                grow_not_before: now,
                failing: None,
                hunger: None,
                unused_since: None,
                retire_not_before: now,
                notices_at: now,
                learned: FxHashMap::default(),
                tallies: StatsByTemplate::new(Arc::clone(&proxy.names)),
                accepted: FxHashSet::default(),
                welcomes: FxHashMap::default(),
                welcomes_are_old: false,
                tended: false,
                wakes_at: now,
            }),
            settings: Arc::new(ArcSwap::from_pointee(shape.settings)),
            look_again: Notify::new(),
            over,
            learned_more: Notify::new(),
            idle_default_ms: AtomicU64::new(0),
            leases: AtomicU64::new(0),
            sizes: GroupSizes::default(),
            clients: AtomicUsize::new(0),
            replication_clients: AtomicUsize::new(0),
            stats: Stats::default(),
            roster: Roster::default(),
            proxy,
        }
    }

    /// The settings in force; a reload may replace them at any time.
    pub(crate) fn settings(&self) -> Guard<Arc<SettingsInForce>> {
        self.settings.load()
    }

    /// The same for one client, which looks often.
    pub(crate) fn settings_cache(&self) -> SettingsCache {
        SettingsCache::from(Arc::clone(&self.settings))
    }

    /// How long a client may be idle that has not said so itself; zero is for ever.
    pub(crate) fn idle_default(&self) -> Duration {
        Duration::from_millis(self.idle_default_ms.load(Ordering::Relaxed))
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
        spec: WaitSpec,
        would_group: bool,
        unit: impl FnOnce() -> Option<Arc<PlannedRequest>>,
    ) -> Submitted {
        self.submit_as(Asks::Request, spec, would_group, unit)
    }

    /// A login needs a connection for work of Paceline's own.
    pub(crate) fn submit_login(self: &Arc<Self>) -> Submitted {
        self.submit_as(Asks::Login, WaitSpec::default(), false, || None)
    }

    fn submit_as(
        self: &Arc<Self>,
        asks: Asks,
        spec: WaitSpec,
        would_group: bool,
        unit: impl FnOnce() -> Option<Arc<PlannedRequest>>,
    ) -> Submitted {
        let now = Instant::now();
        let mut inner = self.lock();
        if !inner.idle.is_empty() && inner.line.start_at_once(now, &spec) {
            if let Some(conn) = self.take_idle(&mut inner, now) {
                if asks == Asks::Request {
                    self.stats.seated_at_once();
                }
                return Submitted::Seat(Seat::new(self, conn, spec.keys));
            }
            release_rows(&mut inner, now, &spec.keys);
        }
        if inner.open == 0
            && let Some(told) = inner.refusal(now)
        {
            return Submitted::Refused(told);
        }
        if would_group {
            Counters::count(&self.counters().would_have_grouped);
        }
        self.proxy.busy_poll.request_queued();
        let (answer, waits) = oneshot::channel();
        let waiter = Waiter {
            asks,
            unit: unit(),
            answer,
            told_queued: false,
        };
        let id = inner.line.submit(now, spec, waiter);
        self.counters().waiting.fetch_add(1, Ordering::Relaxed);
        if inner.open == 0 || !inner.idle.is_empty() {
            self.dispatch(&mut inner, now);
        }
        self.tend(&mut inner);
        Submitted::Waiting(id, waits)
    }

    /// Rows are not waited for any longer, though what keeps them goes on.
    fn release_rows_early(self: &Arc<Self>, keys: &LineKeys) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.line.release_rows_early(now, keys.as_slice());
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    /// Rows are free.
    fn release_rows(self: &Arc<Self>, keys: &LineKeys) {
        let now = Instant::now();
        let mut inner = self.lock();
        release_rows(&mut inner, now, keys);
        self.dispatch(&mut inner, now);
    }

    /// When a unit came that stands in the line; `None`: it has departed.
    pub(crate) fn arrived(&self, waiter: WaiterId) -> Option<Instant> {
        self.lock().line.arrived(waiter)
    }

    /// A unit's client has left. False: it has departed; if it comes back, it does not go again.
    pub(crate) fn withdraw(self: &Arc<Self>, waiter: WaiterId) -> bool {
        let taken = self.take_out(waiter).is_some();
        if !taken {
            self.is_unwanted(waiter, Unwanted::Left);
        }
        taken
    }

    /// A unit leaves the line. Those behind it may leave on connections that were idle for want of them.
    fn take_out(self: &Arc<Self>, waiter: WaiterId) -> Option<WaitEntry<Waiter>> {
        let now = Instant::now();
        let mut inner = self.lock();
        let entry = inner.line.withdraw(now, waiter)?;
        self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
        self.dispatch(&mut inner, now);
        Some(entry)
    }

    /// A connection comes back; `None`: it is lost.
    pub(crate) fn release(self: &Arc<Self>, conn: Option<Box<ServerConn>>, keys: &LineKeys) {
        let now = Instant::now();
        let mut inner = self.lock();
        release_rows(&mut inner, now, keys);
        let mut worn_out = None;
        match conn {
            Some(mut conn) => match self.is_worn_out(&mut inner, &conn, now) {
                Some(why) => {
                    // Its successor may need its place.
                    conn.place = None;
                    conn.closes_because(why);
                    worn_out = Some(conn);
                    self.lost(&mut inner);
                }
                None => {
                    conn.idle_since = now;
                    self.take_in(&mut inner, conn);
                }
            },
            None => self.lost(&mut inner),
        }
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
        drop(inner);
        if let Some(conn) = worn_out {
            conn.say_goodbye();
        }
    }

    /// A connection that is free: it may serve, is kept for later, or is closed.
    fn take_in(self: &Arc<Self>, inner: &mut Inner, conn: Box<ServerConn>) {
        match inner.serves_on(&conn) {
            true => inner.idle.push(conn),
            false => self.put_aside(inner, conn),
        }
    }

    /// A trip is over: who goes again, which rows are free, and what is next for its connection?
    pub(crate) fn turn(
        self: &Arc<Self>,
        conn: &mut ServerConn,
        rows: Vec<(LineKey, LockOutcome)>,
        again: Vec<(WaitEntry<Waiter>, Retry)>,
    ) -> Option<Work> {
        let now = Instant::now();
        self.counters().came_back(again.len());
        let mut inner = self.lock();
        self.put_back(&mut inner, now, again, rows);
        conn.idle_since = now;
        // A connection whose time has come takes nobody along.
        let retires = inner.lets_retire(&self.settings(), conn, now);
        let next = match inner.serves_on(conn) && !retires && !self.gives_way(&inner, conn, now) {
            true => self.depart(&mut inner, now),
            false => None,
        };
        if let Some(Work::Group(group)) = &next {
            self.count_group(group);
        }
        // Rows that have landed may let others leave on connections that were idle for want of them.
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
        next
    }

    /// A trip's connection is lost.
    pub(crate) fn wreck(
        self: &Arc<Self>,
        keys: Vec<LineKey>,
        again: Vec<(WaitEntry<Waiter>, Retry)>,
    ) {
        let now = Instant::now();
        self.counters().came_back(again.len());
        let mut inner = self.lock();
        let rows = keys.into_iter().map(|key| (key, LockOutcome::Free));
        self.put_back(&mut inner, now, again, rows.collect());
        self.lost(&mut inner);
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    /// A connection is gone: there is room for another one.
    fn lost(self: &Arc<Self>, inner: &mut Inner) {
        inner.open -= 1;
        self.place_replicas(inner, Instant::now());
        // One attempt at a time: the server may be away.
        let may = inner.opening == 0 && inner.grow_not_before <= Instant::now();
        if may && inner.line.has_ready() && inner.idle.is_empty() {
            self.grow(inner);
        }
        self.look_again.notify_one();
        self.over.notify_waiters();
    }

    /// Members of a pipeline that has come to a halt go elsewhere.
    pub(crate) fn reroute(self: &Arc<Self>, again: Vec<(WaitEntry<Waiter>, Retry)>) {
        let now = Instant::now();
        self.counters().came_back(again.len());
        let mut inner = self.lock();
        self.put_back(&mut inner, now, again, Vec::new());
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    /// Units that left stand in the line again, and rows land.
    fn put_back(
        &self,
        inner: &mut Inner,
        now: Instant,
        again: Vec<(WaitEntry<Waiter>, Retry)>,
        mut rows: Vec<(LineKey, LockOutcome)>,
    ) {
        let mut cohorts: HashMap<Retry, u64> = HashMap::new();
        let mut entries = Vec::with_capacity(again.len());
        for (mut entry, how) in again {
            if how == Retry::Blocked {
                rows.iter_mut()
                    .filter(|(key, _)| entry.spec.keys.as_slice().contains(key))
                    .for_each(|(_, outcome)| *outcome = LockOutcome::Blocked);
            } else if how != Retry::Row {
                entry.restart();
            }
            if entry.request.answer.is_closed() {
                continue;
            }
            if inner.unwanted.remove(&entry.waiter).is_some() {
                let _ = entry.request.answer.send(Delivery::cancelled());
                continue;
            }
            self.counters().waiting.fetch_add(1, Ordering::Relaxed);
            let group = &mut entry.spec.group;
            match (how, &entry.spec.keys) {
                (Retry::Line | Retry::Blocked, _) => {}
                (Retry::Row, LineKeys::One(key)) => {
                    *group = group.map(|mut id| {
                        id.cohort = key.cohort();
                        id
                    });
                }
                (Retry::Alone | Retry::Row, _) => *group = None,
                (Retry::FirstHalf | Retry::SecondHalf, _) => {
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
        self.bury(inner, &mut entries);
        inner.line.put_back(now, entries, rows);
        let late = inner.line.time_out(now);
        self.tell_late(late);
    }

    /// Hands idle connections to whoever is next.
    fn dispatch(self: &Arc<Self>, inner: &mut Inner, now: Instant) {
        inner.line.release_held(now);
        self.turn_away(inner, now);
        self.place_replicas(inner, now);
        while inner.line.has_ready()
            && let Some(conn) = self.take_idle(inner, now)
        {
            match self.depart(inner, now) {
                Some(work) => self.board(inner, conn, work),
                None => inner.idle.push(conn),
            }
        }
        if inner.open == 0 && inner.line.has_ready() && inner.grow_not_before <= now {
            self.grow(inner);
        }
    }

    /// What a free connection does next.
    fn depart(&self, inner: &mut Inner, now: Instant) -> Option<Work> {
        loop {
            match inner.line.next(now)? {
                NextStep::Group(dispatch) => {
                    self.have_left(&dispatch.entries, now);
                    return Some(Work::Group(dispatch));
                }
                NextStep::Probe(waiters) => {
                    let units = inner.units(waiters);
                    if !units.is_empty() {
                        return Some(Work::Probe(units));
                    }
                }
                NextStep::Lock(waiter) => {
                    if let Some(wait) = inner.lock_wait(now, waiter) {
                        return Some(Work::Lock(wait));
                    }
                }
            }
        }
    }

    /// These have left the line.
    fn have_left(&self, entries: &[WaitEntry<Waiter>], now: Instant) {
        let leaving = entries.len() as u64;
        self.counters()
            .waiting
            .fetch_sub(leaving, Ordering::Relaxed);
        let requests = entries.iter().filter(|e| e.request.asks == Asks::Request);
        let waited = |entry: &WaitEntry<Waiter>| now.saturating_duration_since(entry.arrived);
        self.stats.departed(requests.map(waited));
    }

    /// A group has a connection. (Before, it may go back to the line.)
    fn count_group(&self, dispatch: &Dispatch<Waiter>) {
        let members = dispatch.entries.len();
        let reads =
            |entry: &WaitEntry<Waiter>| entry.spec.group.is_some_and(|id| id.strategy.reads());
        if members > 1 && !dispatch.entries.first().is_some_and(reads) {
            self.counters().departed(members);
        }
    }

    /// One entry relays with its client; anything else is a trip's.
    fn board(self: &Arc<Self>, inner: &mut Inner, conn: Box<ServerConn>, work: Work) {
        let mut dispatch = match work {
            Work::Group(dispatch) if dispatch.entries.len() == 1 => dispatch,
            other => {
                if let Work::Group(group) = &other {
                    self.count_group(group);
                }
                tokio::spawn(trip::drive(Arc::clone(self), conn, other));
                return;
            }
        };
        if let Some(entry) = dispatch.entries.pop()
            && let Some((conn, keys)) = self.seat(entry, conn)
        {
            // The client left in this moment.
            release_rows(inner, Instant::now(), &keys);
            inner.idle.push(conn);
        }
    }
}

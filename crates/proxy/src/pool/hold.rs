//! A pool that an operator holds: paused, suspended, closing; its connections replaced or cut.
//!
//! While a pool is held it has no idle connection, so nobody can start at once, and units stand in the line. Nothing else
//! asks whether it is held than what happens then anyway: a connection comes back, one is to be opened, the line is looked
//! at.

use super::{Era, Inner, Pool, Waiter};
use crate::log::reasons;
use crate::server::ServerConn;
use bytes::{Bytes, BytesMut};
use paceline_batch::line::WaitEntry;
use paceline_wire::ErrorResponse;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::watch;

/// Whether work may begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It may.
    #[default]
    Open,
    /// It waits; server connections are kept.
    Suspended,
    /// It waits; server connections are closed.
    Paused,
    /// The process ends: whoever waits is told so.
    Closing,
}

/// What clients of a pool that do nothing are called to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Summons {
    /// Nothing.
    #[default]
    Stay,
    /// The process waits for server connections: clients without one must go.
    Closing,
    /// The process ends: all must go.
    ShutDown,
    /// The database was killed.
    Killed,
}

impl Summons {
    /// What they are told.
    pub(crate) fn farewell(self) -> Bytes {
        let error = match self {
            Self::Killed => ErrorResponse::fatal("08P01", KILLED),
            Self::Stay | Self::Closing | Self::ShutDown => ErrorResponse::fatal(
                "57P01",
                "terminating connection due to administrator command",
            ),
        };
        written(&error)
    }
}

/// What clients of a killed database are told.
const KILLED: &str = "database removed";

fn written(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    out.freeze()
}

impl Inner {
    /// It may serve the next.
    pub(super) fn serves_on(&self, conn: &ServerConn) -> bool {
        self.hold == Hold::Open && self.keeps(conn) && !self.is_excluded()
    }

    /// It is not replaced, and there are not too many.
    fn keeps(&self, conn: &ServerConn) -> bool {
        self.is_of_this_era(conn) && self.open <= self.open_max
    }

    pub(super) fn is_of_this_era(&self, conn: &ServerConn) -> bool {
        let bond = conn.bond.as_ref();
        bond.is_some_and(|bond| bond.is_of(&self.era))
    }

    /// No request has a connection. (Those of replication clients never come back.)
    fn is_at_rest(&self) -> bool {
        self.open == self.opening + self.idle.len() + self.parked.len() + self.replication.open
    }
}

impl Pool {
    /// A connection comes back that may not serve the next: it is kept for later, or closed.
    pub(super) fn put_aside(self: &Arc<Self>, inner: &mut Inner, mut conn: Box<ServerConn>) {
        if inner.hold == Hold::Suspended && inner.keeps(&conn) && !inner.is_excluded() {
            inner.parked.push(conn);
            self.over.notify_waiters();
        } else {
            if inner.open > inner.open_max && inner.is_of_this_era(&conn) {
                conn.closes_because(reasons::TOO_MANY);
            }
            conn.say_goodbye();
            self.lost(inner);
        }
    }

    /// Those who wait while the process ends.
    pub(super) fn turn_away(&self, inner: &mut Inner, now: Instant) {
        if inner.hold != Hold::Closing {
            return;
        }
        let told = written(&ErrorResponse::fatal("08P01", "server shutting down"));
        inner.replication.refuse(&told);
        if !inner.line.is_empty() {
            let waiting = inner.line.drain(now);
            self.tell_all(waiting, &told);
        }
    }

    /// Who was in line when the database was killed does not go again; takes them out.
    pub(super) fn bury(&self, inner: &Inner, again: &mut Vec<WaitEntry<Waiter>>) {
        let Some(killed_at) = inner.killed_at else {
            return;
        };
        let dead: Vec<_> = again
            .extract_if(.., |entry| entry.arrived <= killed_at)
            .collect();
        self.tell_all(dead, &Summons::Killed.farewell());
    }

    /// From now on connections of this era count; earlier ones are closed when they are free, for this reason.
    pub(super) fn begin_era(&self, inner: &mut Inner, next: Arc<Era>, why: &'static str) {
        let last = std::mem::replace(&mut inner.era, next);
        last.replaced.set(why);
        inner.past.retain(|era| era.strong_count() > 0);
        inner.past.push(Arc::downgrade(&last));
        let free = inner.idle.drain(..).chain(inner.parked.drain(..));
        let closed = free.map(|conn| conn.say_goodbye()).count();
        inner.open -= closed;
        inner.forget_failures();
        inner.welcomes_are_old = true;
    }

    fn renew_era(&self, inner: &mut Inner, why: &'static str) {
        let next = Era::new(Arc::clone(&inner.era.address), &self.over);
        self.begin_era(inner, next, why);
    }

    /// Every connection is replaced when it is free (RECONNECT).
    pub(crate) fn reconnect(self: &Arc<Self>) {
        let mut inner = self.lock();
        self.renew_era(&mut inner, reasons::CONFIGURATION_CHANGED);
        inner.replication.replace();
        self.dispatch(&mut inner, Instant::now());
    }

    /// Begins or ends what keeps work from beginning.
    pub(crate) fn hold(self: &Arc<Self>, hold: Hold) {
        let mut inner = self.lock();
        if std::mem::replace(&mut inner.hold, hold) == hold {
            return;
        }
        if hold != Hold::Open {
            // It would open none, whatever others leave to it.
            inner.hunger = None;
        }
        match hold {
            Hold::Open => {
                let Inner { idle, parked, .. } = &mut *inner;
                idle.append(parked);
            }
            Hold::Suspended => {
                let Inner { idle, parked, .. } = &mut *inner;
                parked.append(idle);
            }
            Hold::Paused => self.renew_era(&mut inner, reasons::PAUSE_MODE),
            Hold::Closing => {
                self.renew_era(&mut inner, reasons::SHUTTING_DOWN);
                inner.summons.send_replace(Summons::Closing);
            }
        }
        self.dispatch(&mut inner, Instant::now());
        self.tend(&mut inner);
        // Those who wait may be worth a further connection from now on.
        self.look_again.notify_one();
    }

    /// Ends all clients and server connections that there are (KILL).
    pub(crate) fn kill(self: &Arc<Self>) {
        let now = Instant::now();
        let mut inner = self.lock();
        self.renew_era(&mut inner, reasons::DATABASE_REMOVED);
        inner.killed_at = Some(now);
        // Later clients listen to another one. These know why before their connections are cut.
        let summons = std::mem::take(&mut inner.summons);
        summons.send_replace(Summons::Killed);
        let waiting = inner.line.drain(now);
        self.tell_all(waiting, &Summons::Killed.farewell());
        inner.replication.refuse(&Summons::Killed.farewell());
        let eras = inner.past.iter().filter_map(Weak::upgrade);
        eras.for_each(|era| {
            era.replaced.set(reasons::DATABASE_REMOVED);
            era.cut();
        });
    }

    /// Asks clients that do nothing to go, now and later.
    pub(crate) fn dismiss(&self) {
        self.lock().summons.send_replace(Summons::ShutDown);
    }

    /// What a client of this pool must listen to while it does nothing.
    pub(crate) fn summons(&self) -> watch::Receiver<Summons> {
        self.lock().summons.subscribe()
    }

    /// Returns when the connections of earlier eras are closed.
    pub(crate) async fn replaced(&self) {
        self.reached(|inner| inner.past.iter().all(|era| era.strong_count() == 0))
            .await;
    }

    /// Returns when no request has a connection.
    pub(crate) async fn at_rest(&self) {
        self.reached(Inner::is_at_rest).await;
    }

    /// Returns when something is so; looked at when a connection is closed or put aside.
    async fn reached(&self, is_so: impl Fn(&Inner) -> bool) {
        loop {
            let closed = self.over.notified();
            if is_so(&self.lock()) {
                return;
            }
            closed.await;
        }
    }
}

//! A client's way to its target: a connection that is opened when it is first needed, and again after it was lost; its own,
//! or one of a pool that it shares with others.

use crate::connection::{Connection, Failure};
use crate::target::Target;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a client of a workload has in its hands.
pub(crate) struct Session {
    target: Arc<Target>,
    pool: Option<Rc<Pool>>,
    held: Option<Held>,
}

/// Connections that the clients of one thread share, as the workers of an application do with those of its pool.
pub(crate) struct Pool {
    room: Arc<Semaphore>,
    idle: RefCell<Vec<Connection>>,
}

/// A connection, and the place in the pool that it takes.
struct Held {
    conn: Connection,
    _place: Option<OwnedSemaphorePermit>,
}

impl Session {
    pub(crate) fn new(target: Arc<Target>, pool: Option<Rc<Pool>>) -> Self {
        Self {
            target,
            pool,
            held: None,
        }
    }

    /// The connection; if there is none, one that is idle in the pool, or a new one.
    pub(crate) async fn connection(&mut self) -> Result<&mut Connection, Failure> {
        let held = match self.held.take() {
            Some(held) => held,
            None => self.take().await?,
        };
        Ok(&mut self.held.insert(held).conn)
    }

    async fn take(&self) -> Result<Held, Failure> {
        let (place, idle) = match &self.pool {
            None => (None, None),
            Some(pool) => {
                // The semaphore is never closed.
                let place = Arc::clone(&pool.room).acquire_owned().await.ok();
                (place, pool.idle.borrow_mut().pop())
            }
        };
        let conn = match idle {
            Some(conn) => conn,
            None => Connection::open(&self.target).await?,
        };
        Ok(Held {
            conn,
            _place: place,
        })
    }

    /// Between turns: a connection of the pool goes back.
    pub(crate) fn rest(&mut self) {
        let Some(pool) = &self.pool else { return };
        if let Some(held) = self.held.take() {
            pool.idle.borrow_mut().push(held.conn);
        }
    }

    /// Brings the session back to where a turn can begin: no transaction is open, a lost connection is forgotten.
    pub(crate) async fn recover(&mut self, from: &Failure) {
        let Some(Held { conn, .. }) = &mut self.held else {
            return;
        };
        let gone = match from {
            Failure::Lost(_) | Failure::Unreachable(_) | Failure::NotAdmitted { .. } => true,
            Failure::Refused { .. } => {
                from.is_in_doubt() || conn.in_transaction() && conn.query("ROLLBACK").await.is_err()
            }
        };
        if gone {
            self.held = None;
        }
    }

    /// Ends the connection within a turn; nobody waits until the target has closed it.
    pub(crate) async fn leave(&mut self) {
        if let Some(held) = self.held.take() {
            held.conn.leave().await;
        }
    }

    /// Ends the connection in good order.
    pub(crate) async fn close(&mut self) {
        if let Some(held) = self.held.take() {
            held.conn.close().await;
        }
    }
}

impl Pool {
    /// With room for so many connections, none of them open yet.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            room: Arc::new(Semaphore::new(connections)),
            idle: RefCell::new(Vec::new()),
        }
    }

    /// Ends the connections that are idle, in good order.
    pub(crate) async fn close(&self) {
        for conn in self.idle.take() {
            conn.close().await;
        }
    }
}

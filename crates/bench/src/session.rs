//! The connection of a client to its target. It is opened on first use and again after it was lost. It belongs to the client
//! alone or to a pool that the client shares with others.

use crate::connection::{Connection, Failure, Result};
use crate::target::Target;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connection of a client.
pub(crate) struct Session {
    target: Arc<Target>,
    pool: Option<Rc<Pool>>,
    checkout: Option<Checkout>,
}

/// Connections that the clients of one thread share, as the workers of an application share its pool.
pub(crate) struct Pool {
    permits: Arc<Semaphore>,
    idle: RefCell<Vec<Connection>>,
}

/// A connection in use, and its permit if it belongs to a pool.
type Checkout = (Connection, Option<OwnedSemaphorePermit>);

impl Session {
    pub(crate) fn new(target: Arc<Target>, pool: Option<Rc<Pool>>) -> Self {
        Self {
            target,
            pool,
            checkout: None,
        }
    }

    /// Returns the connection. If the client has none, takes an idle one from the pool or opens a new one.
    pub(crate) async fn connection(&mut self) -> Result<&mut Connection> {
        let checkout = match self.checkout.take() {
            Some(checkout) => checkout,
            None => self.check_out().await?,
        };
        Ok(&mut self.checkout.insert(checkout).0)
    }

    async fn check_out(&self) -> Result<Checkout> {
        let (permit, idle) = match &self.pool {
            None => (None, None),
            Some(pool) => {
                // Fails only if the semaphore is closed, which never happens.
                let permit = Arc::clone(&pool.permits).acquire_owned().await.ok();
                (permit, pool.idle.borrow_mut().pop())
            }
        };
        let conn = match idle {
            Some(conn) => conn,
            None => Connection::open(&self.target).await?,
        };
        Ok((conn, permit))
    }

    /// Returns a pooled connection to the pool; call it between turns.
    pub(crate) fn release(&mut self) {
        let Some(pool) = &self.pool else { return };
        let checkout = self.checkout.take();
        pool.idle
            .borrow_mut()
            .extend(checkout.map(|(conn, _)| conn));
    }

    /// Prepares the session for the next turn after a failure: rolls back an open transaction and drops a lost connection.
    pub(crate) async fn recover(&mut self, from: &Failure) {
        let Some((conn, _)) = &mut self.checkout else {
            return;
        };
        let is_lost = from.is_in_doubt()
            || from.is_at_login()
            || conn.in_transaction() && conn.execute("ROLLBACK").await.is_err();
        if is_lost {
            self.checkout = None;
        }
    }

    /// Terminates the connection without waiting until the target has closed it.
    pub(crate) async fn terminate(&mut self) {
        if let Some((mut conn, _)) = self.checkout.take() {
            let _ = conn.terminate().await;
        }
    }

    /// Closes the connection and waits until the target has closed it.
    pub(crate) async fn close(&mut self) {
        if let Some((conn, _)) = self.checkout.take() {
            conn.close().await;
        }
    }
}

impl Pool {
    /// Creates a pool for at most `connections` connections, none of which is open yet.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(connections)),
            idle: RefCell::new(Vec::new()),
        }
    }

    /// Closes the idle connections.
    pub(crate) async fn close(&self) {
        for conn in self.idle.take() {
            conn.close().await;
        }
    }
}

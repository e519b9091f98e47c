//! A client's way to its target: a connection that is opened when it is first needed, and again after it was lost.

use crate::connection::{Connection, Failure};
use crate::target::Target;
use std::sync::Arc;

/// What a client of a workload has in its hands.
pub(crate) struct Session {
    target: Arc<Target>,
    conn: Option<Connection>,
}

impl Session {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        Self { target, conn: None }
    }

    /// The connection, opened if there is none.
    pub(crate) async fn connection(&mut self) -> Result<&mut Connection, Failure> {
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => Connection::open(&self.target).await?,
        };
        Ok(self.conn.insert(conn))
    }

    /// Brings the session back to where a turn can begin: no transaction is open, a lost connection is forgotten.
    pub(crate) async fn recover(&mut self, from: &Failure) {
        let Some(conn) = &mut self.conn else { return };
        let gone = match from {
            Failure::Lost(_) | Failure::Unreachable(_) => true,
            Failure::Refused { .. } => {
                conn.in_transaction() && conn.query("ROLLBACK").await.is_err()
            }
        };
        if gone {
            self.conn = None;
        }
    }

    /// Ends the connection in good order.
    pub(crate) async fn close(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.close().await;
        }
    }
}

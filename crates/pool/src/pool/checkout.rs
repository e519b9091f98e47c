//! Server connections in the hands of clients: how they are handed over, used and returned.

use super::{Pool, PooledServer, WaitResult, Waiter};
use crate::result_memory::ResultReservation;
use crate::server::ServerConn;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{LineKeys, WaitEntry};
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::request::PartialAnswer;
use std::sync::Arc;
use tokio::sync::oneshot;

impl Waiter {
    /// Sends the NOTICE that the client waits, once.
    pub(super) fn send_queued(&mut self) {
        if !std::mem::replace(&mut self.queued_sent, true) {
            self.send_on_the_way(WaitResult::Queued);
        }
    }

    /// Tells the client that its request is a plain read.
    pub(super) fn send_plain_read(&mut self) {
        self.send_on_the_way(WaitResult::PlainRead);
    }

    /// Sends something after which the client continues to wait, on another channel.
    fn send_on_the_way(&mut self, what: fn(oneshot::Receiver<WaitResult>) -> WaitResult) {
        let (answer, result) = oneshot::channel();
        let before = std::mem::replace(&mut self.answer, answer);
        // If the client has left, the other end of the new channel is dropped, too.
        let _ = before.send(what(result));
    }
}

impl WaitResult {
    /// The answer to the request, or its beginning, as far as it has arrived.
    pub fn answer(&self) -> Option<&[u8]> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Server(server) => server.underway.as_ref().map(|(begun, _)| &*begun.answer),
            Self::OfReplica(answer, _) => Some(answer),
            Self::Fatal(_)
            | Self::QueryTimeout(_)
            | Self::Queued(_)
            | Self::PlainRead(_)
            | Self::Elsewhere => None,
        }
    }
}

/// The rows that are in flight because of a request.
pub struct RowsInFlight<'a> {
    pool: &'a Arc<Pool>,
    keys: &'a mut LineKeys,
}

impl RowsInFlight<'_> {
    /// Other requests may use the rows, though this request has not ended. The line makes no other request wait for one of its
    /// kind on these rows again.
    pub fn release_early(self) {
        self.pool.release_rows_early(&std::mem::take(self.keys));
    }
}

impl PooledServer {
    pub(super) fn new(
        pool: &Arc<Pool>,
        conn: Box<ServerConn>,
        keys: LineKeys,
        flight: FlightId,
    ) -> Box<Self> {
        Box::new(Self {
            pool: Arc::clone(pool),
            conn: Some(conn),
            keys,
            flight,
            request: None,
            used: false,
            underway: None,
        })
    }

    /// A connection on which the answer to the client's read is arriving.
    pub(crate) fn with_underway(
        pool: &Arc<Pool>,
        conn: Box<ServerConn>,
        underway: (PartialAnswer, ResultReservation),
        flight: FlightId,
    ) -> Box<Self> {
        let mut server = Self::new(pool, conn, LineKeys::Unknown, flight);
        server.used = true;
        server.underway = Some(underway);
        server
    }

    /// Whether the client's request has not been sent yet.
    pub fn is_fresh(&self) -> bool {
        self.underway.is_none()
    }

    /// The request with the latest decision about it; `None` if the client has not passed it to the pool.
    pub fn take_request(&mut self) -> Option<Arc<PlannedRequest>> {
        self.request.take()
    }

    /// The part of the answer that has arrived, and its memory.
    pub fn take_underway(&mut self) -> Option<(PartialAnswer, ResultReservation)> {
        self.underway.take()
    }

    /// Takes the connection back from a client that has not received it.
    pub(super) fn into_unused(mut self) -> Option<(Box<ServerConn>, LineKeys)> {
        let keys = std::mem::take(&mut self.keys);
        self.conn.take().map(|conn| (conn, keys))
    }

    /// The connection. From now on its state counts as unknown until [`PooledServer::give_back`]; `None` after that.
    pub fn conn(&mut self) -> Option<&mut ServerConn> {
        self.parts().map(|(conn, _)| conn)
    }

    /// The connection as by [`PooledServer::conn`], and the rows.
    pub fn parts(&mut self) -> Option<(&mut ServerConn, RowsInFlight<'_>)> {
        self.used = true;
        let rows = RowsInFlight {
            pool: &self.pool,
            keys: &mut self.keys,
        };
        Some((self.conn.as_mut()?, rows))
    }

    /// Ends the flight of the rows and keeps the connection.
    pub fn release_rows(&mut self) {
        self.pool.release_rows(&std::mem::take(&mut self.keys));
    }

    /// Returns the connection to the pool, for other clients.
    pub fn give_back(mut self) {
        self.used = false;
    }
}

impl Drop for PooledServer {
    fn drop(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            if self.used {
                conn.mark_unfinished();
            }
            let conn = (!self.used).then_some(conn);
            self.pool.check_in(conn, &self.keys, self.flight);
        }
    }
}

impl Pool {
    /// Gives a connection to the client whose request is next. Returns it if that client has left.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        entry: WaitEntry<Waiter>,
        conn: Box<ServerConn>,
        flight: FlightId,
    ) -> Option<(Box<ServerConn>, LineKeys)> {
        let mut server = PooledServer::new(self, conn, entry.spec.keys, flight);
        server.request = entry.request.request;
        match entry.request.answer.send(WaitResult::Server(server)) {
            Err(WaitResult::Server(server)) => server.into_unused(),
            _ => None,
        }
    }
}

//! What passes between the line and the clients that wait in it.

use super::Pool;
use crate::room::Room;
use crate::server::ServerConn;
use bytes::Bytes;
use paceline_batch::line::{LineKeys, WaitEntry, WaiterId};
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::request::Underway;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A unit in line and the client that waits for it.
pub(crate) struct Waiter {
    /// For what a connection is needed.
    pub(crate) asks: Asks,
    /// `None`: its client carries it out itself.
    pub(crate) unit: Option<Arc<PlannedRequest>>,
    /// To the client.
    pub(crate) answer: oneshot::Sender<Delivery>,
    /// It knows that it has waited for long.
    pub(crate) told_queued: bool,
}

/// For what a server connection is needed. A login is no server assignment in PgBouncer's sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// A client's request.
    Request,
    /// Work of Paceline's own in the course of a client's login.
    Login,
}

/// What a client that waits is given.
pub(crate) enum Delivery {
    /// A connection, to carry out its unit.
    Seat(Box<Seat>),
    /// The answer to its unit, which travelled with others.
    Answer(Bytes),
    /// The connection ends with these messages.
    Fatal(Bytes),
    /// It has waited for long, and goes on waiting here.
    Queued(oneshot::Receiver<Delivery>),
}

impl Waiter {
    /// Lets a client know that it has waited for long, once.
    pub(super) fn tell_queued(&mut self) {
        if std::mem::replace(&mut self.told_queued, true) {
            return;
        }
        let (answer, waits) = oneshot::channel();
        let before = std::mem::replace(&mut self.answer, answer);
        // With a client that has gone, so has the other end of the new channel.
        let _ = before.send(Delivery::Queued(waits));
    }
}

impl Delivery {
    /// The answer to the unit, or its beginning, if that is there.
    pub(crate) fn answer(&self) -> Option<&[u8]> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Seat(seat) => seat.underway.as_ref().map(|(begun, _)| &*begun.answer),
            Self::Fatal(_) | Self::Queued(_) => None,
        }
    }
}

/// A connection in a client's hands, and the rows that are in flight because of it. Both come back to the pool when this
/// is dropped; the connection only if nobody has begun to use it.
pub(crate) struct Seat {
    pool: Arc<Pool>,
    conn: Option<Box<ServerConn>>,
    keys: LineKeys,
    used: bool,
    underway: Option<(Underway, Room)>,
}

/// The rows that are in flight because of a seat.
pub(crate) struct Rows<'a> {
    pool: &'a Arc<Pool>,
    keys: &'a mut LineKeys,
}

impl Rows<'_> {
    /// Others may have them, though the unit is still on its way: nobody waits for its like on these rows again.
    pub(crate) fn release_rows_early(self) {
        self.pool.release_rows_early(&std::mem::take(self.keys));
    }
}

impl Seat {
    pub(super) fn new(pool: &Arc<Pool>, conn: Box<ServerConn>, keys: LineKeys) -> Box<Self> {
        Box::new(Self {
            pool: Arc::clone(pool),
            conn: Some(conn),
            keys,
            used: false,
            underway: None,
        })
    }

    /// A connection on which the answer to the client's read is coming in.
    pub(crate) fn underway(
        pool: &Arc<Pool>,
        conn: Box<ServerConn>,
        underway: Underway,
        room: Room,
    ) -> Box<Self> {
        let mut seat = Self::new(pool, conn, LineKeys::Unknown);
        seat.used = true;
        seat.underway = Some((underway, room));
        seat
    }

    /// Nothing has been done on it for the client's unit.
    pub(crate) fn is_fresh(&self) -> bool {
        self.underway.is_none()
    }

    /// What has come of that answer, and the room that it takes.
    pub(crate) fn take_underway(&mut self) -> Option<(Underway, Room)> {
        self.underway.take()
    }

    /// Takes back what nobody received.
    pub(super) fn unused(mut self) -> Option<(Box<ServerConn>, LineKeys)> {
        let keys = std::mem::take(&mut self.keys);
        self.conn.take().map(|conn| (conn, keys))
    }

    /// The connection, from now on in an unknown state unless [`Seat::leave`] says otherwise. `None` after that.
    pub(crate) fn conn(&mut self) -> Option<&mut ServerConn> {
        self.parts().map(|(conn, _)| conn)
    }

    /// As [`Seat::conn`], and the rows, which may be set free while the connection is in use.
    pub(crate) fn parts(&mut self) -> Option<(&mut ServerConn, Rows<'_>)> {
        self.used = true;
        let rows = Rows {
            pool: &self.pool,
            keys: &mut self.keys,
        };
        Some((self.conn.as_mut()?, rows))
    }

    /// The rows are free; the connection stays.
    pub(crate) fn free_rows(&mut self) {
        self.pool.release_rows(&std::mem::take(&mut self.keys));
    }

    /// The connection may serve somebody else.
    pub(crate) fn leave(mut self) {
        self.used = false;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            if self.used {
                conn.is_left_unfinished();
            }
            self.pool.release((!self.used).then_some(conn), &self.keys);
        }
    }
}

/// What became of a unit that arrived.
pub(crate) enum Submitted {
    /// It starts at once.
    Seat(Box<Seat>),
    /// There is no server: the connection ends with these messages.
    Refused(Bytes),
    /// It stands in the line.
    Waiting(WaiterId, oneshot::Receiver<Delivery>),
}

impl Pool {
    /// Gives a connection to the client whose unit is next; it comes back if that client has gone.
    pub(crate) fn seat(
        self: &Arc<Self>,
        entry: WaitEntry<Waiter>,
        conn: Box<ServerConn>,
    ) -> Option<(Box<ServerConn>, LineKeys)> {
        let seat = Seat::new(self, conn, entry.spec.keys);
        match entry.request.answer.send(Delivery::Seat(seat)) {
            Err(Delivery::Seat(seat)) => seat.unused(),
            _ => None,
        }
    }
}

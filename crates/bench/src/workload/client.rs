//! A client of a workload.

use crate::connection::Failure;
use crate::session::Session;
use std::pin::Pin;

/// A boxed future that stays on the thread of the caller.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// One client of a run.
pub(crate) trait Client {
    /// Does one unit of work.
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>>;

    /// Whether the client opens its connections itself, turn by turn. Otherwise the load connects it before the run begins.
    fn connects_itself(&self) -> bool {
        false
    }
}

/// The result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The client completed a unit of work.
    Done,
    /// The client found no work; the turn does not count.
    Idle,
    /// The client takes no more turns, but stays connected until the end.
    StayConnected,
    /// No work is left for this client.
    Finished,
}

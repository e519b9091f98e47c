//! The interface between a workload and the bench or the load.

use super::known::CheckedReads;
use crate::connection::{Connection, Result};
use crate::record::CheckResult;
use crate::session::Session;
use rand::rngs::StdRng;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The work of one run.
pub(crate) trait Workload: Send + Sync + 'static {
    /// The memory of a client between its turns.
    type Memory: Default;

    /// Brings the tables into the state in which a run starts. Does no more than necessary.
    async fn prepare(&mut self, _conn: &mut Connection) -> Result<()> {
        Ok(())
    }

    /// Does one unit of work for `client`.
    async fn turn(&self, client: &mut Client<Self::Memory>, session: &mut Session) -> Result<Turn>;

    /// Compares the tables with the answers that clients received. The bench calls it only for scenarios.
    async fn check(&self, _conn: &mut Connection, _outcome: Outcome) -> Result<CheckResult> {
        Ok(CheckResult::default())
    }

    /// The reads that are compared with what their clients know; `None` if there are none.
    fn reads(&self) -> Option<&CheckedReads> {
        None
    }

    /// The number of clients, out of `clients`, that do units of work. A fixed rate is divided among them.
    fn active_clients(&self, clients: usize) -> usize {
        clients
    }

    /// The number of connections that all clients share, each for one turn at a time, as the workers of an application share
    /// its pool; `None` gives each client its own.
    fn shared_connections(&self) -> Option<usize> {
        None
    }

    /// Whether units cost more or less the longer a run lasts. Then results show the beginning and the end of a run.
    fn changes_over_time(&self) -> bool {
        false
    }

    /// Whether clients open their connections themselves, turn by turn. Otherwise the load connects them before the run.
    fn connects_itself(&self) -> bool {
        false
    }
}

/// One client of a run.
pub(crate) struct Client<Memory> {
    /// Its number, counted from 0.
    pub(crate) number: usize,
    /// The source of all its random numbers.
    pub(crate) rng: StdRng,
    pub(crate) memory: Memory,
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

/// The answers that clients received in a whole run, including the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Number of acknowledged turns.
    pub(crate) acknowledged: u64,
    /// Number of turns with an unknown result ([`is_in_doubt`](crate::connection::Failure::is_in_doubt)).
    pub(crate) unknown: u64,
}

impl Outcome {
    /// Whether `done` turns are possible with these answers.
    pub(super) fn explains(&self, done: i64) -> bool {
        let possible = self.acknowledged..=self.acknowledged + self.unknown;
        u64::try_from(done).is_ok_and(|done| possible.contains(&done))
    }

    /// A clause for messages about the turns with an unknown result; empty if there are none.
    pub(super) fn in_doubt(&self) -> String {
        match self.unknown {
            0 => String::new(),
            unknown => {
                format!(", {unknown} more may have been done when their connection was lost")
            }
        }
    }
}

/// The result of a method of [`AnyWorkload`] or [`AnyClient`]. The future stays on the thread of the caller.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// A [`Workload`] of any type.
pub(crate) trait AnyWorkload: Send + Sync {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, ()>;
    fn client(self: Arc<Self>, number: usize, rng: StdRng) -> Box<dyn AnyClient>;
    fn check<'a>(&'a self, conn: &'a mut Connection, outcome: Outcome) -> Pending<'a, CheckResult>;
    fn reads(&self) -> Option<&CheckedReads>;
    fn active_clients(&self, clients: usize) -> usize;
    fn shared_connections(&self) -> Option<usize>;
    fn changes_over_time(&self) -> bool;
    fn connects_itself(&self) -> bool;
}

/// A client of any [`Workload`].
pub(crate) trait AnyClient {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Turn>;
}

impl<W: Workload> AnyWorkload for W {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, ()> {
        Box::pin(Workload::prepare(self, conn))
    }

    fn client(self: Arc<Self>, number: usize, rng: StdRng) -> Box<dyn AnyClient> {
        let memory = W::Memory::default();
        let client = Client {
            number,
            rng,
            memory,
        };
        Box::new((self, client))
    }

    fn check<'a>(&'a self, conn: &'a mut Connection, outcome: Outcome) -> Pending<'a, CheckResult> {
        Box::pin(Workload::check(self, conn, outcome))
    }

    fn reads(&self) -> Option<&CheckedReads> {
        Workload::reads(self)
    }

    fn active_clients(&self, clients: usize) -> usize {
        Workload::active_clients(self, clients)
    }

    fn shared_connections(&self) -> Option<usize> {
        Workload::shared_connections(self)
    }

    fn changes_over_time(&self) -> bool {
        Workload::changes_over_time(self)
    }

    fn connects_itself(&self) -> bool {
        Workload::connects_itself(self)
    }
}

impl<W: Workload> AnyClient for (Arc<W>, Client<W::Memory>) {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Turn> {
        let (workload, client) = self;
        Box::pin(Workload::turn(&**workload, client, session))
    }
}

/// Locks what the clients of a run share. A panic of another thread under this lock leaves no inconsistent state.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

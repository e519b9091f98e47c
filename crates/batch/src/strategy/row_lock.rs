//! Waits for the lock of one row before a group on that row is built. `Flush` follows the statement instead of `Sync`, so its
//! transaction stays open; the batch of the group continues and ends that transaction.

use super::plan::PlannedRequest;
use super::progress::{StatementEvent, StatementProgress};
use bytes::BytesMut;
use paceline_relay::server::{Injected, Preparable, ServerSide};
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frontend};

#[cfg(test)]
mod tests;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockProgress {
    /// PostgreSQL has not granted the lock yet.
    Awaited,
    /// The row is locked, or does not exist. The transaction is open.
    Granted,
    /// The statement failed. The caller must end the transaction ([`RowLock::end`]).
    Failed,
    /// The transaction is over.
    Over,
}

/// A wait in flight.
#[derive(Debug)]
pub struct RowLock {
    progress: StatementProgress,
}

impl RowLock {
    /// Writes the statement that locks the row of this request. Its settings must be in force on the server. `None`: its row
    /// cannot be locked separately.
    pub fn build(
        request: &PlannedRequest,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let plan = request.plan.as_ref()?;
        let (lock, row) = (plan.lock()?, plan.row_of(request)?);
        let statement = Preparable {
            id: lock.id,
            text: &lock.text,
            types: &[0, 0],
        };
        let mut injected = Injected::default();
        injected.push(server.ensure(statement, out));
        let values = row.iter().map(|part| (part.binary, Some(&*part.bytes)));
        let values: Vec<_> = values.collect();
        frontend::write_bind(out, server.name(lock.id).as_bytes(), &values, &[]);
        frontend::write_execute(out);
        frontend::write_flush(out);
        Some(Self {
            progress: StatementProgress::new(injected),
        })
    }

    /// Takes a message from the server.
    pub fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> LockProgress {
        let event = self.progress.receive(frame, server);
        match frame.tag {
            _ if event == StatementEvent::End => LockProgress::Over,
            tag::COMMAND_COMPLETE => LockProgress::Granted,
            tag::ERROR_RESPONSE => LockProgress::Failed,
            _ => LockProgress::Awaited,
        }
    }

    /// Ends the transaction without a batch.
    pub fn end(&self, out: &mut BytesMut) {
        frontend::write_sync(out);
    }
}

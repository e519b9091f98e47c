//! Waits for the lock of one row before a group on that row is built. `Flush` follows the statement instead of `Sync`, so its
//! transaction stays open; the batch of the group continues and ends that transaction.

use super::messages::BatchWriter;
use super::plan::PlannedRequest;
use super::statement_progress::{StatementEvent, StatementProgress};
use bytes::BytesMut;
use paceline_relay::server::ServerSide;
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frontend};

#[cfg(test)]
mod tests;

/// The progress of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockProgress {
    /// PostgreSQL has not granted the lock yet.
    Awaited,
    /// The row is locked, or does not exist. The transaction is open.
    Granted,
    /// The statement failed. The caller must end the transaction ([`RowLock::end`]).
    Failed,
    /// The transaction has ended.
    Over,
}

/// A wait in flight.
#[derive(Debug)]
pub struct RowLock {
    progress: StatementProgress,
}

impl RowLock {
    /// Writes the statement that locks the row of this request. The request's settings must be in force on the server. `None` if
    /// the row cannot be locked separately.
    pub fn build(
        request: &PlannedRequest,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let plan = request.plan.as_ref()?;
        let (lock, row) = (plan.lock()?, plan.row_of(request)?);
        let values = row.iter().map(|part| (part.binary, Some(&*part.bytes)));
        let values: Vec<_> = values.collect();
        let mut writer = BatchWriter::new(server, out);
        lock.statement().write(&values, &[], &mut writer);
        frontend::write_flush(writer.out);
        Some(Self {
            progress: StatementProgress::new(writer.injected),
        })
    }

    /// Takes a message from the server.
    pub fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> LockProgress {
        match self.progress.receive(frame, server) {
            StatementEvent::End => LockProgress::Over,
            StatementEvent::Complete => LockProgress::Granted,
            StatementEvent::Other if frame.tag == tag::ERROR_RESPONSE => LockProgress::Failed,
            StatementEvent::Other | StatementEvent::Row => LockProgress::Awaited,
        }
    }

    /// Ends the transaction without a batch.
    pub fn end(&self, out: &mut BytesMut) {
        frontend::write_sync(out);
    }
}

//! Waiting for the lock of one row before a group on it is put together: a statement whose transaction stays open, because
//! a `Flush` follows it and no `Sync`. The group's own batch goes on in that transaction, and ends it.

use super::GroupPlan;
use super::course::{Came, Course};
use super::row::RowKey;
use crate::server::{Injected, Preparable, ServerSide};
use crate::template::Templates;
use crate::unit::Unit;
use bytes::BytesMut;
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frontend};

#[cfg(test)]
mod tests;

/// The statement that waits.
#[derive(Debug)]
pub struct LockPlan {
    id: u64,
    text: String,
}

impl LockPlan {
    pub(super) fn new(text: &str, templates: &Templates) -> Self {
        Self {
            id: templates.new_id(),
            text: text.to_owned(),
        }
    }
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// It waits.
    Awaited,
    /// The row is locked, or there is none: the transaction is open.
    Granted,
    /// It failed: the transaction ends with the `Sync` that is still to be sent.
    Failed,
    /// The transaction is over.
    Over,
}

/// A wait on its way.
#[derive(Debug)]
pub struct RowLock {
    course: Course,
}

impl RowLock {
    /// Writes the statement that waits for the row of this unit, whose settings are in force on the server. `None`: it
    /// cannot be waited for.
    pub fn build(unit: &Unit, server: &mut ServerSide, out: &mut BytesMut) -> Option<Self> {
        let plan = unit.plan.as_ref()?;
        let (lock, row) = (plan.lock()?, plan.row_of(unit)?);
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
            course: Course::new(injected),
        })
    }

    /// Takes a message from the server.
    pub fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> Lock {
        let came = self.course.receive(frame, server);
        match frame.tag {
            _ if came == Came::End => Lock::Over,
            tag::COMMAND_COMPLETE => Lock::Granted,
            tag::ERROR_RESPONSE => Lock::Failed,
            _ => Lock::Awaited,
        }
    }

    /// Nobody wants the lock any more, or it failed: ends its transaction. What it has locked is free again.
    pub fn end(&self, out: &mut BytesMut) {
        frontend::write_sync(out);
    }
}

impl GroupPlan {
    /// The statement that waits for the lock of a unit's row. `None`: there is none.
    pub fn lock(&self) -> Option<&LockPlan> {
        match self {
            Self::Fold(plan) => Some(plan.lock()),
            Self::Upsert(plan) => plan.lock(),
            Self::Deal(_) | Self::Several(_) => None,
        }
    }

    fn row_of(&self, unit: &Unit) -> Option<RowKey> {
        match self {
            Self::Fold(plan) => plan.row_of(unit),
            Self::Upsert(plan) => plan.row_of(unit),
            Self::Deal(_) | Self::Several(_) => None,
        }
    }
}

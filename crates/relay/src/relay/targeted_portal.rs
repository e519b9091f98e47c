//! Row limits of statements that must affect an exact number of rows (`TARGET_AFFECT_ROW`).
//!
//! If an `Execute` stops at its row limit, PostgreSQL does not report the number of rows. So Paceline asks for one row more than the client.
//! Either PostgreSQL has no such row and reports the number, or the statement has more rows than the limit. If the limit is not less than the
//! target, that is too many.

use bytes::BytesMut;
use paceline_wire::backend::{self, tag};
use paceline_wire::frontend::write_execute_limited;
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, WireError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of rows that a statement has affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AffectedRows {
    Exactly(u64),
    /// The row limit hides the rest.
    AtLeast(u64),
}

/// A portal whose statement must affect an exact number of rows. Its first execution decides: if it has met the target, no rows are left
/// for later ones.
#[derive(Debug, Clone, Default)]
pub(super) struct TargetedPortal {
    was_executed: Arc<AtomicBool>,
}

/// An `Execute` of such a portal.
#[derive(Debug)]
pub(super) struct TargetedExecution {
    portal: TargetedPortal,
    /// The client's row limit.
    rows_max: Option<u64>,
    /// The server has sent rows.
    pub(super) has_rows: bool,
}

impl TargetedPortal {
    /// Appends the client's `Execute` as the server receives it.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn execute(
        self,
        frame: Frame<'_>,
        out: &mut BytesMut,
    ) -> Result<TargetedExecution, WireError> {
        let mut reader = Reader::new(frame.body());
        let (name, limit) = (reader.cstr()?, reader.i32()?);
        // Without a limit, and with the largest one, PostgreSQL sends all rows.
        let one_more = match limit {
            1.. => limit.checked_add(1).unwrap_or_default(),
            _ => limit,
        };
        write_execute_limited(out, name, one_more);
        Ok(TargetedExecution {
            portal: self,
            rows_max: u64::try_from(limit).ok().filter(|limit| *limit > 0),
            has_rows: false,
        })
    }
}

impl TargetedExecution {
    /// The server has ended the execution. Notes that; returns whether the portal was executed before.
    pub(super) fn continues(&self) -> bool {
        self.portal.was_executed.swap(true, Ordering::Relaxed)
    }

    /// Whether the server would have stopped at the client's row limit, without knowing that no rows are left.
    pub(super) fn stops_at_limit(&self, rows: Option<AffectedRows>) -> bool {
        let all = self.rows_max.map(AffectedRows::Exactly);
        self.has_rows && all.is_some() && rows == all
    }
}

impl AffectedRows {
    /// The number of rows by the end of an execution.
    pub(super) fn of(end: Frame<'_>, execution: Option<&TargetedExecution>) -> Option<Self> {
        if end.tag == tag::PORTAL_SUSPENDED {
            let rows_max = execution.and_then(|execution| execution.rows_max)?;
            return Some(Self::AtLeast(rows_max.saturating_add(1)));
        }
        backend::affected_rows(end.body()).map(Self::Exactly)
    }
}

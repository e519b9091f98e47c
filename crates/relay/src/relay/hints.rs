//! The end of a statement's transaction by hints (`COMMIT_ON_SUCCESS`, `ROLLBACK_ON_FAIL`, `TARGET_AFFECT_ROW`).

use super::expect::Expect;
use super::state::{Disposition, RelayContext, RelayState, TransactionEnd, Wrap};
use super::targeted_portal::{AffectedRows, TargetedExecution};
use crate::errors::{limit_below_target, not_exactly};
use bytes::{BufMut, BytesMut};
use paceline_sql::Hints;
use paceline_wire::Frame;
use paceline_wire::backend::{Status, tag};
use paceline_wire::frame::write_empty;

impl RelayState {
    pub(super) fn complete(
        &mut self,
        frame: Frame<'_>,
        mut hints: Hints,
        targeted: Option<&TargetedExecution>,
        to_client: &mut BytesMut,
    ) -> Disposition {
        if hints == Hints::default() {
            self.request.hints = hints;
            return Disposition::Forward;
        }
        let rows = AffectedRows::of(frame, targeted);
        if targeted.is_some_and(TargetedExecution::continues) {
            // The number of rows of the first execution remains.
            hints.target_affect_row = self.request.hints.target_affect_row;
        } else {
            self.request.rows = rows;
        }
        self.request.hints = hints;
        if targeted.is_some_and(|targeted| targeted.stops_at_limit(rows)) {
            self.pass_held(to_client);
            self.retry.answered();
            write_empty(&mut self.request.held, tag::PORTAL_SUSPENDED);
            return Disposition::Swallow;
        }
        Disposition::Hold
    }

    /// The end of the transaction that the hints of the request's last statement demand. `None` if they demand none.
    pub(super) fn ending(&self) -> Option<TransactionEnd> {
        let hints = self.request.hints;
        let in_block = self.status != Status::Idle;
        if !in_block {
            return None;
        }
        if self.status == Status::Failed {
            let rolls_back = self.request.rolls_back || self.wrap == Wrap::Begin;
            return rolls_back.then_some(TransactionEnd::Rollback);
        }
        if self.misses_target() {
            let whole = hints.rollback_on_fail || self.wrap == Wrap::Begin;
            return Some(if whole {
                TransactionEnd::Rollback
            } else {
                TransactionEnd::Fail
            });
        }
        (hints.commit_on_success || self.wrap == Wrap::Begin).then_some(TransactionEnd::Commit)
    }

    fn misses_target(&self) -> bool {
        match (self.request.hints.target_affect_row, self.request.rows) {
            (Some(wanted), found) => found != Some(AffectedRows::Exactly(wanted)),
            (None, _) => false,
        }
    }

    pub(super) fn end_transaction(
        &mut self,
        ending: TransactionEnd,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) {
        if self.misses_target() && !self.request.failed {
            self.report_missed_target(to_client);
        }
        let sql = match ending {
            TransactionEnd::Commit => "COMMIT",
            TransactionEnd::Rollback => "ROLLBACK",
            // There is no such savepoint. The error puts the transaction into the failed state.
            TransactionEnd::Fail => "ROLLBACK TO SAVEPOINT \"paceline: TARGET_AFFECT_ROW\"",
        };
        self.inject_query_first(sql, Expect::InjectedTransactionEnd, context, to_server);
    }

    /// Writes the error in place of the statement's CommandComplete.
    fn report_missed_target(&mut self, to_client: &mut BytesMut) {
        let wanted = self.request.hints.target_affect_row.unwrap_or_default();
        self.request.held.clear();
        self.request.failed = true;
        let error = match self.request.rows {
            Some(AffectedRows::AtLeast(found)) if found <= wanted => limit_below_target(wanted),
            Some(AffectedRows::AtLeast(found)) => {
                not_exactly(wanted, format_args!("at least {found}"))
            }
            Some(AffectedRows::Exactly(found)) => not_exactly(wanted, found),
            None => not_exactly(wanted, 0),
        };
        error.write(to_client);
    }

    pub(super) fn release_held(&mut self, to_client: &mut BytesMut) {
        let held = std::mem::take(&mut self.request.held);
        to_client.put_slice(&held);
    }
}

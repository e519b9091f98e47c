//! Fold: single-row updates of one template become one statement (see [`paceline_sql::fold`]): one lock, one new
//! version and one commit per row, and an answer of its own for every member.

mod bind;
mod plan;
mod result;

pub use plan::FoldPlan;
pub(super) use result::FoldResult;

use super::batch::Batch;
use super::messages::{parameter_bits, result_bits, write_columns};
use super::outcome::Invalidation;
use super::outcome::{MemberResult, Retry, is_refusal, retry};
use super::plan::{
    GroupPlan, LockPlan, PlanRows, PlannedRequest, ProbePlan, Rewritten, UnmetGuards,
};
use super::prelude::Prelude;
use super::progress::{StatementEvent, StatementProgress, refusal};
use super::row::RowKey;
use crate::line::{GroupId, LineKeys, Strategy};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use paceline_relay::request::Request;
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frontend};
use plan::RowSpread;
use std::sync::Arc;

#[cfg(test)]
mod tests;

impl GroupPlan for FoldPlan {
    fn strategy(&self) -> Strategy {
        Strategy::Fold
    }

    fn fits(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if !matches!(request.template.hints().target_affect_row, None | Some(1)) {
            return None;
        }
        let carried = self.fold.carried.iter();
        let carried = carried.map(|carried| (carried.parameter, carried.as_text));
        let parameter_formats = parameter_bits(request, &self.parameters, carried)?;
        let key = self.rows.line_key(&self.rows.of(request)?);
        let group = GroupId {
            strategy: Strategy::Fold,
            template: self.template,
            settings: request.settings.id,
            parameter_formats,
            result_formats: result_bits(request, &self.fields)?,
            // Values that only PostgreSQL can compare travel with their equals in bytes.
            cohort: if self.rows.are_opaque() {
                key.cohort()
            } else {
                0
            },
        };
        Some((group, LineKeys::One(key)))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Box<dyn Batch>> {
        Some(Box::new(FoldBatch::build(
            self, members, prelude, server, out,
        )?))
    }

    fn rewritten(&self) -> Rewritten<'_> {
        Rewritten::Fold(&self.fold)
    }

    fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    fn lock(&self) -> Option<&LockPlan> {
        Some(&self.lock)
    }

    fn unmet_guards(&self, members: &[&PlannedRequest]) -> Option<UnmetGuards> {
        let answer = |member: &&PlannedRequest| {
            let mut fields = BytesMut::new();
            write_columns(&self.fields, member.result_formats(), &mut fields);
            let exactly_one = member.template.hints().target_affect_row == Some(1);
            self.reply(member.form, &fields, exactly_one, None).freeze()
        };
        Some(UnmetGuards {
            answers: members.iter().map(answer).collect(),
            may_fail_unseen: self.fold.may_fail_unseen,
        })
    }

    fn row_of(&self, request: &Request) -> Option<RowKey> {
        self.rows.of(request)
    }

    fn rows(&self) -> Option<PlanRows<'_>> {
        Some(PlanRows {
            keys: std::slice::from_ref(&self.rows),
            parameters: &self.parameters,
            fingerprint: &self.fingerprint,
        })
    }
}

/// A fold on its way.
#[derive(Debug)]
pub struct FoldBatch {
    result: FoldResult,
    progress: StatementProgress,
}

impl Batch for FoldBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        match self.progress.receive(frame, server) {
            StatementEvent::Row => {
                self.progress.facts_changed |= !self.result.receive_row(frame.body())
            }
            StatementEvent::End => self.finish(results),
            StatementEvent::Other => {}
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    /// The table has changed, or the fold itself (not a member) is refused: for want of a right, or by its grammar.
    fn invalidation(&self) -> Option<Invalidation> {
        self.progress.invalidation(|sqlstate, _| {
            let refused = is_refusal(sqlstate) && self.result.spread != RowSpread::OneEach;
            refused.then(|| refusal(sqlstate))
        })
    }

    fn failed(&self) -> bool {
        self.progress.error().is_some()
    }

    /// One for each row that a member has changed.
    fn rows_written(&self) -> u64 {
        self.result.rows_written()
    }

    fn may_use_sequences(&self) -> bool {
        false
    }
}

impl FoldBatch {
    fn build(
        plan: Arc<FoldPlan>,
        members: &[&PlannedRequest],
        limits: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let mut injected = Injected::default();
        if plan.fold.partitioned {
            limits.write_limits(server, &mut injected, out);
        }
        let result = FoldResult::write(plan, members, server, &mut injected, out)?;
        frontend::write_sync(out);
        injected.push_sync();
        Some(Self {
            result,
            progress: StatementProgress::new(injected),
        })
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        match self.progress.error() {
            Some((sqlstate, _)) => self.result.finish_error(sqlstate, results),
            None if self.progress.facts_changed => {
                results.extend(retry(0..self.result.len(), Retry::Alone, Fallback::Ddl));
            }
            None => self.result.finish(results),
        }
    }
}

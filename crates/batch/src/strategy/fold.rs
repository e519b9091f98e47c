//! Fold: updates of single rows by one template become one statement (see [`paceline_sql::fold`]). Each row gets one lock, one new
//! version and one commit; each member gets an answer of its own.

mod bind;
mod plan;
mod result;

pub use plan::FoldPlan;
pub(super) use result::FoldResult;

use super::batch::Batch;
use super::build_context::BuildContext;
use super::explain_lines::ExplainLines;
use super::messages::BatchWriter;
use super::plan::{GroupPlan, LockPlan, PlanRows, PlannedRequest, ProbePlan, UnmetGuards};
use super::row_key::RowKey;
use super::statement_batch::StatementBatch;
use crate::line::{GroupId, LineKeys};
use crate::strategy::Strategy;
use paceline_relay::request::Request;
use paceline_sql::fold::Fold;
use std::sync::Arc;

#[cfg(test)]
mod tests;

impl GroupPlan for FoldPlan {
    fn strategy(&self) -> Strategy {
        Strategy::Fold
    }

    fn group_and_keys(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if !matches!(request.template.hints().target_affect_row, None | Some(1)) {
            return None;
        }
        let carried = self.fold.carried.iter();
        let carried = carried.map(|carried| (carried.parameter, carried.as_text));
        let id = self.template;
        let group = self
            .described
            .group_id(Strategy::Fold, id, request, carried)?;
        Some(self.rows.group_on_row(group, &self.rows.of(request)?))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        context: &BuildContext<'_>,
        mut writer: BatchWriter<'_>,
    ) -> Option<Box<dyn Batch>> {
        if self.fold.partitioned {
            context.prelude.write_limits(&mut writer);
        }
        let result = FoldResult::write(self, members, &mut writer)?;
        Some(StatementBatch::send(result, writer))
    }

    fn explain(&self, lines: &mut ExplainLines, verbose: bool) {
        lines.key(&self.fold.key);
        let carried = self.fold.carried.iter();
        lines.parameters("own", carried.map(|carried| carried.parameter));
        if verbose {
            explain_statements(&self.fold, lines);
        }
    }

    fn orders_requests_outside_groups(&self) -> bool {
        true
    }

    fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    fn lock(&self) -> Option<&LockPlan> {
        self.lock.as_ref()
    }

    fn unmet_guards(&self, members: &[&PlannedRequest]) -> Option<UnmetGuards> {
        let answer = |member: &&PlannedRequest| {
            let columns = self.described.columns(member);
            let exactly_one = member.template.hints().target_affect_row == Some(1);
            self.reply(member.form, &columns, exactly_one, None)
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
            described: &self.described,
        })
    }
}

/// Appends the statements of a fold.
pub(super) fn explain_statements(fold: &Fold, lines: &mut ExplainLines) {
    lines.say("one row", &fold.one_row);
    lines.say("many rows", &fold.many_rows);
    if let Some(one_each) = &fold.one_each {
        lines.say("one each", one_each);
    }
}

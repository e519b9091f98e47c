//! Upserts: inserts of one row with ON CONFLICT become one INSERT that does nothing where a row exists and, under DO UPDATE, a fold
//! of the members after it, in one transaction (see [`paceline_sql::merge::upsert`]).

mod bind;
mod plan;
mod result;

pub use plan::UpsertPlan;

use super::batch::Batch;
use super::build_context::BuildContext;
use super::explain_lines::ExplainLines;
use super::fold;
use super::messages::BatchWriter;
use super::plan::{GroupPlan, LockPlan, PlanRows, PlannedRequest, ProbePlan};
use super::row_key::RowKey;
use super::statement_batch::StatementBatch;
use crate::line::{GroupId, LineKeys};
use crate::strategy::Strategy;
use paceline_relay::request::Request;
use paceline_sql::merge::upsert::Then;
use result::UpsertResult;
use std::collections::BTreeSet;
use std::sync::Arc;

#[cfg(test)]
mod tests;

impl GroupPlan for UpsertPlan {
    fn strategy(&self) -> Strategy {
        Strategy::Merge
    }

    fn group_and_keys(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if request.template.hints().target_affect_row.is_some() {
            return None;
        }
        let per_member = self.upsert.per_member.iter();
        let per_member = per_member.flat_map(|parameter| {
            parameter
                .numbers
                .iter()
                .map(|number| (*number, parameter.as_text))
        });
        let (strategy, id) = (Strategy::Merge, self.template);
        let mut group = self.described.group_id(strategy, id, request, per_member)?;
        if let Some(fold) = &self.fold {
            // The fold reads parameters that the INSERT does not read.
            let (fold_group, _) = fold.group_and_keys(request)?;
            group.parameter_formats |= fold_group.parameter_formats;
        }
        let row = self.rows.of(request)?;
        (!self.rows.may_be_trimmed(&row)).then(|| self.rows.group_on_row(group, &row))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        _context: &BuildContext<'_>,
        mut writer: BatchWriter<'_>,
    ) -> Option<Box<dyn Batch>> {
        let result = UpsertResult::write(self, members, &mut writer)?;
        Some(StatementBatch::send(result, writer))
    }

    fn explain(&self, lines: &mut ExplainLines, verbose: bool) {
        let upsert = &self.upsert;
        lines.key(&upsert.key);
        let fold = match &upsert.then {
            Then::Fold(fold) => Some(fold),
            Then::Nothing { .. } => None,
        };
        let inserted = upsert
            .per_member
            .iter()
            .flat_map(|parameter| parameter.numbers.clone());
        let changing = fold.into_iter().flat_map(|fold| &fold.carried);
        let changing = changing.map(|carried| carried.parameter);
        let per_member: BTreeSet<u32> = inserted.chain(changing).collect();
        lines.parameters("own", per_member.into_iter());
        if !verbose {
            return;
        }
        lines.say("insert", &upsert.insert);
        if let Some(one_each) = &upsert.one_each {
            lines.say("one each", one_each);
        }
        if let Some(fold) = fold {
            fold::explain_statements(fold, lines);
        }
    }

    fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    /// DO UPDATE locks the row first; DO NOTHING locks none.
    fn lock(&self) -> Option<&LockPlan> {
        self.fold.as_ref().and_then(|fold| fold.lock())
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

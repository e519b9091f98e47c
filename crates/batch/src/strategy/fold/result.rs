//! The result of a fold: its rows number the members by row, then by arrival.

use super::super::messages::{BatchWriter, is_true, read_place};
use super::super::outcome::{
    MemberOutcome, MemberResult, Retry, fallback_reason, is_lock_timeout, is_refusal, retry,
    retry_halves,
};
use super::super::plan::PlannedRequest;
use super::super::row_key::RowKey;
use super::super::row_spread::RowSpread;
use super::super::statement_batch::{CatalogCheck, GroupResult};
use super::super::statement_progress::StatementError;
use super::bind::{MembersByRow, write_statement};
use super::plan::FoldPlan;
use crate::template_stats::Fallback;
use bytes::{Bytes, BytesMut};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use paceline_relay::request::RequestForm;
use paceline_sql::fold::FOLD_RESULT_COLUMNS;
use paceline_wire::backend;
use std::sync::Arc;

/// The members of a fold and their answers.
#[derive(Debug)]
pub(in crate::strategy) struct FoldResult {
    plan: Arc<FoldPlan>,
    /// The members by row, then by arrival: number in the group and form.
    order: Vec<(usize, RequestForm)>,
    /// For each member, the place in `order` at which its row begins.
    row_start: Vec<usize>,
    spread: RowSpread,
    /// The description of the rows.
    columns: BytesMut,
    exactly_one: bool,
    answers: Vec<Option<FoldAnswer>>,
    /// Places in `order` at which updated rows begin.
    changed: HashSet<usize>,
}

#[derive(Debug)]
enum FoldAnswer {
    Reply(Bytes),
    /// The member would violate a constraint.
    Violates,
}

impl FoldResult {
    /// Writes the statement of a group, without `Sync`.
    pub(in crate::strategy) fn write(
        plan: Arc<FoldPlan>,
        members: &[&PlannedRequest],
        writer: &mut BatchWriter<'_>,
    ) -> Option<Self> {
        let first = members.first()?;
        let rows = sort_by_row(&plan, members)?;
        let spread = plan.spread(rows.len(), members.len());
        if spread != RowSpread::OneRow && plan.rows.are_opaque() {
            return None;
        }
        write_statement(&plan, spread, &rows, members, writer)?;
        let mut row_start = Vec::with_capacity(members.len());
        for (_, members) in &rows {
            let start = row_start.len();
            row_start.extend(members.iter().map(|_| start));
        }
        let form = |n: usize| {
            members
                .get(n)
                .map_or(RequestForm::Simple, |member| member.form)
        };
        let order = rows.iter().flat_map(|(_, members)| members);
        Some(Self {
            exactly_one: first.template.hints().target_affect_row == Some(1),
            answers: members.iter().map(|_| None).collect(),
            order: order.map(|n| (*n, form(*n))).collect(),
            columns: plan.described.columns(first),
            plan,
            row_start,
            spread,
            changed: HashSet::new(),
        })
    }

    fn reply(&self, form: RequestForm, hit: bool, returning: &[Option<&[u8]>]) -> Bytes {
        let hit = hit.then_some(returning);
        self.plan.reply(form, &self.columns, self.exactly_one, hit)
    }

    /// The outcome of a member without a row in the result.
    fn outcome_without_row(&self, form: RequestForm) -> MemberOutcome {
        if self.spread == RowSpread::ManyRows {
            // The row does not exist, or another session has locked it.
            MemberOutcome::Retry(Retry::Row, Fallback::Busy)
        } else if self.plan.fold.upsert || self.plan.fold.may_fail_unseen {
            // In an upsert the row was deleted meanwhile, or only an index takes its key for equal to the existing one.
            MemberOutcome::Retry(Retry::Alone, Fallback::NoRow)
        } else {
            // The row does not exist, because the statement waits for its lock; or the guard is false.
            MemberOutcome::Answer(self.reply(form, false, &[]))
        }
    }
}

impl GroupResult for FoldResult {
    fn len(&self) -> usize {
        self.order.len()
    }

    /// Columns: catalog version unchanged, place of the member, constraints hold, updated, RETURNING.
    fn receive_row(&mut self, body: &[u8]) -> CatalogCheck {
        let Ok(values) = backend::row_values(body) else {
            return CatalogCheck::UNREADABLE;
        };
        let (head, returning) = values.split_at(FOLD_RESULT_COLUMNS.min(values.len()));
        let [same, place, valid, hit] = *head else {
            return CatalogCheck::UNREADABLE;
        };
        let (check, valid, hit) = (CatalogCheck::read(same), is_true(valid), is_true(hit));
        let Some(place) = read_place(place) else {
            return check;
        };
        let answer = match (valid, self.order.get(place)) {
            (true, Some((_, form))) => FoldAnswer::Reply(self.reply(*form, hit, returning)),
            _ => FoldAnswer::Violates,
        };
        if hit {
            self.changed.extend(self.row_start.get(place));
        }
        if let Some(slot) = self.answers.get_mut(place) {
            *slot = Some(answer);
        }
        check
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let answers = std::mem::take(&mut self.answers);
        let mut violated_row = None;
        for (place, (answer, (member, form))) in answers.into_iter().zip(&self.order).enumerate() {
            let row = self.row_start.get(place).copied();
            let outcome = match answer {
                Some(FoldAnswer::Reply(reply)) => MemberOutcome::Answer(reply),
                Some(FoldAnswer::Violates) => {
                    violated_row = row;
                    MemberOutcome::Retry(Retry::Alone, Fallback::Error)
                }
                // The fold stops at a member that violates a constraint. That member gets the error from PostgreSQL, alone;
                // then the others on its row continue, in order.
                None if violated_row.is_some() && violated_row == row => {
                    MemberOutcome::Retry(Retry::Line, Fallback::Error)
                }
                None => self.outcome_without_row(*form),
            };
            results.push(MemberResult {
                member: *member,
                outcome,
            });
        }
    }

    fn fail(&self, error: &StatementError, results: &mut Vec<MemberResult>) {
        let members = 0..self.len();
        let reason = fallback_reason(&error.sqlstate);
        let lock_timeout = is_lock_timeout(&error.sqlstate);
        if self.spread == RowSpread::OneEach {
            self.plan.backoff.begin();
            results.extend(retry(members, Retry::Line, reason));
        } else if is_refusal(&error.sqlstate) {
            results.extend(retry(members, Retry::Alone, reason));
        } else if lock_timeout && self.plan.fold.partitioned {
            // Another session has locked a partition that perhaps only some members need.
            results.extend(retry(members, Retry::Alone, reason));
        } else if lock_timeout && self.spread == RowSpread::OneRow {
            results.extend(retry(members, Retry::Blocked, reason));
        } else {
            results.extend(retry_halves(self.len(), reason));
        }
    }

    /// An error of the statement in which each member has a row of its own may be due to a member.
    fn refusal(&self, error: &StatementError) -> Option<String> {
        error
            .refusal()
            .filter(|_| self.spread != RowSpread::OneEach)
    }

    fn rows_written(&self) -> u64 {
        self.changed.len() as u64
    }

    fn may_use_sequences(&self) -> bool {
        false
    }
}

/// The members of each row in order of arrival. Rows are in the order of their first members.
fn sort_by_row(plan: &FoldPlan, members: &[&PlannedRequest]) -> Option<MembersByRow> {
    let mut rows: MembersByRow = Vec::new();
    let mut places: HashMap<RowKey, usize> = HashMap::new();
    for (n, request) in members.iter().enumerate() {
        let row = plan.rows.of(request)?;
        let place = *places.entry(row).or_insert_with_key(|row| {
            rows.push((row.clone(), Vec::new()));
            rows.len() - 1
        });
        rows.get_mut(place)?.1.push(n);
    }
    Some(rows)
}

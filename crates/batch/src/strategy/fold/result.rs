//! The members of a fold in the order in which its statement numbers them, and what the statement says of each.

use super::super::messages::write_columns;
use super::super::outcome::{
    MemberOutcome, MemberResult, Retry, fallback_reason, is_lock_timeout, is_refusal, retry,
    retry_halves,
};
use super::super::plan::PlannedRequest;
use super::super::row::RowKey;
use super::bind::{self, MembersByRow};
use super::plan::{FoldPlan, RowSpread};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use paceline_relay::request::Form;
use paceline_relay::server::{Injected, ServerSide};
use paceline_sql::fold::RESULT_COLUMNS;
use paceline_wire::{backend, frontend};
use std::sync::Arc;

/// The members of a fold.
#[derive(Debug)]
pub(in crate::strategy) struct FoldResult {
    plan: Arc<FoldPlan>,
    /// Members in the order of (row, arrival): number in the group and form.
    order: Vec<(usize, Form)>,
    /// Place in `order` where each member's row begins.
    row_start: Vec<usize>,
    pub(super) spread: RowSpread,
    /// The first bytes of a member's answer are the same for all of a form.
    fields: BytesMut,
    exactly_one: bool,
    answers: Vec<Option<FoldAnswer>>,
    /// Places in `order` where rows begin that a member has changed.
    changed: HashSet<usize>,
}

#[derive(Debug)]
enum FoldAnswer {
    Reply(BytesMut),
    Violates,
}

impl FoldResult {
    /// Writes the statement of a group, without `Sync`.
    pub(in crate::strategy) fn write(
        plan: Arc<FoldPlan>,
        members: &[&PlannedRequest],
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let first = members.first()?;
        let rows = sort_by_row(&plan, members)?;
        let spread = plan.spread(rows.len(), members.len());
        if spread != RowSpread::OneRow && plan.rows.are_opaque() {
            return None;
        }
        let order: Vec<usize> = rows
            .iter()
            .flat_map(|(_, members)| members.clone())
            .collect();
        let statement = plan.statement(spread)?;
        injected.push(server.ensure(statement, out));
        bind::write_bind(
            &plan,
            spread,
            &rows,
            &order,
            members,
            server.name(statement.id),
            out,
        )?;
        frontend::write_execute(out);
        let mut row_start = Vec::with_capacity(order.len());
        for (_, members) in &rows {
            let start = row_start.len();
            row_start.extend(members.iter().map(|_| start));
        }
        let mut fields = BytesMut::new();
        write_columns(&plan.fields, first.result_formats(), &mut fields);
        let form = |n: &usize| members.get(*n).map_or(Form::Simple, |request| request.form);
        Some(Self {
            exactly_one: first.template.hints().target_affect_row == Some(1),
            answers: order.iter().map(|_| None).collect(),
            order: order.iter().map(|n| (*n, form(n))).collect(),
            plan,
            row_start,
            spread,
            fields,
            changed: HashSet::new(),
        })
    }

    /// One for each row that a member has changed.
    pub(in crate::strategy) fn rows_written(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Members.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// A row of the fold's result: facts unchanged?, member, constraints hold?, updated?, RETURNING. False: the facts
    /// have moved.
    pub(in crate::strategy) fn receive_row(&mut self, body: &[u8]) -> bool {
        let Ok(values) = backend::row_values(body) else {
            return true;
        };
        let (head, returning) = values.split_at(RESULT_COLUMNS.min(values.len()));
        let yes = |value: &Option<&[u8]>| *value == Some(&[1][..]);
        let [same, position, fine, hit] = head else {
            return true;
        };
        let number = position.and_then(|p| <[u8; 4]>::try_from(p).ok());
        let number = number.and_then(|n| usize::try_from(i32::from_be_bytes(n)).ok());
        let Some(place) = number.and_then(|number| number.checked_sub(1)) else {
            return yes(same);
        };
        let answer = match (yes(fine), self.order.get(place)) {
            (true, Some((_, form))) => FoldAnswer::Reply(self.reply(*form, yes(hit), returning)),
            _ => FoldAnswer::Violates,
        };
        if yes(hit) {
            self.changed.extend(self.row_start.get(place));
        }
        if let Some(slot) = self.answers.get_mut(place) {
            *slot = Some(answer);
        }
        yes(same)
    }

    fn reply(&self, form: Form, hit: bool, returning: &[Option<&[u8]>]) -> BytesMut {
        let hit = hit.then_some(returning);
        self.plan.reply(form, &self.fields, self.exactly_one, hit)
    }

    /// Deals with what the statement said, once it is committed.
    pub(in crate::strategy) fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let answers = std::mem::take(&mut self.answers);
        let mut violated_row = None;
        for (place, (answer, (member, form))) in answers.into_iter().zip(&self.order).enumerate() {
            let row = self.row_start.get(place).copied();
            let outcome = match answer {
                Some(FoldAnswer::Reply(reply)) => MemberOutcome::Answer(reply.freeze()),
                Some(FoldAnswer::Violates) => {
                    violated_row = row;
                    MemberOutcome::Retry(Retry::Alone, Fallback::Error)
                }
                // Behind a member that breaks a constraint the fold stops: PostgreSQL raises the error, then the
                // rest goes on, in order.
                None if violated_row.is_some() && violated_row == row => {
                    MemberOutcome::Retry(Retry::Line, Fallback::Error)
                }
                // Missing, or locked by an outsider.
                None if self.spread == RowSpread::ManyRows => {
                    MemberOutcome::Retry(Retry::Row, Fallback::Busy)
                }
                // In an upsert: deleted since, or equal to the one that is there for an index only.
                None if self.plan.fold.upsert || self.plan.fold.may_fail_unseen => {
                    MemberOutcome::Retry(Retry::Alone, Fallback::NoRow)
                }
                // Missing: its lock would have been waited for. Or the guard did not let it pass.
                None => MemberOutcome::Answer(self.reply(*form, false, &[]).freeze()),
            };
            results.push(MemberResult {
                member: *member,
                outcome,
            });
        }
    }

    /// Deals with an error that has undone the statement.
    pub(in crate::strategy) fn finish_error(
        &self,
        sqlstate: &str,
        results: &mut Vec<MemberResult>,
    ) {
        let members = self.order.len();
        if self.spread == RowSpread::OneEach {
            self.plan.backoff.begin();
            results.extend(retry(0..members, Retry::Line, fallback_reason(sqlstate)));
        } else if is_refusal(sqlstate) {
            results.extend(retry(0..members, Retry::Alone, Fallback::Refused));
        } else if !is_lock_timeout(sqlstate) {
            results.extend(retry_halves(members, Fallback::Error));
        } else if self.plan.fold.partitioned {
            // An outsider holds a partition that perhaps only some of them need.
            results.extend(retry(0..members, Retry::Alone, Fallback::Timeout));
        } else if self.spread == RowSpread::OneRow {
            results.extend(retry(0..members, Retry::Blocked, Fallback::Timeout));
        } else {
            results.extend(retry_halves(members, Fallback::Timeout));
        }
    }
}

/// The members of each row, in order of arrival; rows in order of their first member.
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

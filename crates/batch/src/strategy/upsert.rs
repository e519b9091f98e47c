//! Upserts: inserts with ON CONFLICT become one INSERT that does nothing where a row is there, and for DO UPDATE a fold
//! of the members behind it, in one transaction (see [`paceline_sql::merge::upsert`]).

use super::backoff::GroupBackoff;
use super::batch::Batch;
use super::fold::{FoldPlan, FoldResult};
use super::messages::{
    FORMATS_MAX, parameter_bits, result_bits, unknown_key_errors, write_columns, write_head,
    write_tail,
};
use super::outcome::Invalidation;
use super::outcome::{
    MemberOutcome, MemberResult, Retry, fallback_reason, is_lock_timeout, is_refusal, retry,
    retry_halves,
};
use super::plan::{GroupPlan, LockPlan, PlanRows, PlannedRequest, ProbePlan, Rewritten};
use super::prelude::Prelude;
use super::progress::{StatementEvent, StatementProgress, refusal};
use super::row::{RowKey, RowKeys};
use crate::line::{GroupId, LineKeys, Strategy};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use foldhash::{HashMap, HashMapExt};
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::merge::upsert::{Then, Upsert};
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::{Frame, frontend};
use std::sync::Arc;

mod bind;
#[cfg(test)]
mod tests;

/// How the units of a template travel, as learned from the catalog.
#[derive(Debug)]
pub struct UpsertPlan {
    template: u64,
    upsert: Upsert,
    insert_id: u64,
    one_each_id: u64,
    /// So many groups more go without the statement for members on keys of their own.
    backoff: GroupBackoff,
    /// What DO UPDATE does.
    fold: Option<Arc<FoldPlan>>,
    probe: Option<ProbePlan>,
    rows: RowKeys,
    fingerprint: String,
    /// OIDs of the template's parameters.
    parameters: Vec<u32>,
    /// RETURNING columns.
    fields: Vec<Field>,
}

impl UpsertPlan {
    /// A plan from what PostgreSQL said of the template and its table.
    pub fn new(
        template: &Template,
        upsert: Upsert,
        table: &TableFacts,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        if parameters.len() > FORMATS_MAX || fields.len() > FORMATS_MAX {
            return None;
        }
        let fold = match &upsert.then {
            Then::Nothing { .. } => None,
            Then::Fold(fold) => {
                let (parameters, fields) = (parameters.clone(), fields.clone());
                let fold = (**fold).clone();
                let plan = FoldPlan::new(template, fold, table, parameters, fields, templates)?;
                Some(Arc::new(plan))
            }
        };
        Some(Self {
            template: template.id,
            insert_id: templates.new_id(),
            one_each_id: templates.new_id(),
            backoff: GroupBackoff::default(),
            probe: ProbePlan::new(upsert.probe.as_ref(), &[], templates),
            fold,
            rows: RowKeys::new(&upsert.key, table, &parameters),
            upsert,
            fingerprint: table.fingerprint.value.clone(),
            parameters,
            fields,
        })
    }

    /// Which members stand in the INSERT. What comes after another one on its key is no matter for it if a fold
    /// follows; if the conflict may be with some other key, it goes another time.
    fn inserts(&self, number: usize, first: usize) -> bool {
        match self.upsert.then {
            Then::Nothing { same_key: true } => true,
            Then::Nothing { same_key: false } | Then::Fold(_) => number == first,
        }
    }

    fn is_partitioned(&self) -> bool {
        match &self.upsert.then {
            Then::Nothing { .. } => false,
            Then::Fold(fold) => fold.partitioned,
        }
    }
}

impl GroupPlan for UpsertPlan {
    fn strategy(&self) -> Strategy {
        Strategy::Merge
    }

    fn fits(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if request.template.hints().target_affect_row.is_some() {
            return None;
        }
        let own = self.upsert.own.iter();
        let own = own.flat_map(|own| own.numbers.iter().map(|number| (*number, own.as_text)));
        let mut parameter_formats = parameter_bits(request, &self.parameters, own)?;
        if let Some(fold) = &self.fold {
            parameter_formats |= fold.fits(request)?.0.parameter_formats;
        }
        let row = self.rows.of(request)?;
        if self.rows.may_be_trimmed(&row) {
            return None;
        }
        let key = self.rows.line_key(&row);
        let group = GroupId {
            strategy: Strategy::Merge,
            template: self.template,
            settings: request.settings.id,
            parameter_formats,
            result_formats: result_bits(request, &self.fields)?,
            cohort: match self.rows.are_opaque() {
                true => key.cohort(),
                false => 0,
            },
        };
        Some((group, LineKeys::One(key)))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        _prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Box<dyn Batch>> {
        Some(Box::new(UpsertBatch::build(self, members, server, out)?))
    }

    fn rewritten(&self) -> Rewritten<'_> {
        Rewritten::Upsert(&self.upsert)
    }

    fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    /// A row is locked before DO UPDATE; without DO UPDATE there is nothing to lock.
    fn lock(&self) -> Option<&LockPlan> {
        self.fold.as_ref().and_then(|fold| fold.lock())
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

/// A group on its way.
#[derive(Debug)]
pub struct UpsertBatch {
    plan: Arc<UpsertPlan>,
    members: Vec<UpsertMember>,
    /// The first member of each row.
    firsts: HashMap<RowKey, usize>,
    /// The answer to the INSERT is complete.
    inserted: bool,
    inserted_rows: u64,
    /// The tables are not what the fold takes them for: it has done nothing. The INSERT may have.
    fold_moved: bool,
    /// A row came back that is nobody's.
    unknown_key: bool,
    /// Every member is on a key of its own, and there is no second statement.
    one_each: bool,
    result: Option<FoldResult>,
    progress: StatementProgress,
    /// What tells the columns of an answer.
    fields: BytesMut,
}

#[derive(Debug)]
struct UpsertMember {
    form: Form,
    /// It stands in the INSERT.
    inserts: bool,
    /// Its answer, if its row was inserted.
    answer: Option<BytesMut>,
}

impl Batch for UpsertBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        let event = self.progress.receive(frame, server);
        match (event, &mut self.result) {
            (StatementEvent::Row, Some(result)) if self.inserted => {
                self.fold_moved |= !result.receive_row(frame.body());
                self.progress.facts_changed |= self.fold_moved;
            }
            (StatementEvent::Row, _) => self.receive_inserted(frame.body()),
            (StatementEvent::End, _) => self.finish(results),
            (StatementEvent::Other, _) => self.inserted |= frame.tag == tag::COMMAND_COMPLETE,
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    /// The table has changed, or the statements are refused.
    fn invalidation(&self) -> Option<Invalidation> {
        let refused = |sqlstate: &str, _: &[u8]| {
            let refused = is_refusal(sqlstate) && !self.one_each;
            refused.then(|| refusal(sqlstate))
        };
        self.progress.invalidation(refused)
    }

    fn failed(&self) -> bool {
        self.progress.error().is_some()
    }

    /// Rows that were inserted, and rows that a member has changed.
    fn rows_written(&self) -> u64 {
        self.inserted_rows + self.result.as_ref().map_or(0, FoldResult::rows_written)
    }
}

impl UpsertBatch {
    fn build(
        plan: Arc<UpsertPlan>,
        members: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let first = members.first()?;
        let mut firsts = HashMap::new();
        let mut all = Vec::with_capacity(members.len());
        for (number, request) in members.iter().enumerate() {
            let first = *firsts.entry(plan.rows.of(request)?).or_insert(number);
            all.push(UpsertMember {
                form: request.form,
                inserts: plan.inserts(number, first),
                answer: None,
            });
        }
        if plan.rows.are_opaque() && firsts.len() > 1 {
            return None;
        }
        let inserting = members.iter().zip(&all);
        let inserting =
            inserting.filter_map(|(request, member)| member.inserts.then_some(*request));
        let inserting: Vec<&PlannedRequest> = inserting.collect();
        let mut injected = Injected::default();
        let alone = firsts.len() == 1;
        let one_each = !alone
            && firsts.len() == members.len()
            && plan.upsert.one_each.is_some()
            && !plan.backoff.is_on();
        plan.write_insert(&inserting, alone, one_each, server, &mut injected, out)?;
        let result = match &plan.fold {
            Some(fold) if !one_each => {
                let fold = Arc::clone(fold);
                Some(FoldResult::write(
                    fold,
                    members,
                    server,
                    &mut injected,
                    out,
                )?)
            }
            _ => None,
        };
        frontend::write_sync(out);
        injected.push_sync();
        let mut fields = BytesMut::new();
        write_columns(&plan.fields, first.result_formats(), &mut fields);
        Some(Self {
            plan,
            members: all,
            firsts,
            inserted: false,
            inserted_rows: 0,
            fold_moved: false,
            unknown_key: false,
            one_each,
            result,
            progress: StatementProgress::new(injected),
            fields,
        })
    }

    /// A row of the INSERT's result: facts unchanged?, key, RETURNING.
    fn receive_inserted(&mut self, body: &[u8]) {
        let Ok(values) = backend::row_values(body) else {
            return;
        };
        let Some((same, values)) = values.split_first() else {
            return;
        };
        self.progress.facts_changed |= *same != Some(&[1][..]);
        let (key, returning) = values.split_at(self.plan.upsert.key.len().min(values.len()));
        if key.iter().any(Option::is_none) {
            return;
        }
        self.inserted_rows += 1;
        let member = match self.plan.rows.are_opaque() {
            true => Some(0),
            false => {
                let key = self.plan.rows.returned(key);
                key.and_then(|key| self.firsts.get(&key).copied())
            }
        };
        match member.and_then(|member| self.members.get_mut(member)) {
            Some(member) => {
                let row = Some(returning);
                let answer = self
                    .plan
                    .answer(member.form, &self.fields, row, "INSERT 0 1");
                member.answer = Some(answer);
            }
            None => self.unknown_key = true,
        }
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let members = self.members.len();
        if let Some((sqlstate, _)) = self.progress.error() {
            if let Some(result) = &self.result {
                return result.finish_error(sqlstate, results);
            }
            if self.one_each {
                self.plan.backoff.begin();
                return results.extend(retry(0..members, Retry::Line, fallback_reason(sqlstate)));
            }
            let how = match sqlstate {
                _ if is_refusal(sqlstate) => Retry::Alone,
                _ if !is_lock_timeout(sqlstate) => {
                    return results.extend(retry_halves(members, Fallback::Error));
                }
                _ if self.firsts.len() == 1 => Retry::Blocked,
                _ => Retry::Alone,
            };
            return results.extend(retry(0..members, how, fallback_reason(sqlstate)));
        }
        if self.unknown_key {
            return results.extend(unknown_key_errors(
                self.members.iter().map(|member| member.form),
            ));
        }
        let (plan, fields) = (&self.plan, &self.fields);
        let nothing = |form| plan.answer(form, fields, None, "INSERT 0 0");
        match &mut self.result {
            Some(result) if !self.fold_moved => result.finish(results),
            _ if self.progress.facts_changed => {
                results.extend(retry(0..members, Retry::Alone, Fallback::Ddl));
            }
            _ => results.extend(self.members.iter().enumerate().map(|(number, member)| {
                MemberResult {
                    member: number,
                    outcome: match member.inserts {
                        true => MemberOutcome::Answer(nothing(member.form).freeze()),
                        false => MemberOutcome::Retry(Retry::Line, Fallback::Busy),
                    },
                }
            })),
        }
        for MemberResult { member, outcome } in results {
            let inserted = self.members.get_mut(*member).and_then(|m| m.answer.take());
            if let Some(answer) = inserted {
                *outcome = MemberOutcome::Answer(answer.freeze());
            }
        }
    }
}

impl UpsertPlan {
    /// A complete answer; `columns` tells what columns its rows have.
    fn answer(
        &self,
        form: Form,
        columns: &BytesMut,
        row: Option<&[Option<&[u8]>]>,
        tag: &str,
    ) -> BytesMut {
        let mut out = BytesMut::with_capacity(96);
        write_head(form, &mut out);
        if form.is_described(!self.fields.is_empty()) {
            out.extend_from_slice(columns);
        }
        if let Some(row) = row.filter(|_| !self.fields.is_empty()) {
            backend::write_row(&mut out, row.iter().copied());
        }
        backend::write_command_complete(&mut out, tag);
        write_tail(&mut out);
        out
    }
}

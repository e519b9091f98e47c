//! Upserts: inserts of one row with ON CONFLICT become one INSERT that does nothing where a row exists and, under DO UPDATE, a fold
//! of the members after it, in one transaction (see [`paceline_sql::merge::upsert`]).

use super::batch::Batch;
use super::described::DescribedTemplate;
use super::explain_lines::ExplainLines;
use super::fold::{self, FoldPlan, FoldResult};
use super::group_backoff::GroupBackoff;
use super::messages::{is_true, unknown_key_errors, write_tail};
use super::outcome::{
    MemberOutcome, MemberResult, Retry, fallback_reason, is_lock_timeout, is_refusal, retry,
    retry_halves,
};
use super::plan::{GroupPlan, LockPlan, PlanRows, PlannedRequest, ProbePlan};
use super::prelude::Prelude;
use super::row_key::{RowKey, RowKeys};
use super::statement_batch::{GroupResult, StatementBatch};
use super::statement_progress::StatementError;
use crate::line::{GroupId, LineKeys};
use crate::strategy::Strategy;
use crate::template_stats::Fallback;
use bytes::BytesMut;
use foldhash::{HashMap, HashMapExt};
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::merge::upsert::{Then, Upsert};
use paceline_wire::backend::{self, Field};
use std::collections::BTreeSet;
use std::sync::Arc;

mod bind;
#[cfg(test)]
mod tests;

use bind::Insert;

/// The plan of a template that inserts one row with ON CONFLICT.
#[derive(Debug)]
pub struct UpsertPlan {
    template: u64,
    upsert: Upsert,
    insert_id: u64,
    one_each_id: u64,
    /// While it is on, no group uses the statement for members on keys of their own.
    backoff: GroupBackoff,
    /// The fold under DO UPDATE.
    fold: Option<Arc<FoldPlan>>,
    probe: Option<ProbePlan>,
    rows: RowKeys,
    fingerprint: String,
    described: DescribedTemplate,
}

impl UpsertPlan {
    /// Makes a plan from the analysis of the template and its table. `None` if there are too many parameters or columns.
    pub fn new(
        template: &Template,
        upsert: Upsert,
        table: &TableFacts,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        let described = DescribedTemplate::new(parameters.clone(), fields.clone())?;
        let rows = RowKeys::new(&upsert.key, table, &parameters);
        let fold = match &upsert.then {
            Then::Nothing { .. } => None,
            Then::Fold(fold) => {
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
            rows,
            upsert,
            fingerprint: table.fingerprint.value.clone(),
            described,
        })
    }

    /// Whether the INSERT contains a member's row; `first` is the first member with its key. A later member is left to the fold
    /// under DO UPDATE. Under DO NOTHING it returns to the line if the conflict may be with another key.
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

    /// A complete answer. `columns` describes its rows; `row` is the inserted row.
    fn answer(&self, form: Form, columns: &BytesMut, row: Option<&[Option<&[u8]>]>) -> BytesMut {
        let mut out = BytesMut::with_capacity(96);
        self.described.begin_answer(form, columns, &mut out);
        if let Some(row) = row {
            self.described.write_row(row, &mut out);
        }
        let tag = if row.is_some() {
            "INSERT 0 1"
        } else {
            "INSERT 0 0"
        };
        backend::write_command_complete(&mut out, tag);
        write_tail(&mut out);
        out
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
        let (strategy, id) = (Strategy::Merge, self.template);
        let mut group = self.described.group_id(strategy, id, request, own)?;
        if let Some(fold) = &self.fold {
            group.parameter_formats |= fold.fits(request)?.0.parameter_formats;
        }
        let row = self.rows.of(request)?;
        (!self.rows.may_be_trimmed(&row)).then(|| self.rows.group_on_row(group, &row))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        _prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Box<dyn Batch>> {
        let mut injected = Injected::default();
        let result = UpsertResult::write(self, members, server, &mut injected, out)?;
        Some(StatementBatch::send(result, injected, out))
    }

    fn explain(&self, lines: &mut ExplainLines, verbose: bool) {
        let upsert = &self.upsert;
        lines.key(&upsert.key);
        let fold = match &upsert.then {
            Then::Fold(fold) => Some(fold),
            Then::Nothing { .. } => None,
        };
        let inserted = upsert.own.iter().flat_map(|own| own.numbers.clone());
        let changing = fold.into_iter().flat_map(|fold| &fold.carried);
        let changing = changing.map(|carried| carried.parameter);
        let own: BTreeSet<u32> = inserted.chain(changing).collect();
        lines.parameters("own", own.into_iter());
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
            fingerprint: &self.fingerprint,
        })
    }
}

/// The members of a group and their answers.
#[derive(Debug)]
struct UpsertResult {
    plan: Arc<UpsertPlan>,
    members: Vec<UpsertMember>,
    /// The first member of each row.
    firsts: HashMap<RowKey, usize>,
    /// Whether the INSERT is complete.
    inserted: bool,
    inserted_rows: u64,
    /// Whether a row has a key that no member has sent.
    unknown_key: bool,
    insert: Insert,
    fold: Option<FoldResult>,
    /// Whether the fold reports changed facts, so that it has done nothing. The INSERT may have inserted rows.
    fold_changed: bool,
    /// The description of the rows.
    columns: BytesMut,
}

#[derive(Debug)]
struct UpsertMember {
    form: Form,
    /// Whether the INSERT contains its row.
    inserts: bool,
    /// Its answer, if its row was inserted.
    answer: Option<BytesMut>,
}

impl UpsertResult {
    /// Writes the statements of a group, without `Sync`.
    fn write(
        plan: Arc<UpsertPlan>,
        requests: &[&PlannedRequest],
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let first = requests.first()?;
        let mut firsts = HashMap::new();
        let mut members = Vec::with_capacity(requests.len());
        for (number, request) in requests.iter().enumerate() {
            let first = *firsts.entry(plan.rows.of(request)?).or_insert(number);
            members.push(UpsertMember {
                form: request.form,
                inserts: plan.inserts(number, first),
                answer: None,
            });
        }
        if plan.rows.are_opaque() && firsts.len() > 1 {
            return None;
        }
        let inserting = requests.iter().zip(&members);
        let inserting =
            inserting.filter_map(|(request, member)| member.inserts.then_some(*request));
        let inserting: Vec<&PlannedRequest> = inserting.collect();
        let insert = plan.insert(firsts.len(), requests.len());
        plan.write_insert(insert, &inserting, server, injected, out)?;
        let fold = match &plan.fold {
            Some(fold) if insert != Insert::OneEach => {
                let fold = Arc::clone(fold);
                Some(FoldResult::write(fold, requests, server, injected, out)?)
            }
            _ => None,
        };
        Some(Self {
            columns: plan.described.columns(first),
            plan,
            members,
            firsts,
            inserted: false,
            inserted_rows: 0,
            unknown_key: false,
            insert,
            fold,
            fold_changed: false,
        })
    }

    /// Takes a row of the INSERT. Columns: facts unchanged, key, RETURNING.
    fn receive_inserted(&mut self, body: &[u8]) -> bool {
        let values = backend::row_values(body).unwrap_or_default();
        let Some((same, values)) = values.split_first() else {
            return true;
        };
        let (key, returning) = values.split_at(self.plan.upsert.key.len().min(values.len()));
        if key.iter().all(Option::is_some) {
            self.inserted_rows += 1;
            let member = self.member_with(key);
            match member.and_then(|member| self.members.get_mut(member)) {
                Some(member) => {
                    let answer = self
                        .plan
                        .answer(member.form, &self.columns, Some(returning));
                    member.answer = Some(answer);
                }
                None => self.unknown_key = true,
            }
        }
        is_true(*same)
    }

    /// The first member with a key.
    fn member_with(&self, key: &[Option<&[u8]>]) -> Option<usize> {
        if self.plan.rows.are_opaque() {
            return Some(0);
        }
        let key = self.plan.rows.returned(key)?;
        self.firsts.get(&key).copied()
    }

    /// The results of members under DO NOTHING whose rows were not inserted.
    fn do_nothing(&self, results: &mut Vec<MemberResult>) {
        let members = self.members.iter().enumerate();
        results.extend(members.map(|(number, member)| MemberResult {
            member: number,
            outcome: match member.inserts {
                true => {
                    let answer = self.plan.answer(member.form, &self.columns, None);
                    MemberOutcome::Answer(answer.freeze())
                }
                false => MemberOutcome::Retry(Retry::Line, Fallback::Busy),
            },
        }));
    }

    /// Replaces the results of members whose rows were inserted.
    fn answer_inserted(&mut self, results: &mut [MemberResult]) {
        for MemberResult { member, outcome } in results {
            let member = self.members.get_mut(*member);
            if let Some(answer) = member.and_then(|member| member.answer.take()) {
                *outcome = MemberOutcome::Answer(answer.freeze());
            }
        }
    }

    fn finish_with(&mut self, facts_changed: bool, results: &mut Vec<MemberResult>) {
        if self.unknown_key {
            let forms = self.members.iter().map(|member| member.form);
            return results.extend(unknown_key_errors(forms));
        }
        match &mut self.fold {
            Some(fold) if !self.fold_changed => fold.finish(results),
            _ if facts_changed => {
                results.extend(retry(0..self.len(), Retry::Alone, Fallback::Ddl));
            }
            _ => self.do_nothing(results),
        }
        self.answer_inserted(results);
    }
}

impl GroupResult for UpsertResult {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn receive_row(&mut self, body: &[u8]) -> bool {
        match &mut self.fold {
            Some(fold) if self.inserted => {
                let same = fold.receive_row(body);
                self.fold_changed |= !same;
                same
            }
            _ => self.receive_inserted(body),
        }
    }

    fn statement_complete(&mut self) {
        self.inserted = true;
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        self.finish_with(false, results);
    }

    fn finish_changed(&mut self, results: &mut Vec<MemberResult>) {
        self.finish_with(true, results);
    }

    fn fail(&self, error: &StatementError, results: &mut Vec<MemberResult>) {
        if let Some(fold) = &self.fold {
            return fold.fail(error, results);
        }
        let (members, reason) = (0..self.len(), fallback_reason(&error.sqlstate));
        if self.insert == Insert::OneEach {
            self.plan.backoff.begin();
            results.extend(retry(members, Retry::Line, reason));
        } else if is_refusal(&error.sqlstate) {
            results.extend(retry(members, Retry::Alone, reason));
        } else if !is_lock_timeout(&error.sqlstate) {
            results.extend(retry_halves(self.len(), reason));
        } else if self.insert == Insert::OneRow {
            results.extend(retry(members, Retry::Blocked, reason));
        } else {
            results.extend(retry(members, Retry::Alone, reason));
        }
    }

    /// An error of the statement in which each member has a key of its own may be due to a member.
    fn refusal(&self, error: &StatementError) -> Option<String> {
        error.refusal().filter(|_| self.insert != Insert::OneEach)
    }

    /// Inserted rows, and rows that the fold has updated.
    fn rows_written(&self) -> u64 {
        self.inserted_rows + self.fold.as_ref().map_or(0, FoldResult::rows_written)
    }
}

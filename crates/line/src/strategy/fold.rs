//! Fold: single-row updates of one template become one statement (see [`paceline_sql::fold`]): one lock, one new
//! version and one commit per row, and an answer of its own for every member.

mod bind;
mod key;

use super::course::{Came, Course, refusal};
use super::{
    Again, Dealt, Verdict, again, chain, halves, is_refusal, is_timeout, result_bits,
    write_columns, write_head, write_tail,
};
use crate::learned::Learned;
use crate::line::{GroupId, Key, Strategy};
use crate::server::{Injected, Preparable, ServerSide};
use crate::tally::Fallback;
use crate::template::{Template, Templates};
use crate::unit::{Form, Unit};
use bytes::BytesMut;
use key::KeyPart;
use paceline_sql::TableFacts;
use paceline_sql::fold::{Fold, KeyClass, RESULT_COLUMNS};
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::{ErrorResponse, Frame, frontend};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(test)]
mod tests;

/// How the units of a template fold, as learned from the catalog.
#[derive(Debug)]
pub struct FoldPlan {
    template: u64,
    fold: Fold,
    ids: StatementIds,
    /// So many groups more go without [`Spread::OneEach`].
    wary: AtomicU32,
    /// Table and key columns: what a key's hash starts with.
    row_seed: u64,
    fingerprint: String,
    /// OIDs of the template's parameters.
    parameters: Vec<u32>,
    /// RETURNING columns.
    fields: Vec<Field>,
}

#[derive(Debug)]
struct StatementIds {
    one_row: u64,
    many_rows: u64,
    one_each: u64,
}

/// How the members of a group are spread over rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// All on one.
    OneRow,
    /// Several rows; some have several members.
    ManyRows,
    /// Each on one of its own.
    OneEach,
}

/// After a group of [`Spread::OneEach`] has failed, as many groups of its template go as [`Spread::ManyRows`], which
/// neither waits for an outsider nor fails with a member.
const WARY_GROUPS: u32 = 1_000;

/// Most parameters and RETURNING columns: their formats are a bit each in a [`GroupId`].
const FORMATS_MAX: usize = 64;

impl FoldPlan {
    /// A plan from what PostgreSQL said of the template and its table.
    pub fn new(
        template: &Template,
        fold: Fold,
        table: &TableFacts,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        if parameters.len() > FORMATS_MAX || fields.len() > FORMATS_MAX {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        table.extent.tree.hash(&mut hasher);
        fold.key
            .iter()
            .for_each(|column| column.type_oid.hash(&mut hasher));
        Some(Self {
            template: template.id,
            fold,
            ids: StatementIds {
                one_row: templates.new_id(),
                many_rows: templates.new_id(),
                one_each: templates.new_id(),
            },
            wary: AtomicU32::new(0),
            row_seed: hasher.finish(),
            fingerprint: table.fingerprint.clone(),
            parameters,
            fields,
        })
    }

    /// The row and the companions of a unit. `None`: this one must run alone (a NULL key, a key that is not
    /// written in the usual way, an array in binary format, …).
    pub fn fits(&self, unit: &Unit) -> Option<(GroupId, Key)> {
        if unit.parameters().len() != self.parameters.len() {
            return None;
        }
        if !unit.settings.is_utf8() {
            // Text is taken apart byte by byte here, which only some encodings allow.
            return None;
        }
        if !matches!(unit.template.hints().target_affect_row, None | Some(1)) {
            return None;
        }
        let mut parameter_formats = 0;
        for carried in &self.fold.carried {
            let (binary, _) = unit.parameter(carried.parameter)?;
            if binary && carried.as_text {
                return None;
            }
            parameter_formats |= u64::from(binary) << (carried.parameter - 1);
        }
        let row = self.row(unit)?;
        let mut hasher = DefaultHasher::new();
        (self.row_seed, &row).hash(&mut hasher);
        let key = Key(hasher.finish());
        let group = GroupId {
            strategy: Strategy::Fold,
            template: self.template,
            settings: unit.settings.id,
            parameter_formats,
            result_formats: result_bits(unit, self.fields.len())?,
            // Values that only PostgreSQL can compare travel with their equals in bytes.
            cohort: if self.is_opaque() { row_cohort(key) } else { 0 },
        };
        Some((group, key))
    }

    /// The statements that a group may become.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Only PostgreSQL can tell whether two keys are equal.
    fn is_opaque(&self) -> bool {
        self.fold
            .key
            .iter()
            .any(|column| column.class == KeyClass::Opaque)
    }

    /// The key of a unit in a form in which equal keys are equal bytes.
    fn row(&self, unit: &Unit) -> Option<Vec<KeyPart>> {
        self.fold
            .key
            .iter()
            .map(|column| KeyPart::read(column, &self.parameters, unit))
            .collect()
    }

    fn spread(&self, rows: usize, members: usize) -> Spread {
        if rows == 1 {
            return Spread::OneRow;
        }
        let less = |wary: u32| wary.checked_sub(1);
        let wary = self
            .wary
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        match wary.is_err() && rows == members {
            true => Spread::OneEach,
            false => Spread::ManyRows,
        }
    }

    fn statement(&self, spread: Spread) -> Preparable<'_> {
        let (id, text) = match spread {
            Spread::OneRow => (self.ids.one_row, &self.fold.one_row),
            Spread::ManyRows => (self.ids.many_rows, &self.fold.many_rows),
            Spread::OneEach => (self.ids.one_each, &self.fold.one_each),
        };
        Preparable {
            id,
            text,
            types: &[0, 0],
        }
    }
}

/// The cohort of units that travel with others on their own row only.
pub fn row_cohort(key: Key) -> u64 {
    key.0 | 1
}

/// A fold on its way.
#[derive(Debug)]
pub struct Batch {
    plan: Arc<FoldPlan>,
    /// Members in the order of (row, arrival): number in the group and form.
    order: Vec<(usize, Form)>,
    /// Place in `order` where each member's row begins.
    row_start: Vec<usize>,
    spread: Spread,
    course: Course,
    /// The first bytes of a member's answer are the same for all of a form.
    fields: BytesMut,
    exactly_one: bool,
    answers: Vec<Option<Answer>>,
    /// Places in `order` where rows begin that a member has changed.
    changed: HashSet<usize>,
}

#[derive(Debug)]
enum Answer {
    Reply(BytesMut),
    /// Did not pass the guard, and PostgreSQL might have found an error in it all the same.
    Unseen,
    Violates,
}

impl Batch {
    pub(super) fn build(
        members: &[&Unit],
        limits: &chain::Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let first = members.first()?;
        let plan = Arc::clone(first.plan.as_ref()?.fold()?);
        let rows = sort_by_row(&plan, members)?;
        let spread = plan.spread(rows.len(), members.len());
        if spread != Spread::OneRow && plan.is_opaque() {
            return None;
        }
        let order: Vec<usize> = rows
            .iter()
            .flat_map(|(_, members)| members.clone())
            .collect();
        let statement = plan.statement(spread);
        let mut injected = Injected::default();
        if plan.fold.partitioned {
            limits.write(server, &mut injected, out);
        }
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
        frontend::write_sync(out);
        injected.push_sync();
        let mut row_start = Vec::with_capacity(order.len());
        for (_, members) in &rows {
            let start = row_start.len();
            row_start.extend(members.iter().map(|_| start));
        }
        let mut fields = BytesMut::new();
        write_columns(&plan.fields, first.result_formats(), &mut fields);
        let form = |n: &usize| members.get(*n).map_or(Form::Simple, |unit| unit.form);
        Some(Self {
            exactly_one: first.template.hints().target_affect_row == Some(1),
            answers: order.iter().map(|_| None).collect(),
            order: order.iter().map(|n| (*n, form(n))).collect(),
            plan,
            row_start,
            spread,
            course: Course::new(injected),
            fields,
            changed: HashSet::new(),
        })
    }

    /// The table has changed, or the fold itself (not a member) is refused: for want of a right, or by its grammar.
    pub(super) fn void(&self) -> Option<Option<Learned>> {
        self.course.void(|sqlstate, _| {
            let refused = is_refusal(sqlstate) && self.spread != Spread::OneEach;
            refused.then(|| refusal(sqlstate))
        })
    }

    pub(super) fn failed(&self) -> bool {
        self.course.error().is_some()
    }

    /// One for each row that a member has changed.
    pub(super) fn rows_written(&self) -> u64 {
        self.changed.len() as u64
    }

    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        dealt: &mut Vec<Dealt>,
    ) -> bool {
        match self.course.receive(frame, server) {
            Came::Row => self.receive_row(frame.body()),
            Came::End => self.settle(dealt),
            Came::Other => {}
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    /// A row of the fold's result: facts unchanged?, member, constraints hold?, updated?, RETURNING.
    fn receive_row(&mut self, body: &[u8]) {
        let Ok(values) = backend::row_values(body) else {
            return;
        };
        let (head, returning) = values.split_at(RESULT_COLUMNS.min(values.len()));
        let yes = |value: &Option<&[u8]>| *value == Some(&[1][..]);
        let [same, position, fine, hit] = head else {
            return;
        };
        if !yes(same) {
            self.course.facts_moved = true;
        }
        let Some(position) = position.and_then(|p| <[u8; 4]>::try_from(p).ok()) else {
            return;
        };
        let place = usize::try_from(i32::from_be_bytes(position))
            .ok()
            .and_then(|p| p.checked_sub(1));
        let Some(place) = place else {
            return;
        };
        let answer = match (yes(fine), self.order.get(place)) {
            (true, _) if !yes(hit) && self.plan.fold.may_fail_unseen => Answer::Unseen,
            (true, Some((_, form))) => Answer::Reply(self.reply(*form, yes(hit), returning)),
            _ => Answer::Violates,
        };
        if yes(hit) {
            self.changed.extend(self.row_start.get(place));
        }
        if let Some(slot) = self.answers.get_mut(place) {
            *slot = Some(answer);
        }
    }

    fn reply(&self, form: Form, hit: bool, returning: &[Option<&[u8]>]) -> BytesMut {
        let mut out = BytesMut::with_capacity(96);
        write_head(form, &mut out);
        if form.is_described(!self.plan.fields.is_empty()) {
            out.extend_from_slice(&self.fields);
        }
        if !hit && self.exactly_one {
            not_exactly(1, 0).write(&mut out);
        } else {
            if hit && !self.plan.fields.is_empty() {
                backend::write_row(&mut out, returning.iter().copied());
            }
            backend::write_command_complete(&mut out, if hit { "UPDATE 1" } else { "UPDATE 0" });
        }
        write_tail(&mut out);
        out
    }

    fn settle(&mut self, dealt: &mut Vec<Dealt>) {
        let members = self.order.len();
        if let Some((sqlstate, error)) = self.course.error() {
            return self.settle_error(sqlstate, error, dealt);
        }
        if self.course.facts_moved {
            dealt.extend(again(0..members, Again::Alone, Fallback::Ddl));
            return;
        }
        let answers = std::mem::take(&mut self.answers);
        let mut violated_row = None;
        for (place, (answer, (member, form))) in answers.into_iter().zip(&self.order).enumerate() {
            let row = self.row_start.get(place).copied();
            let verdict = match answer {
                Some(Answer::Reply(reply)) => Verdict::Answer(reply.freeze()),
                Some(Answer::Unseen) => Verdict::Again(Again::Alone, Fallback::NoRow),
                Some(Answer::Violates) => {
                    violated_row = row;
                    Verdict::Again(Again::Alone, Fallback::Error)
                }
                // Behind a member that breaks a constraint the fold stops: PostgreSQL raises the error, then the
                // rest goes on, in order.
                None if violated_row.is_some() && violated_row == row => {
                    Verdict::Again(Again::Line, Fallback::Error)
                }
                // Missing, or locked by an outsider.
                None if self.spread == Spread::ManyRows => {
                    Verdict::Again(Again::Row, Fallback::Busy)
                }
                None if self.plan.fold.may_fail_unseen => {
                    Verdict::Again(Again::Alone, Fallback::NoRow)
                }
                // Missing: its lock would have been waited for. Or the guard did not let it pass.
                None => Verdict::Answer(self.reply(*form, false, &[]).freeze()),
            };
            dealt.push(Dealt {
                member: *member,
                verdict,
            });
        }
    }

    fn settle_error(&self, sqlstate: &str, error: &[u8], dealt: &mut Vec<Dealt>) {
        let members = self.order.len();
        let timed_out = is_timeout(sqlstate, error);
        if self.spread == Spread::OneEach {
            self.plan.wary.store(WARY_GROUPS, Ordering::Relaxed);
            let why = match timed_out {
                true => Fallback::Timeout,
                false => Fallback::Error,
            };
            dealt.extend(again(0..members, Again::Line, why));
            return;
        }
        if is_refusal(sqlstate) {
            dealt.extend(again(0..members, Again::Alone, Fallback::Refused));
            return;
        }
        if timed_out && self.plan.fold.partitioned {
            // An outsider holds a partition that perhaps only some of them need.
            dealt.extend(again(0..members, Again::Alone, Fallback::Timeout));
            return;
        }
        if !(self.spread == Spread::OneRow && timed_out) {
            dealt.extend(halves(members));
            return;
        }
        // Each has waited for this row as long as it would have alone.
        for (member, form) in &self.order {
            let mut out = BytesMut::new();
            write_head(*form, &mut out);
            out.extend_from_slice(error);
            write_tail(&mut out);
            dealt.push(Dealt {
                member: *member,
                verdict: Verdict::Answer(out.freeze()),
            });
        }
    }
}

/// The error of a statement that touched another number of rows than its hint demands.
pub fn not_exactly(wanted: u64, found: u64) -> ErrorResponse {
    ErrorResponse::error(
        "21000",
        format!(
            "statement affected {found} rows, but its hint demands TARGET_AFFECT_ROW({wanted})"
        ),
    )
}

type Rows = Vec<(Vec<KeyPart>, Vec<usize>)>;

/// The members of each row, in order of arrival; rows in order of their first member.
fn sort_by_row(plan: &FoldPlan, members: &[&Unit]) -> Option<Rows> {
    let mut rows: Rows = Vec::new();
    let mut places: HashMap<Vec<KeyPart>, usize> = HashMap::new();
    for (n, unit) in members.iter().enumerate() {
        let row = plan.row(unit)?;
        let place = *places.entry(row).or_insert_with_key(|row| {
            rows.push((row.clone(), Vec::new()));
            rows.len() - 1
        });
        rows.get_mut(place)?.1.push(n);
    }
    Some(rows)
}

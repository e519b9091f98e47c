//! Fold: single-row updates of one template become one statement (see [`paceline_sql::fold`]): one lock, one new
//! version and one commit per row, and an answer of its own for every member.

mod bind;
mod sheet;

pub(super) use sheet::Sheet;

use super::course::{Came, Course, refusal};
use super::probe::ProbePlan;
use super::row::{RowKey, RowKeys};
use super::row_lock::LockPlan;
use super::wary::Wary;
use super::{
    Again, Dealt, FORMATS_MAX, again, chain, is_refusal, parameter_bits, result_bits, write_head,
    write_tail,
};
use crate::learned::Learned;
use crate::line::{GroupId, Key, Strategy};
use crate::server::{Injected, Preparable, ServerSide};
use crate::tally::Fallback;
use crate::template::{Template, Templates};
use crate::unit::{Form, Unit};
use bytes::BytesMut;
use paceline_sql::TableFacts;
use paceline_sql::fold::Fold;
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::{ErrorResponse, Frame, frontend};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// How the units of a template fold, as learned from the catalog.
#[derive(Debug)]
pub struct FoldPlan {
    template: u64,
    fold: Fold,
    ids: StatementIds,
    probe: Option<ProbePlan>,
    lock: LockPlan,
    /// Groups go without [`Spread::OneEach`].
    wary: Wary,
    rows: RowKeys,
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
        Some(Self {
            template: template.id,
            rows: RowKeys::new(&fold.key, table, &parameters),
            probe: ProbePlan::new(fold.probe.as_ref(), &fold.carried, templates),
            lock: LockPlan::new(&fold.lock, templates),
            fold,
            ids: StatementIds {
                one_row: templates.new_id(),
                many_rows: templates.new_id(),
                one_each: templates.new_id(),
            },
            wary: Wary::default(),
            fingerprint: table.fingerprint.value.clone(),
            parameters,
            fields,
        })
    }

    /// The row and the companions of a unit. `None`: this one must run alone (a NULL key, a key that is not
    /// written in the usual way, an array in binary format, …).
    pub fn fits(&self, unit: &Unit) -> Option<(GroupId, Key)> {
        if !matches!(unit.template.hints().target_affect_row, None | Some(1)) {
            return None;
        }
        let carried = self.fold.carried.iter();
        let carried = carried.map(|carried| (carried.parameter, carried.as_text));
        let parameter_formats = parameter_bits(unit, &self.parameters, carried)?;
        let key = self.rows.line_key(&self.rows.of(unit)?);
        let group = GroupId {
            strategy: Strategy::Fold,
            template: self.template,
            settings: unit.settings.id,
            parameter_formats,
            result_formats: result_bits(unit, &self.fields)?,
            // Values that only PostgreSQL can compare travel with their equals in bytes.
            cohort: if self.rows.are_opaque() {
                key.cohort()
            } else {
                0
            },
        };
        Some((group, key))
    }

    /// The statements that a group may become.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    pub(super) fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    pub(super) fn lock(&self) -> &LockPlan {
        &self.lock
    }

    pub(super) fn row_of(&self, unit: &Unit) -> Option<RowKey> {
        self.rows.of(unit)
    }

    /// What tells rows apart (a unit has one), OIDs of parameters, and the fingerprint.
    pub(super) fn keys(&self) -> (&[RowKeys], &[u32], &str) {
        (
            std::slice::from_ref(&self.rows),
            &self.parameters,
            &self.fingerprint,
        )
    }

    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// A complete answer. `fields` tells what columns its rows have; `hit` is the row that was changed, if one was.
    pub(super) fn reply(
        &self,
        form: Form,
        fields: &BytesMut,
        exactly_one: bool,
        hit: Option<&[Option<&[u8]>]>,
    ) -> BytesMut {
        let mut out = BytesMut::with_capacity(96);
        let tag = match (self.fold.upsert, hit) {
            (true, Some(_)) => "INSERT 0 1",
            (true, None) => "INSERT 0 0",
            (false, Some(_)) => "UPDATE 1",
            (false, None) => "UPDATE 0",
        };
        write_head(form, &mut out);
        if form.is_described(!self.fields.is_empty()) {
            out.extend_from_slice(fields);
        }
        match hit {
            None if exactly_one => not_exactly(1, 0).write(&mut out),
            _ => {
                if let Some(row) = hit.filter(|_| !self.fields.is_empty()) {
                    backend::write_row(&mut out, row.iter().copied());
                }
                backend::write_command_complete(&mut out, tag);
            }
        }
        write_tail(&mut out);
        out
    }

    fn spread(&self, rows: usize, members: usize) -> Spread {
        if rows == 1 {
            return Spread::OneRow;
        }
        let each = rows == members && self.fold.one_each.is_some();
        match each && !self.wary.is_on() {
            true => Spread::OneEach,
            false => Spread::ManyRows,
        }
    }

    fn statement(&self, spread: Spread) -> Option<Preparable<'_>> {
        let (id, text) = match spread {
            Spread::OneRow => (self.ids.one_row, &self.fold.one_row),
            Spread::ManyRows => (self.ids.many_rows, &self.fold.many_rows),
            Spread::OneEach => (self.ids.one_each, self.fold.one_each.as_ref()?),
        };
        Some(Preparable {
            id,
            text,
            types: &[0, 0],
        })
    }
}

/// A fold on its way.
#[derive(Debug)]
pub struct Batch {
    sheet: Sheet,
    course: Course,
}

impl Batch {
    pub(super) fn build(
        members: &[&Unit],
        limits: &chain::Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let plan = Arc::clone(members.first()?.plan.as_ref()?.fold()?);
        let mut injected = Injected::default();
        if plan.fold.partitioned {
            limits.write_limits(server, &mut injected, out);
        }
        let sheet = Sheet::write(plan, members, server, &mut injected, out)?;
        frontend::write_sync(out);
        injected.push_sync();
        Some(Self {
            sheet,
            course: Course::new(injected),
        })
    }

    /// The table has changed, or the fold itself (not a member) is refused: for want of a right, or by its grammar.
    pub(super) fn void(&self) -> Option<Option<Learned>> {
        self.course.void(|sqlstate, _| {
            let refused = is_refusal(sqlstate) && self.sheet.spread != Spread::OneEach;
            refused.then(|| refusal(sqlstate))
        })
    }

    pub(super) fn failed(&self) -> bool {
        self.course.error().is_some()
    }

    /// One for each row that a member has changed.
    pub(super) fn rows_written(&self) -> u64 {
        self.sheet.rows_written()
    }

    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        dealt: &mut Vec<Dealt>,
    ) -> bool {
        match self.course.receive(frame, server) {
            Came::Row => self.course.facts_moved |= !self.sheet.receive_row(frame.body()),
            Came::End => self.settle(dealt),
            Came::Other => {}
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    fn settle(&mut self, dealt: &mut Vec<Dealt>) {
        match self.course.error() {
            Some((sqlstate, _)) => self.sheet.settle_error(sqlstate, dealt),
            None if self.course.facts_moved => {
                dealt.extend(again(0..self.sheet.len(), Again::Alone, Fallback::Ddl));
            }
            None => self.sheet.settle(dealt),
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

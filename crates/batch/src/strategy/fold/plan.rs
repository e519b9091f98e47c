//! The plan of a fold: the statements of the template and the keys of its rows.

use super::super::backoff::GroupBackoff;
use super::super::messages::{FORMATS_MAX, write_head, write_tail};
use super::super::plan::{LockPlan, ProbePlan};
use super::super::row::RowKeys;
use bytes::BytesMut;
use paceline_relay::errors::not_exactly;
use paceline_relay::request::Form;
use paceline_relay::server::Preparable;
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::fold::Fold;
use paceline_wire::backend::{self, Field};

/// How the units of a template fold, as learned from the catalog.
#[derive(Debug)]
pub struct FoldPlan {
    pub(super) template: u64,
    pub(super) fold: Fold,
    pub(super) ids: StatementIds,
    pub(super) probe: Option<ProbePlan>,
    pub(super) lock: LockPlan,
    /// Groups go without [`RowSpread::OneEach`].
    pub(super) backoff: GroupBackoff,
    pub(super) rows: RowKeys,
    pub(super) fingerprint: String,
    /// OIDs of the template's parameters.
    pub(super) parameters: Vec<u32>,
    /// RETURNING columns.
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct StatementIds {
    one_row: u64,
    many_rows: u64,
    one_each: u64,
}

/// How the members of a group are spread over rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowSpread {
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
            backoff: GroupBackoff::default(),
            fingerprint: table.fingerprint.value.clone(),
            parameters,
            fields,
        })
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

    pub(super) fn spread(&self, rows: usize, members: usize) -> RowSpread {
        if rows == 1 {
            return RowSpread::OneRow;
        }
        let each = rows == members && self.fold.one_each.is_some();
        match each && !self.backoff.is_on() {
            true => RowSpread::OneEach,
            false => RowSpread::ManyRows,
        }
    }

    pub(super) fn statement(&self, spread: RowSpread) -> Option<Preparable<'_>> {
        let (id, text) = match spread {
            RowSpread::OneRow => (self.ids.one_row, &self.fold.one_row),
            RowSpread::ManyRows => (self.ids.many_rows, &self.fold.many_rows),
            RowSpread::OneEach => (self.ids.one_each, self.fold.one_each.as_ref()?),
        };
        Some(Preparable {
            id,
            text,
            types: &[0, 0],
        })
    }
}

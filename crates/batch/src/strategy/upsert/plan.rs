//! The plan of an upsert: the INSERT of the template, the fold under DO UPDATE, and the keys of its rows.

use super::super::described::DescribedTemplate;
use super::super::fold::FoldPlan;
use super::super::plan::ProbePlan;
use super::super::row_key::RowKeys;
use super::super::row_spread::{GroupBackoff, RowSpread};
use bytes::Bytes;
use paceline_relay::request::RequestForm;
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::merge::upsert::{InsertedRows, Then, Upsert};
use paceline_wire::backend::Field;
use std::sync::Arc;

/// The plan of a template that inserts one row with ON CONFLICT.
#[derive(Debug)]
pub struct UpsertPlan {
    pub(super) template: u64,
    pub(super) upsert: Upsert,
    pub(super) insert_id: u64,
    pub(super) numbered_id: u64,
    pub(super) one_each_id: u64,
    /// While it is on, no group uses the statement for members on keys of their own.
    pub(super) backoff: GroupBackoff,
    /// The fold under DO UPDATE.
    pub(super) fold: Option<Arc<FoldPlan>>,
    pub(super) probe: Option<ProbePlan>,
    pub(super) rows: RowKeys,
    pub(super) described: DescribedTemplate,
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
            numbered_id: templates.new_id(),
            one_each_id: templates.new_id(),
            backoff: GroupBackoff::default(),
            probe: ProbePlan::new(upsert.probe.as_ref(), &[], templates),
            fold,
            rows,
            upsert,
            described,
        })
    }

    /// The spread of a group, which selects its INSERT. No second statement follows the one for [`RowSpread::OneEach`].
    pub(super) fn spread(&self, rows: usize, members: usize) -> RowSpread {
        RowSpread::of(rows, members, self.upsert.one_each.is_some(), &self.backoff)
    }

    /// Whether the INSERT contains a member's row; `first` is the first member with its key. A later member is left to the fold
    /// under DO UPDATE. Under DO NOTHING it returns to the line if the conflict may be with another key.
    pub(super) fn inserts(&self, number: usize, first: usize) -> bool {
        match self.upsert.then {
            Then::Nothing { same_key: true } => true,
            Then::Nothing { same_key: false } | Then::Fold(_) => number == first,
        }
    }

    /// How the result of the INSERT names its rows, for a group of this number of members on this number of rows.
    pub(super) fn inserted_rows(&self, rows: usize, members: usize) -> InsertedRows {
        match rows < members && self.upsert.numbered.is_some() {
            true => InsertedRows::ByNumber,
            false => InsertedRows::ByKey,
        }
    }

    /// Number of columns that name a row of the INSERT.
    pub(super) fn names_len(&self, rows: InsertedRows) -> usize {
        match rows {
            InsertedRows::ByKey => self.upsert.key.len(),
            InsertedRows::ByNumber => 1,
        }
    }

    pub(super) fn is_partitioned(&self) -> bool {
        match &self.upsert.then {
            Then::Nothing { .. } => false,
            Then::Fold(fold) => fold.partitioned,
        }
    }

    /// A complete answer. `columns` describes its rows; `row` is the inserted row.
    pub(super) fn answer(
        &self,
        form: RequestForm,
        columns: &[u8],
        row: Option<&[Option<&[u8]>]>,
    ) -> Bytes {
        let mut answer = self.described.begin_answer(form, columns);
        match row {
            Some(row) => {
                answer.row(row);
                answer.complete("INSERT 0 1")
            }
            None => answer.complete("INSERT 0 0"),
        }
    }
}

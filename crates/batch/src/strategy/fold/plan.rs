//! The plan of a fold: the statements of the template and the keys of its rows.

use super::super::described::DescribedTemplate;
use super::super::messages::InjectedStatement;
use super::super::plan::{LockPlan, ProbePlan};
use super::super::row_key::RowKeys;
use super::super::row_spread::{GroupBackoff, RowSpread};
use bytes::Bytes;
use paceline_relay::errors::not_exactly;
use paceline_relay::request::RequestForm;
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::fold::Fold;
use paceline_wire::backend::Field;

/// The plan of a template whose requests fold.
#[derive(Debug)]
pub struct FoldPlan {
    pub(super) template: u64,
    pub(super) fold: Fold,
    pub(super) ids: StatementIds,
    pub(super) probe: Option<ProbePlan>,
    pub(super) lock: Option<LockPlan>,
    /// While it is on, no group uses [`RowSpread::OneEach`].
    pub(super) backoff: GroupBackoff,
    pub(super) rows: RowKeys,
    pub(super) described: DescribedTemplate,
}

#[derive(Debug)]
pub(super) struct StatementIds {
    one_row: u64,
    many_rows: u64,
    one_each: u64,
}

impl FoldPlan {
    /// Makes a plan from the analysis of the template and its table. `None` if there are too many parameters or columns.
    pub fn new(
        template: &Template,
        fold: Fold,
        table: &TableFacts,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        Some(Self {
            template: template.id,
            rows: RowKeys::new(&fold.key, table, &parameters),
            described: DescribedTemplate::new(parameters, fields)?,
            probe: ProbePlan::new(fold.probe.as_ref(), &fold.carried, templates),
            lock: fold
                .lock
                .as_ref()
                .map(|lock| LockPlan::new(lock, templates)),
            fold,
            ids: StatementIds {
                one_row: templates.new_id(),
                many_rows: templates.new_id(),
                one_each: templates.new_id(),
            },
            backoff: GroupBackoff::default(),
        })
    }

    /// A complete answer. `columns` describes its rows; `hit` is the updated row, `None` if no row met the condition.
    pub(super) fn reply(
        &self,
        form: RequestForm,
        columns: &[u8],
        exactly_one: bool,
        hit: Option<&[Option<&[u8]>]>,
    ) -> Bytes {
        let command = match (self.fold.upsert, hit) {
            (true, Some(_)) => "INSERT 0 1",
            (true, None) => "INSERT 0 0",
            (false, Some(_)) => "UPDATE 1",
            (false, None) => "UPDATE 0",
        };
        let mut answer = self.described.begin_answer(form, columns);
        match hit {
            None if exactly_one => return answer.fail(&not_exactly(1, 0)),
            None => {}
            Some(row) => answer.row(row),
        }
        answer.complete(command)
    }

    /// The spread of a group, which selects its statement.
    pub(super) fn spread(&self, rows: usize, members: usize) -> RowSpread {
        RowSpread::of(rows, members, self.fold.one_each.is_some(), &self.backoff)
    }

    pub(super) fn statement(&self, spread: RowSpread) -> Option<InjectedStatement<'_>> {
        let (id, text) = match spread {
            RowSpread::OneRow => (self.ids.one_row, &self.fold.one_row),
            RowSpread::ManyRows => (self.ids.many_rows, &self.fold.many_rows),
            RowSpread::OneEach => (self.ids.one_each, self.fold.one_each.as_ref()?),
        };
        Some(InjectedStatement { id, text })
    }
}

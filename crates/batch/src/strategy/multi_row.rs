//! Upserts of several rows each: one statement with the rows of all members (see
//! [`MultiRowUpsert`]). No two members have a row with the same key, because each waits in the line for all of its rows.

use super::array::{Array, ArrayValue, bound};
use super::batch::Batch;
use super::build_context::BuildContext;
use super::described::DescribedTemplate;
use super::explain_lines::ExplainLines;
use super::member_answer::MemberAnswer;
use super::messages::{BatchWriter, InjectedStatement, unknown_key_errors};
use super::outcome::{MemberOutcome, MemberResult};
use super::plan::{GroupPlan, PlanRows, PlannedRequest, ProbePlan};
use super::row_key::{RowKey, RowKeys};
use super::statement_batch::{CatalogCheck, GroupResult, StatementBatch};
use crate::line::{GroupId, LineKey, LineKeys};
use crate::strategy::Strategy;
use foldhash::{HashMap, HashMapExt};
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::merge::upsert::{MultiRowUpsert, UPSERT_RESULT_COLUMNS};
use paceline_wire::backend::{self, Field};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A parameter: whether it is in binary format, and its bytes.
type BoundValue<'a> = (bool, Option<&'a [u8]>);

/// Maximum wait for a lock that perhaps only another member needs. The minimum that PostgreSQL accepts, because the statement may
/// wait once for each row.
const LOCK_TIMEOUT: &[u8] = b"1ms";

/// The plan of a template whose requests insert several rows each.
#[derive(Debug)]
pub struct MultiRowPlan {
    upsert: MultiRowUpsert,
    template: u64,
    id: u64,
    probe: Option<ProbePlan>,
    /// The key of each row of a request.
    rows: Vec<RowKeys>,
    described: DescribedTemplate,
}

impl MultiRowPlan {
    /// Makes a plan from the analysis of the template and its table. `None` if there are too many parameters or columns.
    pub fn new(
        template: &Template,
        upsert: MultiRowUpsert,
        table: &TableFacts,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        let keys_of_row = |columns: &Vec<_>| RowKeys::new(columns, table, &parameters);
        let rows: Vec<RowKeys> = upsert.keys.iter().map(keys_of_row).collect();
        Some(Self {
            template: template.id,
            id: templates.new_id(),
            probe: ProbePlan::new(upsert.probe.as_ref(), &[], templates),
            rows,
            upsert,
            described: DescribedTemplate::new(parameters, fields)?,
        })
    }

    /// Parameters that the statement reads, and whether each is sent as text.
    fn carried(&self) -> impl Iterator<Item = (u32, bool)> {
        let shared = self.upsert.shared.iter().map(|number| (*number, false));
        let per_member = self.upsert.per_member.iter();
        shared.chain(per_member.flat_map(|parameter| {
            parameter
                .numbers
                .iter()
                .map(|number| (*number, parameter.as_text))
        }))
    }

    /// Identifies what all members have in common: the template, and the values of DO UPDATE.
    fn shared_id(&self, request: &Request) -> Option<u64> {
        let shared = self.shared(request)?;
        if shared.is_empty() {
            return Some(self.template);
        }
        let mut hasher = DefaultHasher::new();
        (self.template, shared).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn shared<'a>(&self, request: &'a Request) -> Option<Vec<BoundValue<'a>>> {
        let numbers = self.upsert.shared.iter();
        numbers.map(|number| request.parameter(*number)).collect()
    }

    /// The keys by which the line orders a request. `None` if a row has no comparable key, or if two rows have the same key and the
    /// clause is DO UPDATE, for which PostgreSQL raises an error.
    fn line_keys(&self, request: &Request) -> Option<Arc<[LineKey]>> {
        let mut distinct = BTreeSet::new();
        let mut keys = BTreeSet::new();
        for keys_of_row in &self.rows {
            let row = keys_of_row.of(request)?;
            if keys_of_row.may_be_trimmed(&row) {
                return None;
            }
            keys.insert(keys_of_row.line_key(&row));
            if !distinct.insert(row) && self.upsert.changes {
                return None;
            }
        }
        Some(keys.into_iter().collect())
    }

    /// The member to which each row belongs. `None` if two members have the same row, or different shared values.
    fn owners(&self, requests: &[&PlannedRequest]) -> Option<HashMap<RowKey, usize>> {
        let shared = self.shared(requests.first()?)?;
        let mut owners = HashMap::new();
        for (number, request) in requests.iter().enumerate() {
            // Different shared values may have the same hash.
            if self.shared(request)? != shared {
                return None;
            }
            for rows in &self.rows {
                if *owners.entry(rows.of(request)?).or_insert(number) != number {
                    return None;
                }
            }
        }
        Some(owners)
    }

    /// Writes `[Parse] Bind Execute`.
    fn write(&self, requests: &[&PlannedRequest], writer: &mut BatchWriter<'_>) -> Option<()> {
        let first = requests.first()?;
        let arrays = self.arrays(requests)?;
        let analyzed = writer.server.analyzed(self.id).bytes();
        let mut values = vec![(true, Some(&analyzed[..])), (false, Some(LOCK_TIMEOUT))];
        values.extend(self.shared(first)?);
        values.extend(bound(&arrays));
        let key = self.rows.first().map_or(0, RowKeys::len);
        let formats = self
            .described
            .result_formats(UPSERT_RESULT_COLUMNS + key, first);
        let statement = InjectedStatement {
            id: self.id,
            text: &self.upsert.text,
        };
        statement.write(&values, &formats, writer);
        Some(())
    }

    /// The numbers of all rows, and an array for each parameter with a value per member.
    fn arrays(&self, requests: &[&PlannedRequest]) -> Option<Vec<ArrayValue>> {
        let mut arrays = vec![Array::numbers(requests.len() * self.rows.len())];
        for parameter in &self.upsert.per_member {
            let requests = requests.iter().copied();
            arrays.push(self.described.array(&parameter.numbers, requests)?);
        }
        Some(arrays)
    }
}

impl GroupPlan for MultiRowPlan {
    fn strategy(&self) -> Strategy {
        Strategy::Merge
    }

    fn group_and_keys(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if request.template.hints().target_affect_row.is_some() {
            return None;
        }
        let mut per_member = self.upsert.per_member.iter();
        if !per_member.all(|parameter| request.is_even(&parameter.numbers)) {
            return None;
        }
        let (strategy, id) = (Strategy::Merge, self.shared_id(request)?);
        let group = self
            .described
            .group_id(strategy, id, request, self.carried())?;
        Some((group, LineKeys::MultiRow(self.line_keys(request)?)))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        _context: &BuildContext<'_>,
        mut writer: BatchWriter<'_>,
    ) -> Option<Box<dyn Batch>> {
        let result = MultiRowResult::write(self, members, &mut writer)?;
        Some(StatementBatch::send(result, writer))
    }

    fn explain(&self, lines: &mut ExplainLines, verbose: bool) {
        for key in &self.upsert.keys {
            lines.key(key);
        }
        lines.parameters("shared", self.upsert.shared.iter().copied());
        let per_member = self
            .upsert
            .per_member
            .iter()
            .flat_map(|parameter| &parameter.numbers);
        lines.parameters("own", per_member.copied());
        if verbose {
            lines.say("statement", &self.upsert.text);
        }
    }

    fn waits_for_several_rows(&self) -> bool {
        true
    }

    fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    fn rows(&self) -> Option<PlanRows<'_>> {
        Some(PlanRows {
            keys: &self.rows,
            described: &self.described,
        })
    }
}

/// The members of a group and their answers.
#[derive(Debug)]
struct MultiRowResult {
    plan: Arc<MultiRowPlan>,
    members: Vec<MultiRowMember>,
    /// The member to which each row belongs.
    owners: HashMap<RowKey, usize>,
    /// Number of rows in the result.
    rows: u64,
    /// Whether a row has a key that no member has sent.
    unknown_key: bool,
}

#[derive(Debug)]
struct MultiRowMember {
    form: RequestForm,
    answer: MemberAnswer,
}

impl MultiRowResult {
    /// Writes the statement of a group, without `Sync`.
    fn write(
        plan: Arc<MultiRowPlan>,
        requests: &[&PlannedRequest],
        writer: &mut BatchWriter<'_>,
    ) -> Option<Self> {
        let first = requests.first()?;
        let owners = plan.owners(requests)?;
        plan.write(requests, writer)?;
        let columns = plan.described.columns(first);
        let member = |request: &&PlannedRequest| MultiRowMember {
            form: request.form,
            answer: plan.described.begin_answer(request.form, &columns),
        };
        Some(Self {
            members: requests.iter().map(member).collect(),
            plan,
            owners,
            rows: 0,
            unknown_key: false,
        })
    }

    fn unknown_key_errors(&self, results: &mut Vec<MemberResult>) {
        results.extend(unknown_key_errors(self.members.iter().map(|m| m.form)));
    }
}

impl GroupResult for MultiRowResult {
    fn len(&self) -> usize {
        self.members.len()
    }

    /// Columns: catalog version unchanged, key, RETURNING.
    fn receive_row(&mut self, body: &[u8]) -> CatalogCheck {
        let values = backend::row_values(body).unwrap_or_default();
        let (Some((same, values)), Some(rows)) = (values.split_first(), self.plan.rows.first())
        else {
            return CatalogCheck::UNREADABLE;
        };
        let (key, returning) = values.split_at(rows.len().min(values.len()));
        if key.iter().all(Option::is_some) {
            self.rows += 1;
            let owner = rows.returned(key).and_then(|key| self.owners.get(&key));
            match owner.and_then(|owner| self.members.get_mut(*owner)) {
                Some(member) => member.answer.row(returning),
                None => self.unknown_key = true,
            }
        }
        CatalogCheck::read(*same)
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        if self.unknown_key {
            return self.unknown_key_errors(results);
        }
        for (number, member) in self.members.drain(..).enumerate() {
            let command = format!("INSERT 0 {}", member.answer.rows());
            results.push(MemberResult {
                member: number,
                outcome: MemberOutcome::Answer(member.answer.complete(&command)),
            });
        }
    }

    fn rows_written(&self) -> u64 {
        self.rows
    }
}

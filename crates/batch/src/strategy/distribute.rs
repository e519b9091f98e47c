//! Take and merge: one statement for all members, whose rows are distributed to them in order of arrival.
//!
//! Take adds up the limits of statements that take rows from a queue; each member gets rows in the order of the queue (see
//! [`paceline_sql::take`]). Merge inserts the rows of all members; each gets its own row (see [`paceline_sql::merge`]).

use super::array::{Array, ArrayValue, bound};
use super::batch::Batch;
use super::build_context::BuildContext;
use super::described::DescribedTemplate;
use super::explain_lines::{ExplainLines, value_text};
use super::member_answer::MemberAnswer;
use super::messages::{BatchWriter, InjectedStatement, message, read_number};
use super::outcome::{
    MemberOutcome, MemberResult, Retry, is_lock_timeout, is_refusal, retry, retry_halves,
};
use super::plan::{GroupPlan, PlannedRequest};
use super::positioned::{PassUnderway, PositionedPlan};
use super::statement_batch::{CatalogCheck, GroupResult, StatementBatch};
use super::statement_progress::StatementError;
use crate::line::{GroupId, LineKey, LineKeys};
use crate::strategy::Strategy;
use crate::template_stats::Fallback;
use paceline_relay::request::Request;
use paceline_relay::template::{Template, Templates};
use paceline_sql::KeyValue;
use paceline_sql::distribution::{DISTRIBUTION_RESULT_COLUMNS, Distribution, FEW, RollbackReason};
use paceline_wire::backend::{self, Field};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Maximum number of rows that a member of a group may ask for.
const LIMIT_MAX: u32 = 1_000;

/// The plan of a template whose rows are distributed.
#[derive(Debug)]
pub struct DistributePlan {
    distribution: Distribution,
    id: u64,
    few_id: u64,
    /// The statements for queues with positions; `None` for others.
    positioned: Option<PositionedPlan>,
    /// Hash of the template, with which the shared id begins.
    seed: u64,
    described: DescribedTemplate,
}

impl DistributePlan {
    /// Makes a plan from the analysis of the template. `None` if there are too many parameters or columns.
    pub fn new(
        template: &Template,
        distribution: Distribution,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        template.id.hash(&mut hasher);
        Some(Self {
            id: templates.new_id(),
            few_id: templates.new_id(),
            positioned: PositionedPlan::new(distribution.positioned.as_ref(), templates),
            distribution,
            seed: hasher.finish(),
            described: DescribedTemplate::new(parameters, fields)?,
        })
    }

    /// The statement of a group that asks for this number of rows.
    fn statement(&self, rows: u32, pass: Option<&PassUnderway>) -> InjectedStatement<'_> {
        if let Some((pass, plan)) = pass.zip(self.positioned.as_ref()) {
            return plan.statement(&pass.pass, rows <= FEW);
        }
        let (id, text) = match &self.distribution.text_of_few {
            Some(text) if rows <= FEW => (self.few_id, text),
            _ => (self.id, &self.distribution.text),
        };
        InjectedStatement { id, text }
    }

    /// Parameters that the statement reads, and whether each is sent as text.
    fn carried(&self) -> impl Iterator<Item = (u32, bool)> {
        let shared = self
            .distribution
            .shared
            .iter()
            .map(|number| (*number, false));
        let per_member = self.distribution.per_member.iter();
        let per_member = per_member.flat_map(|parameter| {
            parameter
                .numbers
                .iter()
                .map(|number| (*number, parameter.as_text))
        });
        shared.chain(per_member)
    }

    /// Identifies what all members have in common: the template, and the shared values. Take statements with different
    /// shared values pick different rows, so that this also identifies the queue.
    fn shared_id(&self, request: &Request) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        (self.seed, self.shared(request)?).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn shared<'a>(&self, request: &'a Request) -> Option<Vec<Option<&'a [u8]>>> {
        let numbers = self.distribution.shared.iter();
        numbers
            .map(|number| Some(request.parameter(*number)?.1))
            .collect()
    }

    /// The number of rows that a member asks for.
    fn limit(&self, request: &Request) -> Option<u32> {
        let limit = match &self.distribution.limit {
            KeyValue::Constant { text, .. } => text.parse().ok()?,
            KeyValue::Parameter(number) => match request.parameter(*number)? {
                (false, text) => std::str::from_utf8(text?).ok()?.parse().ok()?,
                (true, bytes) => u32::try_from(read_integer(bytes?)?).ok()?,
            },
        };
        let most = if self.distribution.single {
            1
        } else {
            LIMIT_MAX
        };
        (1..=most).contains(&limit).then_some(limit)
    }

    /// Whether the server rejects the statement itself. An error during execution may come from a function of the user's.
    fn is_refused(&self, error: &StatementError) -> bool {
        let raised = self.distribution.raises_anything && error.in_execution;
        is_refusal(&error.sqlstate) && !raised
    }

    /// Writes `[Parse] Bind Execute`.
    fn write(
        &self,
        requests: &[&PlannedRequest],
        members: &[DistributeMember],
        pass: Option<&PassUnderway>,
        writer: &mut BatchWriter<'_>,
    ) -> Option<()> {
        let first = requests.first()?;
        let rows = members.last()?.last;
        let total = i64::from(rows).to_be_bytes();
        let statement = self.statement(rows, pass);
        let analyzed = writer.server.analyzed(statement.id).bytes();
        let mut values: Vec<(bool, Option<&[u8]>)> =
            vec![(true, Some(&total)), (true, Some(&analyzed))];
        for number in &self.distribution.shared {
            values.push(first.parameter(*number)?);
        }
        let mut arrays = Vec::new();
        if !self.distribution.per_member.is_empty() {
            arrays.push(match self.distribution.queue {
                true => members_of_rows(members),
                false => Array::numbers(rows as usize),
            });
        }
        for parameter in &self.distribution.per_member {
            let requests = requests.iter().copied();
            arrays.push(self.described.array(&parameter.numbers, requests)?);
        }
        values.extend(bound(&arrays));
        let position = pass.into_iter().flat_map(PassUnderway::position);
        values.extend(position.map(|value| (true, Some(value))));
        let injected = self.injected_columns(pass);
        let formats = self.described.result_formats(injected, first);
        statement.write(&values, &formats, writer);
        Some(())
    }

    /// Number of result columns before RETURNING.
    fn injected_columns(&self, pass: Option<&PassUnderway>) -> usize {
        let position = self.positioned.as_ref().filter(|_| pass.is_some());
        DISTRIBUTION_RESULT_COLUMNS + position.map_or(0, PositionedPlan::columns)
    }

    /// The pass of a group; `None` if groups read the whole queue.
    fn pass(&self, request: &Request, context: &BuildContext<'_>) -> Option<PassUnderway> {
        let plan = self.positioned.as_ref()?;
        if context.queue_reorder_time.is_zero() {
            return None;
        }
        let numbers = self.distribution.shared.iter();
        let value = |number: &u32| {
            let (binary, value) = request.parameter(*number)?;
            Some((binary, value.map(<[u8]>::to_vec)))
        };
        let queue = numbers.map(value).collect::<Option<_>>()?;
        Some(plan.begin(queue, context))
    }
}

impl GroupPlan for DistributePlan {
    fn strategy(&self) -> Strategy {
        match self.distribution.queue {
            true => Strategy::Take,
            false => Strategy::Merge,
        }
    }

    fn group_and_keys(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if request.template.hints().target_affect_row.is_some() {
            return None;
        }
        self.limit(request)?;
        let mut per_member = self.distribution.per_member.iter();
        if !per_member.all(|parameter| request.is_even(&parameter.numbers)) {
            return None;
        }
        let shared_id = self.shared_id(request)?;
        let group = self
            .described
            .group_id(self.strategy(), shared_id, request, self.carried())?;
        // Inserts do not wait for each other.
        let keys = self.distribution.queue.then_some(LineKey(shared_id)).into();
        Some((group, keys))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        context: &BuildContext<'_>,
        mut writer: BatchWriter<'_>,
    ) -> Option<Box<dyn Batch>> {
        let result = DistributeResult::write(self, members, context, &mut writer)?;
        Some(StatementBatch::send(result, writer))
    }

    fn explain(&self, lines: &mut ExplainLines, verbose: bool) {
        let distribution = &self.distribution;
        if distribution.queue {
            lines.say("limit", value_text(&distribution.limit));
        }
        lines.parameters("shared", distribution.shared.iter().copied());
        let per_member = distribution
            .per_member
            .iter()
            .flat_map(|parameter| &parameter.numbers);
        lines.parameters("own", per_member.copied());
        if verbose {
            if let Some(text) = &distribution.text_of_few {
                lines.say("few rows", text);
            }
            lines.say("statement", &distribution.text);
        }
    }

    fn is_queue(&self) -> bool {
        self.distribution.queue
    }

    fn starts_at_position(&self) -> bool {
        self.positioned.is_some()
    }
}

/// The members of a group, to which the rows are distributed.
#[derive(Debug)]
struct DistributeResult {
    plan: Arc<DistributePlan>,
    members: Vec<DistributeMember>,
    /// Number of distributed rows.
    rows: u64,
    /// The pass of the group through its queue. `None` if each group reads the whole queue.
    pass: Option<PassUnderway>,
}

#[derive(Debug)]
struct DistributeMember {
    /// The number of the last row that the member may get, from 1.
    last: u32,
    answer: MemberAnswer,
}

impl DistributeResult {
    /// Writes the statement of a group, without `Sync`.
    fn write(
        plan: Arc<DistributePlan>,
        requests: &[&PlannedRequest],
        context: &BuildContext<'_>,
        writer: &mut BatchWriter<'_>,
    ) -> Option<Self> {
        let first = requests.first()?;
        let shared = plan.shared(first)?;
        let columns = plan.described.columns(first);
        let mut last = 0;
        let mut members = Vec::with_capacity(requests.len());
        for request in requests {
            // Different shared values may have the same hash.
            if plan.shared(request)? != shared {
                return None;
            }
            last += plan.limit(request)?;
            members.push(DistributeMember {
                last,
                answer: plan.described.begin_answer(request.form, &columns),
            });
        }
        let pass = plan.pass(first, context);
        plan.write(requests, &members, pass.as_ref(), writer)?;
        Some(Self {
            plan,
            members,
            rows: 0,
            pass,
        })
    }

    fn outcome(&self, member: DistributeMember) -> MemberOutcome {
        let rows = member.answer.rows();
        if rows == 0 && self.plan.distribution.may_fail_unseen {
            return MemberOutcome::Retry(Retry::Alone, Fallback::NoRow);
        }
        let command = format!("{} {rows}", self.plan.distribution.tag);
        MemberOutcome::Answer(member.answer.complete(&command))
    }
}

impl GroupResult for DistributeResult {
    fn len(&self) -> usize {
        self.members.len()
    }

    /// Columns: catalog version unchanged, number of the row, position of the first row of the group, RETURNING.
    fn receive_row(&mut self, body: &[u8]) -> CatalogCheck {
        let Ok(values) = backend::row_values(body) else {
            return CatalogCheck::UNREADABLE;
        };
        let injected = self.plan.injected_columns(self.pass.as_ref());
        let (head, returning) = values.split_at(injected.min(values.len()));
        let [same, number, ref position @ ..] = *head else {
            return CatalogCheck::UNREADABLE;
        };
        if let Some(pass) = &mut self.pass {
            pass.found(position);
        }
        if let Some(number) = read_number(number) {
            let place = self.members.partition_point(|member| member.last < number);
            if let Some(member) = self.members.get_mut(place) {
                member.answer.row(returning);
                self.rows += 1;
            }
        }
        CatalogCheck::read(same)
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        if let Some((plan, pass)) = self.plan.positioned.as_ref().zip(self.pass.take()) {
            plan.committed(pass);
        }
        let members = std::mem::take(&mut self.members);
        let members = members.into_iter().enumerate();
        results.extend(members.map(|(number, member)| MemberResult {
            member: number,
            outcome: self.outcome(member),
        }));
    }

    fn fail(&self, error: &StatementError, results: &mut Vec<MemberResult>) {
        let members = self.len();
        let reason = match rollback_reason(error) {
            _ if self.plan.is_refused(error) => Fallback::Refused,
            Some(RollbackReason::RowGone) => {
                return results.extend(retry_halves(members, Fallback::Busy));
            }
            Some(RollbackReason::Uncertain) => Fallback::Uncertain,
            None if is_lock_timeout(&error.sqlstate) => Fallback::Timeout,
            None => return results.extend(retry_halves(members, Fallback::Error)),
        };
        results.extend(retry(0..members, Retry::Alone, reason));
    }

    fn refusal(&self, error: &StatementError) -> Option<String> {
        match rollback_reason(error) {
            Some(RollbackReason::RowGone) => None,
            Some(RollbackReason::Uncertain) => {
                Some("rows that were taken can be picked again".to_owned())
            }
            None => error.refusal().filter(|_| self.plan.is_refused(error)),
        }
    }

    /// The statement writes each distributed row once.
    fn rows_written(&self) -> u64 {
        self.rows
    }
}

/// The number of the member, from 1, to which each row belongs.
fn members_of_rows(members: &[DistributeMember]) -> ArrayValue {
    let rows = members.last().map_or(0, |member| member.last);
    let mut array = Array::int4(rows as usize);
    let mut first = 0;
    for (place, member) in members.iter().enumerate() {
        (first..member.last).for_each(|_| array.push_int(place + 1));
        first = member.last;
    }
    array.finish()
}

/// A binary integer of any width.
fn read_integer(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a, b] => Some(i16::from_be_bytes([a, b]).into()),
        [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
        _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

fn rollback_reason(error: &StatementError) -> Option<RollbackReason> {
    Distribution::rollback_reason(&error.sqlstate, &message(&error.response)?)
}

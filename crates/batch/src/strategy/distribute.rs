//! Take and merge: many members become one statement whose rows are dealt to them in order of arrival. Consumers of a
//! queue have their limits added up and get rows in the queue's order (see [`paceline_sql::take`]); of inserts each
//! member gets its own row (see [`paceline_sql::merge`]).

use super::array::Array;
use super::batch::Batch;
use super::messages::{
    FORMATS_MAX, message, parameter_bits, result_bits, result_formats, write_columns, write_head,
    write_tail,
};
use super::outcome::Invalidation;
use super::outcome::{
    MemberOutcome, MemberResult, Retry, is_lock_timeout, is_refusal, retry, retry_halves,
};
use super::plan::{GroupPlan, PlannedRequest, Rewritten};
use super::prelude::Prelude;
use super::progress::{StatementEvent, StatementProgress, refusal};
use crate::line::{GroupId, LineKey, LineKeys, Strategy};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, Preparable, ServerSide};
use paceline_relay::template::{Template, Templates};
use paceline_sql::KeyValue;
use paceline_sql::dealing::{Dealing, FEW, RESULT_COLUMNS};
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::{Frame, frontend};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Most rows that one member may ask for and still travel with others.
const LIMIT_MAX: u32 = 1_000;

/// How the units of a template travel, as learned from the catalog.
#[derive(Debug)]
pub struct DistributePlan {
    dealing: Dealing,
    id: u64,
    few_id: u64,
    /// What the name of a queue starts with.
    seed: u64,
    fingerprints: Vec<String>,
    /// OIDs of the template's parameters.
    parameters: Vec<u32>,
    /// RETURNING columns.
    fields: Vec<Field>,
}

impl DistributePlan {
    /// A plan from what PostgreSQL said of the template, and the fingerprints of what it said that of.
    pub fn new(
        template: &Template,
        dealing: Dealing,
        fingerprints: Vec<String>,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        let fits = parameters.len() <= FORMATS_MAX && fields.len() <= FORMATS_MAX;
        let mut hasher = DefaultHasher::new();
        template.id.hash(&mut hasher);
        fits.then(|| Self {
            dealing,
            id: templates.new_id(),
            few_id: templates.new_id(),
            seed: hasher.finish(),
            fingerprints,
            parameters,
            fields,
        })
    }

    /// What a group that asks for so many rows becomes.
    fn statement(&self, rows: u32) -> Preparable<'_> {
        let (id, text) = match &self.dealing.text_of_few {
            Some(text) if rows <= FEW => (self.few_id, text),
            _ => (self.id, &self.dealing.text),
        };
        Preparable {
            id,
            text,
            types: &[0, 0],
        }
    }

    /// Parameters that travel, and whether as text.
    fn carried(&self) -> impl Iterator<Item = (u32, bool)> {
        let shared = self.dealing.shared.iter().map(|number| (*number, false));
        let own = self.dealing.own.iter();
        let own = own.flat_map(|own| own.numbers.iter().map(|number| (*number, own.as_text)));
        shared.chain(own)
    }

    fn shared<'a>(&self, request: &'a Request) -> Option<Vec<Option<&'a [u8]>>> {
        let numbers = self.dealing.shared.iter();
        numbers
            .map(|number| Some(request.parameter(*number)?.1))
            .collect()
    }

    /// How many rows a member asks for.
    fn limit(&self, request: &Request) -> Option<u32> {
        let limit = match &self.dealing.limit {
            KeyValue::Constant { text, .. } => text.parse().ok()?,
            KeyValue::Parameter(number) => match request.parameter(*number)? {
                (false, text) => std::str::from_utf8(text?).ok()?.parse().ok()?,
                (true, bytes) => u32::try_from(read_integer(bytes?)?).ok()?,
            },
        };
        let most = if self.dealing.single { 1 } else { LIMIT_MAX };
        (1..=most).contains(&limit).then_some(limit)
    }
}

impl GroupPlan for DistributePlan {
    fn strategy(&self) -> Strategy {
        match self.dealing.queue {
            true => Strategy::Take,
            false => Strategy::Merge,
        }
    }

    fn fits(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if request.template.hints().target_affect_row.is_some() {
            return None;
        }
        let parameter_formats = parameter_bits(request, &self.parameters, self.carried())?;
        self.limit(request)?;
        let mut own = self.dealing.own.iter();
        if !own.all(|own| request.is_even(&own.numbers)) {
            return None;
        }
        // The values that decide which rows are picked are part of the queue's name.
        let mut hasher = DefaultHasher::new();
        (self.seed, self.shared(request)?).hash(&mut hasher);
        let queue = hasher.finish();
        let group = GroupId {
            strategy: self.strategy(),
            template: queue,
            settings: request.settings.id,
            parameter_formats,
            result_formats: result_bits(request, &self.fields)?,
            cohort: 0,
        };
        // Inserts do not stand in one another's way.
        Some((group, self.dealing.queue.then_some(LineKey(queue)).into()))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        _prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Box<dyn Batch>> {
        Some(Box::new(DistributeBatch::build(
            self, members, server, out,
        )?))
    }

    fn rewritten(&self) -> Rewritten<'_> {
        Rewritten::Distribute(&self.dealing)
    }

    /// Its members take from a queue.
    fn is_queue(&self) -> bool {
        self.dealing.queue
    }
}

/// A group on its way.
#[derive(Debug)]
pub struct DistributeBatch {
    plan: Arc<DistributePlan>,
    members: Vec<DistributeMember>,
    /// Rows that were dealt.
    rows: u64,
    progress: StatementProgress,
}

#[derive(Debug)]
struct DistributeMember {
    form: Form,
    /// The number of its last row.
    last: u32,
    rows: u32,
    answer: BytesMut,
}

impl Batch for DistributeBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        match self.progress.receive(frame, server) {
            StatementEvent::Row => self.receive_row(frame.body()),
            StatementEvent::End => self.finish(results),
            StatementEvent::Other => {}
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    /// The tables have changed, the statement is refused, or one at a time would have come out otherwise.
    fn invalidation(&self) -> Option<Invalidation> {
        self.progress.invalidation(|sqlstate, error| match () {
            () if is_gone(sqlstate, error) => None,
            () if is_uncertain(sqlstate, error) => {
                Some("rows that were taken can be picked again".to_owned())
            }
            () => self.is_refused(sqlstate).then(|| refusal(sqlstate)),
        })
    }

    fn failed(&self) -> bool {
        self.progress.error().is_some()
    }

    /// Each row that was dealt was written once.
    fn rows_written(&self) -> u64 {
        self.rows
    }
}

impl DistributeBatch {
    fn build(
        plan: Arc<DistributePlan>,
        members: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let first = members.first()?;
        let shared = plan.shared(first)?;
        let mut last = 0;
        let mut all = Vec::with_capacity(members.len());
        for request in members {
            // Two queues may have the same hash.
            if plan.shared(request)? != shared {
                return None;
            }
            last += plan.limit(request)?;
            let mut answer = BytesMut::new();
            write_head(request.form, &mut answer);
            all.push(DistributeMember {
                form: request.form,
                last,
                rows: 0,
                answer,
            });
        }
        let mut injected = Injected::default();
        let statement = plan.statement(last);
        injected.push(server.ensure(statement, out));
        plan.write_bind(members, &all, &server.name(statement.id), out)?;
        frontend::write_execute(out);
        frontend::write_sync(out);
        injected.push_sync();
        let mut fields = BytesMut::new();
        write_columns(&plan.fields, first.result_formats(), &mut fields);
        for member in &mut all {
            if member.form.is_described(!plan.fields.is_empty()) {
                member.answer.extend_from_slice(&fields);
            }
        }
        Some(Self {
            plan,
            members: all,
            rows: 0,
            progress: StatementProgress::new(injected),
        })
    }

    /// The error speaks against the statement itself.
    fn is_refused(&self, sqlstate: &str) -> bool {
        let raised = self.plan.dealing.raises_anything && self.progress.has_begun();
        is_refusal(sqlstate) && !raised
    }

    /// A row of the result: facts unchanged?, its number, RETURNING.
    fn receive_row(&mut self, body: &[u8]) {
        let Ok(values) = backend::row_values(body) else {
            return;
        };
        let (head, returning) = values.split_at(RESULT_COLUMNS.min(values.len()));
        let [same, number] = head else {
            return;
        };
        self.progress.facts_changed |= *same != Some(&[1][..]);
        let number = number.and_then(|n| <[u8; 4]>::try_from(n).ok());
        let Some(number) = number.map(u32::from_be_bytes) else {
            return;
        };
        let place = self.members.partition_point(|member| member.last < number);
        if let Some(member) = self.members.get_mut(place) {
            member.rows += 1;
            self.rows += 1;
            if !self.plan.fields.is_empty() {
                backend::write_row(&mut member.answer, returning.iter().copied());
            }
        }
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let members = self.members.len();
        if let Some((sqlstate, error)) = self.progress.error() {
            let why = if self.is_refused(sqlstate) {
                Fallback::Refused
            } else if is_gone(sqlstate, error) {
                return results.extend(retry_halves(members, Fallback::Busy));
            } else if is_uncertain(sqlstate, error) {
                Fallback::Uncertain
            } else if is_lock_timeout(sqlstate) {
                Fallback::Timeout
            } else {
                return results.extend(retry_halves(members, Fallback::Error));
            };
            return results.extend(retry(0..members, Retry::Alone, why));
        }
        if self.progress.facts_changed {
            return results.extend(retry(0..members, Retry::Alone, Fallback::Ddl));
        }
        for (
            member,
            DistributeMember {
                rows, mut answer, ..
            },
        ) in self.members.drain(..).enumerate()
        {
            let unseen = rows == 0 && self.plan.dealing.may_fail_unseen;
            let outcome = match unseen {
                true => MemberOutcome::Retry(Retry::Alone, Fallback::NoRow),
                false => {
                    let tag = format!("{} {rows}", self.plan.dealing.tag);
                    backend::write_command_complete(&mut answer, &tag);
                    write_tail(&mut answer);
                    MemberOutcome::Answer(answer.freeze())
                }
            };
            results.push(MemberResult { member, outcome });
        }
    }
}

impl DistributePlan {
    fn write_bind(
        &self,
        requests: &[&PlannedRequest],
        members: &[DistributeMember],
        name: &str,
        out: &mut BytesMut,
    ) -> Option<()> {
        let first = requests.first()?;
        let total = i64::from(members.last()?.last).to_be_bytes();
        let mut values: Vec<(bool, Option<&[u8]>)> = vec![(true, Some(&total))];
        values.extend(
            self.fingerprints
                .iter()
                .map(|print| (false, Some(print.as_bytes()))),
        );
        for number in &self.dealing.shared {
            values.push(first.parameter(*number)?);
        }
        let mut arrays = Vec::new();
        if !self.dealing.own.is_empty() {
            arrays.push(match self.dealing.queue {
                true => members_of_rows(members),
                false => numbers_of_rows(members),
            });
        }
        for own in &self.dealing.own {
            let number = *own.numbers.first()?;
            let (binary, _) = first.parameter(number)?;
            let oid = *self.parameters.get(number as usize - 1)?;
            let mut array = Array::new(binary, oid, requests.len() * own.numbers.len());
            for request in requests {
                for number in &own.numbers {
                    array.push(request.parameter(*number)?.1);
                }
            }
            arrays.push(array.finish());
        }
        let arrays = arrays.iter();
        values.extend(arrays.map(|(binary, bytes)| (*binary, Some(&**bytes))));
        let mut formats = vec![1; RESULT_COLUMNS];
        formats.extend(result_formats(first, self.fields.len()));
        frontend::write_bind(out, name.as_bytes(), &values, &formats);
        Some(())
    }
}

/// The member (from 1) of each row.
fn members_of_rows(members: &[DistributeMember]) -> (bool, Vec<u8>) {
    let rows = members.last().map_or(0, |member| member.last);
    let mut array = Array::int4(rows as usize);
    let mut first = 0;
    for (place, member) in members.iter().enumerate() {
        (first..member.last).for_each(|_| array.push_int(place + 1));
        first = member.last;
    }
    array.finish()
}

/// Each row counted from 1.
fn numbers_of_rows(members: &[DistributeMember]) -> (bool, Vec<u8>) {
    let rows = members.last().map_or(0, |member| member.last as usize);
    let mut array = Array::int4(rows);
    (1..=rows).for_each(|number| array.push_int(number));
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

fn is_gone(sqlstate: &str, error: &[u8]) -> bool {
    message(error).is_some_and(|message| Dealing::is_gone(sqlstate, &message))
}

fn is_uncertain(sqlstate: &str, error: &[u8]) -> bool {
    message(error).is_some_and(|message| Dealing::is_uncertain(sqlstate, &message))
}

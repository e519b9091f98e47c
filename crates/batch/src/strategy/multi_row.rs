//! Upserts of several rows each: one statement with the rows of all members (see
//! [`paceline_sql::merge::upsert::Several`]). No two members have a row with the same key: the line sees to that, as each
//! waits for all of its rows.

use super::array::Array;
use super::batch::Batch;
use super::messages::{
    FORMATS_MAX, parameter_bits, result_bits, result_formats, unknown_key_errors, write_columns,
    write_head, write_tail,
};
use super::outcome::Invalidation;
use super::outcome::{
    MemberOutcome, MemberResult, Retry, fallback_reason, is_refusal, retry, retry_halves,
};
use super::plan::{GroupPlan, PlanRows, PlannedRequest, ProbePlan, Rewritten};
use super::prelude::Prelude;
use super::progress::{StatementEvent, StatementProgress, refusal};
use super::row::{RowKey, RowKeys};
use crate::line::{GroupId, LineKey, LineKeys, Strategy};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use foldhash::{HashMap, HashMapExt};
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, Preparable, ServerSide};
use paceline_relay::template::{Template, Templates};
use paceline_sql::TableFacts;
use paceline_sql::merge::upsert::{RESULT_COLUMNS, Several};
use paceline_wire::backend::{self, Field};
use paceline_wire::{Frame, frontend};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A parameter: is it in binary format, and its bytes.
type BoundValue<'a> = (bool, Option<&'a [u8]>);

/// Longest wait for a lock that perhaps only another member needs: the shortest there is, as each row may be waited for.
const PATIENCE: &[u8] = b"1ms";

/// How the units of a template travel, as learned from the catalog.
#[derive(Debug)]
pub struct MultiRowPlan {
    several: Several,
    template: u64,
    id: u64,
    probe: Option<ProbePlan>,
    /// Row by row.
    rows: Vec<RowKeys>,
    fingerprint: String,
    /// OIDs of the template's parameters.
    parameters: Vec<u32>,
    /// RETURNING columns.
    fields: Vec<Field>,
}

impl MultiRowPlan {
    /// A plan from what PostgreSQL said of the template and its table.
    pub fn new(
        template: &Template,
        several: Several,
        table: &TableFacts,
        parameters: Vec<u32>,
        fields: Vec<Field>,
        templates: &Templates,
    ) -> Option<Self> {
        let fits = parameters.len() <= FORMATS_MAX && fields.len() <= FORMATS_MAX;
        let keys_of_row = |columns: &Vec<_>| RowKeys::new(columns, table, &parameters);
        let rows: Vec<RowKeys> = several.keys.iter().map(keys_of_row).collect();
        fits.then(|| Self {
            template: template.id,
            id: templates.new_id(),
            probe: ProbePlan::new(several.probe.as_ref(), &[], templates),
            rows,
            several,
            fingerprint: table.fingerprint.value.clone(),
            parameters,
            fields,
        })
    }

    /// Parameters that travel, and whether as text.
    fn carried(&self) -> impl Iterator<Item = (u32, bool)> {
        let shared = self.several.shared.iter().map(|number| (*number, false));
        let own = self.several.own.iter();
        shared.chain(own.flat_map(|own| own.numbers.iter().map(|number| (*number, own.as_text))))
    }

    /// What members have in common: the template, and the values of DO UPDATE.
    fn company(&self, request: &Request) -> Option<u64> {
        let shared = self.shared(request)?;
        if shared.is_empty() {
            return Some(self.template);
        }
        let mut hasher = DefaultHasher::new();
        (self.template, shared).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn shared<'a>(&self, request: &'a Request) -> Option<Vec<BoundValue<'a>>> {
        let numbers = self.several.shared.iter();
        numbers.map(|number| request.parameter(*number)).collect()
    }

    /// The rows of a unit as the line knows them. `None`: one has no key that can be told apart, or for DO UPDATE two have
    /// the same: PostgreSQL has an error for that.
    fn line_keys(&self, request: &Request) -> Option<Arc<[LineKey]>> {
        let mut distinct = BTreeSet::new();
        let mut keys = BTreeSet::new();
        for keys_of_row in &self.rows {
            let row = keys_of_row.of(request)?;
            if keys_of_row.may_be_trimmed(&row) {
                return None;
            }
            keys.insert(keys_of_row.line_key(&row));
            if !distinct.insert(row) && self.several.changes {
                return None;
            }
        }
        Some(keys.into_iter().collect())
    }
}

impl GroupPlan for MultiRowPlan {
    fn strategy(&self) -> Strategy {
        Strategy::Merge
    }

    fn fits(&self, request: &Request) -> Option<(GroupId, LineKeys)> {
        if request.template.hints().target_affect_row.is_some() {
            return None;
        }
        let parameter_formats = parameter_bits(request, &self.parameters, self.carried())?;
        let mut own = self.several.own.iter();
        if !own.all(|own| request.is_even(&own.numbers)) {
            return None;
        }
        let group = GroupId {
            strategy: Strategy::Merge,
            template: self.company(request)?,
            settings: request.settings.id,
            parameter_formats,
            result_formats: result_bits(request, &self.fields)?,
            cohort: 0,
        };
        Some((group, LineKeys::Many(self.line_keys(request)?)))
    }

    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        _prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Box<dyn Batch>> {
        Some(Box::new(MultiRowBatch::build(self, members, server, out)?))
    }

    fn rewritten(&self) -> Rewritten<'_> {
        Rewritten::Several(&self.several)
    }

    fn is_of_several_rows(&self) -> bool {
        true
    }

    fn probe(&self) -> Option<&ProbePlan> {
        self.probe.as_ref()
    }

    fn rows(&self) -> Option<PlanRows<'_>> {
        Some(PlanRows {
            keys: &self.rows,
            parameters: &self.parameters,
            fingerprint: &self.fingerprint,
        })
    }
}

/// A group on its way.
#[derive(Debug)]
pub struct MultiRowBatch {
    plan: Arc<MultiRowPlan>,
    members: Vec<MultiRowMember>,
    /// Whose row it is.
    owners: HashMap<RowKey, usize>,
    /// Rows that came back.
    rows: u64,
    /// A row came back that is nobody's.
    unknown_key: bool,
    progress: StatementProgress,
}

#[derive(Debug)]
struct MultiRowMember {
    form: Form,
    rows: u32,
    answer: BytesMut,
}

impl Batch for MultiRowBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        match self.progress.receive(frame, server) {
            StatementEvent::Row => self.receive_row(frame.body()),
            StatementEvent::End => {
                self.finish(results);
                return true;
            }
            StatementEvent::Other => {}
        }
        false
    }

    /// The table has changed, or the statement is refused.
    fn invalidation(&self) -> Option<Invalidation> {
        let refused = |sqlstate: &str, _: &[u8]| is_refusal(sqlstate).then(|| refusal(sqlstate));
        self.progress.invalidation(refused)
    }

    fn failed(&self) -> bool {
        self.progress.error().is_some()
    }

    /// Rows that were inserted or changed.
    fn rows_written(&self) -> u64 {
        self.rows
    }
}

impl MultiRowBatch {
    fn build(
        plan: Arc<MultiRowPlan>,
        requests: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let first = requests.first()?;
        let owners = plan.owners(requests)?;
        let mut injected = Injected::default();
        plan.write(requests, server, &mut injected, out)?;
        frontend::write_sync(out);
        injected.push_sync();
        let mut fields = BytesMut::new();
        write_columns(&plan.fields, first.result_formats(), &mut fields);
        let member = |request: &&PlannedRequest| {
            let mut answer = BytesMut::new();
            write_head(request.form, &mut answer);
            if request.form.is_described(!plan.fields.is_empty()) {
                answer.extend_from_slice(&fields);
            }
            MultiRowMember {
                form: request.form,
                rows: 0,
                answer,
            }
        };
        Some(Self {
            members: requests.iter().map(member).collect(),
            plan,
            owners,
            rows: 0,
            unknown_key: false,
            progress: StatementProgress::new(injected),
        })
    }

    /// A row of the result: facts unchanged?, key, RETURNING.
    fn receive_row(&mut self, body: &[u8]) {
        let values = backend::row_values(body).unwrap_or_default();
        let Some((same, values)) = values.split_first() else {
            return;
        };
        self.progress.facts_changed |= *same != Some(&[1][..]);
        let Some(rows) = self.plan.rows.first() else {
            return;
        };
        let (key, returning) = values.split_at(rows.len().min(values.len()));
        if key.iter().any(Option::is_none) {
            return;
        }
        self.rows += 1;
        let owner = rows.returned(key).and_then(|key| self.owners.get(&key));
        match owner.and_then(|owner| self.members.get_mut(*owner)) {
            Some(member) => {
                member.rows += 1;
                if !self.plan.fields.is_empty() {
                    backend::write_row(&mut member.answer, returning.iter().copied());
                }
            }
            None => self.unknown_key = true,
        }
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let members = self.members.len();
        if let Some((sqlstate, _)) = self.progress.error() {
            if is_refusal(sqlstate) {
                return results.extend(retry(0..members, Retry::Alone, Fallback::Refused));
            }
            // An outsider's row concerns those who have it, too.
            return results.extend(retry_halves(members, fallback_reason(sqlstate)));
        }
        if self.unknown_key {
            return results.extend(unknown_key_errors(
                self.members.iter().map(|member| member.form),
            ));
        }
        if self.progress.facts_changed {
            return results.extend(retry(0..members, Retry::Alone, Fallback::Ddl));
        }
        for (number, mut member) in self.members.drain(..).enumerate() {
            let tag = format!("INSERT 0 {}", member.rows);
            backend::write_command_complete(&mut member.answer, &tag);
            write_tail(&mut member.answer);
            results.push(MemberResult {
                member: number,
                outcome: MemberOutcome::Answer(member.answer.freeze()),
            });
        }
    }
}

impl MultiRowPlan {
    /// Whose row is whose. `None`: two members are on one row, or another member's values are shared.
    fn owners(&self, requests: &[&PlannedRequest]) -> Option<HashMap<RowKey, usize>> {
        let shared = self.shared(requests.first()?)?;
        let mut owners = HashMap::new();
        for (number, request) in requests.iter().enumerate() {
            // Two companies may have the same hash.
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

    /// Writes the statement, without `Sync`.
    fn write(
        &self,
        requests: &[&PlannedRequest],
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) -> Option<()> {
        let first = requests.first()?;
        let statement = Preparable {
            id: self.id,
            text: &self.several.text,
            types: &[0, 0],
        };
        injected.push(server.ensure(statement, out));
        let mut values = vec![
            (false, Some(self.fingerprint.as_bytes())),
            (false, Some(PATIENCE)),
        ];
        values.extend(self.shared(first)?);
        let arrays = self.arrays(requests)?;
        let arrays = arrays.iter();
        values.extend(arrays.map(|(binary, bytes)| (*binary, Some(&**bytes))));
        let key = self.rows.first().map_or(0, RowKeys::len);
        let mut formats = vec![1; RESULT_COLUMNS + key];
        formats.extend(result_formats(first, self.fields.len()));
        let name = server.name(self.id);
        frontend::write_bind(out, name.as_bytes(), &values, &formats);
        frontend::write_execute(out);
        Some(())
    }

    /// The numbers of all rows, and an array for each parameter that members have of their own.
    fn arrays(&self, requests: &[&PlannedRequest]) -> Option<Vec<(bool, Vec<u8>)>> {
        let rows = requests.len() * self.rows.len();
        let mut numbers = Array::int4(rows);
        (1..=rows).for_each(|number| numbers.push_int(number));
        let mut arrays = vec![numbers.finish()];
        for own in &self.several.own {
            let number = *own.numbers.first()?;
            let (binary, _) = requests.first()?.parameter(number)?;
            let oid = *self.parameters.get(number as usize - 1)?;
            let mut array = Array::new(binary, oid, rows);
            for request in requests {
                for number in &own.numbers {
                    array.push(request.parameter(*number)?.1);
                }
            }
            arrays.push(array.finish());
        }
        Some(arrays)
    }
}

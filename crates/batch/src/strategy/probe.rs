//! Probe: one read for many requests that wait for rows, which finds those that PostgreSQL would answer without the row lock.
//! It takes no row lock and changes nothing; the requests stay in the line meanwhile.
//!
//! Exactness: PostgreSQL evaluates WHERE on the committed version of a row before it locks the row. If WHERE is not true there, the
//! UPDATE is complete with `UPDATE 0`. If the key of INSERT … ON CONFLICT DO NOTHING exists, the INSERT does nothing, unless another
//! transaction is changing that key; such a request leaves alone, so PostgreSQL decides. Every other request would wait.

use super::array::Array;
use super::plan::{PlanRows, PlannedRequest, ProbePlan, UnmetGuards};
use super::progress::{StatementEvent, StatementProgress};
use super::row::{RowKey, RowKeys};
use bytes::{Bytes, BytesMut};
use paceline_relay::server::{Injected, Preparable, ServerSide};
use paceline_wire::backend::{self, tag};
use paceline_wire::{Frame, frontend};

#[cfg(test)]
mod tests;

/// What a probe says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// PostgreSQL would make it wait.
    Waits,
    /// PostgreSQL would give this answer.
    Answer(Bytes),
    /// PostgreSQL would probably not make it wait: it leaves alone.
    Leaves,
}

impl ProbePlan {
    /// Writes the read without `Sync`: keys of all requests, fingerprint, parameters.
    fn write(
        &self,
        keys: &ProbeKeys<'_>,
        requests: &[&PlannedRequest],
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) -> Option<()> {
        let statement = Preparable {
            id: self.id,
            text: &self.text,
            types: &[0, 0],
        };
        injected.push(server.ensure(statement, out));
        let mut arrays = keys.arrays()?;
        arrays.push((false, keys.fingerprint.as_bytes().to_vec()));
        for carried in &self.carried {
            let (binary, _) = requests.first()?.parameter(carried.parameter)?;
            let oid = *keys.parameters.get(carried.parameter as usize - 1)?;
            let mut array = Array::new(binary, oid, requests.len());
            for request in requests {
                array.push(request.parameter(carried.parameter)?.1);
            }
            arrays.push(array.finish());
        }
        let values = arrays.iter();
        let values: Vec<_> = values
            .map(|(binary, bytes)| (*binary, Some(&**bytes)))
            .collect();
        frontend::write_bind(out, server.name(self.id).as_bytes(), &values, &[1]);
        frontend::write_execute(out);
        Some(())
    }
}

/// ProbeKeys of the requests' rows, in order; all requests have the same number of rows.
struct ProbeKeys<'a> {
    rows: Vec<RowKey>,
    columns: &'a RowKeys,
    parameters: &'a [u32],
    fingerprint: &'a str,
}

impl<'a> ProbeKeys<'a> {
    fn of(plan: &PlanRows<'a>, requests: &[&PlannedRequest]) -> Option<Self> {
        let keys = || plan.keys.iter();
        let of_request =
            |request: &&'_ PlannedRequest| keys().map(|key| key.of(request)).collect::<Vec<_>>();
        let rows: Option<Vec<RowKey>> = requests.iter().flat_map(of_request).collect();
        Some(Self {
            rows: rows?,
            columns: plan.keys.first()?,
            parameters: plan.parameters,
            fingerprint: plan.fingerprint,
        })
    }

    /// An array for each column.
    fn arrays(&self) -> Option<Vec<(bool, Vec<u8>)>> {
        let oids = self.columns.type_oids().enumerate();
        let array = |(place, oid): (usize, u32)| {
            let binary = self.rows.first()?.get(place)?.binary;
            let mut array = Array::new(binary, oid, self.rows.len());
            for row in &self.rows {
                array.push(row.get(place).map(|part| &*part.bytes));
            }
            Some(array.finish())
        };
        oids.map(array).collect()
    }
}

/// A probe in flight.
#[derive(Debug)]
pub struct Probe {
    asked: ProbeKind,
    /// Number of rows of each request that the read has found.
    met: Vec<usize>,
    /// Rows per request.
    rows_each: usize,
    same: bool,
    progress: StatementProgress,
}

/// How the result is read.
#[derive(Debug)]
enum ProbeKind {
    /// A request without a row gets its answer from here.
    Guards(UnmetGuards),
    /// A request whose rows all exist leaves alone.
    Keys,
}

impl Probe {
    /// Writes the probe of requests that share one (see [`crate::line::WaitSpec::probe`]). Their settings must be in force on the
    /// server. `None`: they have no probe.
    pub fn build(
        requests: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let before = out.len();
        let probe = Self::write(requests, server, out);
        if probe.is_none() && out.len() > before {
            out.truncate(before);
            server.retire_all();
        }
        probe
    }

    fn write(
        requests: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let plan = requests.first()?.plan.as_ref()?;
        let probe = plan.probe()?;
        let keys = ProbeKeys::of(&plan.rows()?, requests)?;
        let rows_each = keys.rows.len() / requests.len();
        let mut injected = Injected::default();
        probe.write(&keys, requests, server, &mut injected, out)?;
        frontend::write_sync(out);
        injected.push_sync();
        Some(Self {
            asked: plan
                .unmet_guards(requests)
                .map_or(ProbeKind::Keys, ProbeKind::Guards),
            met: vec![0; requests.len()],
            rows_each,
            same: false,
            progress: StatementProgress::new(injected),
        })
    }

    /// Takes a message from the server. Returns true when the probe is complete.
    pub fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> bool {
        if self.progress.receive(frame, server) == StatementEvent::Row {
            self.receive_row(frame.body());
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    /// A row of the result: whether the facts are unchanged, number of a key whose row exists.
    fn receive_row(&mut self, body: &[u8]) {
        let values = backend::row_values(body).unwrap_or_default();
        let [same, number] = *values.as_slice() else {
            return;
        };
        self.same = same == Some(&[1][..]);
        let number = number.and_then(|n| <[u8; 4]>::try_from(n).ok());
        let place =
            number.and_then(|n| usize::try_from(u32::from_be_bytes(n)).ok()?.checked_sub(1));
        if let Some(met) = place.and_then(|place| self.met.get_mut(place / self.rows_each)) {
            *met += 1;
        }
    }

    /// The table has changed: what was learned of the template no longer holds.
    pub fn facts_changed(&self) -> bool {
        match self.progress.error() {
            None => !self.same,
            Some((sqlstate, _)) => is_of_class(sqlstate, &OF_STATEMENT),
        }
    }

    /// A request among others may be at fault for the error: each half of them must be probed by itself.
    pub fn must_be_halved(&self) -> bool {
        self.met.len() > 1 && self.is_refused()
    }

    /// PostgreSQL refuses the read for what a request says.
    fn is_refused(&self) -> bool {
        let error = self.progress.error();
        error.is_some_and(|(sqlstate, _)| {
            !is_of_class(sqlstate, &OF_STATEMENT) && !is_of_class(sqlstate, &OF_THE_MOMENT)
        })
    }

    /// What the probe says of each request. If the table has changed, all of them leave. So does a single one that the server
    /// refuses: PostgreSQL may refuse the request without waiting for its row.
    pub fn results(&self) -> Vec<ProbeOutcome> {
        let leaves = self.facts_changed() || self.is_refused();
        let failed = self.progress.error().is_some();
        let outcome = |(place, met): (usize, &usize)| match &self.asked {
            _ if leaves => ProbeOutcome::Leaves,
            _ if failed => ProbeOutcome::Waits,
            ProbeKind::Guards(_) if *met > 0 => ProbeOutcome::Waits,
            ProbeKind::Guards(guards) if guards.may_fail_unseen => ProbeOutcome::Leaves,
            ProbeKind::Guards(guards) => guards
                .answers
                .get(place)
                .cloned()
                .map_or(ProbeOutcome::Waits, ProbeOutcome::Answer),
            ProbeKind::Keys if *met == self.rows_each => ProbeOutcome::Leaves,
            ProbeKind::Keys => ProbeOutcome::Waits,
        };
        self.met.iter().enumerate().map(outcome).collect()
    }
}

/// Classes of errors (PostgreSQL's appendix of error codes) of the statement itself, whatever its values: names, rights, plans.
const OF_STATEMENT: [&str; 4] = ["0A", "26", "3F", "42"];

/// Of a connection, a time-out, a cancel request, a lock or a lack of something, which another statement may meet as well.
const OF_THE_MOMENT: [&str; 9] = ["08", "25", "40", "53", "54", "55", "57", "58", "XX"];

fn is_of_class(sqlstate: &str, classes: &[&str]) -> bool {
    classes.iter().any(|class| sqlstate.starts_with(class))
}

//! Probe: one read for many requests that wait for rows, which finds those that PostgreSQL would answer without the row lock.
//! It takes no row lock and changes nothing; the requests stay in the line meanwhile.
//!
//! Exactness: PostgreSQL evaluates WHERE on the committed version of a row before it locks the row. If WHERE is not true there, the
//! UPDATE is complete with `UPDATE 0`. If the key of INSERT … ON CONFLICT DO NOTHING exists, the INSERT does nothing, unless another
//! transaction is changing that key; such a request leaves alone, so PostgreSQL decides. Every other request would wait.

use super::array::{Array, ArrayValue, bound};
use super::messages::{BatchWriter, read_place};
use super::plan::{PlanRows, PlannedRequest, ProbePlan, UnmetGuards};
use super::row_key::RowKey;
use super::statement_batch::{AnalysisNotes, CatalogCheck};
use super::statement_progress::{StatementEvent, StatementProgress};
use bytes::{Bytes, BytesMut};
use paceline_relay::server::ServerSide;
use paceline_wire::Frame;
use paceline_wire::backend;

#[cfg(test)]
mod tests;

/// The outcome of a probe for a request.
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
    /// Writes the read without `Sync`. Parameters: the keys of all requests, the time of the analysis, the carried parameters.
    fn write(
        &self,
        keys: &ProbeKeys<'_>,
        requests: &[&PlannedRequest],
        writer: &mut BatchWriter<'_>,
    ) -> Option<()> {
        let mut arrays = keys.arrays()?;
        arrays.push((
            true,
            writer.server.analyzed(self.statement().id).bytes().to_vec(),
        ));
        for carried in &self.carried {
            let requests = requests.iter().copied();
            let described = keys.plan.described;
            arrays.push(described.array(&[carried.parameter], requests)?);
        }
        let values: Vec<_> = bound(&arrays).collect();
        self.statement().write(&values, &[1], writer);
        Some(())
    }
}

/// Keys of the requests' rows, in order; all requests have the same number of rows.
struct ProbeKeys<'a> {
    rows: Vec<RowKey>,
    plan: PlanRows<'a>,
}

impl<'a> ProbeKeys<'a> {
    fn of(plan: PlanRows<'a>, requests: &[&PlannedRequest]) -> Option<Self> {
        let of_request = |request: &&'_ PlannedRequest| {
            let keys = plan.keys.iter();
            keys.map(|key| key.of(request)).collect::<Vec<_>>()
        };
        let rows: Option<Vec<RowKey>> = requests.iter().flat_map(of_request).collect();
        Some(Self { rows: rows?, plan })
    }

    /// An array for each column.
    fn arrays(&self) -> Option<Vec<ArrayValue>> {
        let oids = self.plan.keys.first()?.type_oids().enumerate();
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
    analysis: AnalysisNotes,
    progress: StatementProgress,
}

/// The meaning of the result.
#[derive(Debug)]
enum ProbeKind {
    /// A request without a row gets its answer from here.
    Guards(UnmetGuards),
    /// A request whose rows all exist leaves alone.
    Keys,
}

impl Probe {
    /// Writes the probe of requests that share one (see [`crate::line::WaitSpec::probe_group`]). Their settings must be in force on the
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
        let keys = ProbeKeys::of(plan.rows()?, requests)?;
        let rows_each = keys.rows.len() / requests.len();
        let mut writer = BatchWriter::new(server, out);
        probe.write(&keys, requests, &mut writer)?;
        writer.sync();
        Some(Self {
            asked: plan
                .unmet_guards(requests)
                .map_or(ProbeKind::Keys, ProbeKind::Guards),
            met: vec![0; requests.len()],
            rows_each,
            same: false,
            analysis: AnalysisNotes::of(writer.statements),
            progress: StatementProgress::new(writer.injected),
        })
    }

    /// Takes a message from the server. Returns true if the probe is complete.
    pub fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> bool {
        let event = self.progress.receive(frame, server);
        match event {
            StatementEvent::Row => self.receive_row(frame.body()),
            StatementEvent::Complete => self.analysis.complete(server),
            StatementEvent::End | StatementEvent::Other => {}
        }
        event == StatementEvent::End
    }

    /// Takes a row of the result. Columns: catalog version unchanged, number of a key whose row exists.
    fn receive_row(&mut self, body: &[u8]) {
        let values = backend::row_values(body).unwrap_or_default();
        let [same, number] = *values.as_slice() else {
            return;
        };
        let check = CatalogCheck::read(same);
        self.same = check != CatalogCheck::Changed;
        self.analysis.receive_row(check);
        let place = read_place(number);
        if let Some(met) = place.and_then(|place| self.met.get_mut(place / self.rows_each)) {
            *met += 1;
        }
    }

    /// Whether the table has changed, so that the analysis of the template no longer holds.
    pub fn catalog_changed(&self) -> bool {
        match self.progress.error() {
            None => !self.same,
            Some(error) => is_of_class(&error.sqlstate, &OF_STATEMENT),
        }
    }

    /// Whether one of several requests may cause the error, so that each half of them must be probed separately.
    pub fn must_be_halved(&self) -> bool {
        self.met.len() > 1 && self.is_refused()
    }

    /// Whether PostgreSQL rejects the read because of the values of a request.
    fn is_refused(&self) -> bool {
        let error = self.progress.error();
        error.is_some_and(|error| {
            !is_of_class(&error.sqlstate, &OF_STATEMENT)
                && !is_of_class(&error.sqlstate, &OF_THE_MOMENT)
        })
    }

    /// The outcome of each request. If the table has changed, all requests leave. So does a single request that the server
    /// rejects, because PostgreSQL may reject it without waiting for its row.
    pub fn results(&self) -> Vec<ProbeOutcome> {
        let leaves = self.catalog_changed() || self.is_refused();
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

/// Classes of errors that the statement causes with any values: names, privileges, plans (see the error codes in the PostgreSQL
/// documentation).
const OF_STATEMENT: [&str; 4] = ["0A", "26", "3F", "42"];

/// Classes of errors that can occur in any statement: connection, time-out, cancel request, lock, resources.
const OF_THE_MOMENT: [&str; 9] = ["08", "25", "40", "53", "54", "55", "57", "58", "XX"];

fn is_of_class(sqlstate: &str, classes: &[&str]) -> bool {
    classes.iter().any(|class| sqlstate.starts_with(class))
}

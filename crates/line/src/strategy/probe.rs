//! Probe: one plain read for many units that wait for a row, which tells whose wait PostgreSQL would not have shared. It
//! takes no lock and changes nothing; the units stay in the line meanwhile.
//!
//! Exactness: PostgreSQL looks at the committed version of a row before it locks the row. An UPDATE whose WHERE does not
//! hold there is over, with `UPDATE 0`. An INSERT … ON CONFLICT DO NOTHING whose key is there does nothing, unless somebody
//! is changing that key: so such a unit leaves by itself, and PostgreSQL decides. Everything else would wait.

use super::array::Array;
use super::course::{Came, Course};
use super::fold::FoldPlan;
use super::row::{RowKey, RowKeys};
use super::{GroupPlan, write_columns};
use crate::server::{Injected, Preparable, ServerSide};
use crate::template::Templates;
use crate::unit::Unit;
use bytes::{Bytes, BytesMut};
use paceline_sql::fold::Carried;
use paceline_wire::backend::{self, tag};
use paceline_wire::{Frame, frontend};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The read that a template's units are asked about with.
#[derive(Debug)]
pub struct ProbePlan {
    id: u64,
    text: String,
    /// Parameters that decide besides the key.
    carried: Vec<Carried>,
}

/// What a probe says of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It would wait by itself.
    Waits,
    /// It would not, and this is its answer.
    Answer(Bytes),
    /// It would perhaps not: it leaves by itself.
    Leaves,
}

impl ProbePlan {
    pub(super) fn new(
        text: Option<&String>,
        carried: &[Carried],
        templates: &Templates,
    ) -> Option<Self> {
        text.map(|text| Self {
            id: templates.new_id(),
            text: text.clone(),
            carried: carried.to_vec(),
        })
    }

    /// Writes the read, without `Sync`: the keys of all units, the fingerprint, the parameters.
    fn write(
        &self,
        keys: &Keys<'_>,
        units: &[&Unit],
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
            let (binary, _) = units.first()?.parameter(carried.parameter)?;
            let oid = *keys.parameters.get(carried.parameter as usize - 1)?;
            let mut array = Array::new(binary, oid, units.len());
            for unit in units {
                array.push(unit.parameter(carried.parameter)?.1);
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

/// The keys of the units' rows, in order: each has as many rows as the others.
struct Keys<'a> {
    rows: Vec<RowKey>,
    columns: &'a RowKeys,
    parameters: &'a [u32],
    fingerprint: &'a str,
}

impl Keys<'_> {
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

/// A probe on its way.
#[derive(Debug)]
pub struct Probe {
    asked: Asked,
    /// Rows of each unit that were met.
    met: Vec<usize>,
    /// Rows of each.
    rows_each: usize,
    same: bool,
    course: Course,
}

/// What the answer means.
#[derive(Debug)]
enum Asked {
    /// Those who meet no row are answered so.
    Guards(Arc<FoldPlan>, Vec<Bytes>),
    /// Those whose rows are all there leave.
    Keys,
}

impl Probe {
    /// Writes the probe of units that share one (see [`crate::line::Slip::probe`]); their settings are in force on the
    /// server. `None`: there is none for them.
    pub fn build(units: &[&Unit], server: &mut ServerSide, out: &mut BytesMut) -> Option<Self> {
        let before = out.len();
        let probe = Self::write(units, server, out);
        if probe.is_none() && out.len() > before {
            out.truncate(before);
            server.retire_all();
        }
        probe
    }

    fn write(units: &[&Unit], server: &mut ServerSide, out: &mut BytesMut) -> Option<Self> {
        let plan = units.first()?.plan.as_ref()?;
        let probe = plan.probe()?;
        let keys = plan.keys_of(units)?;
        let rows_each = keys.rows.len() / units.len();
        let mut injected = Injected::default();
        probe.write(&keys, units, server, &mut injected, out)?;
        frontend::write_sync(out);
        injected.push_sync();
        Some(Self {
            asked: Asked::of(plan, units),
            met: vec![0; units.len()],
            rows_each,
            same: false,
            course: Course::new(injected),
        })
    }

    /// Takes a message from the server. True: the probe is over.
    pub fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> bool {
        if self.course.receive(frame, server) == Came::Row {
            self.receive_row(frame.body());
        }
        frame.tag == tag::READY_FOR_QUERY
    }

    /// A row of the result: facts unchanged?, number of a key whose row was met.
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

    /// What is to be thought of each unit. If the probe failed, or the table is not what it was, all of them wait.
    pub fn verdicts(&self) -> Vec<Probed> {
        let holds = self.same && self.course.error().is_none();
        let verdict = |(place, met): (usize, &usize)| match &self.asked {
            _ if !holds => Probed::Waits,
            Asked::Guards(..) if *met > 0 => Probed::Waits,
            Asked::Guards(plan, _) if plan.fold().may_fail_unseen => Probed::Leaves,
            Asked::Guards(_, replies) => replies
                .get(place)
                .cloned()
                .map_or(Probed::Waits, Probed::Answer),
            Asked::Keys if *met == self.rows_each => Probed::Leaves,
            Asked::Keys => Probed::Waits,
        };
        self.met.iter().enumerate().map(verdict).collect()
    }
}

impl Asked {
    fn of(plan: &GroupPlan, units: &[&Unit]) -> Self {
        let Some(plan) = plan.fold() else {
            return Self::Keys;
        };
        let reply = |unit: &&Unit| {
            let mut fields = BytesMut::new();
            write_columns(plan.fields(), unit.result_formats(), &mut fields);
            let exactly_one = unit.template.hints().target_affect_row == Some(1);
            plan.reply(unit.form, &fields, exactly_one, None).freeze()
        };
        Self::Guards(Arc::clone(plan), units.iter().map(reply).collect())
    }
}

impl GroupPlan {
    /// The read that tells whether its units would wait for their rows by themselves. `None`: they would.
    pub fn probe(&self) -> Option<&ProbePlan> {
        match self {
            Self::Fold(plan) => plan.probe(),
            Self::Upsert(plan) => plan.probe(),
            Self::Several(plan) => plan.probe(),
            Self::Deal(_) => None,
        }
    }

    fn keys_of<'a>(&'a self, units: &[&Unit]) -> Option<Keys<'a>> {
        let (rows, parameters, fingerprint) = match self {
            Self::Fold(plan) => plan.keys(),
            Self::Upsert(plan) => plan.keys(),
            Self::Several(plan) => plan.keys(),
            Self::Deal(_) => return None,
        };
        let of_unit = |unit: &&'_ Unit| rows.iter().map(|keys| keys.of(unit)).collect::<Vec<_>>();
        let all: Option<Vec<RowKey>> = units.iter().flat_map(of_unit).collect();
        Some(Keys {
            rows: all?,
            columns: rows.first()?,
            parameters,
            fingerprint,
        })
    }
}

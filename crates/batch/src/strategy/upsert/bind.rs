//! The INSERT of a group: the members' values as arrays.

use super::super::array::Array;
use super::super::messages::result_formats;
use super::super::plan::PlannedRequest;
use super::UpsertPlan;
use bytes::BytesMut;
use paceline_relay::server::{Injected, Preparable, ServerSide};
use paceline_sql::UNCHECKED_WAIT_MS;
use paceline_sql::merge::upsert::RESULT_COLUMNS;
use paceline_wire::frontend;

/// Longest wait for a lock that perhaps only another member needs.
const PATIENCE: &str = "5ms";
/// The same where each member may wait for one: the shortest there is.
const PATIENCE_EACH: &str = "1ms";

impl UpsertPlan {
    /// Writes the statement for these units, without `Sync`. `alone`: all are on one row; `one_each`: each is on one of its own.
    pub(super) fn write_insert(
        &self,
        requests: &[&PlannedRequest],
        alone: bool,
        one_each: bool,
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) -> Option<()> {
        let (id, text) = match &self.upsert.one_each {
            Some(text) if one_each => (self.one_each_id, text),
            _ => (self.insert_id, &self.upsert.insert),
        };
        let statement = Preparable {
            id,
            text,
            types: &[0, 0],
        };
        injected.push(server.ensure(statement, out));
        let first = requests.first()?;
        // Members on one row have the same lock to wait for, as each has alone; but a fold locks every partition.
        let patience = match one_each {
            true => PATIENCE_EACH.to_owned(),
            false if alone && !self.is_partitioned() => format!("{UNCHECKED_WAIT_MS}ms"),
            false => PATIENCE.to_owned(),
        };
        let mut values = vec![
            (false, Some(self.fingerprint.as_bytes())),
            (false, Some(patience.as_bytes())),
        ];
        let mut arrays = Vec::new();
        if !self.upsert.own.is_empty() {
            let mut numbers = Array::int4(requests.len());
            (1..=requests.len()).for_each(|number| numbers.push_int(number));
            arrays.push(numbers.finish());
        }
        for number in self.upsert.own.iter().flat_map(|own| &own.numbers) {
            let (binary, _) = first.parameter(*number)?;
            let oid = *self.parameters.get(*number as usize - 1)?;
            let mut array = Array::new(binary, oid, requests.len());
            for request in requests {
                array.push(request.parameter(*number)?.1);
            }
            arrays.push(array.finish());
        }
        let arrays = arrays.iter();
        values.extend(arrays.map(|(binary, bytes)| (*binary, Some(&**bytes))));
        let mut formats = vec![1; RESULT_COLUMNS + self.upsert.key.len()];
        formats.extend(result_formats(first, self.fields.len()));
        let name = server.name(id);
        frontend::write_bind(out, name.as_bytes(), &values, &formats);
        frontend::write_execute(out);
        Some(())
    }
}

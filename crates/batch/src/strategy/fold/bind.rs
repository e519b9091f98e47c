//! The members' values as arrays: what a group binds.

use super::super::array::Array;
use super::super::messages::result_formats;
use super::super::plan::PlannedRequest;
use super::super::row::RowKey;
use super::plan::{FoldPlan, RowSpread};
use bytes::BytesMut;
use paceline_sql::fold::RESULT_COLUMNS;
use paceline_wire::frontend;

pub(super) type MembersByRow = Vec<(RowKey, Vec<usize>)>;

/// Writes the `Bind`: keys, where the members of each key begin and end, the fingerprint, parameters.
pub(super) fn write_bind(
    plan: &FoldPlan,
    spread: RowSpread,
    rows: &MembersByRow,
    order: &[usize],
    members: &[&PlannedRequest],
    name: String,
    out: &mut BytesMut,
) -> Option<()> {
    let mut arrays = Vec::new();
    for (n, column) in plan.fold.key.iter().enumerate() {
        let binary = rows.first()?.0.get(n)?.binary;
        let mut array = Array::new(binary, column.type_oid, rows.len());
        rows.iter()
            .for_each(|(row, _)| array.push(row.get(n).map(|part| &*part.bytes)));
        arrays.push(array.finish());
    }
    if spread != RowSpread::OneEach {
        let mut start = 0;
        let (mut first, mut last) = (Array::int4(rows.len()), Array::int4(rows.len()));
        for (_, members) in rows {
            first.push_int(start);
            start += members.len();
            last.push_int(start);
        }
        arrays.extend([first.finish(), last.finish()]);
    }
    let fingerprint = (false, plan.fingerprint.clone().into_bytes());
    arrays.push(fingerprint);
    for carried in &plan.fold.carried {
        let (binary, _) = members.first()?.parameter(carried.parameter)?;
        let oid = *plan.parameters.get(carried.parameter as usize - 1)?;
        let mut array = Array::new(binary, oid, order.len());
        for n in order {
            array.push(members.get(*n)?.parameter(carried.parameter)?.1);
        }
        arrays.push(array.finish());
    }
    let values: Vec<_> = arrays
        .iter()
        .map(|(binary, bytes)| (*binary, Some(&**bytes)))
        .collect();
    // The fold's own columns in binary, RETURNING as the members want it.
    let mut formats = vec![1; RESULT_COLUMNS];
    formats.extend(result_formats(members.first()?, plan.fields.len()));
    frontend::write_bind(out, name.as_bytes(), &values, &formats);
    Some(())
}

//! The statement of a group with the values of its members as arrays.

use super::super::array::{Array, ArrayValue, bound};
use super::super::messages::BatchWriter;
use super::super::plan::PlannedRequest;
use super::super::row_key::RowKey;
use super::super::row_spread::RowSpread;
use super::plan::FoldPlan;
use paceline_sql::fold::FOLD_RESULT_COLUMNS;

/// The row of each key, with the numbers of its members in order of arrival.
pub(super) type MembersByRow = Vec<(RowKey, Vec<usize>)>;

/// Writes `[Parse] Bind Execute`. Parameters: the keys, the positions at which the members of each key begin and end, the
/// time of the analysis, the members' own parameters in the order of `rows`.
pub(super) fn write_statement(
    plan: &FoldPlan,
    spread: RowSpread,
    rows: &MembersByRow,
    members: &[&PlannedRequest],
    writer: &mut BatchWriter<'_>,
) -> Option<()> {
    let statement = plan.statement(spread)?;
    let mut arrays = keys(plan, rows)?;
    if spread != RowSpread::OneEach {
        arrays.extend(bounds(rows));
    }
    arrays.push((true, writer.server.analyzed(statement.id).bytes().to_vec()));
    let numbers = rows.iter().flat_map(|(_, numbers)| numbers);
    let in_order: Option<Vec<&PlannedRequest>> = numbers
        .map(|number| members.get(*number).copied())
        .collect();
    let in_order = in_order?;
    for carried in &plan.fold.carried {
        let requests = in_order.iter().copied();
        arrays.push(plan.described.array(&[carried.parameter], requests)?);
    }
    let values: Vec<_> = bound(&arrays).collect();
    let formats = plan
        .described
        .result_formats(FOLD_RESULT_COLUMNS, members.first()?);
    statement.write(&values, &formats, writer);
    Some(())
}

/// The keys of the rows, an array for each column.
fn keys(plan: &FoldPlan, rows: &MembersByRow) -> Option<Vec<ArrayValue>> {
    let columns = plan.fold.key.iter().enumerate();
    let column = |(n, type_oid): (usize, u32)| {
        let binary = rows.first()?.0.get(n)?.binary;
        let mut array = Array::new(binary, type_oid, rows.len());
        rows.iter()
            .for_each(|(row, _)| array.push(row.get(n).map(|part| &*part.bytes)));
        Some(array.finish())
    };
    columns.map(|(n, key)| column((n, key.type_oid))).collect()
}

/// The positions at which the members of each row begin, and at which they end.
fn bounds(rows: &MembersByRow) -> [ArrayValue; 2] {
    let mut start = 0;
    let (mut first, mut last) = (Array::int4(rows.len()), Array::int4(rows.len()));
    for (_, members) in rows {
        first.push_int(start);
        start += members.len();
        last.push_int(start);
    }
    [first.finish(), last.finish()]
}

//! Positions in the order of a queue. A statement that picks from a position on does not read the rows before it.
//!
//! PostgreSQL compares all positions. Only orders are supported in which each row is either before a position, or at it
//! or after it: columns that are not NULL, of types whose binary values are exact. Texts that PostgreSQL converts between
//! encodings are not: another text may come back.

use super::parts::Take;
use crate::facts::{Column, TableFacts};
use crate::operator::{EQ, GE, GT, LE, LT};
use crate::quote::quote_ident;

/// OIDs of the types that a position may have: int8, int2, int4, text, float4, float8, varchar, date, timestamp,
/// timestamptz, numeric, uuid.
const POSITION_TYPES: [u32; 12] = [20, 21, 23, 25, 700, 701, 1043, 1082, 1114, 1184, 1700, 2950];

/// The ORDER BY columns of a queue.
pub(super) struct QueueOrder<'a> {
    /// Columns of one direction each, which row comparisons compare together.
    runs: Vec<OrderRun<'a>>,
}

struct OrderRun<'a> {
    descending: bool,
    /// Number of columns in the runs before.
    offset: usize,
    columns: Vec<&'a Column>,
}

impl<'a> QueueOrder<'a> {
    /// `None` if a position in this order cannot be compared, or if the statement may wait for row locks: rows before the
    /// position are locked last, in another order than other programs lock them.
    pub(super) fn of(take: &Take, queue: &'a TableFacts) -> Option<Self> {
        let waits = !take.pick.locking.is_empty() && !take.pick.locking.ends_with("SKIP LOCKED");
        if waits || queue.extent.tree.len() != 1 {
            return None;
        }
        let mut runs: Vec<OrderRun<'a>> = Vec::new();
        for (offset, (expr, direction)) in take.pick.order.iter().enumerate() {
            let column = queue.column(expr.as_column()?)?;
            let exact = column.type_oid == column.base_type_oid
                && POSITION_TYPES.contains(&column.type_oid)
                && !column.converted;
            if !exact || !column.never_null {
                return None;
            }
            let descending = direction.starts_with(" DESC");
            match runs.last_mut().filter(|run| run.descending == descending) {
                Some(run) => run.columns.push(column),
                None => runs.push(OrderRun {
                    descending,
                    offset,
                    columns: vec![column],
                }),
            }
        }
        (!runs.is_empty()).then_some(Self { runs })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &'a Column> {
        self.runs.iter().flat_map(|run| run.columns.iter().copied())
    }

    /// Conditions on `s` for rows at the position or after it, in the queue's order: all rows of a condition precede those
    /// of the next one. The position is in the parameters from `first` on.
    pub(super) fn at_or_after(&self, first: usize) -> Vec<String> {
        let last = self.runs.len().saturating_sub(1);
        let condition = |(place, run): (usize, &OrderRun<'_>)| {
            let here = match (place == last, run.descending) {
                (true, false) => GE,
                (true, true) => LE,
                (false, false) => GT,
                (false, true) => LT,
            };
            let mut parts: Vec<String> = self.equal_up_to(place, first).collect();
            parts.push(run.compared(here, first));
            parts.join(" AND ")
        };
        let conditions = self.runs.iter().enumerate().map(condition);
        conditions.rev().collect()
    }

    /// The condition on `s` for rows before the position.
    pub(super) fn before(&self, first: usize) -> String {
        let condition = |(place, run): (usize, &OrderRun<'_>)| {
            let mut parts: Vec<String> = self.equal_up_to(place, first).collect();
            parts.push(run.compared(run.earlier(), first));
            format!("({})", parts.join(" AND "))
        };
        let any: Vec<String> = self.runs.iter().enumerate().map(condition).collect();
        let any = any.join(" OR ");
        match self.runs.as_slice() {
            [run, _, ..] => {
                // An index on the first columns ends here.
                let bound = run.compared(if run.descending { GE } else { LE }, first);
                format!("{bound} AND ({any})")
            }
            _ => any,
        }
    }

    /// The conditions that the columns of the runs before `place` are those of the position.
    fn equal_up_to(&self, place: usize, first: usize) -> impl Iterator<Item = String> {
        let runs = self.runs.iter().take(place);
        runs.flat_map(move |run| run.operands(first))
            .map(|(column, parameter)| format!("{column} {EQ} {parameter}"))
    }
}

impl OrderRun<'_> {
    fn earlier(&self) -> &'static str {
        if self.descending { GT } else { LT }
    }

    /// Each column, and the parameter with the value of the position.
    fn operands(&self, first: usize) -> impl Iterator<Item = (String, String)> {
        let columns = (first + self.offset..).zip(&self.columns);
        columns.map(|(number, column)| {
            let name = quote_ident(&column.name);
            (
                format!("s.{name}"),
                format!("${number}::{}", column.bare_type_name),
            )
        })
    }

    fn compared(&self, operator: &str, first: usize) -> String {
        let (columns, values): (Vec<String>, Vec<String>) = self.operands(first).unzip();
        match (columns.as_slice(), values.as_slice()) {
            ([column], [value]) => format!("{column} {operator} {value}"),
            _ => format!(
                "ROW({}) {operator} ROW({})",
                columns.join(", "),
                values.join(", ")
            ),
        }
    }
}

//! The CTEs with which a statement for many consumers picks their rows and numbers them in the queue's order.

use super::position::QueueOrder;
use crate::distribution::FEW;
use crate::operator::{EQ, GT, SUB};
use crate::quote::quote_ident;

/// The sum of the consumers' limits.
const LIMIT: &str = "$1::pg_catalog.int8";

/// The first row that a statement may pick.
#[derive(Clone, Copy)]
pub(super) enum PickFrom<'a> {
    /// At the head of the queue.
    Whole,
    /// At the head of the queue; the statement returns the position of the first row.
    WholeWithPosition(&'a QueueOrder<'a>),
    /// At a position; the statement returns that of the first row.
    Position(&'a QueueOrder<'a>),
}

/// The maximum number of rows that a statement picks.
#[derive(Clone, Copy)]
pub(super) enum RowLimit {
    Any,
    /// At most [`FEW`].
    Few,
}

/// Parts of the client's sub-select, as SQL over the row `s` of the queue.
pub(super) struct PickTerms {
    /// The column by which rows are picked.
    pub(super) key: String,
    pub(super) table: String,
    /// ` AND …` for each condition.
    pub(super) conditions: String,
    /// ` ORDER BY …`, or nothing.
    pub(super) order: String,
    /// The locking clause, or nothing.
    pub(super) locking: String,
    pub(super) limit: RowLimit,
    /// The number of the parameter with the first value of a position.
    pub(super) first_of_position: usize,
}

/// The part of a statement that picks rows.
pub(super) struct Pick {
    /// The CTE `picked(k, n, …)`, and those that it reads.
    pub(super) ctes: String,
    /// The columns with the position of the first row, as `, (…), (…)`.
    pub(super) position: String,
    /// Whether the picked rows are looked up by an array. A join might read the whole queue.
    pub(super) among: bool,
}

impl PickTerms {
    pub(super) fn pick(&self, from: PickFrom<'_>) -> Pick {
        match from {
            PickFrom::Whole => Pick {
                ctes: numbered("", &self.sub_select("", None, LIMIT)),
                position: String::new(),
                among: false,
            },
            PickFrom::WholeWithPosition(order) => {
                let values = self.sub_select(&position_values(order), None, LIMIT);
                Pick {
                    ctes: numbered(&names(order, "q"), &values),
                    position: first_position(order),
                    among: true,
                }
            }
            PickFrom::Position(order) => self.pick_from_position(order),
        }
    }

    /// The CTEs `p1`, `p2`, … pick at the position and after it, each if those before have too few rows; then `earlier` picks
    /// before the position. Together they read each row of the queue at most once.
    fn pick_from_position(&self, order: &QueueOrder<'_>) -> Pick {
        let values = position_values(order);
        let mut ctes = Vec::new();
        let mut missing = LIMIT.to_owned();
        let conditions = order.at_or_after(self.first_of_position);
        let later = conditions.len();
        for (number, condition) in (1..).zip(&conditions) {
            let condition = match number {
                1 => condition.clone(),
                _ => format!("{missing} {GT} 0 AND {condition}"),
            };
            let picked = self.sub_select(&values, Some(&condition), &missing);
            ctes.push(format!("p{number} AS MATERIALIZED ({picked})"));
            missing = format!("{missing} {SUB} (SELECT pg_catalog.count(*) FROM p{number})");
        }
        let before = order.before(self.first_of_position);
        let before = format!("{missing} {GT} 0 AND ({before})");
        let earlier = self.sub_select(&values, Some(&before), &missing);
        ctes.push(format!("earlier AS MATERIALIZED ({earlier})"));
        let all: String = (1..=later)
            .map(|number| format!(" UNION ALL SELECT * FROM p{number}"))
            .collect();
        let all = format!("SELECT * FROM earlier{all}");
        ctes.push(numbered(&names(order, "q"), &all));
        Pick {
            ctes: ctes.join(", "),
            position: first_position(order),
            among: true,
        }
    }

    /// The client's sub-select of rows that also meet a condition, at most `limit`. `values` are further columns of its rows.
    /// The condition precedes the client's: of conditions that cost the same, PostgreSQL evaluates the first one first, so that it
    /// tries no advisory lock of a row that does not meet it.
    fn sub_select(&self, values: &str, also: Option<&str>, limit: &str) -> String {
        let Self {
            key,
            table,
            conditions,
            order,
            locking,
            ..
        } = self;
        let also = also.map_or(String::new(), |also| format!(" AND {also}"));
        let most = match self.limit {
            RowLimit::Any => limit.to_owned(),
            RowLimit::Few => FEW.to_string(),
        };
        let picked = format!(
            "SELECT s.{key} AS k{values} FROM {table} AS s WHERE (SELECT same FROM facts){also}{conditions}{order} LIMIT {most}{locking}"
        );
        match self.limit {
            RowLimit::Any => picked,
            // The plan below the outer limit returns rows one by one.
            RowLimit::Few => {
                let names = match values.is_empty() {
                    true => "f.k",
                    false => "f.*",
                };
                format!("SELECT {names} FROM ({picked}) AS f LIMIT {limit}")
            }
        }
    }
}

/// The CTE with the numbers of the rows.
fn numbered(names: &str, picked: &str) -> String {
    format!(
        "picked AS MATERIALIZED (SELECT q.k, (pg_catalog.row_number() OVER ())::pg_catalog.int4 AS n{names} FROM ({picked}) AS q)"
    )
}

/// The position of a row, as `, s.a AS o1, s.b AS o2`.
fn position_values(order: &QueueOrder<'_>) -> String {
    let columns = (1..).zip(order.columns());
    columns
        .map(|(number, column): (usize, _)| {
            format!(", s.{} AS o{number}", quote_ident(&column.name))
        })
        .collect()
}

/// The position of a row, as `, q.o1, q.o2`.
fn names(order: &QueueOrder<'_>, row: &str) -> String {
    let columns = 1..=order.columns().count();
    columns.map(|number| format!(", {row}.o{number}")).collect()
}

/// The position of the first row that was picked.
fn first_position(order: &QueueOrder<'_>) -> String {
    let columns = 1..=order.columns().count();
    columns
        .map(|number| format!(", (SELECT p.o{number} FROM picked AS p WHERE p.n {EQ} 1)"))
        .collect()
}

//! Statements that take rows from a queue: DELETE or UPDATE of the rows that a sub-select with LIMIT picks,
//! optionally in a CTE whose rows an INSERT moves to another table.

mod no_row;
mod parts;
mod pick;
mod position;
mod rewrite;
#[cfg(test)]
mod tests;

pub(crate) use parts::of_statements;
pub use parts::{CTID, Onward, Pick, TRY_LOCK, Take};
pub use rewrite::rewrite;

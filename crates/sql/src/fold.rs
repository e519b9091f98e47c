//! The fold: one SQL statement that locks each row once, applies the updates of many members in order, writes one new
//! version of each row, and returns a result for each member. PostgreSQL evaluates all expressions.
//!
//! The parameters of the statement are arrays: the distinct keys, the numbers of the first and the last member of
//! each key, the catalog version, and one array for each parameter of the template. Members are numbered in
//! the order of (key, arrival). Each step of the recursion applies one member of each key. If each member is on a row
//! of its own, no order is necessary, and the client's UPDATE is joined to the arrays.

mod build;
pub(crate) mod column;
mod conditions;
mod one_each;
mod refusal;
mod rewriter;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use build::rewrite_upsert;
pub use build::{FOLD_RESULT_COLUMNS, Fold, rewrite};
pub use column::{KeyClass, KeyColumn};
pub use refusal::FoldRefusal;
pub(crate) use rewriter::Proposal;
pub use rewriter::{Carried, Proposed};

//! Upserts of many clients: one INSERT of the first row for each key and, for DO UPDATE, a fold of all other members,
//! in one transaction.
//!
//! The INSERT does nothing if a row exists. Later members with the same key then find that row: under DO NOTHING they
//! have no effect, under DO UPDATE the fold applies them in order of arrival. The returned keys show which members
//! were inserted.

mod key;
mod one_row;
mod proposal;
mod several;
mod statement;
#[cfg(test)]
mod tests;

pub use one_row::{Then, Upsert, rewrite};
pub use proposal::{OnConflict, on_conflict};
pub use several::{Several, rewrite_several};
pub use statement::RESULT_COLUMNS;

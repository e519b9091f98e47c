//! Upserts of many clients: one INSERT of the first row for each key and, for DO UPDATE, a fold of all other members,
//! in one transaction.
//!
//! The INSERT does nothing if a row exists. Later members with the same key then find that row: under DO NOTHING they
//! have no effect, under DO UPDATE the fold applies them in order of arrival. The returned keys show which members
//! were inserted.

mod key;
mod multi_row;
mod one_row;
mod proposal;
mod statement;
#[cfg(test)]
mod tests;

pub use multi_row::{MultiRowUpsert, rewrite_multi_row};
pub use one_row::{Then, Upsert, rewrite};
pub use proposal::{OnConflict, on_conflict};
pub use statement::{InsertedRows, UPSERT_RESULT_COLUMNS};

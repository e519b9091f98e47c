//! The parts of an INSERT, and one statement that inserts the rows of many clients in order of arrival. ON CONFLICT
//! is handled in [`upsert`].

mod insert;
mod rewrite;
mod rows;
#[cfg(test)]
mod tests;
pub mod upsert;

pub use insert::{Change, Conflict, Insert};
pub(crate) use insert::{of_statements, read_target};
pub use rewrite::rewrite;

//! `paceline advise`: the overload patterns of a database, by their cost, and the advice on each.
//!
//! [`queries`] has the SQL whose answers are decoded into the types of [`observation`]. Counters are read twice, and sessions are sampled
//! in between. [`evaluate`] attributes each sample of a session that executes a statement to one pattern: the statements by the same
//! analysis of their texts as in the front end (crate `sql`). A pattern's cost is its share of these samples, which is its share of
//! the time that all sessions together spend in the database. Each pattern has a module in `patterns`, each output in `format`.
//!
//! This crate has no sockets and no clock; the binary reads and applies.

mod attribution;
mod evaluate;
mod evaluated;
mod executed;
mod finding;
pub mod format;
pub mod front_end;
pub mod observation;
mod patterns;
pub mod queries;
mod statements;
#[cfg(test)]
mod tests;

pub use evaluate::evaluate;
pub use finding::{Advice, Apply, Evidence, Finding, Pattern, Severity};

//! The line, in which requests wait for a server connection; the strategies, by which groups of them are executed; the catalog
//! analysis of their templates; and the statistics.
//!
//! No sockets, no clock, no randomness, no runtime: bytes and the time are arguments, bytes are results.
//!
//! # Adding a strategy
//!
//! A strategy that executes one statement for a group, as [`strategy::fold`] does, has new files and touches three others:
//!
//! | file | change |
//! |---|---|
//! | `crates/sql/src/statement/NAME.rs` | new: finds the parts of the statement in its parse tree, and rewrites it for a group |
//! | `crates/sql/src/statement.rs` | declares that module (`pub mod`); a field of `Statement` for the parts. No field if `Statement` has them |
//! | `crates/batch/src/strategy/NAME.rs` | new: the plan ([`strategy::GroupPlan`]: the group of a request, the messages of a group, the lines of `paceline explain`) and the rows of the result (`GroupResult`, from which `StatementBatch` makes the whole [`strategy::Batch`]) |
//! | `crates/batch/src/strategy.rs` | declares that module; a row in the table `strategies!` |
//! | `crates/pool/src/analysis/plan/NAME.rs` | new: asks the catalog whether the tables permit it, and makes the plan |
//! | `crates/pool/src/analysis/plan.rs` | declares that module; `ask_plan` calls it |
//!
//! In `crates/sql/src`, the existing strategies have folders instead of a file in `statement/`: `update.rs` (parts) and `fold/`
//! (rewriting) for fold; `take/parts.rs` and `take/rewrite.rs`, and `call.rs` for functions, for take; `merge/insert.rs` (parts),
//! `merge/rewrite.rs` and `merge/upsert/` for merge.
//!
//! What a new strategy can use there: `update::{read_where, equality, highest_parameter}` read clauses;
//! `fold::column::{split_equalities, key_column, parameter_type}` find the key and check types; `row_wait::lock_row_sql` is the
//! statement that waits for the lock of a row; `distribution` distributes rows in order of arrival. [`strategy::distribute`] is an
//! example of plan and result in one file.
//!
//! The line, `SHOW GROUPS`, metrics and `paceline explain` need no change, because they read the table; configuration does not name
//! strategies. `docs/groups.md` and `docs/metrics.md` list the names for users.
//!
//! A strategy that sends the statements of the members has its code in `crates/batch/src/strategy/NAME.rs`, too, with
//! [`strategy::chain`] as the example. Besides `strategy.rs` it touches `strategy/build.rs`, which builds its batch, and
//! `analysis.rs`, which decides which requests join its groups; `explain.rs` says so in words.

#![warn(clippy::missing_errors_doc)]

pub mod analysis;
pub mod explain;
pub mod line;
pub mod strategy;
pub mod template_stats;

#[cfg(test)]
mod testing;

//! The line, in which requests wait for a server connection; the strategies, by which groups of them are executed; the catalog
//! analysis of their templates; and the statistics.
//!
//! No sockets, no clock, no randomness, no runtime: bytes and the time are arguments, bytes are results.
//!
//! # Adding a strategy
//!
//! A strategy that executes one statement for a group, as [`strategy::fold`] does, consists of three new source files and
//! changes in three others:
//!
//! | source file | change |
//! |---|---|
//! | `crates/sql/src/statement/NAME.rs` | new: finds the parts of the statement in its parse tree, and rewrites it for a group unless `TableFacts::refused` has a reason not to |
//! | `crates/sql/src/statement.rs` | declares that module (`pub mod`); `Statement` gets a field for the parts, unless an existing field already has all of them |
//! | `crates/batch/src/strategy/NAME.rs` | new: the plan ([`strategy::GroupPlan`]: the group of a request, the messages of a group, the lines of `paceline explain`) and the rows of the result (`GroupResult`, from which `StatementBatch` makes the whole [`strategy::Batch`]) |
//! | `crates/batch/src/strategy.rs` | declares that module; a row at the end of the table `strategies!` |
//! | `crates/pool/src/analysis/plan/NAME.rs` | new: asks the catalog whether the tables permit it, and makes the plan |
//! | `crates/pool/src/analysis/plan.rs` | declares that module; `ask_plan` calls it after the other strategies, before it looks for declared functions |
//!
//! The rows of `strategies!` and the calls in `ask_plan` must have the same order: the first strategy that recognizes a statement
//! gets it, and without a server `paceline explain` reads only the table. If the new strategy recognizes statements that an
//! existing one recognizes, too, put it before that one in both.
//!
//! In `crates/sql/src`, the existing strategies are declared in `lib.rs`, because they use one another's code: `update.rs`
//! (parts) and `fold/` (rewriting) for fold; `take/parts.rs` and `take/rewrite.rs`, and `call.rs` for functions, for take;
//! `merge/insert.rs` (parts), `merge/rewrite.rs` and `merge/upsert/` for merge. A new one belongs in `statement/`, so that it
//! needs no line in `lib.rs`.
//!
//! ## What to start from
//!
//! - If each request changes a row that it names by key, start from [`strategy::fold`]: requests wait for the row, and the plan
//!   has its lock and its probe.
//! - If requests wait for a queue, or for nothing, start from [`strategy::distribute`], which has plan and result in one file.
//!
//! Helpers in `crates/sql/src`:
//!
//! | helper | use |
//! |---|---|
//! | `update::{read_where, equality, highest_parameter}` | read clauses |
//! | `fold::column::{split_equalities, key_column, parameter_type}` | find the key, and check types |
//! | `row_wait::{lock_row_sql, key_probe_sql, probe_sql}` | statements that wait for the lock of a row, and probes |
//! | `distribution` | a statement whose rows are distributed in order of arrival |
//!
//! Helpers in `crates/batch/src/strategy`:
//!
//! | helper | use |
//! |---|---|
//! | `row_key` | the key of a request's row, and from it the key by which the request waits in the line |
//! | `row_lock`, `probe` | send the plan's lock statement and its probe, and read the answers |
//! | `row_spread` | chooses between a statement for one row, for many rows, and for rows with one member each |
//! | `described` | the group of a request by the formats of its parameters and columns; descriptions of columns for the answers |
//! | `messages` | writes statements to the server, and the parts of answers to clients |
//! | `array` | arrays of the members' values as parameters |
//! | `statement_batch`, `outcome` | the messages around the rows; the results of members, and how they run again |
//!
//! Helpers in `crates/pool/src/analysis`, in the order of their use, and of `paceline_sql::facts`:
//!
//! | helper | use |
//! |---|---|
//! | `describe` | the types of parameters and columns |
//! | `ask_table` | `TableFacts`: columns, keys and CHECK constraints, and in `refused` why no strategy writes to the table (not an ordinary table, row security, rules, triggers, inheritance children, generated columns, some partitions) |
//! | `ask_names` | the catalog version of the names in expressions, if PostgreSQL answers yes to each of the given questions |
//! | `harmless_sql` | a question: functions, operators, types and collations are PostgreSQL's own, and no function is volatile |
//! | `facts::apart_sql` | a question: rows do not depend on one another (by foreign keys, by users' functions in constraints and defaults, by unique columns that are assigned). Take and merge ask it; fold assigns no such columns (`Column::fixed`) |
//! | `facts::{no_names_sql, no_numbers_read_sql}` | questions: no column holds names of catalog objects; no code at the table reads the last number of a sequence |
//! | `ask_types` | the names of the types |
//!
//! Of foreign keys, `TableFacts` has only the columns (`Column::fixed`). No helper asks for privileges: PostgreSQL checks them
//! when it executes the group's statement, and if it rejects the statement, the members run alone.
//!
//! ## What else changes
//!
//! - Tests: unit tests of the new files in `sql` and `batch` (`NAME/tests.rs`), and in `crates/paceline/tests/e2e/groups/` a file
//!   `NAME.rs`, declared in `mod.rs` there. Add the statements to the generated ones of `equivalence` there: in `template.rs` if
//!   they change rows by key, in `takes.rs` and `queue.rs` for queues.
//! - Documents: in `docs/groups.md` the table of strategies and "Which statements fit", in `docs/metrics.md` the values of the
//!   label `strategy`, the strategies that `docs/group-settings.md` names, and in `ARCHITECTURE.md` the row *strategy* of the
//!   glossary and the row "how a strategy builds or distributes".
//!
//! The line, `SHOW GROUPS`, metrics and `paceline explain` need no change, because they read `strategies!`; configuration does
//! not name strategies.
//!
//! ## If the members' own statements are sent
//!
//! Such a strategy needs nothing in `sql` and no plan. Start from [`strategy::chain`]: the new file is
//! `crates/batch/src/strategy/NAME.rs`. Besides the row in `strategies!`, change three files in `crates/batch/src`: in
//! `strategy/build.rs`, `write` builds its batch; in `analysis.rs`, `TemplateAnalysis::decide` decides which requests join its
//! groups; in `explain.rs`, `Forecast::of` makes the same decision for `paceline explain` and `SHOW GROUPS`. The test
//! `the_forecast_is_the_decision` compares the two.

#![warn(clippy::missing_errors_doc)]

pub mod analysis;
pub mod explain;
pub mod group_limit;
pub mod line;
pub mod policy;
pub mod strategy;
pub mod template_stats;

#[cfg(test)]
mod testing;

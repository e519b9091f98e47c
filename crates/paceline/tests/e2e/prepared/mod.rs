//! Prepared statements.

mod analysis;
mod statements;
mod texts;

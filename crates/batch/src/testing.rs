//! Test helpers: statements and tables, their requests, and groups in flight.

pub(crate) mod fold_statement;
pub(crate) mod group_run;
pub(crate) mod planned_statement;

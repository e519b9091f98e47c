//! What the tests of this crate share: requests and tables to fold on, and groups in flight.

pub(crate) mod fold_statement;
pub(crate) mod group_run;
pub(crate) mod planned_statement;

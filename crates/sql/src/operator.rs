//! PostgreSQL's own operators: what a group's statement itself computes with means the same whatever operators users have
//! made. All of them bind alike, weaker than `*` and stronger than NOT, IS and AND.

/// `=`
pub(crate) const EQ: &str = "OPERATOR(pg_catalog.=)";
/// `<>`
pub(crate) const NE: &str = "OPERATOR(pg_catalog.<>)";
/// `<`
pub(crate) const LT: &str = "OPERATOR(pg_catalog.<)";
/// `>`
pub(crate) const GT: &str = "OPERATOR(pg_catalog.>)";
/// `<=`
pub(crate) const LE: &str = "OPERATOR(pg_catalog.<=)";
/// `>=`
pub(crate) const GE: &str = "OPERATOR(pg_catalog.>=)";
/// `+`
pub(crate) const ADD: &str = "OPERATOR(pg_catalog.+)";
/// `||`
pub(crate) const CONCAT: &str = "OPERATOR(pg_catalog.||)";

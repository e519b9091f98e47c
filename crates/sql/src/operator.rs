//! PostgreSQL's own operators, qualified for the computations that Paceline adds to a group's statement: operators of
//! users do not change them. `OPERATOR()` syntax has one precedence, below `*` and above NOT, IS and AND.

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
/// `-`
pub(crate) const SUB: &str = "OPERATOR(pg_catalog.-)";
/// `||`
pub(crate) const CONCAT: &str = "OPERATOR(pg_catalog.||)";

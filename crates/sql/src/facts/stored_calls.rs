//! Functions of PostgreSQL that the defaults and constraints of a table call. The catalog has no dependencies on them, so that the
//! stored expressions are searched for their OIDs.

use super::catalog::{TYPES_SQL, calls_sql, text_array, tree_sql};
use super::checks::CONTEXT_FUNCTIONS;
use super::definition::RANDOM_FUNCTIONS;
use super::grouped::EXCLUDED_FUNCTIONS;
use crate::name::Name;

/// The stored expressions that a statement may evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluated {
    /// Constraints, as an UPDATE does.
    Constraints,
    /// Constraints and defaults, as an INSERT does.
    ConstraintsAndDefaults,
}

/// Query for one row with one boolean: whether the evaluated expressions of the table, its partitions and the domains of their
/// columns call no function of PostgreSQL whose result or effect may differ in a group: no volatile one except sequence numbers, the
/// clock and random values, and none that a group's statement must not contain.
pub fn no_context_read_sql(name: &Name, evaluated: Evaluated) -> String {
    let defaults = match evaluated {
        Evaluated::Constraints => "",
        Evaluated::ConstraintsAndDefaults => {
            "UNION ALL SELECT f.adbin FROM tree JOIN pg_catalog.pg_attrdef f ON f.adrelid = tree.id \
             UNION ALL SELECT t.typdefaultbin FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id "
        }
    };
    let condition = format!(
        "(p.provolatile = 'v' AND p.proname <> ALL ({own_values})) OR p.proname = ANY ({excluded})",
        own_values = text_array(RANDOM_FUNCTIONS.iter().chain(&["nextval"])),
        excluded = text_array(CONTEXT_FUNCTIONS.iter().chain(&EXCLUDED_FUNCTIONS)),
    );
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL}, stored(expression) AS (\
           SELECT k.conbin FROM tree JOIN pg_catalog.pg_constraint k ON k.conrelid = tree.id WHERE k.contype = 'c' \
           UNION ALL SELECT k.conbin FROM types JOIN pg_catalog.pg_constraint k ON k.contypid = types.id WHERE types.id <> 0::pg_catalog.oid {defaults}) \
         SELECT NOT EXISTS (SELECT FROM stored WHERE {calls})",
        tree = tree_sql(name),
        calls = calls_sql("stored.expression", &condition),
    )
}

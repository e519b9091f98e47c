//! Functions and types that a group's statement must not contain, although a shared read may.

use super::catalog::{FIRST_USER_DEFINED_OID, TYPES_SQL, name_array, tree_sql};
use crate::name::Name;

/// Functions of PostgreSQL that show how a value is stored, which differs in a group, or that may raise a NOTICE,
/// which no member would receive.
pub(super) const EXCLUDED_FUNCTIONS: [&str; 15] = [
    "json_to_tsvector",
    "jsonb_to_tsvector",
    "pg_column_compression",
    "pg_column_size",
    "pg_column_toast_chunk_id",
    "phraseto_tsquery",
    "plainto_tsquery",
    "to_tsquery",
    "to_tsvector",
    "ts_headline",
    "websearch_to_tsquery",
    "xml",
    "xml_is_well_formed",
    "xpath",
    "xpath_exists",
];

/// Name prefix of PostgreSQL's types whose values are names of objects in the catalog (`regclass`, `regtype`, …). A
/// group's statement keeps the OIDs that its constants had when it was parsed, but the name may refer to another
/// object later.
const NAME_TYPE_PREFIX: &str = "reg";
const ROLE_NAME_TYPE: &str = "aclitem";

/// The type for names of relations. The catalog version includes constants that are cast to it ([`Names`](super::Names)).
const RELATION_NAME_TYPE: &str = "regclass";

/// SQL condition: values of type `t` are names of objects in the catalog.
fn name_type_sql() -> String {
    format!(
        "(t.oid < {FIRST_USER_DEFINED_OID}::pg_catalog.oid AND (pg_catalog.starts_with(t.typname::pg_catalog.text, '{NAME_TYPE_PREFIX}') OR t.typname = '{ROLE_NAME_TYPE}'))"
    )
}

/// Query for one row with one boolean: whether no column of the table contains names of objects in the catalog.
pub fn no_names_sql(name: &Name) -> String {
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL} SELECT NOT EXISTS (SELECT FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id WHERE {name_type})",
        tree = tree_sql(name),
        name_type = name_type_sql(),
    )
}

/// Query for one row with one boolean: whether none of these functions is in `EXCLUDED_FUNCTIONS` or takes a name
/// of an object in the catalog as argument, and none of these types is such a name.
pub fn fits_groups_sql(functions: &[Name], types: &[Name]) -> String {
    let excluded = |name: &&Name| EXCLUDED_FUNCTIONS.contains(&name.name.as_str());
    let name_type = |name: &&Name| match name.name.as_str() {
        RELATION_NAME_TYPE => false,
        name => name.starts_with(NAME_TYPE_PREFIX) || name == ROLE_NAME_TYPE,
    };
    let unfit = functions.iter().filter(excluded).count() + types.iter().filter(name_type).count();
    format!(
        "SELECT {unfit} = 0 AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p, pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) AS a(id) \
           JOIN pg_catalog.pg_type t ON t.oid = a.id WHERE p.proname = ANY ({functions}) AND p.proname <> 'nextval' AND {name_type})",
        functions = name_array(functions),
        name_type = name_type_sql(),
    )
}

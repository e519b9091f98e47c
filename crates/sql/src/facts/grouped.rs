//! Functions and types that a group's own statement must not contain, although a shared read may.

use super::{FIRST_OWN_OID, TYPES_SQL, tree_sql};
use crate::{Name, quote_literal};

/// Functions of PostgreSQL that show how a value is stored, which differs within a group, or that may raise a NOTICE, which no
/// member would get.
const TELLING: [&str; 15] = [
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

/// Prefix of the names of PostgreSQL's types whose values are names in the catalog (`regclass`, `regtype`, …), and one more type.
/// A group's statement keeps the constants that it was parsed with, but the name may mean another object later.
const NAMING: &str = "reg";
const OF_ROLES: &str = "aclitem";

/// The one of relations: constants that are cast to it are compared ([`Names`](super::Names)).
const OF_RELATIONS: &str = "regclass";

/// A type `t` whose values are names in the catalog.
fn naming_type() -> String {
    format!(
        "(t.oid < {FIRST_OWN_OID}::pg_catalog.oid AND (pg_catalog.starts_with(t.typname::pg_catalog.text, '{NAMING}') OR t.typname = '{OF_ROLES}'))"
    )
}

/// Asks for one row with one boolean: has the table no column whose values are made of names in the catalog?
pub fn no_names_sql(name: &Name) -> String {
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL} SELECT NOT EXISTS (SELECT FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id WHERE {naming})",
        tree = tree_sql(name),
        naming = naming_type(),
    )
}

/// Asks for one row with one boolean: is none of these functions in `TELLING`, and take none of them, and no cast to one of
/// these types, a constant for a name in the catalog?
pub fn fits_groups_sql(functions: &[Name], types: &[Name]) -> String {
    let telling = |name: &&Name| TELLING.contains(&name.name.as_str());
    let naming = |name: &&Name| match name.name.as_str() {
        OF_RELATIONS => false,
        name => name.starts_with(NAMING) || name == OF_ROLES,
    };
    let strange = functions.iter().filter(telling).count() + types.iter().filter(naming).count();
    let list: Vec<String> = functions.iter().map(|n| quote_literal(&n.name)).collect();
    format!(
        "SELECT {strange} = 0 AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p, pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) AS a(id) \
           JOIN pg_catalog.pg_type t ON t.oid = a.id WHERE p.proname = ANY (ARRAY[{functions}]::pg_catalog.name[]) AND p.proname <> 'nextval' AND {naming})",
        functions = list.join(","),
        naming = naming_type(),
    )
}

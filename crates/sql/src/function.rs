//! Facts about functions that the configuration declares: queries (SQL text) and their results (plain data). The
//! caller executes the queries.

use crate::facts::{CatalogVersion, name_array};
use crate::name::Name;
use crate::quote::{quote_ident, quote_literal};

/// A function that takes rows from a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Schema of the function.
    pub schema: String,
    /// Name of the function.
    pub name: String,
    /// Number of the argument that limits the number of rows, from 1.
    pub limit_argument: usize,
    /// Name of that argument, if it has one.
    pub limit_name: Option<String>,
    /// Data type of that argument in SQL syntax: one of PostgreSQL's integer types.
    pub limit_type: String,
    /// The catalog version, read together with the other facts.
    pub catalog_version: CatalogVersion,
}

/// SQL condition: function `p` is one that the name may refer to, in its schema or through the search path.
pub(crate) fn may_be_named(name: &Name) -> String {
    let place = match &name.schema {
        Some(schema) => format!(
            "p.pronamespace = pg_catalog.to_regnamespace({})",
            quote_literal(&quote_ident(schema))
        ),
        None => "pg_catalog.pg_function_is_visible(p.oid)".to_owned(),
    };
    format!("p.proname = {} AND {place}", quote_literal(&name.name))
}

/// Query for one row with one boolean: whether both names refer to functions of the same single schema.
pub fn same_function_sql(one: &Name, other: &Name) -> String {
    let schemas = |name: &Name| {
        format!(
            "ARRAY(SELECT DISTINCT p.pronamespace FROM pg_catalog.pg_proc p WHERE {})",
            may_be_named(name)
        )
    };
    format!(
        "SELECT {one} = {other} AND pg_catalog.cardinality({one}) = 1",
        one = schemas(one),
        other = schemas(other),
    )
}

/// Query for one row per function that a call with this number of arguments may refer to: catalog version, schema, name
/// and type of the argument that limits the number of rows, and whether one call of the function can serve a group.
/// If there is more than one function, only PostgreSQL can determine which one a call refers to.
pub fn function_sql(name: &Name, arguments: usize, limit_argument: usize) -> String {
    format!(
        "SELECT {version}, n.nspname, \
         (SELECT pg_catalog.array_agg(a.name ORDER BY a.n) FROM ROWS FROM (pg_catalog.unnest(p.proargnames), pg_catalog.unnest(p.proargmodes)) WITH ORDINALITY AS a(name, mode, n) \
           WHERE a.mode IS NULL OR a.mode IN ('i', 'b', 'v'))[{limit_argument}], \
         pg_catalog.format_type(p.proargtypes[{limit_argument} - 1], NULL), \
         p.prokind = 'f' AND p.proretset AND p.provariadic = 0 \
           AND p.proargtypes[{limit_argument} - 1] = ANY ('{{pg_catalog.int2,pg_catalog.int4,pg_catalog.int8}}'::pg_catalog.regtype[]) \
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE {named} AND (p.provariadic <> 0 OR {arguments} BETWEEN p.pronargs - p.pronargdefaults AND p.pronargs)",
        version = catalog_version_sql(&name.name),
        named = may_be_named(name),
    )
}

/// SQL expression for the catalog version: row versions (`xmin`) of all functions with this name, in any schema, since a
/// call may refer to a new one, and of the columns of the rows that they return.
pub fn catalog_version_sql(name: &str) -> String {
    format!(
        "ARRAY(SELECT ROW(f.oid, f.xmin, ARRAY(SELECT ROW(a.attnum, a.xmin) FROM pg_catalog.pg_type y JOIN pg_catalog.pg_attribute a ON a.attrelid = y.typrelid \
           WHERE y.oid = f.prorettype AND a.attnum > 0 ORDER BY a.attnum)) FROM pg_catalog.pg_proc f WHERE f.proname = {} ORDER BY f.oid)::pg_catalog.text",
        quote_literal(name)
    )
}

/// Query for one row with one boolean: whether no function of these names is an aggregate, window function or
/// procedure.
pub fn plain_functions_sql(functions: &[Name]) -> String {
    let names = name_array(functions);
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = ANY ({names}) AND p.prokind <> 'f')"
    )
}

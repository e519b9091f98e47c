//! What the catalog says of functions that a configuration declares. The questions (SQL text) and the answers (plain
//! data) live here; asking them is the caller's work.

use crate::{Fingerprint, Name, quote_ident, quote_literal};

/// A function that takes rows from a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Schema it lives in.
    pub schema: String,
    /// Its name there.
    pub name: String,
    /// Number of the argument (from 1) that says how many rows are wanted.
    pub limit_argument: usize,
    /// That argument's name, if it has one.
    pub limit_name: Option<String>,
    /// That argument's type, as SQL: one of PostgreSQL's integers.
    pub limit_type: String,
    /// Taken when the facts were read.
    pub fingerprint: Fingerprint,
}

/// The functions `p` that a name may mean, as a condition: those of its schema, or those that the search path shows.
pub(crate) fn meant_by(name: &Name) -> String {
    let place = match &name.schema {
        Some(schema) => format!(
            "p.pronamespace = pg_catalog.to_regnamespace({})",
            quote_literal(&quote_ident(schema))
        ),
        None => "pg_catalog.pg_function_is_visible(p.oid)".to_owned(),
    };
    format!("p.proname = {} AND {place}", quote_literal(&name.name))
}

/// Asks for one row with one boolean: do the two names mean functions of one and the same schema?
pub fn same_function_sql(one: &Name, other: &Name) -> String {
    let schemas = |name: &Name| {
        format!(
            "ARRAY(SELECT DISTINCT p.pronamespace FROM pg_catalog.pg_proc p WHERE {})",
            meant_by(name)
        )
    };
    format!(
        "SELECT {one} = {other} AND pg_catalog.cardinality({one}) = 1",
        one = schemas(one),
        other = schemas(other),
    )
}

/// Asks for a row per function that a call with so many arguments may mean: fingerprint, schema, name and type of the
/// argument that says how many rows are wanted, and whether it is a function that can be called for many. Which of
/// several is meant only PostgreSQL can tell.
pub fn function_sql(name: &Name, arguments: usize, limit_argument: usize) -> String {
    format!(
        "SELECT {print}, n.nspname, \
         (SELECT pg_catalog.array_agg(a.name ORDER BY a.n) FROM ROWS FROM (pg_catalog.unnest(p.proargnames), pg_catalog.unnest(p.proargmodes)) WITH ORDINALITY AS a(name, mode, n) \
           WHERE a.mode IS NULL OR a.mode IN ('i', 'b', 'v'))[{limit_argument}], \
         pg_catalog.format_type(p.proargtypes[{limit_argument} - 1], NULL), \
         p.prokind = 'f' AND p.proretset AND p.provariadic = 0 \
           AND p.proargtypes[{limit_argument} - 1] = ANY ('{{pg_catalog.int2,pg_catalog.int4,pg_catalog.int8}}'::pg_catalog.regtype[]) \
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE {meant} AND (p.provariadic <> 0 OR {arguments} BETWEEN p.pronargs - p.pronargdefaults AND p.pronargs)",
        print = fingerprint_sql(&name.name),
        meant = meant_by(name),
    )
}

/// The fingerprint as an SQL expression: row versions (`xmin`) of all functions of this name, in whatever schema, since
/// one that is new may be meant from then on, and of the columns of the rows that they return.
pub fn fingerprint_sql(name: &str) -> String {
    format!(
        "ARRAY(SELECT ROW(f.oid, f.xmin, ARRAY(SELECT ROW(a.attnum, a.xmin) FROM pg_catalog.pg_type y JOIN pg_catalog.pg_attribute a ON a.attrelid = y.typrelid \
           WHERE y.oid = f.prorettype AND a.attnum > 0 ORDER BY a.attnum)) FROM pg_catalog.pg_proc f WHERE f.proname = {} ORDER BY f.oid)::pg_catalog.text",
        quote_literal(name)
    )
}

/// Asks for one row with one boolean: is there no aggregate or window function among those of these names?
pub fn plain_functions_sql(functions: &[Name]) -> String {
    let list: Vec<String> = functions.iter().map(|n| quote_literal(&n.name)).collect();
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = ANY (ARRAY[{}]::pg_catalog.name[]) AND p.prokind <> 'f')",
        list.join(",")
    )
}

//! Fragments of SQL that describe the definition of a table `c`, so that those of two servers can be compared. The session searches
//! only `pg_catalog`.

use super::catalog::{FIRST_USER_DEFINED_OID, NOT_POSTGRESQLS, calls_sql, text_array};
use super::subscription::{NAMES_OBJECTS, PORTABLE_FUNCTIONS};

/// Volatile functions whose values in defaults are different each time on any server.
pub(super) const RANDOM_FUNCTIONS: [&str; 6] = [
    "clock_timestamp",
    "gen_random_uuid",
    "random",
    "random_normal",
    "uuidv4",
    "uuidv7",
];

/// The OIDs of the types whose constants are OIDs of objects: `regproc`, `regprocedure`, `regoper`, `regoperator`, `regclass`,
/// `regtype`, `regconfig`, `regdictionary`, `regnamespace`, `regrole` and `regcollation`.
const OBJECT_TYPES: &str = "24|2202|2203|2204|2205|2206|3734|3769|4089|4096|4191";

/// SQL condition: the expression, a `pg_node_tree`, may have another value on another server of the version: it uses a function that
/// users have defined, or one that is neither immutable nor portable; a sequence; the user, role, database or schema
/// (`SVFOP_CURRENT_ROLE` and the following ones); or a constant that is the OID of an object.
fn may_differ(expression: &str) -> String {
    let portable = text_array(PORTABLE_FUNCTIONS.iter().chain(&RANDOM_FUNCTIONS));
    format!(
        "({expression}::text ~ '[{{](NEXTVALUEEXPR|SQLVALUEFUNCTION :op (9|1[0-9]) )' OR {expression}::text ~ ':consttype ({OBJECT_TYPES}) ' \
           OR {calls})",
        calls = calls_sql(
            expression,
            &format!(
                "{NOT_POSTGRESQLS} OR (p.provolatile <> 'i' AND p.proname <> ALL ({portable}))"
            )
        ),
    )
}

/// SQL expression: JSON array of texts, one for each column and each CHECK constraint, in an order that depends only on the texts.
pub(super) fn lines_sql() -> String {
    format!(
        "(SELECT json_agg(line ORDER BY line COLLATE \"C\")::text FROM (\
           SELECT concat('column ', quote_ident(a.attname), ' ', format_type(a.atttypid, a.atttypmod), \
             (SELECT concat_ws(' ', ' collate', quote_ident(l.collname), l.collprovider, l.collcollate, l.collctype, pg_collation_actual_version(l.oid)) \
              FROM pg_collation l WHERE l.oid = a.attcollation AND l.collname <> 'default'), \
             CASE WHEN a.attnotnull THEN ' not null' END, \
             CASE WHEN a.attgenerated <> '' THEN concat(' generated ', a.attgenerated, ' (', pg_get_expr(f.adbin, f.adrelid), ')') END) AS line \
           FROM pg_attribute a LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum WHERE {COLUMN_OF_C} \
           UNION ALL SELECT concat('check ', quote_ident(k.conname), ' ', pg_get_constraintdef(k.oid)) FROM pg_constraint k \
           WHERE k.conrelid = c.oid AND k.contype = 'c') AS definition)"
    )
}

/// SQL condition: `a` is a column of `c`.
const COLUMN_OF_C: &str = "a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped";

/// SQL expression: JSON array of the columns, each an array of name, number, OID of the type, type modifier, kind of default (`null`,
/// `expression`, `by default` or `always`), the expression, and whether it may differ on another server.
pub(super) fn columns_sql() -> String {
    format!(
        "(SELECT json_agg(json_build_array(a.attname, a.attnum, a.atttypid::int8, a.atttypmod, \
             CASE WHEN a.attidentity = 'a' THEN 'always' WHEN a.attidentity = 'd' THEN 'by default' \
               WHEN a.attgenerated = '' AND f.adbin IS NOT NULL THEN 'expression' ELSE 'null' END, \
             CASE WHEN a.attgenerated = '' THEN pg_get_expr(f.adbin, 0::oid) END, coalesce({differs}, false)) ORDER BY a.attnum)::text \
           FROM pg_attribute a LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum WHERE {COLUMN_OF_C})",
        differs = may_differ("f.adbin"),
    )
}

/// SQL expression: what makes a statement on `c` depend on more than its row, as text; NULL if nothing does. `cases` are further WHEN
/// clauses that come first.
pub(super) fn unfit_sql(cases: &str) -> String {
    let of_columns = |condition: &str, why: &str| {
        format!(
            "WHEN EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum \
             WHERE {COLUMN_OF_C} AND {condition}) THEN '{why}' "
        )
    };
    format!(
        "CASE {cases}WHEN c.relpersistence <> 'p' THEN 'it is unlogged or temporary' \
           WHEN c.relrowsecurity THEN 'it has row-level security' \
           WHEN c.relhasrules THEN 'it has rules' \
           {TRIGGERS}\
           WHEN EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f') \
             OR EXISTS (SELECT FROM pg_trigger g JOIN pg_constraint k ON k.oid = g.tgconstraint WHERE g.tgrelid = c.oid AND k.contype = 'f') THEN 'it has foreign keys, or foreign keys refer to it' \
           {types}{collations}{generated}\
           WHEN EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c' AND {checks}) \
             THEN 'the result of a check may differ on another server' END",
        types = of_columns(
            &format!(
                "(t.oid >= {FIRST_USER_DEFINED_OID}::oid OR t.typnamespace <> 'pg_catalog'::regnamespace OR {NAMES_OBJECTS})"
            ),
            "the type of a column is defined by users, or names objects of the catalog"
        ),
        collations = of_columns(
            "a.attcollation <> 0 AND NOT EXISTS (SELECT FROM pg_collation l WHERE l.oid = a.attcollation AND l.collnamespace = 'pg_catalog'::regnamespace)",
            "users have defined the collation of a column"
        ),
        generated = of_columns(
            &format!("a.attgenerated <> '' AND {}", may_differ("f.adbin")),
            "a generated column may differ on another server"
        ),
        checks = may_differ("k.conbin"),
    )
}

/// A WHEN clause.
pub(super) const TRIGGERS: &str = "WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal) THEN 'it has triggers' ";

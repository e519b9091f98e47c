//! Fragments of SQL that several catalog queries contain.

use crate::name::Name;
use crate::quote::{quote_ident, quote_literal};

/// The first OID of user-defined objects (`FirstNormalObjectId`). Lower ones belong to objects of PostgreSQL.
pub const FIRST_USER_DEFINED_OID: u32 = 16_384;

/// A name as string constant for `to_regclass` and `to_regtype`.
pub(super) fn reg_literal(name: &Name) -> String {
    let text = match &name.schema {
        Some(schema) => format!("{}.{}", quote_ident(schema), quote_ident(&name.name)),
        None => quote_ident(&name.name),
    };
    quote_literal(&text)
}

/// SQL array of names without their schemas.
pub(crate) fn name_array<'a>(names: impl IntoIterator<Item = &'a Name>) -> String {
    text_array(names.into_iter().map(|name| &name.name))
}

/// SQL array of these names.
pub(crate) fn text_array<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names = names.into_iter().map(|name| quote_literal(name.as_ref()));
    format!(
        "ARRAY[{}]::pg_catalog.name[]",
        Vec::from_iter(names).join(",")
    )
}

/// SQL array of names for `to_regclass`.
pub(crate) fn class_array(names: &[Name]) -> String {
    let names = names.iter().map(regclass_literal);
    format!(
        "ARRAY[{}]::pg_catalog.text[]",
        Vec::from_iter(names).join(",")
    )
}

/// A name as string constant for `to_regclass`.
pub fn regclass_literal(name: &Name) -> String {
    reg_literal(name)
}

/// `tree(id)`: the table and its partitions.
pub(crate) fn tree_sql(name: &Name) -> String {
    let class = format!("pg_catalog.to_regclass({})", regclass_literal(name));
    format!(
        "tree(id) AS MATERIALIZED (SELECT {class}::pg_catalog.oid WHERE {class} IS NOT NULL \
         UNION SELECT p.relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree({class}) p)"
    )
}

/// `ancestors(id)`: the partitioned tables of which the table is a partition, directly or indirectly.
pub(crate) fn ancestors_sql(name: &Name) -> String {
    let class = format!("pg_catalog.to_regclass({})", regclass_literal(name));
    format!(
        "ancestors(id) AS MATERIALIZED (SELECT p.relid::pg_catalog.oid FROM pg_catalog.pg_partition_ancestors({class}) p \
         WHERE p.relid <> {class})"
    )
}

/// `types(id)`: the types of the columns of all tables in `tree(id)`, and the types that they consist of. Requires
/// WITH RECURSIVE.
pub(crate) const TYPES_SQL: &str = "types(id) AS (SELECT a.atttypid FROM tree JOIN pg_catalog.pg_attribute a ON a.attrelid = tree.id \
      WHERE a.attnum > 0 AND NOT a.attisdropped \
    UNION SELECT p.id FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id, LATERAL (SELECT t.typbasetype UNION ALL SELECT t.typelem \
      UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid) \
      UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) p(id))";

/// The OIDs of domains and enums among `types(id)`, as text.
pub(crate) fn user_defined_types_sql() -> String {
    format!(
        "pg_catalog.array_to_string(ARRAY(SELECT t.oid FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id \
         WHERE t.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid AND t.typtype IN ('d', 'e') ORDER BY t.oid), ',')"
    )
}

/// SQL condition: operator class `o`, under which a column of type `t` is indexed, is PostgreSQL's own and for this type. PostgreSQL
/// accepts the classes of some other types: under those of `character`, texts are equal if they differ only in blanks at
/// their end. (`varchar` and `cidr` have no default classes of their own.)
pub(super) const CLASS_OF_TYPE: &str = "(o.oid < 16384::pg_catalog.oid AND (o.opcintype IN (t.oid, t.typbasetype) \
     OR o.opcintype IN (SELECT y.oid FROM pg_catalog.pg_type y WHERE y.typtype = 'p') \
     OR (o.opcintype, CASE t.typbasetype WHEN 0::pg_catalog.oid THEN t.oid ELSE t.typbasetype END) IN (\
       ('pg_catalog.text'::pg_catalog.regtype, 'pg_catalog.varchar'::pg_catalog.regtype), \
       ('pg_catalog.inet'::pg_catalog.regtype, 'pg_catalog.cidr'::pg_catalog.regtype))))";

/// SQL condition: PostgreSQL converts texts between the encodings of the client and of the database.
pub(super) const CONVERTS_TEXTS: &str = "(pg_catalog.pg_client_encoding() <> pg_catalog.getdatabaseencoding() \
     AND 'SQL_ASCII' NOT IN (pg_catalog.pg_client_encoding(), pg_catalog.getdatabaseencoding()))";

/// SQL condition: function `p` is not PostgreSQL's own.
pub(crate) const NOT_POSTGRESQLS: &str =
    "(p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace OR p.oid >= 16384::pg_catalog.oid)";

/// SQL condition: function `p` is volatile or not written in C.
pub(crate) const NOT_IN_C: &str = "(p.provolatile = 'v' OR p.prolang NOT IN (SELECT l.oid FROM pg_catalog.pg_language l WHERE l.lanname IN ('internal', 'c')))";

/// SQL condition: the expression, a `pg_node_tree`, calls a function `p` for which `condition` is true.
pub(crate) fn calls_sql(expression: &str, condition: &str) -> String {
    format!(
        "EXISTS (SELECT FROM pg_catalog.regexp_matches({expression}::pg_catalog.text, ':(?:funcid|opfuncid) ([0-9]+)', 'g') AS m(ids) \
           JOIN pg_catalog.pg_proc p ON p.oid = m.ids[1]::pg_catalog.oid WHERE {condition})"
    )
}

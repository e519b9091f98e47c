//! The catalog version: an SQL expression over the facts that a group's statement depends on, and its value at the
//! analysis. The statement compares the two in its own transaction: if they differ, it changes nothing.
//!
//! The catalog version contains row versions (`xmin`) of all catalog rows that determine whether and how a statement is
//! grouped. VACUUM and ANALYZE do not change them, because they update the catalog in place.

use super::catalog::{
    FIRST_USER_DEFINED_OID, TYPES_SQL, reg_literal, regclass_literal, tree_sql,
    user_defined_types_sql,
};
use super::names::Names;
use super::session::compared_sql;
use crate::name::Name;
use crate::quote::quote_literal;

/// The state of the catalog at the analysis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogVersion {
    /// SQL expression of type `text`.
    pub sql: String,
    /// Value of the expression at the analysis.
    pub value: String,
}

impl CatalogVersion {
    /// The combination of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            sql: format!("pg_catalog.concat({}, {})", self.sql, other.sql),
            value: format!("{}{}", self.value, other.value),
        }
    }

    /// SQL condition: the value has not changed. Parameter `place` is the old value.
    pub(crate) fn holds(&self, place: usize) -> String {
        format!("({} OPERATOR(pg_catalog.=) ${place})", self.sql)
    }
}

/// A table and the objects that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    /// OIDs of the table and of all its partitions.
    pub tree: Vec<u32>,
    /// OIDs of the domains and enums in its columns.
    pub types: Vec<u32>,
    /// Whether the table may have triggers. The first trigger changes the table's row in `pg_class`, further ones do
    /// not.
    pub triggers: bool,
    /// Whether the table may have inheritance children or partitions. The first child changes the table's row in
    /// `pg_class`, further ones do not.
    pub children: bool,
}

/// Query for one row with the fields of [`Extent`] in their order. It must be executed before the other queries,
/// because it determines the catalog version.
pub fn extent_sql(name: &Name) -> String {
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL} SELECT pg_catalog.array_to_string(ARRAY(SELECT id FROM tree ORDER BY id), ','), {types}, \
         (SELECT pg_catalog.bool_or(c.relhastriggers) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id), \
         (SELECT pg_catalog.bool_or(c.relhassubclass) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id)",
        tree = tree_sql(name),
        types = user_defined_types_sql(),
    )
}

/// SQL condition: the column contains one of these OIDs.
fn among(column: &str, oids: &[u32]) -> String {
    match oids {
        [one] => format!("v.{column} = {one}::pg_catalog.oid"),
        all => {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            format!(
                "v.{column} = ANY ('{{{}}}'::pg_catalog.oid[])",
                all.join(",")
            )
        }
    }
}

/// Row versions of rows of a catalog, in a fixed order.
pub(crate) fn versions(table: &str, column: &str, oids: &[u32], order: &str) -> String {
    let condition = among(column, oids);
    format!("ARRAY(SELECT v.xmin FROM pg_catalog.{table} v WHERE {condition} ORDER BY {order})")
}

/// Row versions of the columns of these tables.
pub(crate) fn column_versions(tree: &[u32]) -> String {
    let condition = among("attrelid", tree);
    format!(
        "ARRAY(SELECT v.xmin FROM pg_catalog.pg_attribute v WHERE {condition} AND v.attnum > 0 ORDER BY v.attrelid, v.attnum)"
    )
}

/// Row versions of the definitions of domains and enums.
pub(crate) fn type_versions(types: &[u32]) -> Vec<String> {
    if types.is_empty() {
        return Vec::new();
    }
    vec![
        versions("pg_type", "oid", types, "v.oid"),
        versions("pg_constraint", "contypid", types, "v.oid"),
        versions("pg_enum", "enumtypid", types, "v.oid"),
    ]
}

/// The catalog version of a table. CHECK constraints and the first trigger or child of a table change its row in
/// `pg_class`. Further triggers and children, children and constraints of partitions, and the definitions of domains
/// and enums do not, so that the catalog version includes their own rows.
pub fn table_sql(name: &Name, extent: &Extent) -> String {
    let tree = &extent.tree;
    let mut parts = vec![
        format!(
            "pg_catalog.to_regclass({})::pg_catalog.oid",
            regclass_literal(name)
        ),
        versions("pg_class", "oid", tree, "v.oid"),
        column_versions(tree),
        versions("pg_index", "indrelid", tree, "v.indexrelid"),
    ];
    if extent.triggers {
        parts.push(versions("pg_trigger", "tgrelid", tree, "v.oid"));
    }
    if extent.children {
        parts.push(versions("pg_inherits", "inhparent", tree, "v.inhrelid"));
    }
    if tree.len() > 1 {
        parts.push(versions("pg_constraint", "conrelid", tree, "v.oid"));
    }
    parts.extend(type_versions(&extent.types));
    format!("ROW({})::pg_catalog.text", parts.join(", "))
}

/// Whether users have added operators or casts to PostgreSQL's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Operators with names that the statement uses.
    pub operators: bool,
    /// Casts with a function.
    pub casts: bool,
}

impl Names {
    /// Query for one row with the fields of [`Added`] in their order. The catalog version depends on it.
    pub fn added_sql(&self) -> String {
        format!(
            "SELECT EXISTS (SELECT FROM {operators}), EXISTS (SELECT FROM {casts} AND o.castfunc <> 0::pg_catalog.oid)",
            operators = self.user_defined_operators(),
            casts = user_defined_casts(),
        )
    }

    /// The catalog version of the objects that the names refer to, and of the session settings that determine them.
    pub fn catalog_version_sql(&self, added: Added) -> String {
        let mut parts = vec![compared_sql()];
        let functions = self.function_list();
        if !self.functions.is_empty() {
            // All functions of the name, in any schema: a new one may be a better match.
            parts.push(format!(
                "ARRAY(SELECT v.xmin FROM pg_catalog.pg_proc v WHERE v.proname = ANY ({functions}) ORDER BY v.oid)"
            ));
        }
        let with_functions = |added: bool, from: String, function: &str| match added {
            false => format!("ARRAY(SELECT o.oid FROM {from} ORDER BY o.oid)"),
            true => format!(
                "ARRAY(SELECT ROW(o.oid, (SELECT p.xmin FROM pg_catalog.pg_proc p WHERE p.oid = o.{function}::pg_catalog.oid)) FROM {from} ORDER BY o.oid)"
            ),
        };
        parts.push(with_functions(
            added.operators,
            self.user_defined_operators(),
            "oprcode",
        ));
        parts.push(with_functions(
            added.casts,
            user_defined_casts(),
            "castfunc",
        ));
        for name in &self.types {
            let literal = reg_literal(name);
            parts.push(format!("pg_catalog.to_regtype({literal})::pg_catalog.oid"));
        }
        for name in &self.relations {
            let literal = quote_literal(name);
            parts.push(format!("pg_catalog.to_regclass({literal})::pg_catalog.oid"));
        }
        format!("ROW({})::pg_catalog.text", parts.join(", "))
    }

    /// User-defined operators `o` with one of the names.
    fn user_defined_operators(&self) -> String {
        format!(
            "pg_catalog.pg_operator o WHERE o.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid AND o.oprname = ANY ({})",
            self.operator_list()
        )
    }
}

/// User-defined casts `o`.
fn user_defined_casts() -> String {
    format!("pg_catalog.pg_cast o WHERE o.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid")
}

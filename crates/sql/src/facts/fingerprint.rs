//! The fingerprint: an SQL expression over the facts that a plan was made for, and its value when the
//! plan was made. A group's statement compares the two in its own transaction: if they differ it does nothing.
//!
//! It holds row versions (`xmin`) of everything in the catalog that decides whether and how a statement is grouped. VACUUM
//! and ANALYZE do not move them: they update the catalog in place.

use super::Names;
use crate::{Name, quote_ident, quote_literal};

/// OIDs below this one are those of objects that PostgreSQL itself brings (`FirstNormalObjectId`).
pub(crate) const FIRST_OWN_OID: u32 = 16_384;

/// What a plan was made for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// An expression of type text.
    pub sql: String,
    /// Its value when the plan was made.
    pub value: String,
}

impl Fingerprint {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            sql: format!("pg_catalog.concat({}, {})", self.sql, other.sql),
            value: format!("{}{}", self.value, other.value),
        }
    }

    /// A condition: nothing has changed; `place` is the parameter that is the value.
    pub(crate) fn holds(&self, place: usize) -> String {
        format!("({} OPERATOR(pg_catalog.=) ${place})", self.sql)
    }
}

/// A table with all that belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    /// OIDs of the table and of all its partitions.
    pub tree: Vec<u32>,
    /// OIDs of domains and enums that its columns are made of.
    pub types: Vec<u32>,
    /// It may have triggers: a first one would show in its row of pg_class, a further one would not.
    pub triggers: bool,
    /// It may have inheritance children or partitions: likewise.
    pub children: bool,
}

/// A name as SQL that `to_regclass` and `to_regtype` take.
fn reg_literal(name: &Name) -> String {
    let text = match &name.schema {
        Some(schema) => format!("{}.{}", quote_ident(schema), quote_ident(&name.name)),
        None => quote_ident(&name.name),
    };
    quote_literal(&text)
}

/// A name as SQL that `to_regclass` takes.
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

/// `types(id)`: the types of the columns of all tables in `tree(id)`, and all that these are made of. For WITH RECURSIVE.
pub(crate) const TYPES_SQL: &str = "types(id) AS (SELECT a.atttypid FROM tree JOIN pg_catalog.pg_attribute a ON a.attrelid = tree.id \
      WHERE a.attnum > 0 AND NOT a.attisdropped \
    UNION SELECT p.id FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id, LATERAL (SELECT t.typbasetype UNION ALL SELECT t.typelem \
      UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid) \
      UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) p(id))";

/// The OIDs of domains and enums among `types(id)`, as text.
pub(crate) fn own_types_sql() -> String {
    format!(
        "pg_catalog.array_to_string(ARRAY(SELECT t.oid FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id \
         WHERE t.oid >= {FIRST_OWN_OID}::pg_catalog.oid AND t.typtype IN ('d', 'e') ORDER BY t.oid), ',')"
    )
}

/// Asks for one row, in the order of [`Extent`]'s fields. It decides which fingerprint is taken, before anything else is
/// asked.
pub fn extent_sql(name: &Name) -> String {
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL} SELECT pg_catalog.array_to_string(ARRAY(SELECT id FROM tree ORDER BY id), ','), {types}, \
         (SELECT pg_catalog.bool_or(c.relhastriggers) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id), \
         (SELECT pg_catalog.bool_or(c.relhassubclass) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id)",
        tree = tree_sql(name),
        types = own_types_sql(),
    )
}

/// A list of OIDs as a condition on a column.
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

/// Row versions of a table of the catalog, in an order.
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

/// Row versions of what domains and enums are.
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

/// The fingerprint of a table. CHECK constraints and the first trigger or child of a table show in its row of pg_class;
/// further ones do not, nor do children and constraints of partitions, nor what domains and enums are.
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

/// What users have added to PostgreSQL's operators and casts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Operators of the names that are used.
    pub operators: bool,
    /// Casts by functions.
    pub casts: bool,
}

impl Names {
    /// Asks for one row, in the order of [`Added`]'s fields: what the fingerprint must look into.
    pub fn added_sql(&self) -> String {
        format!(
            "SELECT EXISTS (SELECT FROM {operators}), EXISTS (SELECT FROM {casts} AND o.castfunc <> 0::pg_catalog.oid)",
            operators = self.own_operators(),
            casts = own_casts(),
        )
    }

    /// The fingerprint of what the names mean, and of what in the session decides about that.
    pub fn fingerprint_sql(&self, added: Added) -> String {
        let mut parts = vec![super::session::compared_sql()];
        let functions = self.function_list();
        if !self.functions.is_empty() {
            // All of the name, in any schema: a new one may be a better match.
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
            self.own_operators(),
            "oprcode",
        ));
        parts.push(with_functions(added.casts, own_casts(), "castfunc"));
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

    /// Operators `o` of users with one of the names.
    fn own_operators(&self) -> String {
        format!(
            "pg_catalog.pg_operator o WHERE o.oid >= {FIRST_OWN_OID}::pg_catalog.oid AND o.oprname = ANY ({})",
            self.operator_list()
        )
    }
}

/// Casts `o` of users.
fn own_casts() -> String {
    format!("pg_catalog.pg_cast o WHERE o.oid >= {FIRST_OWN_OID}::pg_catalog.oid")
}

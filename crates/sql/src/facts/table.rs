//! Tables and their columns.

use super::catalog::{
    CLASS_OF_TYPE, CONVERTS_TEXTS, ancestors_sql, regclass_literal, text_array, tree_sql,
};
use super::catalog_version::{CatalogVersion, Extent};
use super::collation::Collation;
use super::stored_time::reads_moment_sql;
use crate::name::Name;
use crate::quote::quote_ident;

/// A table, or a partitioned table with its whole tree of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub name: String,
    /// The tables and types that the catalog version covers.
    pub extent: Extent,
    /// Reason why no strategy rewrites statements that write to this table (triggers, row security, …).
    pub refused: Option<String>,
    /// Whether the table is a partition of another table. Only takes are rewritten then: the others would have to
    /// evaluate the bounds of the partition for each member, as they do with `checks`.
    pub is_partition: bool,
    /// The catalog version, read before the other facts.
    pub catalog_version: CatalogVersion,
    /// Columns in table order.
    pub columns: Vec<Column>,
    /// Column sets of usable unique indexes: immediate, not partial, without expressions, and with the equality of the
    /// columns' types.
    pub keys: Vec<Vec<String>>,
    /// Number of all unique and exclusion indexes.
    pub unique_indexes: usize,
    /// CHECK constraints of the table, as expressions.
    pub checks: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Data type with modifier, in SQL syntax.
    pub type_name: String,
    /// Data type without modifier, in SQL syntax.
    pub bare_type_name: String,
    /// OID of the data type.
    pub type_oid: u32,
    /// Type modifier, -1 for none; for a domain, that of its base type.
    pub type_modifier: i32,
    /// OID of the base type; of the type itself if it is not a domain.
    pub base_type_oid: u32,
    /// Whether the type is an array, or a domain over an array.
    pub array: bool,
    /// Whether the column is declared NOT NULL, in the table or in a partition.
    pub not_null: bool,
    /// Whether values with different bytes are different under the column's collation.
    pub deterministic: bool,
    /// Whether the type is built-in, an enum, or a domain or array of such a type.
    pub builtin: bool,
    /// Whether an UPDATE that assigns the column cannot be folded: the column is part of a unique, exclusion,
    /// expression or partial index, of a foreign key or a partition key, or is indexed and of variable length.
    pub fixed: bool,
    /// Whether no row of the table holds NULL: since PostgreSQL 18, a NOT NULL constraint may be NOT VALID.
    pub never_null: bool,
    /// Whether its default, or that of its domain, reads the time, more precisely than its day.
    pub time_by_default: bool,
    /// The collation of its values.
    pub collation: Collation,
    /// Whether its values are texts that PostgreSQL converts between the encodings of the client and of the database. Then
    /// different texts of a client may be stored as the same text, and different stored texts sent as the same one.
    pub converted: bool,
}

impl TableFacts {
    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Reason why an UPDATE is not folded, and an INSERT not merged.
    pub(crate) fn refused_unless_taken(&self) -> Option<&str> {
        let partition = self.is_partition.then_some("a partition");
        self.refused.as_deref().or(partition)
    }

    /// Whether a column is of type `real` or `double precision`.
    pub(crate) fn has_floats(&self) -> bool {
        self.columns.iter().any(Column::is_float)
    }

    /// Whether only one unique index can detect a duplicate row. Partitions may have further indexes.
    pub fn has_one_unique_index(&self) -> bool {
        self.unique_indexes == 1 && self.extent.tree.len() == 1
    }

    /// The table's qualified name in SQL syntax.
    pub fn qualified(&self) -> String {
        format!("{}.{}", quote_ident(&self.schema), quote_ident(&self.name))
    }

    /// The same as the target of an UPDATE or DELETE, or in FROM. A child of the table that is created while PostgreSQL plans the statement
    /// is no part of it: the planner looks for children, not the analysis of the statement.
    pub(crate) fn rows(&self) -> String {
        match self.extent.is_one_table() {
            true => format!("ONLY {}", self.qualified()),
            false => self.qualified(),
        }
    }
}

/// `float4`, `float8`.
const FLOATS: [u32; 2] = [700, 701];

impl Column {
    /// Whether the type is `real` or `double precision`.
    pub(crate) fn is_float(&self) -> bool {
        FLOATS.contains(&self.base_type_oid)
    }
}

/// Query for one row: schema, name, reason for refusal, whether the table is a partition, number of unique and exclusion
/// indexes. If the table does not exist, it returns no row. (Before PostgreSQL 15, the copies of row triggers in
/// partitions count as internal.)
pub fn table_sql(name: &Name) -> String {
    format!(
        "WITH {tree}, {ancestors} SELECT n.nspname, c.relname, \
         CASE WHEN c.relkind NOT IN ('r', 'p') THEN 'not a table' \
         WHEN n.nspname = 'pg_catalog' THEN 'system catalog' \
         WHEN c.relpersistence = 't' THEN 'temporary table' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class m ON m.oid = id WHERE m.relkind NOT IN ('r', 'p')) THEN 'foreign partition' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class m ON m.oid = id WHERE m.relrowsecurity) THEN 'row security' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class m ON m.oid = id WHERE m.relhasrules) THEN 'rules' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_trigger g ON g.tgrelid = id WHERE NOT g.tgisinternal) THEN 'triggers' \
         WHEN EXISTS (SELECT FROM ancestors JOIN pg_catalog.pg_trigger g ON g.tgrelid = id WHERE NOT g.tgisinternal AND (g.tgtype & 1) <> 0) THEN 'triggers' \
         WHEN c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid) THEN 'inheritance children' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = id WHERE p.partexprs IS NOT NULL) THEN 'partitioned by an expression' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_constraint k ON k.conrelid = id WHERE k.contype = 'c' AND id <> c.oid AND k.conislocal) THEN 'a partition has a check of its own' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_attribute a ON a.attrelid = id WHERE a.attgenerated <> '') THEN 'generated columns' \
         END, c.relispartition, \
         (SELECT pg_catalog.count(*) FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = pg_catalog.to_regclass({class})",
        tree = tree_sql(name),
        ancestors = ancestors_sql(name),
        class = regclass_literal(name),
    )
}

/// Query for one row per column, with the fields of [`Column`] in their order. The collation is two columns: the
/// name of one of PostgreSQL's own, empty for others; whether users have defined it. A group compares
/// `client_encoding`, on which the last field depends.
pub fn columns_sql(name: &Name) -> String {
    format!(
        "WITH {tree} SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), pg_catalog.format_type(a.atttypid, -1), \
         a.atttypid, CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END, \
         CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, t.typcategory = 'A', \
         EXISTS (SELECT FROM tree JOIN pg_catalog.pg_attribute p ON p.attrelid = id WHERE p.attname = a.attname AND p.attnotnull), \
         NOT EXISTS (SELECT FROM pg_catalog.pg_collation l WHERE NOT l.collisdeterministic AND (l.oid = a.attcollation OR EXISTS (SELECT FROM tree \
           JOIN pg_catalog.pg_index i ON i.indrelid = id JOIN pg_catalog.pg_attribute p ON p.attrelid = id AND p.attname = a.attname \
           WHERE p.attnum = ANY (i.indkey) AND l.oid = ANY (i.indcollation)))), \
         EXISTS (SELECT FROM pg_catalog.pg_type b WHERE b.oid IN (t.oid, t.typelem, t.typbasetype) \
           AND (b.typnamespace = 'pg_catalog'::pg_catalog.regnamespace OR b.typtype = 'e')) AND t.typtype IN ('b', 'd', 'e'), \
         EXISTS (SELECT FROM tree JOIN pg_catalog.pg_index i ON i.indrelid = id \
           JOIN pg_catalog.pg_attribute p ON p.attrelid = id AND p.attname = a.attname \
           WHERE (p.attnum = ANY (i.indkey) AND (i.indisunique OR i.indisexclusion OR t.typlen < 0)) \
             OR ((i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND EXISTS (SELECT FROM pg_catalog.pg_depend d \
               WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = i.indexrelid AND d.refobjid = id \
               AND d.refobjsubid = p.attnum))) \
         OR EXISTS (SELECT FROM tree JOIN pg_catalog.pg_constraint k ON id IN (k.conrelid, k.confrelid) AND k.contype IN ('f', 'x') \
           JOIN pg_catalog.pg_attribute p ON p.attrelid = id AND p.attname = a.attname \
           WHERE (k.conrelid = id AND p.attnum = ANY (k.conkey)) OR (k.confrelid = id AND p.attnum = ANY (k.confkey))) \
         OR EXISTS (SELECT FROM tree JOIN pg_catalog.pg_partitioned_table q ON q.partrelid = id \
           JOIN pg_catalog.pg_attribute p ON p.attrelid = id AND p.attname = a.attname WHERE p.attnum = ANY (q.partattrs)), \
         a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n' \
           AND NOT k.convalidated AND a.attnum = ANY (k.conkey)), \
         EXISTS (SELECT FROM pg_catalog.pg_attrdef f WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum AND {by_default}) \
         OR (NOT a.atthasdef AND t.typdefaultbin IS NOT NULL AND {by_domain}), \
         coalesce(o.collname, ''), a.attcollation <> 0::pg_catalog.oid AND o.oid IS NULL, t.typcollation <> 0::pg_catalog.oid AND {CONVERTS_TEXTS} \
         FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_collation o \
           ON o.oid = a.attcollation AND o.collnamespace = 'pg_catalog'::pg_catalog.regnamespace JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         WHERE a.attrelid = pg_catalog.to_regclass({class}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        by_default = reads_moment_sql("f.adbin"),
        by_domain = reads_moment_sql("t.typdefaultbin"),
        tree = tree_sql(name),
        class = regclass_literal(name),
    )
}

/// Operator classes of PostgreSQL with another order than the defaults of their types, but the same equality.
const SAME_EQUALITY: [&str; 4] = [
    "bpchar_pattern_ops",
    "text_pattern_ops",
    "varchar_ops",
    "varchar_pattern_ops",
];

/// Query for one row per column of each usable unique index: index OID, column name. A column with another equality in any unique
/// index is part of no key: ON CONFLICT with its columns as target uses all their unique indexes.
pub fn keys_sql(name: &Name) -> String {
    format!(
        "SELECT i.indexrelid, a.attname FROM pg_catalog.pg_index i \
         JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, n) ON k.n <= i.indnkeyatts \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
         WHERE i.indrelid = pg_catalog.to_regclass({class}) AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready \
         AND i.indpred IS NULL AND i.indexprs IS NULL \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_index u \
           CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(u.indkey::pg_catalog.int2[]), pg_catalog.unnest(u.indclass::pg_catalog.oid[])) AS e(attnum, class) \
           JOIN pg_catalog.pg_opclass o ON o.oid = e.class JOIN pg_catalog.pg_attribute c ON c.attrelid = u.indrelid AND c.attnum = e.attnum \
           JOIN pg_catalog.pg_type t ON t.oid = c.atttypid \
           WHERE u.indrelid = i.indrelid AND u.indisunique AND e.attnum = ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1]) \
             AND NOT ((o.opcdefault OR o.opcname = ANY ({same_equality})) AND {CLASS_OF_TYPE})) \
         ORDER BY i.indexrelid, k.n",
        class = regclass_literal(name),
        same_equality = text_array(SAME_EQUALITY),
    )
}

/// Query for one row per CHECK constraint: its expression.
pub fn checks_sql(name: &Name) -> String {
    format!(
        "SELECT pg_catalog.pg_get_expr(k.conbin, k.conrelid) FROM pg_catalog.pg_constraint k \
         WHERE k.conrelid = pg_catalog.to_regclass({class}) AND k.contype = 'c' ORDER BY k.oid",
        class = regclass_literal(name),
    )
}

/// Query for one row per type OID, in the order of `oids`: its name in SQL syntax, whether it is an array,
/// whether it is built-in or an enum, and whether its values have collations.
pub fn types_sql(oids: &[(u32, i32)]) -> String {
    let list: Vec<String> = oids
        .iter()
        .enumerate()
        .map(|(n, (oid, modifier))| format!("({n}, {oid}::pg_catalog.oid, {modifier})"))
        .collect();
    format!(
        "SELECT pg_catalog.format_type(t.oid, v.modifier), t.typcategory = 'A', t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace OR t.typtype = 'e', \
         t.typcollation <> 0::pg_catalog.oid \
         FROM (VALUES {}) AS v(n, id, modifier) JOIN pg_catalog.pg_type t ON t.oid = v.id ORDER BY v.n",
        list.join(",")
    )
}

//! Facts about tables from the catalog: queries (SQL text) and their results (plain data). The caller executes the
//! queries.
//!
//! The same catalogs yield the [fingerprint](Fingerprint). A group compares it again in its own transaction, because
//! DDL that has committed since the analysis changes it.

mod fingerprint;
mod grouped;
mod names;
mod numbers;
pub mod session;
#[cfg(test)]
mod tests;

use fingerprint::tree_sql;
pub use fingerprint::{
    Added, Extent, Fingerprint, extent_sql, regclass_literal, table_sql as fingerprint_sql,
};
pub(crate) use fingerprint::{
    FIRST_OWN_OID, TYPES_SQL, column_versions, own_types_sql, type_versions, versions,
};
pub use grouped::{fits_groups_sql, no_names_sql};
pub(crate) use names::NOT_IN_C;
pub use names::Names;

use crate::{Name, quote_ident, quote_literal};
pub use numbers::{no_numbers_read_sql, quiet_tables_sql};

/// Query for one row: `lock_timeout`, `statement_timeout` and `transaction_timeout` in milliseconds. 0 means no
/// limit; so does NULL, which `transaction_timeout` is before PostgreSQL 17.
pub const TIMEOUTS_SQL: &str = "SELECT (1000 * pg_catalog.date_part('epoch', pg_catalog.current_setting('lock_timeout')::pg_catalog.interval))::pg_catalog.int8, \
     (1000 * pg_catalog.date_part('epoch', pg_catalog.current_setting('statement_timeout')::pg_catalog.interval))::pg_catalog.int8, \
     (1000 * pg_catalog.date_part('epoch', pg_catalog.current_setting('transaction_timeout', true)::pg_catalog.interval))::pg_catalog.int8";

/// A table, or a partitioned table with its whole tree of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub name: String,
    /// The tables and types that the fingerprint covers.
    pub extent: Extent,
    /// Reason why no UPDATE of this table can be folded (triggers, row security, …).
    pub refused: Option<String>,
    /// The fingerprint, read before the other facts.
    pub fingerprint: Fingerprint,
    /// Columns in table order.
    pub columns: Vec<Column>,
    /// Column sets of usable unique indexes: immediate, not partial, without expressions.
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
}

impl TableFacts {
    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether only one unique index can detect a duplicate row. Partitions may have further indexes.
    pub fn has_one_unique_index(&self) -> bool {
        self.unique_indexes == 1 && self.extent.tree.len() == 1
    }

    /// The table's qualified name in SQL syntax.
    pub fn qualified(&self) -> String {
        format!("{}.{}", quote_ident(&self.schema), quote_ident(&self.name))
    }
}

/// Query for one row: schema, name, reason for refusal, number of unique and exclusion indexes. If the table does not
/// exist, it returns no row.
pub fn table_sql(name: &Name) -> String {
    format!(
        "WITH {tree} SELECT n.nspname, c.relname, \
         CASE WHEN c.relkind NOT IN ('r', 'p') THEN 'not a table' \
         WHEN n.nspname = 'pg_catalog' THEN 'system catalog' \
         WHEN c.relispartition THEN 'a partition' \
         WHEN c.relpersistence = 't' THEN 'temporary table' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class m ON m.oid = id WHERE m.relkind NOT IN ('r', 'p')) THEN 'foreign partition' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class m ON m.oid = id WHERE m.relrowsecurity) THEN 'row security' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class m ON m.oid = id WHERE m.relhasrules) THEN 'rules' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_trigger g ON g.tgrelid = id WHERE NOT g.tgisinternal) THEN 'triggers' \
         WHEN c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid) THEN 'inheritance children' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = id WHERE p.partexprs IS NOT NULL) THEN 'partitioned by an expression' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_constraint k ON k.conrelid = id WHERE k.contype = 'c' AND id <> c.oid AND k.conislocal) THEN 'a partition has a check of its own' \
         WHEN EXISTS (SELECT FROM tree JOIN pg_catalog.pg_attribute a ON a.attrelid = id WHERE a.attgenerated <> '') THEN 'generated columns' \
         END, \
         (SELECT pg_catalog.count(*) FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = pg_catalog.to_regclass({class})",
        tree = tree_sql(name),
        class = regclass_literal(name),
    )
}

/// Query for one row per column, with the fields of [`Column`] in their order.
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
           JOIN pg_catalog.pg_attribute p ON p.attrelid = id AND p.attname = a.attname WHERE p.attnum = ANY (q.partattrs)) \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         WHERE a.attrelid = pg_catalog.to_regclass({class}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        tree = tree_sql(name),
        class = regclass_literal(name),
    )
}

/// Query for one row per column of each usable unique index: index OID, column name.
pub fn keys_sql(name: &Name) -> String {
    format!(
        "SELECT i.indexrelid, a.attname FROM pg_catalog.pg_index i \
         JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, n) ON k.n <= i.indnkeyatts \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
         WHERE i.indrelid = pg_catalog.to_regclass({class}) AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready \
         AND i.indpred IS NULL AND i.indexprs IS NULL ORDER BY i.indexrelid, k.n",
        class = regclass_literal(name),
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

/// Functions of PostgreSQL whose result differs in a group, because they show settings or the transaction.
const CONTEXT_FUNCTIONS: [&str; 13] = [
    "current_setting",
    "table_to_xml",
    "table_to_xml_and_xmlschema",
    "schema_to_xml",
    "schema_to_xml_and_xmlschema",
    "database_to_xml",
    "database_to_xml_and_xmlschema",
    "txid_current",
    "txid_current_if_assigned",
    "txid_current_snapshot",
    "pg_current_xact_id",
    "pg_current_xact_id_if_assigned",
    "pg_current_snapshot",
];

/// Query for one row with one boolean: whether each function of these names is PostgreSQL's own, not volatile (unless
/// listed in `volatile`) and not in [`CONTEXT_FUNCTIONS`]; each operator is PostgreSQL's own for built-in types, and
/// not volatile; and each type is built-in.
pub fn harmless_sql(
    functions: &[Name],
    operators: &[Name],
    types: &[Name],
    volatile: &[&str],
) -> String {
    let names = |names: &[Name]| {
        let list: Vec<String> = names.iter().map(|n| quote_literal(&n.name)).collect();
        format!("ARRAY[{}]::pg_catalog.name[]", list.join(","))
    };
    let qualified = functions.iter().chain(operators).chain(types);
    let qualified = qualified
        .filter(|n| n.schema.as_deref().is_some_and(|s| s != "pg_catalog"))
        .count();
    let context = functions
        .iter()
        .filter(|name| CONTEXT_FUNCTIONS.contains(&name.name.as_str()))
        .count();
    format!(
        "SELECT {qualified} + {context} = 0 \
         AND NOT EXISTS (SELECT FROM pg_catalog.unnest({functions}) AS f(name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name) \
           OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name AND ({not_postgresqls} OR (p.provolatile = 'v' AND p.proname <> ALL (ARRAY[{volatile}]::pg_catalog.name[])) OR p.proretset))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprname = ANY ({operators}) AND o.oid >= {FIRST_OWN_OID}::pg_catalog.oid \
           AND (NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace) \
             OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = o.oprcode::pg_catalog.oid AND p.provolatile = 'v'))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.unnest({types}) AS f(name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typname = f.name AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace))",
        not_postgresqls = NOT_POSTGRESQLS,
        functions = names(functions),
        operators = names(operators),
        types = names(types),
        volatile = volatile
            .iter()
            .map(|name| quote_literal(name))
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// SQL condition: function `p` is not PostgreSQL's own.
pub(crate) const NOT_POSTGRESQLS: &str =
    "(p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace OR p.oid >= 16384::pg_catalog.oid)";

/// Query for one row with one boolean: whether each collation of these names is PostgreSQL's own. Another one may be
/// found in another schema next time.
pub fn plain_collations_sql(collations: &[Name]) -> String {
    let qualified = collations
        .iter()
        .filter(|n| n.schema.as_deref().is_some_and(|s| s != "pg_catalog"))
        .count();
    let list: Vec<String> = collations.iter().map(|n| quote_literal(&n.name)).collect();
    format!(
        "SELECT {qualified} = 0 AND NOT EXISTS (SELECT FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.name[]) AS f(name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_collation c WHERE c.collname = f.name AND c.collnamespace = 'pg_catalog'::pg_catalog.regnamespace))",
        list.join(",")
    )
}

/// Query for one row with one boolean: whether each type of these names is built-in or an enum. A cast to such a type
/// only reads.
pub fn plain_types_sql(types: &[Name]) -> String {
    let list: Vec<String> = types.iter().map(|n| quote_literal(&n.name)).collect();
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.name[]) AS f(name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typname = f.name) OR EXISTS (SELECT FROM pg_catalog.pg_type t \
           WHERE t.typname = f.name AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND t.typtype <> 'e'))",
        list.join(",")
    )
}

/// Query for one row with one boolean: whether neither the functions that fields of these names may call, nor the
/// functions of casts, include a user-defined volatile function.
pub fn no_hidden_calls_sql(fields: &[Name]) -> String {
    let list: Vec<String> = fields.iter().map(|n| quote_literal(&n.name)).collect();
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.provolatile = 'v' AND p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace \
         AND (p.proname = ANY (ARRAY[{}]::pg_catalog.name[]) OR EXISTS (SELECT FROM pg_catalog.pg_cast c WHERE c.castfunc = p.oid)))",
        list.join(",")
    )
}

/// Query for one row with one boolean: whether a function of these names may be user-defined. Only such a function
/// can change the session in a way that the statement does not show. (Its declared volatility does not matter: a
/// function that is STABLE or IMMUTABLE may call `set_config`, too.)
pub fn foreign_functions_sql(functions: &[Name]) -> String {
    let list: Vec<String> = functions.iter().map(|n| quote_literal(&n.name)).collect();
    format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.name[]) AS f(name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name) \
         OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name \
         AND p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace))",
        list.join(",")
    )
}

/// Query for one row with one boolean: whether each relation of these names is a table: not a view, which may call
/// functions; not a foreign table; without row security, whose policies may call functions; and without functions
/// that can be called like its columns.
pub fn plain_tables_sql(relations: &[Name]) -> String {
    let list: Vec<String> = relations.iter().map(regclass_literal).collect();
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.text[]) AS f(name) WHERE NOT EXISTS \
         (SELECT FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(f.name) AND c.relkind IN ('r', 'p', 'm') \
         AND NOT c.relrowsecurity AND NOT c.relhasrules AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p \
           WHERE p.pronargs = 1 AND p.proargtypes[0] = c.reltype)))",
        list.join(",")
    )
}

/// Query for one row with one boolean: whether the effect of a statement on one row of the table is independent of
/// its effect on other rows. It is not if the table has foreign keys to itself or with actions, if constraints,
/// defaults, domains or indexes use functions or operators that are not PostgreSQL's own, or if an UPDATE has
/// `assigned` a column of a unique or exclusion index: then one row may free the key of another.
pub fn apart_sql(name: &Name, assigned: &[String]) -> String {
    let assigned: Vec<String> = assigned
        .iter()
        .map(|column| quote_literal(column))
        .collect();
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL} SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.confrelid IN (SELECT id FROM tree) \
           AND (k.conrelid IN (SELECT id FROM tree) OR k.confdeltype NOT IN ('a', 'r') OR k.confupdtype NOT IN ('a', 'r'))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
           WHERE d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass) \
           AND ((d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND d.objid IN (SELECT k.oid FROM pg_catalog.pg_constraint k \
               WHERE k.conrelid IN (SELECT id FROM tree) OR (k.contypid <> 0 AND k.contypid IN (SELECT id FROM types)))) \
             OR (d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND d.objid IN (SELECT f.oid FROM pg_catalog.pg_attrdef f \
               WHERE f.adrelid IN (SELECT id FROM tree))) \
             OR (d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid IN (SELECT t.oid FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id \
               WHERE t.typtype = 'd')) \
             OR (d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid IN (SELECT i.indexrelid FROM pg_catalog.pg_index i \
               WHERE i.indrelid IN (SELECT id FROM tree))))) \
         AND NOT EXISTS (SELECT FROM tree JOIN pg_catalog.pg_index i ON i.indrelid = id JOIN pg_catalog.pg_attribute a ON a.attrelid = id \
           WHERE a.attname = ANY (ARRAY[{assigned}]::pg_catalog.name[]) AND (i.indisunique OR i.indisexclusion) \
           AND (a.attnum = ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1]) \
             OR ((i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND EXISTS (SELECT FROM pg_catalog.pg_depend d \
               WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = i.indexrelid AND d.refobjid = id \
               AND d.refobjsubid = a.attnum))))",
        tree = tree_sql(name),
        assigned = assigned.join(","),
    )
}

/// Query for one row with one boolean: whether no column other than `but` has a sequence number as its default.
pub fn no_serial_sql(name: &Name, but: &[String]) -> String {
    let but: Vec<String> = but.iter().map(|column| quote_literal(column)).collect();
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum \
         WHERE a.attrelid = pg_catalog.to_regclass({class}) AND a.attnum > 0 AND a.attname <> ALL (ARRAY[{but}]::pg_catalog.name[]) \
         AND (a.attidentity <> '' OR pg_catalog.pg_get_expr(f.adbin, f.adrelid) LIKE '%nextval(%'))",
        class = regclass_literal(name),
        but = but.join(","),
    )
}

/// Query for one row per type OID, in the order of `oids`: its name in SQL syntax, whether it is an array, and
/// whether it is built-in or an enum.
pub fn types_sql(oids: &[(u32, i32)]) -> String {
    let list: Vec<String> = oids
        .iter()
        .enumerate()
        .map(|(n, (oid, modifier))| format!("({n}, {oid}::pg_catalog.oid, {modifier})"))
        .collect();
    format!(
        "SELECT pg_catalog.format_type(t.oid, v.modifier), t.typcategory = 'A', t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace OR t.typtype = 'e' \
         FROM (VALUES {}) AS v(n, id, modifier) JOIN pg_catalog.pg_type t ON t.oid = v.id ORDER BY v.n",
        list.join(",")
    )
}

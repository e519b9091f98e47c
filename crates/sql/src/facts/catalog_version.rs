//! The catalog version: SQL expressions over the facts that a group's statement depends on, and their values at the
//! analysis. The statement compares the two in its own transaction: if they differ, it changes nothing.
//!
//! The catalog version contains row versions (`xmin`) of all catalog rows that determine whether and how a statement is
//! grouped. VACUUM and ANALYZE do not change them, because they update the catalog in place.
//!
//! PostgreSQL analyzes a prepared statement again if the definition of one of its tables has changed, or if an operator
//! has been created or dropped (see `plancache.c` in the sources of PostgreSQL). It looks for such changes after it has
//! locked the tables, and before it executes the statement. So a group's statement compares these facts,
//! [`CatalogVersion::at_analysis`], only when it has been analyzed again, and the others each time.
//! [The constant `now`](ANALYZED_AT) shows the difference: PostgreSQL replaces it with the start of the transaction in
//! which it analyzes the statement. A statement that has compared all facts returns this time, if an earlier transaction
//! has analyzed it; its next execution on the same connection has the time as a parameter. If it is still the same, so
//! are the facts: PostgreSQL has noticed no change since before they were compared.

use super::catalog::{
    FIRST_USER_DEFINED_OID, TYPES_SQL, reg_literal, regclass_literal, tree_sql,
    user_defined_types_sql,
};
use super::names::Names;
use super::session::compared_sql;
use crate::name::Name;
use crate::operator::{EQ, LT};
use crate::quote::quote_literal;

/// An SQL expression of type `text`, and its value at the analysis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// The expression.
    pub sql: String,
    /// Its value.
    pub value: String,
}

impl Compared {
    fn and(&self, other: &Self) -> Self {
        Self {
            sql: format!("pg_catalog.concat({}, {})", self.sql, other.sql),
            value: format!("{}{}", self.value, other.value),
        }
    }

    /// SQL condition: the value has not changed.
    pub fn holds(&self) -> String {
        format!("{} {EQ} {}", self.sql, quote_literal(&self.value))
    }
}

/// The state of the catalog at the analysis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogVersion {
    /// The facts that each execution compares.
    pub always: Compared,
    /// The facts after whose changes PostgreSQL analyzes the statement again.
    pub at_analysis: Option<Compared>,
}

/// The time at which PostgreSQL has analyzed the statement (PostgreSQL documentation, section "Current Date/Time").
const ANALYZED_AT: &str = "'now'::pg_catalog.timestamptz";

fn tsquery(word: &str) -> String {
    format!("'{word}'::pg_catalog.tsquery")
}

/// Result column of a group's statement: NULL if the catalog version has changed; otherwise the time at which PostgreSQL has
/// analyzed the statement, or `-infinity` if the same transaction has analyzed it.
pub(crate) const SAME: &str = "CASE WHEN facts.same THEN facts.analyzed END";

impl CatalogVersion {
    /// Facts that each execution compares.
    #[must_use]
    pub fn new(sql: String, value: String) -> Self {
        Self {
            always: Compared { sql, value },
            at_analysis: None,
        }
    }

    /// The combination of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let at_analysis = match (&self.at_analysis, &other.at_analysis) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        };
        Self {
            always: self.always.and(&other.always),
            at_analysis,
        }
    }

    /// The query `facts` of a group's statement: whether the catalog version is unchanged, and the time of the analysis. `also` are
    /// further conditions. Parameter `place` is the time of an analysis since which all facts have been compared.
    pub(crate) fn facts_sql(&self, place: usize, also: &str) -> String {
        // As a sub-select, the comparison would open the catalogs for each execution, even if CASE does not evaluate it. ts_rewrite
        // is the function of PostgreSQL without side effects that executes a query given as text.
        let otherwise = self.at_analysis.as_ref().map(|facts| {
            let (changed, same) = (tsquery("changed"), tsquery("same"));
            let query = format!("SELECT {changed}, {same} WHERE {}", facts.holds());
            let query = quote_literal(&query);
            format!("pg_catalog.ts_rewrite({changed}, {query}) {EQ} {same}")
        });
        format!(
            "SELECT {always} AND CASE WHEN {ANALYZED_AT} {EQ} ${place}::pg_catalog.timestamptz THEN true ELSE {otherwise} END{also} AS same, \
             CASE WHEN {ANALYZED_AT} {LT} pg_catalog.now() THEN {ANALYZED_AT} ELSE '-infinity'::pg_catalog.timestamptz END AS analyzed",
            always = self.always.holds(),
            otherwise = otherwise.as_deref().unwrap_or("true"),
        )
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
    /// Whether the table is partitioned.
    pub partitioned: bool,
}

impl Extent {
    /// Whether the table has no children, and only itself has its rows.
    pub(crate) fn is_one_table(&self) -> bool {
        self.tree.len() == 1 && !self.partitioned
    }
}

/// Query for one row with the fields of [`Extent`] in their order. It must be executed before the other queries,
/// because it determines the catalog version.
pub fn extent_sql(name: &Name) -> String {
    format!(
        "WITH RECURSIVE {tree}, {TYPES_SQL} SELECT pg_catalog.array_to_string(ARRAY(SELECT id FROM tree ORDER BY id), ','), {types}, \
         (SELECT pg_catalog.bool_or(c.relhastriggers) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id), \
         (SELECT pg_catalog.bool_or(c.relhassubclass) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id), \
         (SELECT pg_catalog.bool_or(c.relkind = 'p') FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id)",
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

/// SQL expressions of a catalog version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSql {
    /// For [`CatalogVersion::always`].
    pub always: String,
    /// For [`CatalogVersion::at_analysis`].
    pub at_analysis: Option<String>,
}

impl VersionSql {
    fn new(always: &[String], at_analysis: &[String]) -> Self {
        let row = |parts: &[String]| format!("ROW({})::pg_catalog.text", parts.join(", "));
        Self {
            always: row(always),
            at_analysis: (!at_analysis.is_empty()).then(|| row(at_analysis)),
        }
    }

    /// One expression for all facts.
    pub(crate) fn whole(&self) -> String {
        match &self.at_analysis {
            Some(at_analysis) => format!("pg_catalog.concat({}, {at_analysis})", self.always),
            None => self.always.clone(),
        }
    }

    /// A query for each expression, with one value.
    pub fn questions(&self) -> Vec<String> {
        let all = [Some(&self.always), self.at_analysis.as_ref()];
        let question = |sql: &String| format!("SELECT {sql}");
        all.into_iter().flatten().map(question).collect()
    }

    /// The catalog version with the answers to [`VersionSql::questions`].
    pub fn with<'a>(self, mut answers: impl Iterator<Item = &'a str>) -> Option<CatalogVersion> {
        let mut compared = |sql| {
            let value = answers.next()?.to_owned();
            Some(Compared { sql, value })
        };
        Some(CatalogVersion {
            always: compared(self.always)?,
            at_analysis: match self.at_analysis {
                Some(sql) => Some(compared(sql)?),
                None => None,
            },
        })
    }
}

/// The catalog version of a table. CHECK constraints and the first trigger or child of a table change its row in
/// `pg_class`. Further triggers and children, children and constraints of partitions, and the definitions of domains
/// and enums do not, so that the catalog version includes their own rows. PostgreSQL need not analyze a statement again if only
/// a partition or a type has changed, or if the name refers to another table.
pub fn table_sql(name: &Name, extent: &Extent) -> VersionSql {
    let tree = &extent.tree;
    let mut always = vec![format!(
        "pg_catalog.to_regclass({})::pg_catalog.oid",
        regclass_literal(name)
    )];
    let mut of_tables = vec![
        versions("pg_class", "oid", tree, "v.oid"),
        column_versions(tree),
        versions("pg_index", "indrelid", tree, "v.indexrelid"),
    ];
    if extent.triggers {
        of_tables.push(versions("pg_trigger", "tgrelid", tree, "v.oid"));
    }
    if extent.children {
        of_tables.push(versions("pg_inherits", "inhparent", tree, "v.inhrelid"));
    }
    if tree.len() > 1 {
        of_tables.push(versions("pg_constraint", "conrelid", tree, "v.oid"));
    }
    let mut at_analysis = Vec::new();
    match extent.is_one_table() {
        true => at_analysis = of_tables,
        false => always.extend(of_tables),
    }
    always.extend(type_versions(&extent.types));
    VersionSql::new(&always, &at_analysis)
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
    pub fn catalog_version_sql(&self, added: Added) -> VersionSql {
        let mut always = vec![compared_sql()];
        let functions = self.function_list();
        if !self.functions.is_empty() {
            // All functions of the name, in any schema: a new one may be a better match.
            always.push(format!(
                "ARRAY(SELECT v.xmin FROM pg_catalog.pg_proc v WHERE v.proname = ANY ({functions}) ORDER BY v.oid)"
            ));
        }
        let list = |from: &str| format!("ARRAY(SELECT o.oid FROM {from} ORDER BY o.oid)");
        let with_functions = |from: &str, function: &str| {
            format!(
                "ARRAY(SELECT ROW(o.oid, (SELECT p.xmin FROM pg_catalog.pg_proc p WHERE p.oid = o.{function}::pg_catalog.oid)) FROM {from} ORDER BY o.oid)"
            )
        };
        let operators = self.user_defined_operators();
        let mut at_analysis = Vec::new();
        match added.operators {
            true => always.push(with_functions(&operators, "oprcode")),
            false => at_analysis.push(list(&operators)),
        }
        let casts = user_defined_casts();
        always.push(match added.casts {
            true => with_functions(&casts, "castfunc"),
            false => list(&casts),
        });
        for name in &self.types {
            let literal = reg_literal(name);
            always.push(format!("pg_catalog.to_regtype({literal})::pg_catalog.oid"));
        }
        for name in &self.relations {
            let literal = quote_literal(name);
            always.push(format!("pg_catalog.to_regclass({literal})::pg_catalog.oid"));
        }
        VersionSql::new(&always, &at_analysis)
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

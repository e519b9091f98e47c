//! Checks whether a statement may share a transaction with others, as a member of a chain. A member must not notify,
//! because PostgreSQL removes duplicate notifications of a transaction. It must not change settings, because the
//! other members would run under them and their clients would lose them. A statement does neither if it, and each
//! object attached to the tables that it may change, calls only declared functions and PostgreSQL's own functions
//! outside of a list of exceptions.
//!
//! This module writes the queries; the caller executes them. At its end, a chain checks the catalog again: then the
//! tables of all members are locked ([`check_sql`]).

#[cfg(test)]
mod tests;

use crate::facts::{
    Added, Compared, FIRST_USER_DEFINED_OID, FieldNames, NOT_IN_C, NOT_POSTGRESQLS, Names,
    TYPES_SQL, calls_sql, class_array, column_versions, name_array, reads_moment_sql,
    regclass_literal, text_array, type_versions, user_defined_types_sql, versions,
};
use crate::function::may_be_named;
use crate::name::Name;
use crate::operator::CONCAT;
use crate::statement::Statement;

/// PostgreSQL's own functions that notify, change settings, execute a text, or read settings that a chain changes or the
/// text of its statement.
const EXCLUDED_FUNCTIONS: [&str; 13] = [
    "current_query",
    "current_setting",
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "pg_notify",
    "pg_reload_conf",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "query_to_xmlschema",
    "set_config",
    "setseed",
    "ts_rewrite",
    "ts_stat",
];

/// The error that [`check_sql`] raises contains this text.
const MOVED: &str = "paceline: moved: ";

/// The objects that a statement may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// OIDs of the tables that the statement names, of their partitions and children, of the tables that a foreign key
    /// changes with them, and of those of which the changed tables are partitions.
    pub tables: Vec<u32>,
    /// OIDs of the domains and enums in the columns of the tables that the statement may change.
    pub types: Vec<u32>,
}

/// A statement that may become a member, and the functions that are declared.
#[derive(Debug)]
pub struct Member<'a> {
    statement: &'a Statement,
    names: Names,
    /// Functions that the statement calls and that are not declared.
    called: Vec<&'a Name>,
    /// All declared functions.
    declared: &'a [&'a Name],
}

/// A check that a statement must pass to become a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Query that returns one row with one boolean.
    pub sql: String,
    /// Reason why the statement is executed alone if the boolean is false. Users see it.
    pub otherwise: &'static str,
}

/// `ancestors(id)`: the partitioned tables of which a table in `tree(id)` is a partition, directly or indirectly.
const ANCESTORS: &str = "ancestors(id) AS (SELECT a.relid::pg_catalog.oid FROM tree \
     CROSS JOIN LATERAL pg_catalog.pg_partition_ancestors(tree.id) AS a WHERE a.relid <> tree.id)";

const NO_TABLE: &str = "there is no such table";
const NOT_TABLES: &str = "views, rules, row security or tables of other servers";
const TRIGGERS: &str = "triggers that are not declared may notify or change settings";
const CALLS: &str = "functions that are not declared may notify or change settings";
/// The effect of a member may depend on the time, which all members share.
pub const BY_TIME: &str = "its effect may depend on the time, which the members share";
/// The effect or the answer of a member shows which transaction wrote a version of a row.
pub const BY_TRANSACTION: &str = "it reads the number of a transaction, which the members share";
const HIDDEN_CALLS: &str = "functions in defaults, constraints, indexes, operators or casts that are not declared may notify or change settings";

impl<'a> Member<'a> {
    /// `declared_calls` are the declared functions that the statement calls, `declared` are all declared functions.
    pub fn new(
        statement: &'a Statement,
        declared_calls: &[Name],
        declared: &'a [&'a Name],
    ) -> Self {
        let called = statement.functions.iter();
        Self {
            statement,
            names: Names::of_statement(&statement.functions, &statement.operators),
            called: called
                .filter(|name| !declared_calls.contains(name))
                .collect(),
            declared,
        }
    }

    /// Query that returns one row with the fields of [`Reach`] in their order.
    pub fn reach_sql(&self) -> String {
        format!(
            "WITH RECURSIVE {tree}, {ANCESTORS}, {TYPES_SQL}, {named} SELECT \
             pg_catalog.array_to_string(ARRAY(SELECT id FROM tree UNION SELECT id FROM ancestors UNION SELECT id FROM named ORDER BY id), ','), {types}",
            tree = self.tree(),
            named = self.named(),
            types = user_defined_types_sql(),
        )
    }

    fn relations_exist(&self) -> String {
        let exists = |name| {
            format!(
                "pg_catalog.to_regclass({}) IS NOT NULL",
                regclass_literal(name)
            )
        };
        let all: Vec<String> = self.statement.relations.iter().map(exists).collect();
        match all.is_empty() {
            true => "true".to_owned(),
            false => all.join(" AND "),
        }
    }

    /// `tree(id)`: the tables that the statement may change, also through foreign keys.
    fn tree(&self) -> String {
        format!(
            "tree(id) AS ({targets} UNION SELECT n.id FROM tree, LATERAL (SELECT h.inhrelid FROM pg_catalog.pg_inherits h WHERE h.inhparent = tree.id \
               UNION ALL SELECT k.conrelid FROM pg_catalog.pg_constraint k WHERE k.confrelid = tree.id AND k.contype = 'f' \
                 AND (k.confdeltype NOT IN ('a', 'r') OR k.confupdtype NOT IN ('a', 'r'))) AS n(id))",
            targets = existing(&self.statement.targets),
        )
    }

    /// `named(id)`: the tables that the statement names, with partitions and children.
    fn named(&self) -> String {
        format!(
            "named(id) AS ({relations} UNION SELECT h.inhrelid FROM named JOIN pg_catalog.pg_inherits h ON h.inhparent = named.id)",
            relations = existing(&self.statement.relations),
        )
    }

    /// OIDs of the declared functions.
    fn declared_oids(&self) -> String {
        let declared = self.declared.iter();
        let conditions: Vec<String> = declared.map(|name| may_be_named(name)).collect();
        let condition = match conditions.is_empty() {
            true => "false".to_owned(),
            false => format!("({})", conditions.join(") OR (")),
        };
        format!("(SELECT p.oid FROM pg_catalog.pg_proc p WHERE {condition})")
    }

    /// The checks that the statement must pass.
    pub fn questions(&self) -> Vec<Question> {
        let question = |sql: String, otherwise| Question { sql, otherwise };
        let mut all = vec![
            question(format!("SELECT {}", self.relations_exist()), NO_TABLE),
            question(self.plain_tables_sql(), NOT_TABLES),
            question(self.triggers_sql(), TRIGGERS),
            question(self.calls_sql(), CALLS),
            question(self.hidden_calls_sql(), HIDDEN_CALLS),
            question(self.names.only_extensions_sql(), HIDDEN_CALLS),
        ];
        if self.statement.has_on_conflict {
            all.push(question(self.no_time_by_default_sql(), BY_TIME));
        }
        all
    }

    fn plain_tables_sql(&self) -> String {
        format!(
            "WITH RECURSIVE {tree}, {named} SELECT NOT EXISTS (SELECT FROM (SELECT id FROM tree UNION SELECT id FROM named) AS t(id) JOIN pg_catalog.pg_class c ON c.oid = t.id \
             WHERE c.relkind NOT IN ('r', 'p', 'm') OR c.relrowsecurity OR c.relhasrules OR c.relpersistence = 't')",
            tree = self.tree(),
            named = self.named(),
        )
    }

    /// Checks triggers. Before PostgreSQL 15, the copies of row triggers in partitions count as internal.
    fn triggers_sql(&self) -> String {
        format!(
            "WITH RECURSIVE {tree}, {ANCESTORS} SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g \
             WHERE (g.tgrelid IN (SELECT id FROM tree) OR (g.tgrelid IN (SELECT id FROM ancestors) AND (g.tgtype & 1) <> 0)) \
               AND NOT g.tgisinternal AND g.tgfoid NOT IN {declared})",
            tree = self.tree(),
            declared = self.declared_oids(),
        )
    }

    /// Checks functions that the statement calls, and functions in the notation of a field of a row.
    fn calls_sql(&self) -> String {
        let not_allowed = |name: &&&Name| {
            EXCLUDED_FUNCTIONS.contains(&name.name.as_str()) || !name.may_be_system()
        };
        let not_allowed = self.called.iter().filter(not_allowed).count();
        format!(
            "SELECT {not_allowed} = 0 AND NOT EXISTS (SELECT FROM pg_catalog.unnest({called}) AS f(name) \
               WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name) \
               OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name AND {NOT_POSTGRESQLS})) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE ({NOT_POSTGRESQLS} OR p.provolatile = 'v') AND {calls})",
            called = name_array(self.called.iter().copied()),
            calls = FieldNames::of(self.statement).calls_sql(),
        )
    }

    /// Checks functions in objects attached to the tables: `pg_depend` shows all but PostgreSQL's own. Operators must be PostgreSQL's own or written in C, as
    /// those of extensions are.
    fn hidden_calls_sql(&self) -> String {
        format!(
            "WITH RECURSIVE {tree}, {TYPES_SQL}, \
             parts(class, id) AS (SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass::pg_catalog.oid, f.oid FROM tree JOIN pg_catalog.pg_attrdef f ON f.adrelid = tree.id \
               UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid FROM tree JOIN pg_catalog.pg_constraint k ON k.conrelid = tree.id \
               UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid FROM types JOIN pg_catalog.pg_constraint k ON k.contypid = types.id WHERE types.id <> 0::pg_catalog.oid \
               UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, t.oid FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id WHERE t.typtype = 'd' \
               UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, tree.id FROM tree \
               UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, i.indexrelid FROM tree JOIN pg_catalog.pg_index i ON i.indrelid = tree.id) \
             SELECT NOT EXISTS (SELECT FROM parts JOIN pg_catalog.pg_depend d ON d.classid = parts.class AND d.objid = parts.id \
                 WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid NOT IN {declared}) \
               AND NOT EXISTS (SELECT FROM tree JOIN pg_catalog.pg_attrdef f ON f.adrelid = tree.id WHERE {by_default}) \
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'c' \
                 AND (k.conrelid IN (SELECT id FROM tree) OR k.contypid IN (SELECT id FROM types WHERE id <> 0::pg_catalog.oid)) AND {by_check}) \
               AND NOT EXISTS (SELECT FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id WHERE {by_domain}) \
               AND NOT EXISTS (SELECT FROM parts JOIN pg_catalog.pg_depend d ON d.classid = parts.class AND d.objid = parts.id \
                 JOIN pg_catalog.pg_operator o ON o.oid = d.refobjid JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode::pg_catalog.oid \
                 WHERE d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND p.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid AND {NOT_IN_C})",
            tree = self.tree(),
            declared = self.declared_oids(),
            by_default = self.excluded_calls("f.adbin"),
            by_check = self.excluded_calls("k.conbin"),
            by_domain = self.excluded_calls("t.typdefaultbin"),
        )
    }

    /// Checks that an INSERT stores no time unless its text names it: an earlier member may have stored the same time, which would be a
    /// conflict, or which EXCLUDED would be compared with.
    fn no_time_by_default_sql(&self) -> String {
        format!(
            "WITH RECURSIVE {tree}, {TYPES_SQL}, stored(expression) AS (\
               SELECT f.adbin FROM tree JOIN pg_catalog.pg_attrdef f ON f.adrelid = tree.id \
               UNION ALL SELECT t.typdefaultbin FROM types JOIN pg_catalog.pg_type t ON t.oid = types.id) \
             SELECT NOT EXISTS (SELECT FROM stored WHERE {reads})",
            tree = self.tree(),
            reads = reads_moment_sql("stored.expression"),
        )
    }

    /// SQL condition: the stored expression calls one of [`EXCLUDED_FUNCTIONS`] that is not declared.
    fn excluded_calls(&self, expression: &str) -> String {
        let excluded = text_array(EXCLUDED_FUNCTIONS);
        let declared = self.declared_oids();
        calls_sql(
            expression,
            &format!("p.proname = ANY ({excluded}) AND p.oid NOT IN {declared}"),
        )
    }

    /// Query for [`Added`]: the objects that the catalog version must include.
    pub fn added_sql(&self) -> String {
        self.names.added_sql()
    }

    /// SQL expression for the row versions of all catalog rows that the checks depend on.
    pub fn catalog_version_sql(&self, reach: &Reach, added: Added) -> String {
        let tables = &reach.tables;
        let oid = |name| {
            format!(
                "pg_catalog.to_regclass({})::pg_catalog.oid",
                regclass_literal(name)
            )
        };
        let mut parts: Vec<String> = self.statement.relations.iter().map(oid).collect();
        if !tables.is_empty() {
            parts.extend([
                versions("pg_class", "oid", tables, "v.oid"),
                column_versions(tables),
                versions("pg_index", "indrelid", tables, "v.indexrelid"),
                versions("pg_trigger", "tgrelid", tables, "v.oid"),
                versions("pg_inherits", "inhparent", tables, "v.inhrelid"),
                versions("pg_constraint", "conrelid", tables, "v.oid"),
                versions("pg_constraint", "confrelid", tables, "v.oid"),
            ]);
        }
        parts.extend(type_versions(&reach.types));
        parts.push(self.names.catalog_version_sql(added).whole());
        format!("ROW({})::pg_catalog.text", parts.join(", "))
    }
}

/// Query for the OIDs of those of `tables` that exist.
fn existing(tables: &[Name]) -> String {
    let classes = class_array(tables);
    format!(
        "SELECT c.id FROM (SELECT pg_catalog.to_regclass(f.name)::pg_catalog.oid FROM pg_catalog.unnest({classes}) AS f(name)) AS c(id) \
         WHERE c.id IS NOT NULL"
    )
}

/// The last statement of a chain: raises an error, which rolls back the chain, if a fact has changed.
pub fn check_sql(facts: &Compared) -> String {
    format!(
        "WITH facts AS MATERIALIZED (SELECT {holds} AS same) \
         SELECT CASE WHEN facts.same THEN facts.same ELSE ('{MOVED}' {CONCAT} facts.same::pg_catalog.text)::pg_catalog.bool END FROM facts",
        holds = facts.holds(),
    )
}

/// Query for one boolean: whether the facts are still the same.
pub fn same_sql(facts: &Compared) -> String {
    format!("SELECT {}", facts.holds())
}

/// Whether an error is that of [`check_sql`], which casts a text to boolean.
pub fn is_moved(sqlstate: &str, message: &str) -> bool {
    sqlstate == "22P02" && message.contains(MOVED)
}

//! Queries that check whether the functions, operators, types and tables of a statement permit grouping it.

use super::catalog::{
    FIRST_USER_DEFINED_OID, NOT_POSTGRESQLS, TYPES_SQL, ancestors_sql, class_array, name_array,
    regclass_literal, text_array, tree_sql,
};
use crate::name::Name;
use crate::statement::Statement;

/// Functions of PostgreSQL whose result differs in a group, because they show settings or the transaction.
pub(super) const CONTEXT_FUNCTIONS: [&str; 13] = [
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
/// listed in `volatile`) and not in `CONTEXT_FUNCTIONS`; each operator is PostgreSQL's own for built-in types, and
/// not volatile; and each type is built-in.
pub fn harmless_sql(
    functions: &[Name],
    operators: &[Name],
    types: &[Name],
    volatile: &[&str],
) -> String {
    let all = functions.iter().chain(operators).chain(types);
    let qualified = all.filter(|name| !name.may_be_system()).count();
    let context = |name: &&Name| CONTEXT_FUNCTIONS.contains(&name.name.as_str());
    let context = functions.iter().filter(context).count();
    format!(
        "SELECT {qualified} + {context} = 0 \
         AND NOT EXISTS (SELECT FROM pg_catalog.unnest({functions}) AS f(name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name) \
           OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name AND ({not_postgresqls} OR (p.provolatile = 'v' AND p.proname <> ALL ({volatile})) OR p.proretset))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprname = ANY ({operators}) AND o.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid \
           AND (NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace) \
             OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = o.oprcode::pg_catalog.oid AND p.provolatile = 'v'))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.unnest({types}) AS f(name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typname = f.name AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace))",
        not_postgresqls = NOT_POSTGRESQLS,
        functions = name_array(functions),
        operators = name_array(operators),
        types = name_array(types),
        volatile = text_array(volatile),
    )
}

/// Query for one row with one boolean: whether each collation of these names is PostgreSQL's own. Another one may be
/// found in another schema next time.
pub fn plain_collations_sql(collations: &[Name]) -> String {
    let own = collations.iter().filter(|name| !name.may_be_system());
    let (qualified, names) = (own.count(), name_array(collations));
    format!(
        "SELECT {qualified} = 0 AND NOT EXISTS (SELECT FROM pg_catalog.unnest({names}) AS f(name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_collation c WHERE c.collname = f.name AND c.collnamespace = 'pg_catalog'::pg_catalog.regnamespace))"
    )
}

/// Query for one row with one boolean: whether each type of these names is built-in or an enum. A cast to such a type
/// only reads.
pub fn plain_types_sql(types: &[Name]) -> String {
    let names = name_array(types);
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.unnest({names}) AS f(name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typname = f.name) OR EXISTS (SELECT FROM pg_catalog.pg_type t \
           WHERE t.typname = f.name AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND t.typtype <> 'e'))"
    )
}

/// Names in positions of a field, which may be functions.
#[derive(Debug, Clone, Copy)]
pub struct FieldNames<'a> {
    /// Names behind a row of a table: PostgreSQL calls a function of such a row.
    pub of_rows: &'a [Name],
    /// Names behind any value.
    pub of_values: &'a [Name],
}

impl<'a> FieldNames<'a> {
    /// The names in a statement.
    pub fn of(statement: &'a Statement) -> Self {
        Self {
            of_rows: &statement.fields,
            of_values: match statement.has_function_in_from {
                true => &statement.fields,
                false => &statement.value_fields,
            },
        }
    }

    /// SQL condition on a row `p` of `pg_proc`: whether a field may call the function.
    pub(crate) fn calls_sql(self) -> String {
        format!(
            "(p.pronargs > 0 AND p.pronargs OPERATOR(pg_catalog.-) p.pronargdefaults <= 1 AND (p.proname = ANY ({of_values}) OR p.proname = ANY ({of_rows}) \
             AND EXISTS (SELECT FROM pg_catalog.pg_type a WHERE a.oid = p.proargtypes[0] AND (a.typtype IN ('c', 'p') \
               OR EXISTS (SELECT FROM pg_catalog.pg_type b WHERE b.oid = a.typbasetype AND b.typtype IN ('c', 'd')) \
               OR EXISTS (SELECT FROM pg_catalog.pg_cast x JOIN pg_catalog.pg_type s ON s.oid = x.castsource WHERE x.casttarget = a.oid AND s.typtype = 'c')))))",
            of_values = name_array(self.of_values),
            of_rows = name_array(self.of_rows),
        )
    }
}

/// Query for one row with one boolean: whether the functions that these fields may call are PostgreSQL's own and not volatile, and the
/// functions of casts include no user-defined volatile one.
pub fn no_hidden_calls_sql(fields: FieldNames<'_>) -> String {
    let calls = fields.calls_sql();
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE (p.provolatile = 'v' OR p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace) AND {calls}) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.provolatile = 'v' AND p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace \
           AND EXISTS (SELECT FROM pg_catalog.pg_cast c WHERE c.castfunc = p.oid))"
    )
}

/// Query for one row with one boolean: whether a function of these names, or one that a field may call, may be user-defined. Only such a
/// function can change the session in a way that the statement does not show. (Its declared volatility does not matter: a
/// function that is STABLE or IMMUTABLE may call `set_config`, too.)
pub fn foreign_functions_sql(functions: &[Name], fields: FieldNames<'_>) -> String {
    let (names, calls) = (name_array(functions), fields.calls_sql());
    format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.unnest({names}) AS f(name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name) \
         OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = f.name \
         AND p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace)) \
         OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace AND {calls})"
    )
}

/// Query for one row with one boolean: whether each relation of these names is a table: not a view, which may call
/// functions; not a foreign table; without row security, whose policies may call functions; and without functions
/// that can be called like its columns.
pub fn plain_tables_sql(relations: &[Name]) -> String {
    let classes = class_array(relations);
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.unnest({classes}) AS f(name) WHERE NOT EXISTS \
         (SELECT FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(f.name) AND c.relkind IN ('r', 'p', 'm') \
         AND NOT c.relrowsecurity AND NOT c.relhasrules AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p \
           WHERE p.pronargs = 1 AND p.proargtypes[0] = c.reltype)))"
    )
}

/// Functions of PostgreSQL, not volatile, whose result depends on the server or the connection.
const SERVER_FUNCTIONS: [&str; 40] = [
    "age",
    "current_setting",
    "icu_unicode_version",
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "mxid_age",
    "pg_available_extension_versions",
    "pg_available_extensions",
    "pg_backend_pid",
    "pg_conf_load_time",
    "pg_config",
    "pg_current_snapshot",
    "pg_current_xact_id",
    "pg_current_xact_id_if_assigned",
    "pg_cursor",
    "pg_extension_update_paths",
    "pg_get_replication_slots",
    "pg_is_other_temp_schema",
    "pg_listening_channels",
    "pg_my_temp_schema",
    "pg_numa_available",
    "pg_postmaster_start_time",
    "pg_prepared_statement",
    "pg_relation_filepath",
    "pg_replication_origin_oid",
    "pg_show_all_settings",
    "pg_tablespace_databases",
    "pg_tablespace_location",
    "pg_timezone_abbrevs",
    "pg_timezone_abbrevs_abbrevs",
    "pg_timezone_abbrevs_zone",
    "pg_timezone_names",
    "system_user",
    "txid_current",
    "txid_current_if_assigned",
    "txid_current_snapshot",
    "unicode_version",
    "version",
];

/// The prefix of the functions that show a server's own statistics.
const STATISTICS_PREFIX: &str = "pg_stat_";

/// Query for one row with one boolean: whether a read of these tables with these functions has the same result on a replica. It may
/// have another one if a table, or a table that inherits from it, is unlogged, temporary or foreign, or if a function shows the
/// server.
pub fn same_on_replicas_sql(relations: &[Name], functions: &[Name]) -> String {
    let classes = class_array(relations);
    let of_server = functions.iter().filter(|function| {
        let name = function.name.as_str();
        SERVER_FUNCTIONS.contains(&name) || name.starts_with(STATISTICS_PREFIX)
    });
    format!(
        "WITH RECURSIVE tree(id) AS (SELECT pg_catalog.to_regclass(f.name)::pg_catalog.oid FROM pg_catalog.unnest({classes}) AS f(name) \
           UNION SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.id) \
         SELECT {of_server} = 0 AND NOT EXISTS (SELECT FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.id \
           WHERE c.relpersistence <> 'p' OR c.relkind = 'f')",
        of_server = of_server.count(),
    )
}

/// Query for one row with one boolean: whether the effect of a statement on one row of the table is independent of
/// its effect on other rows. It is not if the table has foreign keys to itself or with actions (its partitions and the
/// tables of which it is a partition count as the table itself), if constraints, defaults, domains or indexes use
/// functions or operators that are not PostgreSQL's own, or if an UPDATE has `assigned` a column of a unique or
/// exclusion index: then one row may free the key of another.
pub fn apart_sql(name: &Name, assigned: &[String]) -> String {
    format!(
        "WITH RECURSIVE {tree}, {ancestors}, {TYPES_SQL} SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.confrelid IN (SELECT id FROM tree) \
           AND (k.conrelid IN (SELECT id FROM tree UNION ALL SELECT id FROM ancestors) OR k.confdeltype NOT IN ('a', 'r') OR k.confupdtype NOT IN ('a', 'r'))) \
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
           WHERE a.attname = ANY ({assigned}) AND (i.indisunique OR i.indisexclusion) \
           AND (a.attnum = ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1]) \
             OR ((i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND EXISTS (SELECT FROM pg_catalog.pg_depend d \
               WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = i.indexrelid AND d.refobjid = id \
               AND d.refobjsubid = a.attnum))))",
        tree = tree_sql(name),
        ancestors = ancestors_sql(name),
        assigned = text_array(assigned),
    )
}

/// Query for one row with one boolean: whether no column other than `but` has a sequence number as its default.
pub fn no_serial_sql(name: &Name, but: &[String]) -> String {
    format!(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum \
         WHERE a.attrelid = pg_catalog.to_regclass({class}) AND a.attnum > 0 AND a.attname <> ALL ({but}) \
         AND (a.attidentity <> '' OR pg_catalog.pg_get_expr(f.adbin, f.adrelid) LIKE '%nextval(%'))",
        class = regclass_literal(name),
        but = text_array(but),
    )
}

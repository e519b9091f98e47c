//! Questions about sharded tables: to the coordinator, to a shard, and to both. They change nothing. [`SEARCH_PATH_SQL`] is the first
//! statement of the transaction, so that names are those of PostgreSQL, and [`pinned_sql`] the second, so that values in texts have one
//! form.

use super::catalog::{CLASS_OF_TYPE, regclass_literal, text_array};
use super::definition::{TRIGGERS, columns_sql, lines_sql, unfit_sql};
use super::session::PINNED_FORMS_SQL;
use super::subscription::{TABLE_OF_F, tables_sql};
use crate::name::Name;
use std::time::Duration;

/// Settings that decide what a statement means, does, or answers. A shard must have the values of the coordinator. The search path is
/// not among them: on a shard, it is `pg_catalog`.
const SETTINGS: [&str; 31] = [
    "array_nulls",
    "backslash_quote",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "DateStyle",
    "default_text_search_config",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "extra_float_digits",
    "gin_fuzzy_search_limit",
    "idle_in_transaction_session_timeout",
    "IntervalStyle",
    "lc_messages",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "lock_timeout",
    "quote_all_identifiers",
    "row_security",
    "server_encoding",
    "session_replication_role",
    "standard_conforming_strings",
    "statement_timeout",
    "TimeZone",
    "timezone_abbreviations",
    "transaction_timeout",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
];

/// Pins the search path of the transaction.
pub const SEARCH_PATH_SQL: &str = "SET LOCAL search_path = pg_catalog";

/// Query for the [`SETTINGS`]: name; the value that a role without settings of its own gets, or NULL if the session has a value of its
/// role or its client. To be asked before [`pinned_sql`].
pub fn base_settings_sql() -> String {
    format!(
        "SELECT s.name, CASE WHEN s.source NOT IN ('user', 'database user', 'client', 'session') THEN s.setting END \
         FROM pg_catalog.pg_settings s WHERE s.name = ANY ({})",
        text_array(SETTINGS),
    )
}

/// Statements that pin the settings of the transaction on which the form of answers depends, and the time of a query.
pub fn pinned_sql(limit: Duration) -> String {
    let limit = limit.as_millis();
    format!("{PINNED_FORMS_SQL}; SET LOCAL jit = off; SET LOCAL statement_timeout = {limit}")
}

/// `tree(root, id, parent, depth)`: all sharded tables, which have a foreign table among their partitions, with all these.
const TREE: &str = "tree(root, id, parent, depth) AS (\
     SELECT p.partrelid, p.partrelid, 0::oid, 0 FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid WHERE NOT c.relispartition \
     UNION ALL SELECT t.root, i.inhrelid, i.inhparent, t.depth + 1 FROM tree t JOIN pg_inherits i ON i.inhparent = t.id), \
   sharded(root) AS (SELECT DISTINCT t.root FROM tree t JOIN pg_class c ON c.oid = t.id WHERE c.relkind = 'f')";

/// SQL expression: JSON array of the parts of the partition key of `c`, each an array of the name of the column, or null for an expression;
/// whether the operator class is PostgreSQL's default; whether the collation is deterministic.
fn key_sql() -> String {
    format!(
        "(SELECT json_agg(json_build_array(a.attname, \
           coalesce((SELECT o.opcdefault AND {CLASS_OF_TYPE} FROM pg_opclass o, pg_type t WHERE o.oid = k.class AND t.oid = a.atttypid), false), \
           coalesce((SELECT l.collisdeterministic FROM pg_collation l WHERE l.oid = k.coll), true)) ORDER BY k.place)::text \
         FROM unnest(p.partattrs::int2[], p.partclass::oid[], p.partcollation::oid[]) WITH ORDINALITY AS k(number, class, coll, place) \
           LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number)"
    )
}

/// Query to the coordinator for the sharded tables: OID; schema; name; whether another schema has a relation of its name; strategy; the
/// key; why statements on it depend on more than their row, or NULL; a version of its definition.
pub fn sharded_tables_sql() -> String {
    format!(
        "WITH RECURSIVE {TREE} SELECT c.oid, n.nspname, c.relname, \
           EXISTS (SELECT FROM pg_class o JOIN pg_namespace s ON s.oid = o.relnamespace WHERE o.relname = c.relname AND o.oid <> c.oid \
             AND NOT starts_with(s.nspname::text, 'pg_temp_') AND NOT starts_with(s.nspname::text, 'pg_toast')), \
           p.partstrat, {key}, {unfit}, {version} \
         FROM sharded JOIN pg_class c ON c.oid = sharded.root JOIN pg_namespace n ON n.oid = c.relnamespace \
           JOIN pg_partitioned_table p ON p.partrelid = c.oid ORDER BY n.nspname, c.relname",
        key = key_sql(),
        unfit = unfit_sql(""),
        version = fingerprint_of("c.oid"),
    )
}

/// Query to the coordinator for the definitions of the tables with these OIDs: OID; the lines; for a partitioned table the columns. It
/// waits for the locks of the tables, unlike the other queries: so it is for tables of which the version has changed.
pub fn definitions_sql(tables: &[u32]) -> String {
    let tables: Vec<String> = tables.iter().map(u32::to_string).collect();
    format!(
        "SELECT c.oid, {lines}, CASE WHEN c.relkind = 'p' THEN {columns} END FROM pg_class c WHERE c.oid = ANY ('{{{oids}}}'::oid[])",
        lines = lines_sql(),
        columns = columns_sql(),
        oids = tables.join(","),
    )
}

/// Query to the coordinator for the partitions of the sharded tables, each behind the table of which it is a partition, at most `limit`
/// of each sharded table: OID of the sharded table; OID; OID of the table above; schema; name; bounds; whether it is being detached; why
/// statements depend on more than their row, or NULL; a version of its definition; strategy and key if it is partitioned; for a foreign table its server, whether it uses `postgres_fdw`, the options of the table and
/// of the server, and whether a column has another name on the shard.
pub fn partitions_sql(limit: usize) -> String {
    format!(
        "WITH RECURSIVE {TREE}, \
         numbered AS (SELECT t.*, row_number() OVER (PARTITION BY t.root ORDER BY t.depth, t.id) AS place FROM tree t JOIN sharded USING (root) WHERE t.depth > 0) \
         SELECT t.root, c.oid, t.parent, n.nspname, c.relname, pg_get_expr(c.relpartbound, 0::oid), i.inhdetachpending, \
           CASE {TRIGGERS} END, {version}, p.partstrat, CASE WHEN p.partrelid IS NOT NULL THEN {key} END, \
           s.srvname, EXISTS (SELECT FROM pg_foreign_data_wrapper w JOIN pg_proc h ON h.oid = w.fdwhandler WHERE w.oid = s.srvfdw AND h.proname = 'postgres_fdw_handler'), \
           array_to_json(f.ftoptions), array_to_json(s.srvoptions), \
           EXISTS (SELECT FROM pg_attribute a, pg_options_to_table(a.attfdwoptions) AS o(option, value) \
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND o.option = 'column_name' AND o.value <> a.attname::text) \
         FROM numbered t JOIN pg_class c ON c.oid = t.id JOIN pg_namespace n ON n.oid = c.relnamespace \
           JOIN pg_inherits i ON i.inhrelid = t.id AND i.inhparent = t.parent \
           LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid \
           LEFT JOIN pg_foreign_table f ON f.ftrelid = c.oid LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver \
         WHERE t.place <= {limit} ORDER BY t.root, t.depth, t.id",
        key = key_sql(),
        version = fingerprint_of("c.oid"),
    )
}

/// Query to the coordinator for the foreign servers of sharded tables: name; options.
pub fn foreign_servers_sql() -> String {
    format!(
        "WITH RECURSIVE {TREE} SELECT s.srvname, array_to_json(s.srvoptions) FROM pg_foreign_server s WHERE s.oid IN \
           (SELECT f.ftserver FROM tree t JOIN sharded USING (root) JOIN pg_foreign_table f ON f.ftrelid = t.id) ORDER BY s.srvname"
    )
}

/// Query to the coordinator for the user mappings: name of the server; name of the role, or NULL for PUBLIC; options, or NULL if the
/// user may not see them.
pub const USER_MAPPINGS_SQL: &str = "SELECT m.srvname, CASE WHEN m.umuser <> 0::oid THEN m.usename END, array_to_json(m.umoptions) FROM pg_user_mappings m";

/// SQL expression: the default settings of role `r` in the database that are in force, as text; NULL for none.
const ROLE_SETTINGS: &str = "(SELECT string_agg(d.setting, ', ' ORDER BY d.setting COLLATE \"C\") FROM (\
     SELECT DISTINCT ON (split_part(x.setting, '=', 1)) x.setting FROM pg_db_role_setting s, unnest(s.setconfig) AS x(setting) \
     WHERE s.setrole IN (0::oid, r.oid) AND s.setdatabase IN (0::oid, (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())) \
     ORDER BY split_part(x.setting, '=', 1), s.setrole <> 0::oid DESC, s.setdatabase <> 0::oid DESC) AS d WHERE split_part(d.setting, '=', 1) <> 'search_path')";

/// SQL condition: role `r` begins its sessions as itself.
const IS_ITSELF: &str = "NOT EXISTS (SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS x(setting) WHERE s.setrole IN (0::oid, r.oid) \
     AND s.setdatabase IN (0::oid, (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())) AND starts_with(x.setting, 'role='))";

/// Query for these roles: name; default settings. Roles whose default is another role are left out.
pub fn role_settings_sql(roles: &[String]) -> String {
    format!(
        "SELECT r.rolname, {ROLE_SETTINGS} FROM pg_roles r WHERE r.rolname = ANY ({}) AND {IS_ITSELF}",
        text_array(roles)
    )
}

/// Query to the coordinator for the privileges of these roles for the tables with these OIDs: role; OID of the table; for SELECT, INSERT
/// and UPDATE `true`, or a JSON array of the columns; whether it may DELETE.
pub fn role_privileges_sql(roles: &[String], tables: &[u32]) -> String {
    let privilege = |name: &str| {
        format!(
            "CASE WHEN has_table_privilege(r.oid, c.oid, '{name}') THEN 'true' ELSE coalesce((SELECT json_agg(a.attname) FROM pg_attribute a \
               WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(r.oid, c.oid, a.attnum, '{name}'))::text, '[]') END"
        )
    };
    let tables: Vec<String> = tables.iter().map(u32::to_string).collect();
    format!(
        "SELECT r.rolname, c.oid, {}, {}, {}, has_table_privilege(r.oid, c.oid, 'DELETE') FROM pg_roles r JOIN pg_class c ON c.oid = ANY ('{{{}}}'::oid[]) \
         WHERE r.rolname = ANY ({}) AND has_schema_privilege(r.oid, c.relnamespace, 'USAGE')",
        privilege("SELECT"),
        privilege("INSERT"),
        privilege("UPDATE"),
        tables.join(","),
        text_array(roles),
    )
}

/// Query to a shard for these tables: place; OID; why statements on it depend on more than their row, or NULL; the lines of its
/// definition; its columns; its unique keys as JSON array, each an array of the index' name, whether it is a constraint, and the columns;
/// the value of [`shard_fingerprint_sql`].
pub fn shard_tables_sql(tables: &[Name]) -> String {
    let cases = "WHEN c.relkind <> 'r' THEN 'it is no ordinary table' \
         WHEN c.relispartition OR c.relhassubclass OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid) \
           THEN 'it inherits, is a partition, or has had children' ";
    format!(
        "SELECT f.place, c.oid, {unfit}, {lines}, {columns}, \
           (SELECT json_agg(json_build_array(x.relname, EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = x.oid AND k.conrelid = c.oid AND k.contype IN ('p', 'u')), \
               (SELECT json_agg(a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))))::text \
            FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate \
              AND i.indpred IS NULL AND i.indexprs IS NULL \
              AND NOT EXISTS (SELECT FROM unnest(i.indclass::oid[], i.indkey::int2[]) AS k(class, number) JOIN pg_opclass o ON o.oid = k.class \
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number JOIN pg_type t ON t.oid = a.atttypid WHERE NOT (o.opcdefault AND {CLASS_OF_TYPE})) \
              AND NOT EXISTS (SELECT FROM unnest(i.indcollation::oid[]) AS k(coll) JOIN pg_collation l ON l.oid = k.coll WHERE NOT l.collisdeterministic)), \
           {fingerprint} \
         FROM {f} JOIN {TABLE_OF_F}",
        unfit = unfit_sql(cases),
        lines = lines_sql(),
        columns = columns_sql(),
        fingerprint = fingerprint_of("c.oid"),
        f = tables_sql(tables),
    )
}

/// Query to a shard for these tables: place; the value of [`shard_fingerprint_sql`].
pub fn shard_fingerprints_sql(tables: &[Name]) -> String {
    format!(
        "SELECT f.place, {} FROM {} JOIN {TABLE_OF_F}",
        fingerprint_of("c.oid"),
        tables_sql(tables)
    )
}

/// SQL expression of type `text` for a shard: it has another value after each change of the definition of the table, if the name means
/// another table, and on a server in recovery. NULL if there is no such table. It needs no settings and no privileges for the table.
pub fn shard_fingerprint_sql(table: &Name) -> String {
    let class = regclass_literal(table);
    fingerprint_of(&format!("pg_catalog.to_regclass({class})::pg_catalog.oid"))
}

/// The value of [`shard_fingerprint_sql`] on a replica that has replayed the definition with this value.
pub fn fingerprint_in_recovery(fingerprint: &str) -> String {
    match fingerprint.strip_prefix("f ") {
        Some(rest) => format!("t {rest}"),
        None => fingerprint.to_owned(),
    }
}

/// Columns, defaults, privileges, the first trigger or child, rules and row security change the row of `pg_class`, or rows of
/// `pg_attribute`. The flags for triggers and children stay when these are gone.
fn fingerprint_of(class: &str) -> String {
    let versions = |table: &str, column: &str, order: &str| {
        format!(
            "ARRAY(SELECT v.xmin FROM pg_catalog.{table} v WHERE v.{column} OPERATOR(pg_catalog.=) z.oid ORDER BY v.{order})::pg_catalog.text"
        )
    };
    format!(
        "(SELECT pg_catalog.concat_ws(' ', pg_catalog.pg_is_in_recovery(), z.oid, z.xmin, {columns}, {indexes}, {constraints}, \
           CASE WHEN z.relhastriggers THEN {triggers} END, CASE WHEN z.relhassubclass THEN {children} END) \
         FROM pg_catalog.pg_class z WHERE z.oid OPERATOR(pg_catalog.=) {class})",
        columns = versions("pg_attribute", "attrelid", "attnum"),
        indexes = versions("pg_index", "indrelid", "indexrelid"),
        constraints = versions("pg_constraint", "conrelid", "oid"),
        triggers = versions("pg_trigger", "tgrelid", "oid"),
        children = versions("pg_inherits", "inhparent", "inhrelid"),
    )
}

/// Query for the major version, and whether the server is in recovery.
pub const VERSION_SQL: &str =
    "SELECT current_setting('server_version_num')::int4 / 10000, pg_is_in_recovery()";

//! Questions about a logical subscriber: to it, to the primary, and to both.

use super::catalog::{FIRST_USER_DEFINED_OID, NOT_POSTGRESQLS, name_array, text_array};
use crate::name::Name;
use crate::quote::quote_literal;

/// Functions of PostgreSQL that are not immutable, but whose result depends only on their arguments, on settings and on the clock:
/// on nothing that a server has for itself.
pub(super) const PORTABLE_FUNCTIONS: [&str; 47] = [
    "array_to_json",
    "array_to_string",
    "concat",
    "concat_ws",
    "date_add",
    "date_part",
    "date_subtract",
    "date_trunc",
    "extract",
    "format",
    "json_agg",
    "json_agg_strict",
    "json_build_array",
    "json_build_object",
    "json_object_agg",
    "json_object_agg_strict",
    "json_object_agg_unique",
    "json_object_agg_unique_strict",
    "jsonb_agg",
    "jsonb_agg_strict",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object_agg",
    "jsonb_object_agg_strict",
    "jsonb_object_agg_unique",
    "jsonb_object_agg_unique_strict",
    "make_timestamptz",
    "now",
    "overlaps",
    "quote_literal",
    "quote_nullable",
    "row_to_json",
    "statement_timestamp",
    "timestamptz",
    "timezone",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_number",
    "to_timestamp",
    "transaction_timestamp",
    "date",
    "time",
    "timetz",
    "timestamp",
    "interval",
];

/// Operators that use the configurations of text search, which users may change.
const SEARCH_OPERATORS: [&str; 2] = ["@@", "@@@"];

/// SQL condition: values of type `t` are names of objects in the catalog.
pub(super) const NAMES_OBJECTS: &str = "(pg_catalog.starts_with(pg_catalog.ltrim(t.typname::pg_catalog.text, '_'), 'reg') \
     OR t.typname IN ('aclitem', '_aclitem'))";

/// Query for one row with one boolean: whether these functions, operators and types of casts mean the same on another server of the
/// same major version, and are PostgreSQL's own. With privileges of its own, a function does not: the other server may not check them. What [`harmless_sql`](super::harmless_sql) answers is known.
pub fn portable_sql(functions: &[Name], operators: &[Name], types: &[Name]) -> String {
    let searches = |name: &&Name| SEARCH_OPERATORS.contains(&name.name.as_str());
    let unfit = operators.iter().filter(searches).count()
        + types.iter().filter(|name| !name.may_be_system()).count();
    format!(
        "SELECT {unfit} = 0 \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = ANY ({functions}) AND ({NOT_POSTGRESQLS} OR p.proacl IS NOT NULL OR (p.provolatile <> 'i' AND p.proname <> ALL ({portable})) \
           OR EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) AS a(id) JOIN pg_catalog.pg_type t ON t.oid = a.id WHERE {NAMES_OBJECTS}))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode::pg_catalog.oid WHERE o.oprname = ANY ({operators}) AND p.proacl IS NOT NULL) \
         AND NOT EXISTS (SELECT FROM pg_catalog.unnest({types}) AS f(name) WHERE NOT EXISTS \
           (SELECT FROM pg_catalog.pg_type t WHERE t.typname = f.name AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace AND NOT {NAMES_OBJECTS}))",
        functions = name_array(functions),
        operators = name_array(operators),
        portable = text_array(PORTABLE_FUNCTIONS),
        types = name_array(types),
    )
}

/// `f(schema, name, place)`: these tables, with their places from 0.
pub(super) fn tables_sql(tables: &[Name]) -> String {
    let rows = tables.iter().enumerate().map(|(place, table)| {
        let schema = quote_literal(table.schema.as_deref().unwrap_or_default());
        let name = quote_literal(&table.name);
        format!("({schema}::pg_catalog.name, {name}::pg_catalog.name, {place})")
    });
    let rows: Vec<String> = rows.collect();
    format!("(VALUES {}) AS f(schema, name, place)", rows.join(", "))
}

/// SQL join of `f` with its tables: `c` in schema `n`.
pub(super) const TABLE_OF_F: &str = "(pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace) ON n.nspname = f.schema AND c.relname = f.name";

/// The server that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionSide {
    /// The primary.
    Primary,
    /// The subscriber.
    Subscriber,
}

/// Query for one row: the encoding of the database; its default collation; whether users have defined conversions or orders for
/// PostgreSQL's types.
pub const DATABASE_SQL: &str = "SELECT pg_catalog.getdatabaseencoding(), \
     pg_catalog.concat_ws(' ', d.datlocprovider, d.datcollate, d.datctype, j.d->>'daticulocale', j.d->>'datlocale', j.d->>'daticurules', \
       pg_catalog.pg_database_collation_actual_version(d.oid)), \
     EXISTS (SELECT FROM pg_catalog.pg_cast o WHERE o.oid >= 16384::pg_catalog.oid AND o.castsource < 16384::pg_catalog.oid \
       AND (o.castcontext = 'i' OR o.casttarget < 16384::pg_catalog.oid)) \
     OR EXISTS (SELECT FROM pg_catalog.pg_opclass o WHERE o.oid >= 16384::pg_catalog.oid AND o.opcdefault AND o.opcintype < 16384::pg_catalog.oid \
       AND o.opcmethod IN (SELECT m.oid FROM pg_catalog.pg_am m WHERE m.amname IN ('btree', 'hash'))) \
     FROM pg_catalog.pg_database d, LATERAL (SELECT pg_catalog.to_jsonb(d)) AS j(d) WHERE d.datname = pg_catalog.current_database()";

/// Query for the names of objects that users have defined, and that a statement may mean although it seems to name PostgreSQL's own:
/// kind (`f`, `o` or `t`) and name.
pub fn user_defined_sql() -> String {
    format!(
        "SELECT 'f', p.proname FROM pg_catalog.pg_proc p WHERE {NOT_POSTGRESQLS} AND (p.pronargs - p.pronargdefaults <= 1 \
           OR EXISTS (SELECT FROM pg_catalog.pg_proc o WHERE o.proname = p.proname AND o.oid < {FIRST_USER_DEFINED_OID}::pg_catalog.oid)) \
         UNION SELECT 'o', o.oprname FROM pg_catalog.pg_operator o WHERE o.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid \
           AND (NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace) \
             OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = o.oprcode::pg_catalog.oid AND p.provolatile = 'v')) \
         UNION SELECT 't', t.typname FROM pg_catalog.pg_type t WHERE t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace \
           AND EXISTS (SELECT FROM pg_catalog.pg_type o WHERE o.typname = t.typname AND o.typnamespace = 'pg_catalog'::pg_catalog.regnamespace)"
    )
}

/// Query for the columns of the tables, in their order: the place of the table; its OID; why a read of it may depend on more than its
/// columns; whether another schema has a relation of its name; number and definition of the column. A table without columns has one
/// row, and so has one that does not exist.
pub fn subscribed_columns_sql(tables: &[Name], side: SubscriptionSide) -> String {
    let applies = match side {
        SubscriptionSide::Primary => String::new(),
        SubscriptionSide::Subscriber => {
            "WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND g.tgenabled IN ('A', 'R')) \
             THEN 'a trigger fires when changes are applied' "
                .to_owned()
        }
    };
    let of_columns = |condition: &str, why: &str| {
        format!(
            "WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute k JOIN pg_catalog.pg_type t ON t.oid = k.atttypid \
             WHERE k.attrelid = c.oid AND k.attnum > 0 AND NOT k.attisdropped AND {condition}) THEN '{why}' "
        )
    };
    format!(
        "SELECT f.place, c.oid, CASE WHEN c.relkind <> 'r' THEN 'it is no ordinary table' \
           WHEN c.relispartition OR c.relhassubclass OR EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)) \
             THEN 'it inherits, is a partition, or has children' \
           WHEN c.relpersistence <> 'p' THEN 'it is unlogged or temporary' \
           WHEN c.relrowsecurity THEN 'it has row-level security' \
           WHEN c.relhasrules THEN 'it has rules' \
           WHEN EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronargs = 1 AND p.proargtypes[0] = c.reltype) THEN 'a function takes its rows' \
           {generated}{types}{collations}{applies}END, \
         EXISTS (SELECT FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace s ON s.oid = o.relnamespace WHERE o.relname = f.name AND s.nspname <> f.schema \
           AND NOT pg_catalog.starts_with(s.nspname::pg_catalog.text, 'pg_temp_') AND NOT pg_catalog.starts_with(s.nspname::pg_catalog.text, 'pg_toast')), \
         a.attnum, pg_catalog.concat_ws(' ', pg_catalog.quote_ident(a.attname), a.atttypid, a.atttypmod, \
           (SELECT pg_catalog.concat_ws(' ', l.collname, l.collprovider, l.collcollate, l.collctype, pg_catalog.pg_collation_actual_version(l.oid)) \
            FROM pg_catalog.pg_collation l WHERE l.oid = a.attcollation AND l.collname <> 'default')) \
         FROM {f} LEFT JOIN {TABLE_OF_F} LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY f.place, a.attnum",
        generated = of_columns("k.attgenerated <> ''", "a column is generated"),
        types = of_columns(
            &format!(
                "(t.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid OR t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace OR {NAMES_OBJECTS})"
            ),
            "the type of a column is defined by users, or names objects of the catalog"
        ),
        collations = of_columns(
            "k.attcollation <> 0 AND NOT EXISTS (SELECT FROM pg_catalog.pg_collation l WHERE l.oid = k.attcollation AND l.collnamespace = 'pg_catalog'::pg_catalog.regnamespace)",
            "users have defined the collation of a column"
        ),
        f = tables_sql(tables),
    )
}

/// Query for these users: name; default settings; the place of a table that the user may read, or NULL. Users whose default is
/// another role are left out.
pub fn readers_sql(tables: &[Name], users: &[String]) -> String {
    let users: Vec<String> = users.iter().map(|user| quote_literal(user)).collect();
    let settings = "pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) AS x(setting) \
         WHERE s.setrole IN (0, r.oid) AND s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))";
    format!(
        "SELECT r.rolname, (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', s.setdatabase <> 0, s.setrole <> 0, x.setting), ',' \
           ORDER BY s.setdatabase <> 0, s.setrole <> 0, x.setting COLLATE \"C\") FROM {settings}), t.place \
         FROM pg_catalog.pg_roles r LEFT JOIN (SELECT f.place, c.oid AS class, n.oid AS schema FROM {f} JOIN {TABLE_OF_F}) t \
           ON pg_catalog.has_schema_privilege(r.oid, t.schema, 'USAGE') AND pg_catalog.has_table_privilege(r.oid, t.class, 'SELECT') \
         WHERE r.rolname = ANY (ARRAY[{users}]::pg_catalog.name[]) \
           AND NOT EXISTS (SELECT FROM {settings} AND pg_catalog.starts_with(x.setting, 'role='))",
        f = tables_sql(tables),
        users = users.join(", "),
    )
}

/// Query to the primary for at most one row: whether the slot is active; whether it is one of the database for logical replication;
/// the position that the subscriber has confirmed.
pub fn slot_sql(slot: &str) -> String {
    format!(
        "SELECT s.active, s.slot_type = 'logical' AND s.plugin = 'pgoutput' AND s.database = pg_catalog.current_database() AND NOT s.temporary, \
         s.confirmed_flush_lsn FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = {}",
        quote_literal(slot)
    )
}

/// Query to the primary for these publications: name; whether they publish all kinds of changes; the place of a table, or NULL;
/// whether all of its rows and columns are published.
pub fn publications_sql(publications: &[String], tables: &[Name]) -> String {
    let names: Vec<String> = publications
        .iter()
        .map(|name| quote_literal(name))
        .collect();
    format!(
        "SELECT p.pubname, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, t.place, t.whole \
         FROM pg_catalog.pg_publication p LEFT JOIN (SELECT t.pubname, f.place, t.rowfilter IS NULL \
           AND pg_catalog.cardinality(t.attnames) = (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a \
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS whole \
           FROM pg_catalog.pg_publication_tables t JOIN {f} ON t.schemaname = f.schema AND t.tablename = f.name JOIN {TABLE_OF_F}) t \
           ON t.pubname = p.pubname WHERE p.pubname = ANY (ARRAY[{names}]::pg_catalog.name[])",
        f = tables_sql(tables),
        names = names.join(", "),
    )
}

/// SQL condition: subscription `s` is one of the database that uses the slot.
fn is_of_slot(slot: &str) -> String {
    format!(
        "s.subslotname = {} AND s.subdbid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())",
        quote_literal(slot)
    )
}

/// Query to the subscriber for the subscriptions that use the slot, with one row for each publication: OID; whether it is enabled;
/// whether it skips changes; the publication.
pub fn subscription_sql(slot: &str, version: u32) -> String {
    // Since 16, a subscription may leave out what the primary has replicated from elsewhere.
    let origin = match version {
        ..16 => "false",
        16.. => "s.suborigin <> 'any'",
    };
    format!(
        "SELECT s.oid, s.subenabled, s.subskiplsn <> '0/0' OR {origin}, p.name \
         FROM pg_catalog.pg_subscription s, pg_catalog.unnest(s.subpublications) AS p(name) WHERE {}",
        is_of_slot(slot)
    )
}

/// Query to the subscriber for the tables that subscriptions change: place; number of subscriptions, 0 if the one with the slot is
/// not among them; whether the table has caught up; whether the subscription has copied its rows.
pub fn subscribed_states_sql(slot: &str, tables: &[Name]) -> String {
    format!(
        "SELECT f.place, CASE WHEN pg_catalog.bool_or(EXISTS (SELECT FROM pg_catalog.pg_subscription s WHERE s.oid = r.srsubid AND {own})) \
           THEN pg_catalog.count(*) ELSE 0 END, pg_catalog.bool_and(r.srsubstate = 'r'), pg_catalog.bool_and(r.srsublsn IS NOT NULL) \
         FROM {f} JOIN {TABLE_OF_F} JOIN pg_catalog.pg_subscription_rel r ON r.srrelid = c.oid GROUP BY f.place",
        own = is_of_slot(slot),
        f = tables_sql(tables),
    )
}

/// Query to the subscriber for one row: a number that differs for another server, other definitions of the tables, or another subscription; NULL if
/// the server is in recovery. Any user may ask.
pub fn fingerprint_sql(slot: &str, tables: &[Name]) -> String {
    format!(
        "SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.hashtextextended(pg_catalog.concat_ws(';', \
           (SELECT i.system_identifier FROM pg_catalog.pg_control_system() i), \
           (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', s.oid, s.subenabled, s.subskiplsn, s.subpublications), ',' ORDER BY s.oid) \
            FROM pg_catalog.pg_subscription s WHERE {own}), \
           (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', f.place, c.oid, c.relkind, c.relpersistence, c.relrowsecurity, c.relhasrules, c.relhassubclass, c.relispartition, \
             (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', r.srsubid, r.srsubstate, r.srsublsn), ',' ORDER BY r.srsubid) \
              FROM pg_catalog.pg_subscription_rel r WHERE r.srrelid = c.oid), \
             (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attisdropped, a.attgenerated), ',' ORDER BY a.attnum) \
              FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)), ';' ORDER BY f.place) \
            FROM {f} LEFT JOIN {TABLE_OF_F})), 0) END",
        own = is_of_slot(slot),
        f = tables_sql(tables),
    )
}

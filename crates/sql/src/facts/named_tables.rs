//! The tables that a statement names.

use super::catalog::class_array;
use crate::name::Name;

/// Query for a row for each table of these names: its schema, its name, and whether consumers of logical replication may see its
/// changes. That is, a publication contains the table, its partitions or its ancestors, or the database has a logical replication
/// slot whose plugin needs no publication.
pub fn named_tables_sql(relations: &[Name]) -> String {
    let classes = class_array(relations);
    format!(
        "SELECT n.nspname, c.relname, c.relpersistence = 'p' AND (\
         EXISTS (SELECT FROM pg_catalog.pg_publication WHERE puballtables) \
         OR EXISTS (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.slot_type = 'logical' \
           AND s.database = pg_catalog.current_database() AND s.plugin <> 'pgoutput') \
         OR EXISTS (SELECT FROM pg_catalog.pg_publication_tables p \
           JOIN pg_catalog.pg_namespace pn ON pn.nspname = p.schemaname \
           JOIN pg_catalog.pg_class pc ON pc.relname = p.tablename AND pc.relnamespace = pn.oid \
           WHERE pc.oid = c.oid OR pc.oid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(c.oid) t) \
           OR pc.oid IN (SELECT a.relid FROM pg_catalog.pg_partition_ancestors(c.oid) a))) \
         FROM pg_catalog.unnest({classes}) AS f(name) \
         JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(f.name) \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')"
    )
}

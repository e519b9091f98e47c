//! The queries. Each returns one row with one JSON text. They read statistics and catalogs only: no table of the user, and no lock but
//! ACCESS SHARE on catalogs. They do not call `pg_relation_size`, because it waits while another session has locked the table.

/// The settings of the connection, before the first query: reads only, and no long waits.
pub const PREPARE: &str = "SET application_name = 'paceline advise'; SET default_transaction_read_only = on; \
     SET statement_timeout = '10s'; SET lock_timeout = '100ms'; SET search_path = pg_catalog; SET jit = off";

/// [`Counters`](crate::observation::Counters).
pub const COUNTERS: &str = "\
SELECT json_build_object(
  'at', extract(epoch FROM clock_timestamp()),
  'version', current_setting('server_version_num')::int,
  'connections', (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  'connections_max', current_setting('max_connections')::int,
  'recent', (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database()
    AND pid <> pg_backend_pid() AND state_change > clock_timestamp() - interval '1s'),
  'sessions', (SELECT to_jsonb(d) -> 'sessions' FROM pg_stat_database d WHERE datname = current_database()),
  'commits', (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
  'tables', (SELECT coalesce(json_agg(t), '[]') FROM (
    SELECT s.relid::int8 AS id, s.schemaname AS schema, s.relname AS name, format('%I.%I', s.schemaname, s.relname) AS qualified,
           s.n_tup_ins AS inserted, s.n_tup_upd AS updated, s.n_tup_del AS deleted, s.n_tup_hot_upd AS hot_updated,
           s.n_live_tup AS live, s.n_dead_tup AS dead, s.seq_scan AS whole_scans, s.seq_tup_read AS whole_rows,
           coalesce(s.idx_scan, 0) AS index_scans,
           coalesce(s.idx_tup_fetch, 0)::int8 AS index_rows, io.heap_blks_read + io.heap_blks_hit AS blocks
    FROM pg_stat_user_tables s JOIN pg_statio_user_tables io USING (relid)
    WHERE s.n_tup_ins + s.n_tup_upd + s.n_tup_del + io.heap_blks_read + io.heap_blks_hit > 0) t))";

/// The schema of the extension `pg_stat_statements`, quoted where necessary; JSON null if it is not installed.
pub const STATEMENTS_SCHEMA: &str = "\
SELECT coalesce((SELECT to_json(format('%I', nspname)) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
  WHERE extname = 'pg_stat_statements'), 'null')";

/// Maximum number of statements that are read.
pub const STATEMENTS_MAX: usize = 1_000;

/// A list of [`StatementCounters`](crate::observation::StatementCounters): the statements of this database that took most time, of all
/// roles together.
pub fn statements(schema: &str) -> String {
    format!(
        "\
SELECT coalesce(json_agg(s), '[]') FROM (
  SELECT queryid::text AS id, min(query) AS text, sum(calls)::int8 AS calls, sum(rows)::int8 AS rows,
    sum(coalesce(to_jsonb(p) ->> 'total_exec_time', to_jsonb(p) ->> 'total_time')::float8) AS milliseconds
  FROM {schema}.pg_stat_statements p
  WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND queryid IS NOT NULL
  GROUP BY queryid ORDER BY 5 DESC LIMIT {STATEMENTS_MAX}) s"
    )
}

/// A list of [`Session`](crate::observation::Session): those of this database that are not idle, and those of which the role may see
/// nothing.
pub const SESSIONS: &str = "\
SELECT coalesce(json_agg(s), '[]') FROM (
  SELECT pid, state, wait_event_type || ':' || wait_event AS wait, xact_start::text AS transaction, query AS statement,
    to_jsonb(a) ->> 'query_id' AS query_id
  FROM pg_stat_activity a
  WHERE datname = current_database() AND coalesce(backend_type, 'client backend') = 'client backend' AND pid <> pg_backend_pid()
    AND state IS DISTINCT FROM 'idle') s";

/// [`Facts`](crate::observation::Facts) about the tables with these OIDs.
pub fn facts(tables: &[u32]) -> String {
    let list: Vec<String> = tables.iter().map(u32::to_string).collect();
    format!(
        "\
SELECT json_build_object(
  'tables', (SELECT coalesce(json_agg(t), '[]') FROM (
    SELECT c.oid::int8 AS id, c.reltuples AS rows, c.relpages AS pages, coalesce(c.reloptions, '{{}}') AS options,
      (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
      (SELECT coalesce(json_object_agg(quote_ident(p.attname), p.n_distinct), '{{}}') FROM pg_stats p
         WHERE p.schemaname = tn.nspname AND p.tablename = c.relname AND NOT p.inherited) AS distinct_values,
      (SELECT coalesce(json_agg(i), '[]') FROM (
        SELECT format('%I.%I', n.nspname, ic.relname) AS name, x.indisunique AS unique, ic.relpages AS pages,
          coalesce(s.idx_scan, 0) AS scans,
          (SELECT json_agg(quote_ident(a.attname) ORDER BY k.n) FROM unnest(x.indkey::int2[]) WITH ORDINALITY k(attnum, n)
             LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum AND k.attnum > 0) AS columns,
          (SELECT p.correlation FROM pg_stats p JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]
             WHERE p.schemaname = tn.nspname AND p.tablename = c.relname AND p.attname = a.attname AND NOT p.inherited) AS correlation
        FROM pg_index x JOIN pg_class ic ON ic.oid = x.indexrelid JOIN pg_namespace n ON n.oid = ic.relnamespace
          LEFT JOIN pg_stat_user_indexes s ON s.indexrelid = x.indexrelid
        WHERE x.indrelid = c.oid AND x.indisvalid) i) AS indexes
    FROM pg_class c JOIN pg_namespace tn ON tn.oid = c.relnamespace
    WHERE c.oid = ANY ('{{{tables}}}'::oid[])) t),
  'holders', (SELECT coalesce(json_agg(h), '[]') FROM (
    SELECT 'session' AS kind, pid::text AS name,
      format('%s, application %s, %s', usename, coalesce(nullif(application_name, ''), 'without a name'), state) AS detail, query AS statement,
      extract(epoch FROM clock_timestamp() - xact_start) AS seconds, greatest(age(backend_xmin), age(backend_xid))::int8 AS transactions
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
      AND backend_type = 'client backend' AND datname = current_database()
    UNION ALL
    SELECT 'prepared transaction', gid, 'owner ' || owner, NULL, extract(epoch FROM clock_timestamp() - prepared), age(transaction)::int8
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot', slot_name, CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL, NULL, age(xmin)::int8
    FROM pg_replication_slots WHERE xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', coalesce(nullif(application_name, ''), client_addr::text, pid::text), 'hot_standby_feedback', NULL, NULL, age(backend_xmin)::int8
    FROM pg_stat_replication WHERE backend_xmin IS NOT NULL) h),
  'settings', (SELECT json_object_agg(name, setting || coalesce(unit, '')) FROM pg_settings WHERE name IN
    ('autovacuum', 'autovacuum_naptime', 'autovacuum_work_mem', 'maintenance_work_mem', 'autovacuum_vacuum_cost_delay',
     'autovacuum_vacuum_cost_limit', 'max_parallel_maintenance_workers', 'max_connections', 'shared_buffers', 'track_activity_query_size')),
  'rows', (SELECT coalesce(json_agg(json_build_array(l.relation::int8, l.page, l.tuple, l.n)), '[]') FROM (
    SELECT relation, page, tuple, count(*) AS n FROM pg_locks
    WHERE locktype = 'tuple' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 5) l))",
        tables = list.join(",")
    )
}

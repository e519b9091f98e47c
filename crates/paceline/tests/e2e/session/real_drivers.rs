//! The statements that drivers and frameworks send by themselves: when they connect, when they look a type up, and when a connection
//! returns to their own pools. None of them keeps a server connection, and all are answered as by PostgreSQL.

use crate::harness::message::{query, unit};
use crate::harness::{Reply, Stage};

/// A unit of a driver.
enum Said {
    /// By the simple protocol.
    Simple(&'static str),
    /// By messages, with these parameters.
    Bound(&'static str, &'static [Option<&'static str>]),
}

use Said::{Bound, Simple};

/// The driver, the source that shows it, and the statements.
type Spoken = (&'static str, &'static str, &'static [Said]);

const SPOKEN: [Spoken; 22] = [
    (
        "asyncpg",
        "asyncpg/connection.py: _introspect_types, get_reset_query",
        &[
            Bound(
                "\n SELECT\n current_setting('jit') AS cur,\n set_config('jit', 'off', false) AS new\n",
                &[],
            ),
            Bound(
                "WITH RECURSIVE typeinfo_tree(oid, depth) AS (SELECT ti.oid, 0 FROM pg_catalog.pg_type AS ti \
                 WHERE ti.oid = any($1::oid[]) UNION ALL SELECT t.typelem, tt.depth + 1 FROM pg_catalog.pg_type AS t, typeinfo_tree AS tt \
                 WHERE tt.oid = t.oid AND t.typelem <> 0) SELECT DISTINCT * FROM typeinfo_tree ORDER BY depth DESC",
                &[Some("{1007,2951}")],
            ),
            Bound("\n SELECT\n set_config('jit', $1, false)\n", &[Some("on")]),
            Bound("SHOW jit", &[]),
            Simple("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"),
        ],
    ),
    (
        "psycopg 3",
        "psycopg/_typeinfo.py, _connection_base.py, pool: _reset_connection",
        &[
            Bound(
                "SELECT\n typname AS name, oid, typarray AS array_oid,\n oid::regtype::text AS regtype, typdelim AS delimiter\n\
                 FROM pg_type t\nWHERE t.oid = to_regtype($1)\nORDER BY t.oid\n",
                &[Some("int4")],
            ),
            Bound("BEGIN", &[]),
            Bound("SAVEPOINT \"_pg3_1\"", &[]),
            Bound("ROLLBACK TO \"_pg3_1\"", &[]),
            Bound("RELEASE \"_pg3_1\"", &[]),
            Bound("ROLLBACK", &[]),
            Bound("SET client_encoding TO 'utf8'", &[]),
            Bound("DEALLOCATE ALL", &[]),
            Bound("SELECT 1 FROM pg_catalog.pg_cursors WHERE name = 'c'", &[]),
        ],
    ),
    (
        "psycopg 2",
        "psycopg/connection_int.c: conn_setup, conn_set_session; pqpath.c: pq_reset",
        &[
            Simple("SET DATESTYLE TO 'ISO'"),
            Simple("SET client_encoding TO 'UTF8'"),
            Simple("SHOW default_transaction_isolation"),
            Simple("SET default_transaction_isolation TO 'repeatable read'"),
            Simple("SET default_transaction_read_only TO 'off'"),
            Simple("SET default_transaction_deferrable TO DEFAULT"),
            Simple("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"),
            Simple("ABORT"),
            Simple("RESET ALL"),
            Simple("SET SESSION AUTHORIZATION DEFAULT"),
        ],
    ),
    (
        "pgx",
        "pgx/v5 conn.go: DeallocateAll, derived_types.go; stdlib: ResetSession; pgxpool",
        &[
            Simple("deallocate all"),
            Simple("-- ping"),
            Bound(
                "select typname, typtype::text, typlen from pg_type where oid = to_regtype($1)",
                &[Some("interval")],
            ),
            Simple("begin isolation level read committed read write not deferrable"),
            Simple("savepoint sp_1"),
            Simple("rollback to savepoint sp_1"),
            Simple("rollback"),
        ],
    ),
    (
        "lib/pq",
        "conn.go: BeginTx, Ping, isInTransaction",
        &[
            Simple("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            Simple("COMMIT"),
            Simple(";"),
        ],
    ),
    (
        "Npgsql",
        "src/Npgsql/Internal/NpgsqlConnector.cs: GenerateResetMessage, Reset; PostgresDatabaseInfo.cs",
        &[
            Simple(
                "SELECT version();\n\nSELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull\nFROM pg_type AS t\n\
                 JOIN pg_namespace AS ns ON (ns.oid = t.typnamespace)\nWHERE t.typtype IN ('r', 'm', 'e', 'd') ORDER BY t.oid;\n\n\
                 SELECT pg_type.oid, enumlabel\nFROM pg_enum\nJOIN pg_type ON pg_type.oid=enumtypid\nORDER BY oid, enumsortorder;",
            ),
            Simple("DISCARD ALL"),
            Simple(
                "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
            ),
            Simple("DEALLOCATE ALL"),
            Simple("BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            Simple("ROLLBACK"),
            Simple("SELECT NULL"),
        ],
    ),
    (
        "pgjdbc",
        "org/postgresql/core/v3/ConnectionFactoryImpl.java, jdbc/PgConnection.java, jdbc/TypeInfoCache.java",
        &[
            Bound("SET extra_float_digits = 3", &[]),
            Bound("SET application_name = 'PostgreSQL JDBC Driver'", &[]),
            Bound("SHOW TRANSACTION ISOLATION LEVEL", &[]),
            Bound(
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                &[],
            ),
            Bound("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", &[]),
            Bound("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", &[]),
            Bound("SET SESSION search_path TO 'app'", &[]),
            Bound("SET SESSION search_path TO DEFAULT", &[]),
            Bound(
                "SELECT t.typarray, arr.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid \
                 JOIN pg_catalog.pg_type arr ON arr.oid = t.typarray WHERE t.typname = $1 AND n.nspname = ANY(current_schemas(true)) \
                 ORDER BY t.oid DESC LIMIT 1",
                &[Some("text")],
            ),
            Bound(
                "SELECT n.nspname = ANY(current_schemas(true)), n.nspname, t.typname FROM pg_catalog.pg_type t \
                 JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = $1",
                &[Some("25")],
            ),
            Bound("", &[]),
            Simple("DISCARD ALL"),
        ],
    ),
    (
        "Hibernate, HikariCP",
        "through pgjdbc: SequenceInformationExtractor, current schema, isValid, setSchema",
        &[
            Bound("select current_schema()", &[]),
            Bound("select * from information_schema.sequences", &[]),
            Bound("set search_path to \"public\"", &[]),
            Bound("SET SESSION statement_timeout TO 5000", &[]),
            Bound("RESET ALL", &[]),
        ],
    ),
    (
        "node-postgres",
        "packages/pg/lib/client.js, packages/pg-pool",
        &[
            Simple("BEGIN"),
            Simple("ROLLBACK"),
            Simple("SET SESSION statement_timeout TO 2000"),
            Simple("RESET statement_timeout"),
        ],
    ),
    (
        "postgres.js",
        "src/connection.js: fetchArrayTypes, fetchState",
        &[
            Bound(
                "\n select b.oid, b.typarray\n from pg_catalog.pg_type a\n left join pg_catalog.pg_type b on b.oid = a.typelem\n\
                 where a.typcategory = 'A'\n group by b.oid, b.typarray\n order by b.oid\n",
                &[],
            ),
            Simple("\n show transaction_read_only;\n select pg_catalog.pg_is_in_recovery()\n"),
        ],
    ),
    (
        "ActiveRecord",
        "connection_adapters/postgresql_adapter.rb: configure_connection, load_additional_types, reset!, last_insert_id",
        &[
            Simple("SET client_min_messages TO 'warning'"),
            Simple("SHOW client_min_messages"),
            Simple("SET standard_conforming_strings = on"),
            Simple("SET intervalstyle = iso_8601"),
            Simple("SET SESSION timezone TO 'UTC'"),
            Simple("SET time zone 'UTC'"),
            Simple("SET SESSION statement_timeout TO '30s'"),
            Simple("SET SESSION lock_timeout TO DEFAULT"),
            Simple("SET search_path TO public, \"$user\""),
            Simple("SHOW max_identifier_length"),
            Simple("SHOW search_path"),
            Simple("SELECT current_database()"),
            Simple(
                "SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype\nFROM pg_type as t\n\
                 LEFT JOIN pg_range as r ON oid = rngtypid\nWHERE\n t.typname IN ('int2', 'int4', 'hstore') ORDER BY t.oid",
            ),
            Simple(";"),
            Simple("SET SESSION AUTHORIZATION DEFAULT"),
            Simple("DISCARD ALL"),
        ],
    ),
    (
        "Django",
        "django/db/backends/postgresql/base.py, operations.py, psycopg_any.py, signals.py",
        &[
            Bound(
                "SELECT set_config('TimeZone', $1, false)",
                &[Some("Europe/Berlin")],
            ),
            Simple("SET TIME ZONE 'UTC'"),
            Simple("SET ROLE NONE"),
            Simple("SET CONSTRAINTS ALL IMMEDIATE"),
            Simple("SET CONSTRAINTS ALL DEFERRED"),
            Simple("SELECT oid, typarray FROM pg_type WHERE typname = 'hstore'"),
            Simple("SELECT 1"),
            Simple("SAVEPOINT \"s1_x1\""),
        ],
    ),
    (
        "SQLAlchemy",
        "lib/sqlalchemy/dialects/postgresql/base.py, _psycopg_common.py, asyncpg.py; pool/base.py: reset",
        &[
            Simple("select pg_catalog.version()"),
            Simple("select current_schema()"),
            Simple("show standard_conforming_strings"),
            Simple("show transaction isolation level"),
            Simple("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            Bound("BEGIN;", &[]),
            Bound("ROLLBACK;", &[]),
            Bound("select nextval('public.driver_numbers')", &[]),
        ],
    ),
    (
        "Postgrex (Ecto)",
        "lib/postgrex/types.ex: bootstrap_query; protocol.ex: handle_ping",
        &[
            Simple(
                "SELECT t.oid, t.typname, t.typsend, t.typreceive, t.typoutput, t.typinput,\n t.typelem, coalesce(r.rngsubtype, 0), ARRAY (\n\
                 SELECT a.atttypid\n FROM pg_attribute AS a\n WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped\n ORDER BY a.attnum\n)\n\
                 FROM pg_type AS t\nLEFT JOIN pg_range AS r ON r.rngtypid = t.oid\nWHERE t.oid < 30 ORDER BY t.oid",
            ),
            Simple("BEGIN"),
            Simple("SAVEPOINT postgrex_query"),
            Simple("RELEASE SAVEPOINT postgrex_query"),
            Simple("ROLLBACK"),
            Simple(""),
        ],
    ),
    (
        "Prisma",
        "quaint/src/connector/postgres: new; tokio-postgres",
        &[
            Simple("SET search_path = \"public\";\nSET NAMES 'UTF8';"),
            Simple("SET search_path = \"public\";\n"),
            Simple("SELECT version()"),
            Simple("DEALLOCATE ALL"),
            Simple("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
        ],
    ),
    (
        "tokio-postgres",
        "tokio-postgres/src/prepare.rs",
        &[
            Bound(
                "SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid\nFROM pg_catalog.pg_type t\n\
                 LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid\nINNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid\n\
                 WHERE t.oid = $1\n",
                &[Some("3904")],
            ),
            Bound(
                "SELECT enumlabel\nFROM pg_catalog.pg_enum\nWHERE enumtypid = $1\nORDER BY enumsortorder\n",
                &[Some("25")],
            ),
        ],
    ),
    (
        "deadpool-postgres",
        "postgres/src/config.rs: RecyclingMethod::Clean",
        &[Simple(
            "CLOSE ALL;\n SET SESSION AUTHORIZATION DEFAULT;\n RESET ALL;\n UNLISTEN *;\n SELECT pg_advisory_unlock_all();\n\
             DISCARD TEMP;\n DISCARD SEQUENCES;",
        )],
    ),
    (
        "sqlx",
        "sqlx-postgres/src/connection/describe.rs, establish.rs",
        &[
            Bound(
                "SELECT typname, typtype, typcategory, typrelid, typelem, typbasetype FROM pg_catalog.pg_type WHERE oid = $1",
                &[Some("23")],
            ),
            Bound(
                "SELECT attname, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND NOT attisdropped AND attnum > 0 ORDER BY attnum",
                &[Some("1247")],
            ),
            Simple("/* SQLx ping */"),
        ],
    ),
    (
        "PostgREST",
        "src/library/PostgREST/Query/PreQuery.hs",
        &[
            Bound("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", &[]),
            Bound(
                "select set_config('search_path', $1, true), set_config('role', $2, true), set_config('request.jwt.claims', $3, true), \
                 set_config('request.method', $4, true)",
                &[
                    Some("public"),
                    Some("none"),
                    Some("{\"sub\":1}"),
                    Some("GET"),
                ],
            ),
            Bound("COMMIT", &[]),
        ],
    ),
    (
        "row security by setting",
        "the idiom of many frameworks",
        &[
            Bound("SELECT set_config('app.tenant', $1, false)", &[Some("7")]),
            Bound(
                "SELECT set_config($1, $2, false)",
                &[Some("app.tenant"), Some("8")],
            ),
            Simple("SET app.tenant = '9'"),
            Simple("SELECT set_config('app.tenant', (4 + 5)::text, false)"),
            Simple("SELECT current_setting('app.tenant', true)"),
            Simple("RESET app.tenant"),
        ],
    ),
    (
        "libpq, psql",
        "src/bin/psql: \\encoding, \\password; target_session_attrs in fe-connect.c",
        &[
            Simple("SHOW transaction_read_only"),
            Simple("SELECT pg_catalog.pg_is_in_recovery()"),
            Simple("SELECT pg_catalog.set_config('search_path', '', false);"),
            Simple("SET client_encoding = 'UTF8'"),
        ],
    ),
    (
        "pg_dump",
        "src/bin/pg_dump/pg_dump.c: setup_connection",
        &[
            Simple("SELECT pg_catalog.set_config('search_path', '', false);"),
            Simple("SET DATESTYLE = ISO"),
            Simple("SET INTERVALSTYLE = POSTGRES"),
            Simple("SET extra_float_digits TO 3"),
            Simple("SET synchronize_seqscans TO off"),
            Simple("SET statement_timeout = 0"),
            Simple("SET row_security = off"),
            Simple("BEGIN"),
            Simple("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
            Simple("COMMIT"),
        ],
    ),
];

impl Said {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Simple(text) => query(text),
            Bound(text, parameters) => unit(text, parameters),
        }
    }

    fn text(&self) -> &str {
        match self {
            Simple(text) | Bound(text, _) => text,
        }
    }
}

fn outcome(reply: &Reply) -> (String, char, Vec<Vec<Option<String>>>) {
    (reply.sqlstate(), reply.status(), reply.rows())
}

/// There is one server connection: a client that kept it would keep the other one waiting.
#[test]
fn statements_that_drivers_send_by_themselves_pin_no_client() {
    for (driver, source, said) in SPOKEN {
        println!("{driver} ({source})");
        let stage = Stage::on_shared()
            .set("default_pool_size=1")
            .set("metrics_listen=127.0.0.1:0")
            .open();
        let mut bare = stage.direct();
        bare.ok("CREATE SEQUENCE driver_numbers");
        let mut clients = stage.clients(2);
        for round in 0..2 {
            for said in said {
                let expected = outcome(&bare.ask(&said.bytes()));
                let reply = clients[0].ask(&said.bytes());
                let what = format!("{driver}, round {round}: {}", said.text());
                let same = outcome(&reply) == expected || said.text().contains("nextval");
                assert!(same, "{what}: {reply:?} instead of {expected:?}");
                // Inside a transaction it is the client's.
                if expected.1 == 'I' {
                    clients[1].ok("SELECT 1");
                }
            }
        }
        // In the other order, so that it finds what the first has left.
        for said in said {
            clients[1].ask(&said.bytes());
        }
        if let Some(pins) = stage.pins() {
            assert_eq!(pins, 0, "{driver}");
        }
    }
}

//! Functions of PostgreSQL in defaults and constraints, which the text of a statement does not show. Some see that they run in a group, or
//! have an effect only once in a transaction.

use super::chains::notifications;
use super::{prepared, simple};
use crate::harness::Stage;
use crate::harness::stage::Target;
use crate::harness::together::Tables;

const VALUES: [&[&str]; 4] = [&["1"], &["2"], &["3"], &["4"]];

/// A stage with these tables.
fn stage(setup: &str) -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(setup);
    stage
}

#[test]
fn a_default_sees_the_query_of_its_client() {
    let stage = stage(
        "CREATE TABLE audit (v int, sql text DEFAULT current_query());
         CREATE TABLE limited (v int CHECK (v < 3 OR current_query() NOT LIKE '%facts%'));
         CREATE DOMAIN bounded AS int CHECK (VALUE < 3 OR current_query() NOT LIKE '%facts%');
         CREATE TABLE bounds (id int PRIMARY KEY, v bounded);
         CREATE TABLE queue (id int PRIMARY KEY)",
    );
    for (table, rest) in [
        ("audit", "INSERT INTO audit (v) VALUES ($1)"),
        ("audit", "WITH t AS (DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id)
            INSERT INTO audit (v) SELECT id + $1 FROM t"),
        ("limited", "INSERT INTO limited (v) VALUES ($1)"),
        ("bounds", "INSERT INTO bounds VALUES ($1::int, $1::int) ON CONFLICT (id) DO NOTHING"),
        ("bounds", "INSERT INTO bounds VALUES ($1::int, $1::int) ON CONFLICT (id) DO UPDATE SET v = 2"),
        ("bounds", "UPDATE bounds SET v = $1::int WHERE id = 1"),
    ] {
        let tables = Tables {
            fill: "DELETE FROM audit; DELETE FROM limited; DELETE FROM bounds; INSERT INTO bounds VALUES (1, 1); DELETE FROM queue;
                INSERT INTO queue SELECT generate_series(1, 9)",
            content: "SELECT v, sql FROM audit UNION ALL SELECT v, '' FROM limited UNION ALL SELECT v, id::text FROM bounds ORDER BY 1, 2",
        };
        for asks in [simple(rest, &VALUES), prepared(rest, &VALUES)] {
            let grouped = tables.compare_asks(&stage, &asks);
            assert!(!grouped || stage.target() == Target::Bare, "{table}");
        }
    }
}

#[test]
fn equal_notifications_of_defaults_and_constraints_all_arrive() {
    let stage = stage(
        "CREATE TABLE by_default (v int PRIMARY KEY, told text DEFAULT pg_notify('told', 'same')::text);
         CREATE TABLE by_check (v int PRIMARY KEY CHECK (pg_notify('told', 'same')::text = ''));
         CREATE DOMAIN telling AS int CHECK (pg_notify('told', 'same')::text = '');
         CREATE TABLE by_domain (v telling PRIMARY KEY)",
    );
    let mut listener = stage.direct();
    listener.ok("LISTEN told");
    for table in ["by_default", "by_check", "by_domain"] {
        for conflict in ["", " ON CONFLICT (v) DO NOTHING"] {
            let sql = format!("INSERT INTO {table} (v) VALUES ($1){conflict}");
            let tables = Tables {
                fill: "DELETE FROM by_default; DELETE FROM by_check; DELETE FROM by_domain",
                content: "SELECT v FROM by_default UNION ALL SELECT v FROM by_check UNION ALL SELECT v FROM by_domain",
            };
            notifications(&stage, &mut listener);
            tables.compare_asks(&stage, &prepared(&sql, &VALUES));
            // The lesson, the clients, and each of them alone.
            assert_eq!(notifications(&stage, &mut listener), 9, "{sql}");
        }
    }
}

/// Values that differ in each row anyway.
#[test]
fn usual_defaults_keep_their_groups() {
    let stage = stage(
        "CREATE TABLE usual (id bigserial, other int GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT now(), tick timestamptz DEFAULT clock_timestamp(),
            key uuid DEFAULT gen_random_uuid(), part float8 DEFAULT random(), v int CHECK (abs(v) < 100), who text DEFAULT CURRENT_USER)",
    );
    let sql = "INSERT INTO usual (v) VALUES ($1) RETURNING id, other, v, who";
    let tables = Tables {
        fill: "DELETE FROM usual; ALTER SEQUENCE usual_id_seq RESTART; ALTER SEQUENCE usual_other_seq RESTART",
        content: "SELECT id, v FROM usual ORDER BY 1",
    };
    let grouped = tables.compare_asks(&stage, &prepared(sql, &VALUES));
    let shown = stage.client().ok("SHOW GROUPS").rows();
    assert!(grouped || stage.target() == Target::Bare, "{shown:?}");
}

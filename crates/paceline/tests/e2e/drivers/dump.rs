//! `pg_dump` through Paceline, restored through Paceline, dumps as PostgreSQL's own dump does, byte for byte.

use std::path::Path;

use crate::harness::caretaker;
use crate::harness::cluster;
use crate::harness::programs::{output, program};
use crate::harness::{Stage, stage};

use super::compare::assert_same_lines;

/// Kinds of things that dumps and restores treat each in a way of their own.
const SCHEMA: &str = "
    CREATE SCHEMA shop;
    CREATE TYPE shop.mood AS ENUM ('sad', 'glad');
    CREATE DOMAIN shop.amount AS numeric(12, 2) CHECK (VALUE >= 0);
    CREATE SEQUENCE shop.numbers START 100;
    CREATE TABLE shop.orders (id int PRIMARY KEY DEFAULT nextval('shop.numbers'), mood shop.mood, amount shop.amount,
        note text COLLATE \"C\", document jsonb, data bytea, tags text[], at timestamptz);
    CREATE TABLE shop.lines (id serial PRIMARY KEY, order_id int NOT NULL REFERENCES shop.orders ON DELETE CASCADE);
    CREATE TABLE parts (day date NOT NULL, n int) PARTITION BY RANGE (day);
    CREATE TABLE parts_2024 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
    CREATE INDEX ON shop.orders USING gin (document);
    CREATE VIEW shop.glad AS SELECT id, amount FROM shop.orders WHERE mood = 'glad';
    CREATE FUNCTION shop.twice(n int) RETURNS int LANGUAGE plpgsql AS $body$ BEGIN RETURN n * 2; END $body$;
    CREATE FUNCTION shop.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := '2024-01-01 00:00Z'; RETURN NEW; END $$;
    CREATE TRIGGER stamp BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.stamp();
    INSERT INTO shop.orders (mood, amount, note, document, data, tags)
        SELECT 'glad', n, E'tab\\t and \\\\ and ü ' || n, jsonb_build_object('n', n), decode(md5(n::text), 'hex'), ARRAY['a', NULL]
        FROM generate_series(1, 2000) n;
    INSERT INTO shop.lines (order_id) SELECT id FROM shop.orders;
    INSERT INTO parts SELECT '2024-01-01'::date + n, n FROM generate_series(1, 300) n;
    COMMENT ON TABLE shop.orders IS 'with a ''comment''';
    SELECT lo_from_bytea(4242, 'a large object');";

#[track_caller]
fn run(name: &str, url: &str, arguments: &[&str]) -> String {
    output(program(name).args(arguments).args(["--dbname", url]))
}

/// Without the lines that differ from run to run.
fn dump(url: &str) -> String {
    let text = run("pg_dump", url, &[]);
    let kept = text
        .lines()
        .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"));
    kept.map(|line| format!("{line}\n")).collect()
}

/// Two jobs and the one that leads them hold a connection each.
fn stage_with_schema() -> Stage {
    let stage = Stage::on_shared().set("default_pool_size=3").open();
    run(
        "psql",
        &stage.url(),
        &["-qX", "-v", "ON_ERROR_STOP=1", "-c", SCHEMA],
    );
    stage
}

/// The same database through Paceline and directly, and an empty one beside it.
fn empty_beside(stage: &Stage) -> (String, String) {
    let database = cluster::shared().database();
    (
        stage::url(stage.port(), &database),
        stage::url(stage.cluster.port(), &database),
    )
}

fn folder_for_dump() -> String {
    caretaker::folder("dump")
        .join("dump")
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_plain_dump_restores_by_psql() {
    let stage = stage_with_schema();
    let expected = dump(&stage.direct_url());
    assert_same_lines(&expected, &dump(&stage.url()));
    let (through, direct) = empty_beside(&stage);
    let file = folder_for_dump();
    std::fs::write(&file, &expected).unwrap();
    run(
        "psql",
        &through,
        &["-qX", "-v", "ON_ERROR_STOP=1", "-f", &file],
    );
    assert_same_lines(&expected, &dump(&direct));
}

#[test]
fn dumps_restore_by_pg_restore() {
    let stage = stage_with_schema();
    let expected = dump(&stage.direct_url());
    // The folder is dumped by two connections that share a snapshot, and restored by two.
    for (format, jobs) in [("custom", "1"), ("directory", "2")] {
        let file = folder_for_dump();
        run(
            "pg_dump",
            &stage.url(),
            &["--format", format, "--jobs", jobs, "--file", &file],
        );
        assert!(Path::new(&file).exists());
        let (through, direct) = empty_beside(&stage);
        run(
            "pg_restore",
            &through,
            &["--exit-on-error", "--jobs", jobs, &file],
        );
        assert_same_lines(&expected, &dump(&direct));
    }
}

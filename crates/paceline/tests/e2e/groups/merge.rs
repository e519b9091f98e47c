//! Inserts travel together: each client gets its own row, in order of arrival, and its own error.

use crate::harness::message::{query, unit};
use crate::harness::stage::Target;
use crate::harness::together::{Tables, ask};
use crate::harness::{Gate, Stage};

const SETUP: &str = "
    CREATE TABLE owner (id int PRIMARY KEY);
    INSERT INTO owner SELECT generate_series(1, 3);
    CREATE TABLE e (
        id bigserial PRIMARY KEY, owner int DEFAULT 2 REFERENCES owner, name varchar(12) NOT NULL UNIQUE,
        n numeric(6,2) CHECK (n < 1000), tags text[] DEFAULT '{none}', doc jsonb, at timestamptz, flag bool DEFAULT true);
    CREATE TABLE part (id bigint, lane int NOT NULL, PRIMARY KEY (id, lane)) PARTITION BY LIST (lane);
    CREATE TABLE part_0 PARTITION OF part FOR VALUES IN (0);
    CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1, 2, 3, 4, 5, 6, 7, 8, 9);";
const EMPTY: &str = "DELETE FROM e; DELETE FROM part; ALTER SEQUENCE e_id_seq RESTART";
const CONTENT: &str = "SELECT id, owner, name, n, tags, doc, at, flag FROM e UNION ALL SELECT id, lane, tableoid::regclass::text, NULL, NULL, NULL, NULL, NULL FROM part ORDER BY 1";
const TABLES: Tables = Tables {
    fill: EMPTY,
    content: CONTENT,
};

/// Statements whose `$1` is the client's number.
const SHAPES: [&str; 8] = [
    "INSERT INTO e (name) VALUES ($1::text)",
    "INSERT INTO e (name, n) VALUES ('no ' || $1, 10.005) RETURNING id, name, n AS amount",
    "INSERT INTO e AS x (name, owner, flag) VALUES ($1::text, DEFAULT, $1::text = '3') RETURNING *",
    "INSERT INTO e VALUES (DEFAULT, 1, $1::text, 7, '{a,\"b c\"}', '{\"k\": [1, null]}', '2024-02-29 12:00:00+02', NULL) RETURNING e.*, id * 2",
    "INSERT INTO e (name, doc, at) VALUES (upper($1::text), to_jsonb($1::text::int), to_timestamp($1::text::int * 86400)) RETURNING doc, at",
    "INSERT INTO part (id, lane) VALUES ($1::text::bigint, $1::text::int) RETURNING id, lane",
    "INSERT INTO e (id, name) VALUES (nextval('e_id_seq') * 10, $1::text) RETURNING id",
    "INSERT INTO e (name, n) VALUES ($1::text, NULLIF($1::text, '4')::numeric)",
];

/// A text as bulk loaders send it is passed on without a second look, in and out of transactions; what the client has set
/// stays.
#[test]
fn a_long_insert_is_relayed_as_it_is() {
    let stage = Stage::for_groups();
    let mut bare = stage.direct();
    bare.ok("CREATE TABLE bulk (a int, b int, c text)");
    let rows: Vec<String> = (0..5_000)
        .map(|n| format!("({n}, {}, 'row {n}')", n % 7))
        .collect();
    let sql = format!("INSERT INTO bulk VALUES {}", rows.join(", "));
    let mut client = stage.client();
    client.ok("SET application_name = 'loader'");
    for _ in 0..3 {
        assert_eq!(client.ok(&sql).tag(), "INSERT 0 5000");
    }
    assert_eq!(client.ask(&unit(&sql, &[])).tag(), "INSERT 0 5000");
    client.ok("BEGIN");
    assert_eq!(client.ok(&sql).tag(), "INSERT 0 5000");
    client.ok("ROLLBACK");
    let wrong = sql.replacen("row 0'", "row 0', 1", 1);
    client.ask(&query(&wrong)).expect_error("42601");
    assert_eq!(client.value("SHOW application_name"), "loader");
    assert_eq!(
        bare.ok("SELECT count(*), count(DISTINCT c), sum(b) FROM bulk")
            .rows(),
        [["20000", "5000", "59980"].map(|value| Some(value.to_owned()))]
    );
    if stage.target() == Target::Paceline {
        let groups = stage.client().ok("SHOW GROUPS").rows();
        let looked_at = groups
            .iter()
            .flatten()
            .flatten()
            .any(|text| text.contains("bulk"));
        assert!(!looked_at, "{groups:?}");
    }
}

/// Statements that fail for one client, and how.
const FAILING: [(&str, &str); 6] = [
    (
        "INSERT INTO e (name) VALUES (NULLIF($1, '4')) RETURNING name",
        "23502",
    ),
    (
        "INSERT INTO e (name) VALUES (replace($1, '4', '3')) RETURNING name",
        "23505",
    ),
    (
        "INSERT INTO e (name, owner) VALUES ($1::text, CASE $1::text WHEN '4' THEN 9 ELSE 1 END) RETURNING name",
        "23503",
    ),
    (
        "INSERT INTO e (name, n) VALUES ($1::text, CASE $1::text WHEN '4' THEN 1000 ELSE 1 END) RETURNING name",
        "23514",
    ),
    (
        "INSERT INTO e (name) VALUES (replace($1, '4', 'much too long a name')) RETURNING name",
        "22001",
    ),
    (
        "INSERT INTO e (name, n) VALUES ($1::text, 1 / ($1::text::int - 4)) RETURNING name",
        "22012",
    ),
];

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

#[test]
fn each_client_gets_its_row_by_the_extended_protocol() {
    TABLES.compare_groups(&stage(), &SHAPES, true);
}

#[test]
fn each_client_gets_its_row_by_the_simple_protocol() {
    TABLES.compare_groups(&stage(), &SHAPES, false);
}

#[test]
fn a_violation_fails_its_client_alone() {
    let stage = stage();
    for (sql, sqlstate) in FAILING {
        println!("{sql}");
        let mut direct = stage.direct();
        direct.ok(EMPTY);
        stage.client().ask(&ask(sql, 0, true));
        let mut clients = stage.clients(6);
        let mut gate = Gate::close(&stage);
        direct.ok(EMPTY);
        for (number, client) in (1..).zip(&mut clients) {
            gate.submit(client, &ask(sql, number, true));
        }
        gate.open();
        for (number, client) in (1..).zip(&mut clients) {
            let reply = client.reply();
            match number {
                4 => drop(reply.expect_error(sqlstate)),
                _ => assert_eq!(reply.expect_ok("a neighbour").value(), number.to_string()),
            }
        }
        assert_eq!(direct.number("SELECT count(*) FROM e"), 5);
    }
    stage.assert_grouped(6 * 6, 6);
}

/// An outsider has not yet committed a row with the same name: only its own member waits.
#[test]
fn an_outsiders_row_holds_up_its_duplicate_only() {
    let stage = stage();
    let sql = "INSERT INTO e (name) VALUES ($1) RETURNING name";
    stage.client().ask(&ask(sql, 0, true));
    let mut outsider = stage.direct();
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    if stage.target() == Target::Paceline {
        outsider.ok("BEGIN; INSERT INTO e (name) VALUES ('4')");
    }
    for (number, client) in (1..).zip(&mut clients) {
        gate.submit(client, &ask(sql, number, true));
    }
    gate.open();
    for (number, client) in (1..).zip(&mut clients[..3]) {
        assert_eq!(client.reply().value(), number.to_string());
    }
    if stage.target() == Target::Paceline {
        outsider.ok("COMMIT");
        clients[3].reply().expect_error("23505");
    }
}

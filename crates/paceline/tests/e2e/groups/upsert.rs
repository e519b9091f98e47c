//! Inserts with ON CONFLICT as groups: each client gets the answer that it would have got alone, in order of arrival
//! for each key, and its own error.

use crate::harness::message::{query, unit};
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, assert_same};

const SETUP: &str = "
    CREATE TYPE mood AS ENUM ('calm', 'busy');
    CREATE DOMAIN small AS int CHECK (VALUE < 500);
    CREATE TABLE edge (
        id bigint, target int, unixnano bigint NOT NULL, status int NOT NULL DEFAULT 0, UNIQUE (id, target));
    CREATE TABLE degree (
        id bigint PRIMARY KEY, degree int NOT NULL CHECK (degree < 1000), name varchar(8), size small, feeling mood,
        tags text[], at timestamptz DEFAULT 'epoch', part numeric(6,2));
    CREATE TABLE word (serial bigserial PRIMARY KEY, word varchar(20) UNIQUE, n int NOT NULL DEFAULT 1 CHECK (n > 0));
    CREATE TABLE log (id bigserial, a int, b int);
    CREATE TABLE note (a int, b int CHECK (b <> 4));
    CREATE TABLE price (price numeric PRIMARY KEY, n int);
    CREATE TABLE lane (id int, lane int, n int, PRIMARY KEY (id, lane)) PARTITION BY LIST (lane);
    CREATE TABLE lane_0 PARTITION OF lane FOR VALUES IN (0);
    CREATE TABLE lane_1 PARTITION OF lane FOR VALUES IN (1, 2);";

/// The rows before the clients begin.
const CONTENT: &str = "
    DELETE FROM edge; DELETE FROM degree; DELETE FROM word; DELETE FROM price; DELETE FROM lane; DELETE FROM log; DELETE FROM note;
    ALTER SEQUENCE word_serial_seq RESTART; ALTER SEQUENCE log_id_seq RESTART;
    INSERT INTO edge VALUES (1, 1, 5, 0), (1, 2, 1000, 1);
    INSERT INTO degree (id, degree, at) VALUES (1, 10, 'epoch');
    INSERT INTO word (word, n) VALUES ('w1', 7);
    INSERT INTO price VALUES (1, 0);
    INSERT INTO lane VALUES (0, 0, 100)";

const LEFT: &str = "
    SELECT 'e', id, target, unixnano::text, status::text, NULL, NULL FROM edge
    UNION ALL SELECT 'd', id, degree, name, size::text, feeling::text, tags::text || part FROM degree
    UNION ALL SELECT 'w', 0, n, word, NULL, NULL, NULL FROM word
    UNION ALL SELECT 'p', 0, n, price::text, NULL, NULL, NULL FROM price
    UNION ALL SELECT 'n', a, b, NULL, NULL, NULL, NULL FROM note
    UNION ALL SELECT 'o', a, b, id::text, NULL, NULL, NULL FROM log
    UNION ALL SELECT 'l', id, lane, n::text, tableoid::regclass::text, NULL, NULL FROM lane
    ORDER BY 1, 2, 3, 4";

const CLIENTS: usize = 12;

/// Statements with [`values`] of the client.
const SHAPES: [&str; 20] = [
    // The newest applies; keys that exist and keys that do not, several members each.
    "INSERT INTO edge (id, target, unixnano, status) VALUES (:key, :few, :n, 0) ON CONFLICT (id, target) \
     DO UPDATE SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status WHERE edge.unixnano < EXCLUDED.unixnano",
    "INSERT INTO edge AS e (target, id, unixnano) VALUES (:few, :key, :n) ON CONFLICT (target, id) \
     DO UPDATE SET unixnano = greatest(e.unixnano, excluded.unixnano) RETURNING id, target, -unixnano AS oldest, status",
    // A counter, on one row and on many.
    "INSERT INTO degree (id, degree) VALUES (:key, :few) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + :few RETURNING degree",
    "INSERT INTO degree (id, degree) VALUES (7, 1) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + 1 RETURNING id, degree",
    "INSERT INTO degree (id, degree) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + EXCLUDED.degree",
    "INSERT INTO degree (id, degree, name) VALUES (:key, :n, :word) ON CONFLICT (id) \
     DO UPDATE SET name = left(concat(degree.name, EXCLUDED.name), 8), degree = degree.degree + :few RETURNING *",
    "INSERT INTO degree (id, degree, size, feeling, tags, part) VALUES (:key, 1, :n + 0, 'busy', '{a,\"b c\"}', :few / 3.0) ON CONFLICT (id) \
     DO UPDATE SET size = EXCLUDED.size, feeling = EXCLUDED.feeling, tags = EXCLUDED.tags || degree.tags, part = EXCLUDED.part \
     RETURNING size, feeling, tags, part",
    "INSERT INTO degree (id, degree, at) VALUES (:key, :n, now()) ON CONFLICT (id) \
     DO UPDATE SET at = EXCLUDED.at, (degree, name) = (degree.degree + 1, 'x') WHERE degree.degree < 8 AND EXCLUDED.degree > 2 RETURNING degree, name",
    "INSERT INTO word (word, n) VALUES (:word, DEFAULT) ON CONFLICT (word) DO UPDATE SET n = word.n + 2",
    // Nothing.
    "INSERT INTO edge (id, target, unixnano) VALUES (:key, :few, :n) ON CONFLICT (id, target) DO NOTHING",
    "INSERT INTO edge (id, target, unixnano) VALUES (:key, :few, :n) ON CONFLICT DO NOTHING RETURNING *",
    "INSERT INTO word (word, n) VALUES (:word, :n) ON CONFLICT (word) DO NOTHING RETURNING word, n",
    "INSERT INTO word (word, n) VALUES (:word, :n) ON CONFLICT (word) DO UPDATE SET n = word.n + 1 RETURNING word, n",
    "INSERT INTO word (word, n) VALUES (:word, :n) ON CONFLICT DO NOTHING RETURNING word, n",
    "INSERT INTO price (price, n) VALUES (:price, :n) ON CONFLICT (price) DO UPDATE SET n = price.n + :n RETURNING n",
    "INSERT INTO lane (id, lane, n) VALUES (:key, :few, 1) ON CONFLICT (id, lane) DO UPDATE SET n = lane.n + :n RETURNING n",
    // Each on a key of its own.
    "INSERT INTO edge AS e (id, target, unixnano, status) VALUES (:n, :few, :n, :few) ON CONFLICT (id, target) \
     DO UPDATE SET unixnano = EXCLUDED.unixnano + e.unixnano WHERE e.unixnano < EXCLUDED.unixnano RETURNING *",
    "INSERT INTO degree (id, degree) VALUES (:n, :few) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + EXCLUDED.degree",
    // Several rows each.
    "INSERT INTO log (a, b) VALUES (:n, :few), (:key, :n), (:few, :key) RETURNING id, a, b",
    "INSERT INTO log (b) VALUES (:n), (:key)",
];

/// Statements of several rows each, and how many of the clients are in the first group: one of each two that share a key, one of
/// each four, or all. (Others need not wait so long for them that they are grouped, too.)
const SEVERAL: [(&str, i64); 12] = [
    (
        "INSERT INTO edge AS e (id, target, unixnano, status) VALUES (:n, :few, :far, :key), (:pair, :one, :n, :half) ON CONFLICT (target, id) \
         DO UPDATE SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status WHERE e.unixnano < EXCLUDED.unixnano RETURNING *, -e.id AS minus",
        6,
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:pair, :few), (:far, :key) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + EXCLUDED.degree",
        6,
    ),
    (
        "INSERT INTO degree AS d (id, degree, name) VALUES (:far, :n, :word), (:pair, :few, :own) ON CONFLICT (id) \
         DO UPDATE SET degree = d.degree + 1, name = left(concat(d.name, EXCLUDED.name), 8) RETURNING degree, name",
        6,
    ),
    // The addend of DO UPDATE is the same for all, or for the members of a group.
    (
        "INSERT INTO degree (id, degree) VALUES (:n, 1), (:pair, 1), (:far, 1) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + :one",
        6,
    ),
    (
        "INSERT INTO degree (id, degree, size) VALUES (:far, :n, :few + 0), (:pair, :key, :one + 0) ON CONFLICT (id) \
         DO UPDATE SET degree = degree.degree + :half WHERE degree.size <= EXCLUDED.size RETURNING *",
        6,
    ),
    (
        "INSERT INTO degree (id, degree, tags, feeling) VALUES (:far, :n, '{a,\"b c\"}', 'busy'), (:pair, :key, '{a,\"b c\"}', 'busy') ON CONFLICT (id) \
         DO UPDATE SET tags = EXCLUDED.tags || degree.tags, feeling = EXCLUDED.feeling RETURNING tags, feeling",
        6,
    ),
    // Nothing; two rows of one key, too.
    (
        "INSERT INTO edge (id, target, unixnano) VALUES (:n, :few, :far), (:pair, :one, :n) ON CONFLICT (id, target) DO NOTHING",
        6,
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:n, :few), (:dup, :key), (:pair, :one) ON CONFLICT (id) DO NOTHING RETURNING id, degree",
        6,
    ),
    // A row that four clients share.
    (
        "INSERT INTO word (word, n) VALUES (:own, :n), (:word, :far) ON CONFLICT (word) DO NOTHING RETURNING serial, word, n",
        3,
    ),
    // They may conflict on another key than the one that they wait for.
    (
        "INSERT INTO word (serial, word) VALUES (:far, :word), (:n, :own) ON CONFLICT DO NOTHING RETURNING serial, word",
        12,
    ),
    (
        "INSERT INTO lane (id, lane, n) VALUES (:n, :few, :key), (:pair, :one, :far) ON CONFLICT (id, lane) \
         DO UPDATE SET n = lane.n + EXCLUDED.n RETURNING *",
        6,
    ),
    // Rows that are not alike.
    (
        "INSERT INTO word (word, n) VALUES (:own, :n), (:word, DEFAULT) ON CONFLICT (word) DO UPDATE SET n = word.n + 1",
        0,
    ),
];

/// Statements that fail for one client (number 4), and how; it is neither the first nor the last on its key.
const FAILING: [(&str, &str); 18] = [
    (
        "INSERT INTO degree (id, degree) VALUES (:key, NULLIF(:n, 4)) ON CONFLICT (id) DO UPDATE SET degree = 1",
        "23502",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, :n * 250) ON CONFLICT (id) DO UPDATE SET name = 'x'",
        "23514",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, :n) ON CONFLICT (id) DO UPDATE SET degree = 250 * :n WHERE :n <= 4",
        "23514",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, 1 / (:n - 4)) ON CONFLICT (id) DO UPDATE SET name = 'y'",
        "22012",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, :n) ON CONFLICT (id) DO UPDATE SET degree = 1 / (:n - 4)",
        "22012",
    ),
    (
        "INSERT INTO degree (id, degree, name) VALUES (:key, :n, repeat('x', :n * 2 % 9 + 1)) ON CONFLICT (id) DO UPDATE SET degree = 3",
        "22001",
    ),
    (
        "INSERT INTO degree (id, degree, size) VALUES (:key, :n, :n * 125) ON CONFLICT (id) DO UPDATE SET degree = 3",
        "23514",
    ),
    (
        "INSERT INTO degree (id, degree, part) VALUES (:key, 1, 2500.0 * :n) ON CONFLICT (id) DO UPDATE SET degree = 3",
        "22003",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, NULLIF(:n, 4)) ON CONFLICT (id) DO NOTHING",
        "23502",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, 1 / (:n - 4)) ON CONFLICT (id) DO NOTHING",
        "22012",
    ),
    (
        "INSERT INTO degree (id, degree, size) VALUES (:key, :n, :n * 125) ON CONFLICT (id) DO NOTHING",
        "23514",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:key, 250 * :n) ON CONFLICT DO NOTHING",
        "23514",
    ),
    (
        "INSERT INTO note (a, b) VALUES (:key, :few), (:key, :n) RETURNING b",
        "23514",
    ),
    (
        "INSERT INTO edge (id, target, unixnano, status) VALUES (:key, :n, NULLIF(:n, 4), 0) ON CONFLICT (id, target) DO UPDATE SET unixnano = EXCLUDED.unixnano",
        "23502",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:far, NULLIF(:n, 4)), (:pair, NULLIF(:key, 4)) ON CONFLICT (id) DO UPDATE SET degree = EXCLUDED.degree",
        "23502",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:far, 250 * :n), (:pair, 250 * :key) ON CONFLICT (id) DO NOTHING RETURNING id",
        "23514",
    ),
    (
        "INSERT INTO degree (id, degree) VALUES (:far, 1 / (:n - 4)), (:pair, 1 / (:key - 4)) ON CONFLICT (id) DO NOTHING RETURNING id",
        "22012",
    ),
    // The same row twice.
    (
        "INSERT INTO degree (id, degree) VALUES (:n, :few), (:dup, :key) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + EXCLUDED.degree RETURNING id, degree",
        "21000",
    ),
];

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

/// The values of client `number`: its number, keys that recur in one way and another, words, a price, keys that two clients
/// share, one that is its own, one that is its number again for client 4 only.
fn values(number: usize) -> [(&'static str, String); 11] {
    let price = ["1", "2.5", "3.75"];
    let dup = if number == 4 { 4 } else { number + 300 };
    [
        (":n", number.to_string()),
        (":key", (number % 3).to_string()),
        (":few", (number % 2 + 1).to_string()),
        (":word", format!("w{}", number % 3)),
        (":price", price[number % 3].to_owned()),
        (":pair", (number.div_ceil(2) + 100).to_string()),
        (":far", (number + 200).to_string()),
        (":dup", dup.to_string()),
        (":own", format!("own{number}")),
        (":one", "1".to_owned()),
        (":half", (number / 7).to_string()),
    ]
}

fn ask(sql: &str, number: usize, prepared: bool) -> Vec<u8> {
    let mut text = sql.to_owned();
    let mut bound = Vec::new();
    for (name, value) in values(number) {
        if !text.contains(name) {
            continue;
        }
        bound.push(value.clone());
        let literal = match (prepared, name) {
            (true, _) => format!("${}", bound.len()),
            (false, ":word" | ":own") => format!("'{value}'"),
            (false, _) => value,
        };
        text = text.replace(name, &literal);
    }
    let bound: Vec<_> = bound.iter().map(|value| Some(value.as_str())).collect();
    match prepared {
        true => unit(&text, &bound),
        false => query(&text),
    }
}

/// Clients send at once; each must get what it gets when they send to bare PostgreSQL one by one.
fn check(stage: &Stage, sql: &str, prepared: bool) {
    println!("{sql}");
    let mut bare = stage.direct();
    // Paceline analyzes the template.
    bare.ok(CONTENT);
    stage
        .client()
        .ask(&ask(sql, 3, prepared))
        .expect_ok("alone");
    bare.ok(CONTENT);
    let mut clients = stage.clients(CLIENTS);
    let mut gate = Gate::close(stage);
    for (number, client) in (1..).zip(&mut clients) {
        gate.submit(client, &ask(sql, number, prepared));
    }
    gate.open();
    let together: Vec<_> = clients.iter_mut().map(|client| client.reply()).collect();
    let left = bare.ok(LEFT).rows();
    bare.ok(CONTENT);
    for (number, reply) in (1..).zip(&together) {
        let alone = bare.ask(&ask(sql, number, prepared));
        assert_same(&format!("client {number} of {sql}"), &alone.0, &reply.0);
    }
    assert_eq!(bare.ok(LEFT).rows(), left, "{sql}");
}

/// A request in the line is on keys of its own, or leaves after those in front of it on one of its keys.
fn check_several(prepared: bool) {
    let stage = stage();
    for (sql, grouped) in SEVERAL {
        let before = stage.counters();
        check(&stage, sql, prepared);
        let members = stage.counters().members - before.members;
        assert!(
            members >= grouped || stage.target() == Target::Bare,
            "{members} travelled together: {sql}"
        );
    }
}

#[test]
fn each_client_with_several_rows_gets_its_answer_by_the_extended_protocol() {
    check_several(true);
}

#[test]
fn each_client_with_several_rows_gets_its_answer_by_the_simple_protocol() {
    check_several(false);
}

fn check_all(prepared: bool) {
    let stage = stage();
    for sql in SHAPES {
        let before = stage.counters();
        check(&stage, sql, prepared);
        let after = stage.counters();
        let members = after.members - before.members;
        // A number without a point is no numeric.
        let grouped = members >= CLIENTS as i64 || (sql.contains(":price") && !prepared);
        assert!(
            grouped || stage.target() == Target::Bare,
            "{members} travelled together: {sql}"
        );
    }
}

#[test]
fn each_client_gets_its_answer_by_the_extended_protocol() {
    check_all(true);
}

#[test]
fn each_client_gets_its_answer_by_the_simple_protocol() {
    check_all(false);
}

#[test]
fn a_violation_fails_its_client_alone() {
    let stage = stage();
    for (sql, sqlstate) in FAILING {
        println!("{sqlstate}");
        check(&stage, sql, true);
        check(&stage, sql, false);
        stage.direct().ok(CONTENT);
        stage
            .client()
            .ask(&ask(sql, 4, true))
            .expect_error(sqlstate);
    }
}

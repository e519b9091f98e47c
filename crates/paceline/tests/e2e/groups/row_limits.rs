//! Requests with a row limit (`Execute`). At the limit, PostgreSQL suspends the portal, and each client gets that answer in a group, too.

use super::chains;
use super::equivalence::shares::shared;
use super::members::together;
use crate::harness::message::{bind, describe, execute, parse, sync};
use crate::harness::stage::Target;
use crate::harness::{Reply, Stage, assert_same, until};

/// Requests of the extended protocol with a row limit. One parameter has the same value in each, two have other values.
fn limited(sql: &str, limits: &[u32]) -> Vec<Vec<u8>> {
    let request = |(number, limit): (u32, &u32)| {
        let values = match sql.matches('$').count() {
            1 => vec!["1".to_owned()],
            _ => vec![(20 + number).to_string(), (40 + number).to_string()],
        };
        let values: Vec<_> = values.iter().map(|value| Some(value.as_str())).collect();
        [
            parse("", sql, &[]),
            bind("", "", &values),
            describe(b'P', ""),
            execute("", *limit),
            sync(),
        ]
        .concat()
    };
    (0..).zip(limits).map(request).collect()
}

/// pgjdbc sends a row limit of 1 with each update whose rows the application does not want, and PostgreSQL ignores the limit if there are
/// none; asyncpg with each `fetchrow`.
#[test]
fn writes_with_a_row_limit() {
    for (sql, limits) in [
        ("UPDATE t SET n = n + 1 WHERE id = $1", [1, 1, 1, 1, 1]),
        (
            "UPDATE t SET n = n + 1 WHERE id = $1 RETURNING n",
            [1, 0, 2, 1, 1],
        ),
        (
            "UPDATE t SET n = n - 1 WHERE id = $1 AND n > 2 RETURNING n",
            [1, 0, 2, 1, 1],
        ),
        (
            "INSERT INTO t VALUES ($1, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1 RETURNING n",
            [1, 0, 2, 1, 1],
        ),
        (
            "INSERT INTO log (n) VALUES ($1) RETURNING n",
            [1, 0, 2, 1, 1],
        ),
        (
            "INSERT INTO log (n) VALUES ($1), ($2) RETURNING n",
            [1, 0, 2, 3, 1],
        ),
        (
            "INSERT INTO t VALUES ($1, 0), ($2, 0) ON CONFLICT (id) DO NOTHING RETURNING id",
            [1, 0, 2, 3, 1],
        ),
        (
            "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE n >= $1 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id",
            [1, 0, 2, 3, 1],
        ),
    ] {
        let stage = Stage::for_groups();
        let mut direct = stage.direct();
        direct.ok(
            "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE log (id bigserial, n int)",
        );
        let fill = "TRUNCATE t, log; INSERT INTO t SELECT i, i + 2 FROM generate_series(1, 12) i";
        direct.ok(fill);
        let requests = limited(sql, &limits);
        stage.client().ask(&requests[0]).expect_ok("alone");
        stage.await_analysis();
        direct.ok(fill);
        let answers = together(&stage, &mut stage.clients(requests.len()), &requests);
        let content = "SELECT id, n FROM t UNION ALL SELECT n, n FROM log ORDER BY 1, 2";
        let found = direct.ok(content).rows();
        direct.ok(fill);
        for (request, answer) in requests.iter().zip(&answers) {
            let alone = direct.ask(request);
            assert_same(sql, &alone.0, &answer.0);
        }
        assert_eq!(direct.ok(content).rows(), found, "{sql}");
        stage.assert_grouped(5, 5);
    }
}

/// With a limit, the statement meets no error in a later row.
#[test]
fn reads_with_the_same_row_limit_are_shared() {
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (2, 1), (3, 0)");
    let sql = "SELECT 1 / n FROM t WHERE id > $1 ORDER BY id";
    let requests = limited(sql, &[1, 0, 1, 0, 1]);
    stage.client().ask(&requests[0]).expect_ok("alone");
    stage.await_analysis();
    let answers = together(&stage, &mut stage.clients(requests.len()), &requests);
    for (request, answer) in requests.iter().zip(&answers) {
        assert_same(sql, &direct.ask(request).0, &answer.0);
    }
    if stage.target() == Target::Paceline {
        let (units, groups) = shared(&stage);
        assert!(units > groups, "{groups} reads for {units} requests");
    }
}

/// In one transaction, PostgreSQL does not show the changes of a statement that has stopped at a row limit to the next `Bind`.
#[test]
fn chained_writes_with_a_row_limit() {
    let stage = chains::stage("");
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1), (2), (3)");
    let fill = "UPDATE t SET n = 0";
    let sql = "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + 1 WHERE id >= $1 RETURNING n";
    let prepare = [parse("s", sql, &[]), sync()].concat();
    let request = |limit| [bind("", "s", &[Some("1")]), execute("", limit), sync()].concat();
    let requests = [1, 0, 2, 3, 4, 1].map(request);
    direct.ok(fill);
    direct.ask(&prepare).expect_ok(sql);
    let alone: Vec<Reply> = requests.iter().map(|bytes| direct.ask(bytes)).collect();
    until("they share a transaction", || {
        let mut teacher = stage.client();
        teacher.ask(&prepare).expect_ok(sql);
        for _ in 0..5 {
            teacher.ask(&requests[0]);
            teacher.ok("BEGIN; COMMIT");
        }
        direct.ok(fill);
        let mut clients = stage.clients(requests.len());
        for client in &mut clients {
            client.ask(&prepare).expect_ok(sql);
        }
        let before = stage.counters();
        let replies = together(&stage, &mut clients, &requests);
        for (alone, reply) in alone.iter().zip(&replies) {
            assert_same(sql, &alone.0, &reply.0);
        }
        assert_eq!(direct.number("SELECT sum(n) FROM t"), 18);
        let after = stage.counters();
        let chained = after.groups > before.groups && after.fallbacks == before.fallbacks;
        stage.target() == Target::Bare || chained
    });
}

//! Read-only transactions, message by message as on bare PostgreSQL, although replicas answer their reads.

use super::READ;
use crate::failover::Pair;
use crate::harness::Rng;
use crate::harness::message::{
    bind, close, copy_data, copy_done, describe, execute, flush, function_call, parse, query, sync,
    unit,
};
use crate::harness::raw::RawClient;
use crate::harness::reply::assert_same;

const BEGIN: &str = "BEGIN READ ONLY";
const SELECT: &str = "SELECT id, n FROM t WHERE id < $1::int ORDER BY id";
/// Changes no row: two clients run it at the same time.
const WRITE: &str = "UPDATE t SET n = 0 WHERE id = -1 RETURNING n";

/// Texts, each sent as a simple query, and in the other [`forms`].
const TEXTS: &[&[&str]] = &[
    &[BEGIN, READ, READ, "COMMIT"],
    &["START TRANSACTION READ ONLY", READ, "ROLLBACK"],
    &[BEGIN, "COMMIT WORK"],
    &[BEGIN, "ABORT TRANSACTION"],
    &[BEGIN, READ, "END AND NO CHAIN"],
    &[BEGIN, READ, "SELEC", READ, "COMMIT"],
    &[BEGIN, "SELECT nothing FROM t", READ, "ROLLBACK"],
    &[BEGIN, READ, "SELECT 1 / (id - id) FROM t", READ, "END"],
    &[BEGIN, READ, WRITE, READ, "COMMIT"],
    &[BEGIN, WRITE, "ROLLBACK"],
    &[BEGIN, READ, "CREATE TEMP TABLE mine (id int)", "ROLLBACK"],
    &[
        BEGIN,
        READ,
        "SAVEPOINT s",
        "SELECT 1 / 0",
        READ,
        "ROLLBACK TO s",
        READ,
        "RELEASE s",
        "COMMIT",
    ],
    &[BEGIN, "SET TRANSACTION READ WRITE", WRITE, "ROLLBACK"],
    &[BEGIN, READ, "SET TRANSACTION READ WRITE", "ROLLBACK"],
    &[
        BEGIN,
        READ,
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        READ,
        "COMMIT",
    ],
    &[
        BEGIN,
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        READ,
        "SHOW transaction_isolation",
        "COMMIT",
    ],
    &[
        BEGIN,
        READ,
        "DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id",
        "FETCH 2 FROM c",
        READ,
        "MOVE c",
        "FETCH ALL FROM c",
        "COMMIT",
        "FETCH c",
    ],
    &[BEGIN, READ, BEGIN, READ, "COMMIT", "COMMIT"],
    &[BEGIN, READ, "BEGIN", READ, "ROLLBACK", "ROLLBACK"],
    &[BEGIN, READ, "COMMIT AND CHAIN", READ, WRITE, "ROLLBACK"],
    &[BEGIN, "ROLLBACK AND CHAIN", READ, "COMMIT"],
    &[
        BEGIN,
        READ,
        "SELECT 1 / 0",
        "ROLLBACK AND CHAIN",
        "SHOW transaction_read_only",
        "COMMIT",
    ],
    &[BEGIN, "", READ, ";", "COMMIT"],
    &[
        BEGIN,
        "SHOW transaction_read_only",
        "SHOW transaction_isolation",
        "COMMIT",
    ],
    &[
        BEGIN,
        READ,
        "SET LOCAL work_mem = '1MB'",
        "SHOW work_mem",
        "COMMIT",
        "SHOW work_mem",
    ],
    &[
        BEGIN,
        READ,
        "SET application_name = 'inside'",
        READ,
        "ROLLBACK",
        "SHOW application_name",
    ],
    &[
        BEGIN,
        "SET application_name = 'after'",
        READ,
        "COMMIT",
        "SHOW application_name",
        "RESET application_name",
    ],
    &[
        BEGIN,
        READ,
        "PREPARE p AS SELECT n FROM t WHERE id = $1",
        "EXECUTE p(1)",
        "COMMIT",
        BEGIN,
        "EXECUTE p(2)",
        "DEALLOCATE p",
        "EXECUTE p(2)",
        "COMMIT",
    ],
    &[BEGIN, READ, "SELECT id FROM t FOR SHARE", "COMMIT"],
    &[
        BEGIN,
        READ,
        "LOCK TABLE t IN ACCESS SHARE MODE",
        "DO $$ BEGIN PERFORM 1; END $$",
        "COMMIT",
    ],
    &[BEGIN, "VACUUM t", READ, "ROLLBACK"],
    &[BEGIN, "EXPLAIN (COSTS OFF) SELECT * FROM t", "COMMIT"],
    &[
        "SET default_transaction_read_only = on",
        "BEGIN",
        READ,
        WRITE,
        "ROLLBACK",
        "RESET default_transaction_read_only",
    ],
    &[
        "SET default_transaction_isolation = 'serializable'",
        BEGIN,
        READ,
        "SHOW transaction_isolation",
        "COMMIT",
        "RESET default_transaction_isolation",
    ],
    &[
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        READ,
        "SHOW transaction_isolation",
        "COMMIT",
    ],
];

/// Requests of several messages.
fn messages() -> Vec<Vec<Vec<u8>>> {
    let select = || unit(SELECT, &[Some("3")]);
    let named = [parse("p", SELECT, &[]), describe(b'S', "p"), sync()].concat();
    let run = |value| [bind("", "p", &[Some(value)]), execute("", 0), sync()].concat();
    let in_parts = [
        parse("", SELECT, &[]),
        bind("c", "", &[Some("5")]),
        execute("c", 2),
        sync(),
    ];
    let rest = [execute("c", 1), execute("c", 0), close(b'P', "c"), sync()];
    let again = |value| [bind("p", "", &[Some(value)]), execute("p", 0), sync()].concat();
    let limited = [bind("", "", &[Some("5")]), execute("", 2), sync()].concat();
    let described = [describe(b'S', ""), sync()].concat();
    let failing = unit("SELECT 1 / ($1::int - id) FROM t", &[Some("1")]);
    let pipelined = [query(BEGIN), query(READ), select(), query("COMMIT")];
    let part = |text| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
    let three = [part(READ), part(WRITE), unit(READ, &[])];
    let begin = query(BEGIN);
    let commit = query("COMMIT");
    vec![
        vec![begin.clone(), select(), unit("COMMIT", &[])],
        vec![unit(BEGIN, &[]), select(), select(), unit("ROLLBACK", &[])],
        vec![begin.clone(), unit(BEGIN, &[]), select(), commit.clone()],
        vec![
            begin.clone(),
            select(),
            named,
            run("2"),
            commit.clone(),
            begin.clone(),
            run("3"),
            [close(b'S', "p"), sync()].concat(),
            run("4"),
            query("ROLLBACK"),
        ],
        vec![
            begin.clone(),
            in_parts.concat(),
            rest.concat(),
            commit.clone(),
        ],
        vec![begin.clone(), select(), failing, select(), commit.clone()],
        vec![begin.clone(), select(), unit(WRITE, &[]), commit.clone()],
        vec![begin.clone(), sync(), select(), commit.clone()],
        vec![begin.clone(), select(), again("5"), commit.clone()],
        vec![begin.clone(), select(), again("x"), commit.clone()],
        vec![begin.clone(), select(), limited, commit.clone()],
        vec![begin.clone(), select(), described, commit.clone()],
        vec![
            begin.clone(),
            function_call(1397, &[Some("-5")]),
            query("ROLLBACK"),
        ],
        vec![
            begin.clone(),
            select(),
            query("COPY (SELECT id FROM t ORDER BY id) TO STDOUT"),
            commit.clone(),
        ],
        vec![
            begin.clone(),
            [
                query("COPY t FROM STDIN"),
                copy_data(b"9\t9\n"),
                copy_done(),
            ]
            .concat(),
            select(),
            commit.clone(),
        ],
        pipelined.into_iter().collect(),
        vec![begin.clone(), three.concat(), commit.clone()],
        // The unnamed statement remains when the transaction begins on the primary.
        vec![
            begin,
            select(),
            [bind("", "", &[Some("4")]), execute("", 1), sync()].concat(),
            [bind("", "", &[Some("2")]), execute("", 0), sync()].concat(),
            commit,
        ],
    ]
}

/// A script; the same with the requests between BEGIN and the end by the extended protocol; and all by the extended protocol.
fn forms(texts: &[&str]) -> [Vec<Vec<u8>>; 3] {
    let simple = texts.iter().map(|text| query(text)).collect();
    let all = texts.iter().map(|text| unit(text, &[])).collect();
    let ends = ["BEGIN", "START", "COMMIT", "ROLLBACK", "END", "ABORT"];
    let extended = texts.iter().map(|text| {
        let is_end = ends.iter().any(|end| text.starts_with(end));
        match is_end && !text.contains(" TO ") && !text.contains("CHAIN") {
            true => query(text),
            false => unit(text, &[]),
        }
    });
    [simple, extended.collect(), all]
}

pub(super) fn compare(
    what: &str,
    script: &[Vec<u8>],
    direct: &mut RawClient,
    client: &mut RawClient,
) {
    for (step, request) in script.iter().enumerate() {
        let (bare, paceline) = (direct.ask(request), client.ask(request));
        assert_same(&format!("{what}, step {step}"), &bare.0, &paceline.0);
    }
}

#[test]
fn transactions_are_those_of_bare_postgresql() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    pair.reader();
    let before = pair.reads();
    let (mut direct, mut client) = (pair.primary.client("postgres"), pair.client());
    for texts in TEXTS {
        for script in forms(texts) {
            compare(&texts.join("; "), &script, &mut direct, &mut client);
        }
    }
    for (number, script) in messages().iter().enumerate() {
        // The second time, the replica may answer the reads.
        for _ in 0..2 {
            let what = format!("messages {number}");
            compare(&what, script, &mut direct, &mut client);
        }
    }
    let reads = pair.reads() - before;
    assert!(reads > 50, "the replica answered {reads} reads");
}

/// Statements in any order.
#[test]
fn random_transactions_are_those_of_bare_postgresql() {
    let seed = paceline_testing::seed();
    let mut rng = Rng::new(seed);
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    pair.reader();
    let before = pair.reads();
    let (mut direct, mut client) = (pair.primary.client("postgres"), pair.client());
    let all: Vec<&str> = TEXTS.concat();
    let texts: Vec<&str> = all
        .into_iter()
        .filter(|text| !text.contains("default_transaction") && !text.contains("TEMP"))
        .collect();
    for step in 0..600 {
        let text = match rng.below(4) {
            0 => READ,
            1 if rng.chance(50) => BEGIN,
            _ => texts[rng.below(texts.len())],
        };
        let request = match rng.chance(50) {
            true => query(text),
            false => unit(text, &[]),
        };
        let (bare, paceline) = (direct.ask(&request), client.ask(&request));
        let what = format!("{text}, step {step} of seed {seed}");
        assert_same(&what, &bare.0, &paceline.0);
    }
    assert!(pair.reads() > before, "no read was answered by the replica");
}

/// `Flush` and a request in parts: the client gets the answer before it has sent all.
#[test]
fn a_request_may_arrive_in_parts() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.reader();
    client.ok(BEGIN);
    client.ok(READ);
    let begun = [parse("", SELECT, &[]), describe(b'S', ""), flush()].concat();
    client.send(&begun);
    client.receive_until(b"T");
    let rest = [bind("", "", &[Some("3")]), execute("", 0), sync()].concat();
    let reply = client.ask(&rest).expect_ok("the rest");
    assert_eq!((reply.rows().len(), reply.status()), (2, 'T'));
    let long = format!("SELECT n FROM t WHERE id = 1 /* {} */", "x".repeat(400_000));
    assert_eq!(client.ok("COMMIT").tag(), "COMMIT");
    client.ok(BEGIN);
    client.ok(READ);
    assert_eq!(client.number(&long), 0);
    assert_eq!(client.ok("COMMIT").tag(), "COMMIT");
}

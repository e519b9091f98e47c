//! READ ONLY transactions whose BEGIN uses the extended protocol, alone or before the first statement of the transaction: message by
//! message as on bare PostgreSQL, and replicas answer their reads.

use super::READ;
use super::scripts::compare;
use super::waits::{WAITS, lock};
use crate::failover::{Pair, shown};
use crate::harness::message::{
    bind, bind_formats, close, describe, execute, flush, parse, query, run, sync, unit,
};
use crate::harness::raw::RawClient;
use crate::harness::reply::assert_same;
use crate::harness::stage::counters;
use crate::harness::{Rng, until};

const BEGIN: &str = "BEGIN READ ONLY";
const SELECT: &str = "SELECT id, n FROM t WHERE id < $1::int ORDER BY id";
/// Changes no row: two clients run it at the same time.
const WRITE: &str = "UPDATE t SET n = 0 WHERE id = -1 RETURNING n";

/// Messages without `Sync`, as pgjdbc sends them for a query.
fn described(text: &str, values: &[Option<&str>]) -> Vec<u8> {
    [
        parse("", text, &[]),
        bind("", "", values),
        describe(b'P', ""),
        execute("", 0),
    ]
    .concat()
}

fn select() -> Vec<u8> {
    described(SELECT, &[Some("3")])
}

/// Prepares a command and executes it. pgjdbc executes COMMIT with a row limit.
fn prepares(name: &str, text: &str, limit: u32) -> Vec<u8> {
    [parse(name, text, &[]), executes(name, limit)].concat()
}

/// Executes a prepared command.
fn executes(name: &str, limit: u32) -> Vec<u8> {
    [bind("", name, &[]), execute("", limit)].concat()
}

/// One request.
fn request(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), sync()].concat()
}

/// Messages that execute [`BEGIN`] with the unnamed statement.
fn begins() -> [Vec<u8>; 4] {
    let parsed = || parse("", BEGIN, &[]);
    let libpq = bind_formats("", "", &[], &[], &[1]);
    [
        run(BEGIN, &[]),
        described(BEGIN, &[]),
        [
            parsed(),
            describe(b'S', ""),
            bind("", "", &[]),
            execute("", 0),
        ]
        .concat(),
        [parsed(), libpq, describe(b'P', ""), execute("", 0)].concat(),
    ]
}

/// A client whose reads the replica answers.
fn reader(pair: &Pair) -> RawClient {
    let mut client = pair.client();
    let before = pair.reads();
    until("the replica answers", || {
        client.ask(&unit(READ, &[])).expect_ok("a read");
        pair.reads() > before
    });
    client
}

/// Requests, each with its `Sync`.
fn scripts() -> Vec<Vec<Vec<u8>>> {
    let begin = || run(BEGIN, &[]);
    let begun = || request(&[begin()]);
    let commit = || request(&[prepares("", "COMMIT", 1)]);
    let rollback = || unit("ROLLBACK", &[]);
    let read = || unit(READ, &[]);
    // As the first requests of transactions.
    let firsts = [
        vec![],
        vec![select()],
        vec![run(READ, &[]), select()],
        vec![run("SELEC", &[]), select()],
        vec![run("SELECT nothing FROM t", &[])],
        vec![described("SELECT 1 / (id - id) FROM t", &[])],
        vec![run("SELECT 1 / ($1::int - id) FROM t", &[Some("1")])],
        vec![run(SELECT, &[Some("x")])],
        vec![run(SELECT, &[])],
        vec![executes("missing", 0)],
        vec![run(WRITE, &[]), select()],
        vec![run("", &[])],
        vec![begin()],
        vec![run("BEGIN", &[]), select()],
        vec![prepares("", "COMMIT", 1)],
        vec![run("ROLLBACK", &[]), select()],
        vec![select(), run("COMMIT", &[])],
        vec![run("COMMIT AND CHAIN", &[]), select()],
        vec![run("SAVEPOINT s", &[]), run("SELEC", &[])],
        vec![run("SET TRANSACTION READ WRITE", &[]), run(WRITE, &[])],
        vec![run("SHOW transaction_read_only", &[])],
        vec![run("SET LOCAL work_mem = '1MB'", &[])],
        vec![run("DECLARE c CURSOR FOR SELECT id FROM t", &[])],
        vec![run("COPY (SELECT id FROM t ORDER BY id) TO STDOUT", &[])],
        vec![run("SELECT now() = statement_timestamp() FROM t", &[])],
        vec![run("SELECT length($1)", &[Some(x(300_000).as_str())])],
        vec![run(
            "SELECT id FROM t WHERE id < length($1) ORDER BY id",
            &[Some(x(20_000).as_str())],
        )],
        vec![flush()],
        vec![flush(), select()],
        vec![select(), flush(), select()],
        vec![execute("", 0)],
        vec![describe(b'P', "")],
        vec![describe(b'S', ""), select()],
        vec![close(b'S', ""), select()],
        vec![close(b'P', ""), select()],
        vec![parse("q", SELECT, &[]), describe(b'S', "q")],
        vec![
            parse("", SELECT, &[]),
            bind("c", "", &[Some("5")]),
            execute("c", 2),
        ],
        vec![query(READ)],
    ];
    let mut scripts = Vec::new();
    for first in firsts {
        let ends = first.last().is_some_and(|last| last.first() == Some(&b'Q'));
        let first = match ends {
            true => [vec![begin()], first].concat().concat(),
            false => request(&[vec![begin()], first].concat()),
        };
        scripts.push(vec![first.clone(), request(&[select()]), commit()]);
        scripts.push(vec![first, read(), rollback()]);
    }
    for begin in begins() {
        scripts.push(vec![[begin.clone(), sync()].concat(), read(), commit()]);
        scripts.push(vec![request(&[begin, select()]), read(), rollback()]);
    }
    // Texts of a BEGIN.
    for text in [
        "START TRANSACTION READ ONLY",
        "begin isolation level read committed, read only;",
        "BEGIN",
        "BEGIN READ WRITE",
        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "BEGIN READ ONLY; SELECT 1",
        "BEGIN READ ONLX",
        "/* why */ BEGIN READ ONLY",
    ] {
        let first = request(&[run(text, &[]), select()]);
        scripts.push(vec![
            first,
            read(),
            commit(),
            unit("BEGIN", &[]),
            rollback(),
        ]);
    }
    // Texts of an end.
    for text in [
        "END",
        "ABORT",
        "COMMIT AND CHAIN",
        "COMMIT; SELECT 1",
        "COMMIT PREPARED 'x'",
        "ROLLBACK TO s",
    ] {
        for first in [read(), unit("SELEC", &[])] {
            scripts.push(vec![begun(), first, unit(text, &[]), rollback()]);
        }
    }
    scripts.extend([
        // As pgjdbc: first unnamed, later prepared, at last only executed.
        vec![
            request(&[begin(), select()]),
            request(&[select()]),
            commit(),
            request(&[prepares("S_1", BEGIN, 0), select()]),
            request(&[prepares("S_2", "COMMIT", 1)]),
            request(&[executes("S_1", 0), select()]),
            request(&[executes("S_2", 1)]),
            request(&[executes("S_1", 0), run(WRITE, &[])]),
            request(&[executes("S_2", 1)]),
            request(&[executes("S_1", 0)]),
            request(&[prepares("S_3", "ROLLBACK", 1)]),
            // On the primary.
            request(&[executes("S_1", 0), flush(), select()]),
            request(&[executes("S_3", 1)]),
            request(&[close(b'S', "S_1"), close(b'S', "S_2")]),
            request(&[executes("S_1", 0), select()]),
            request(&[executes("S_3", 1)]),
        ],
        // A BEGIN that was prepared before.
        vec![
            request(&[parse("b", BEGIN, &[]), describe(b'S', "b")]),
            request(&[executes("b", 0), select()]),
            commit(),
            request(&[bind("", "b", &[]), describe(b'P', ""), execute("", 0)]),
            query("DEALLOCATE b"),
            read(),
            commit(),
            request(&[executes("b", 0)]),
            read(),
        ],
        // The name is in use; in the transaction, for another statement.
        vec![
            request(&[parse("b", BEGIN, &[])]),
            request(&[prepares("b", BEGIN, 0), select()]),
            read(),
            request(&[prepares("c", BEGIN, 0), parse("c", SELECT, &[])]),
            request(&[prepares("b", "COMMIT", 0)]),
            read(),
            commit(),
            request(&[executes("c", 0), close(b'S', "c"), select()]),
            request(&[executes("c", 0)]),
            rollback(),
        ],
        vec![
            request(&[prepares("b", BEGIN, 0), close(b'S', "b"), select()]),
            request(&[executes("b", 0)]),
            rollback(),
        ],
        // The unnamed statement remains, also when the transaction begins on the primary.
        vec![
            begun(),
            request(&[executes("", 0)]),
            read(),
            commit(),
            request(&[executes("", 0)]),
            begun(),
            read(),
            request(&[executes("", 2)]),
            request(&[executes("", 0), run(WRITE, &[])]),
            request(&[executes("", 0)]),
            commit(),
        ],
        vec![
            begun(),
            request(&[select()]),
            request(&[bind("", "", &[Some("4")]), execute("", 1)]),
            request(&[bind("", "", &[Some("2")]), execute("", 0)]),
            commit(),
        ],
        vec![
            begun(),
            unit("SELEC", &[]),
            request(&[executes("", 0)]),
            rollback(),
            request(&[executes("", 0)]),
        ],
        // Other forms.
        vec![request(&[parse("", BEGIN, &[23]), executes("", 0)]), read()],
        vec![request(&[parse("", BEGIN, &[]), bind("", "", &[None])])],
        vec![
            request(&[parse("", BEGIN, &[]), bind("p", "", &[]), execute("p", 0)]),
            request(&[select()]),
            commit(),
        ],
        vec![request(&[prepares("", BEGIN, 1), select()]), commit()],
        vec![begun(), sync(), sync(), read(), sync(), commit(), sync()],
        vec![begun(), unit("SELEC", &[]), sync(), commit(), sync()],
        vec![
            query("SET default_transaction_read_only = on"),
            request(&[run("BEGIN", &[]), select()]),
            unit(WRITE, &[]),
            rollback(),
            query("RESET default_transaction_read_only"),
        ],
        vec![begun(), query(READ), query("COMMIT")],
        vec![query(BEGIN), query(READ), commit()],
    ]);
    scripts
}

fn x(len: usize) -> String {
    "x".repeat(len)
}

/// Between two scripts.
fn ends() -> Vec<Vec<u8>> {
    vec![query("ROLLBACK"), query("DEALLOCATE ALL")]
}

#[test]
fn extended_begins_are_those_of_bare_postgresql() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    reader(&pair);
    let before = pair.reads();
    let (mut direct, mut client) = (pair.primary.client("postgres"), pair.client());
    for (number, script) in scripts().iter().enumerate() {
        // The second time, the replica may answer the reads.
        for _ in 0..2 {
            let what = format!("script {number}");
            compare(&what, script, &mut direct, &mut client);
            compare(&what, &ends(), &mut direct, &mut client);
        }
    }
    let reads = pair.reads() - before;
    assert!(reads > 50, "the replica answered {reads} reads");
}

/// Requests of several statements in any order.
#[test]
fn random_requests_are_those_of_bare_postgresql() {
    let seed = paceline_testing::seed();
    let mut rng = Rng::new(seed);
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    reader(&pair);
    let before = pair.reads();
    let (mut direct, mut client) = (pair.primary.client("postgres"), pair.client());
    for step in 0..1000 {
        let parts: Vec<Vec<u8>> = (0..1 + rng.below(3)).map(|_| part(&mut rng)).collect();
        let request = request(&parts);
        let (bare, paceline) = (direct.ask(&request), client.ask(&request));
        let what = format!("step {step} of seed {seed:#x}");
        assert_same(&what, &bare.0, &paceline.0);
    }
    assert!(pair.reads() > before, "no read was answered by the replica");
}

/// Messages that execute one statement, or do something with a prepared one.
fn part(rng: &mut Rng) -> Vec<u8> {
    const NAMED: [(&str, &str); 4] = [
        ("b", BEGIN),
        ("c", "COMMIT"),
        ("r", "ROLLBACK"),
        ("s", READ),
    ];
    let (name, text) = NAMED[rng.below(NAMED.len())];
    match rng.below(14) {
        0..=2 => begins()[rng.below(4)].clone(),
        3 | 4 => run(READ, &[]),
        5 => described(READ, &[]),
        6 => prepares("", "COMMIT", 1),
        7 => run("ROLLBACK", &[]),
        8 => prepares(name, text, 0),
        9 | 10 => executes(name, 0),
        11 => executes("", 0),
        12 => match rng.below(4) {
            0 => close(b'S', name),
            1 => flush(),
            2 => run("SELECT 1 / (id - id) FROM t", &[]),
            _ => run("SELEC", &[]),
        },
        _ => run(WRITE, &[]),
    }
}

/// In every form; and a transaction that needs no primary ends without one.
#[test]
fn the_replica_answers_reads_after_an_extended_begin() {
    let Some(pair) = Pair::reading(&["reads=session", "replica_wait=10s"]) else {
        return;
    };
    let mut client = reader(&pair);
    let read = described(READ, &[]);
    for begin in begins() {
        let described = begin.windows(5).any(|bytes| bytes.starts_with(b"D\0\0\0"));
        let before = pair.reads();
        let reply = client.ask(&request(&[begin.clone(), read.clone()]));
        let answer = reply.tags();
        assert!(answer.ends_with("C12TDCZ"), "{answer}");
        assert_eq!(answer.contains('n'), described, "{answer}");
        assert_eq!((reply.value().as_str(), reply.status()), ("0", 'T'));
        let reply = client.ask(&[read.clone(), sync()].concat());
        assert_eq!((reply.tags().as_str(), reply.status()), ("12TDCZ", 'T'));
        assert_eq!(client.ask(&unit("COMMIT", &[])).status(), 'I');
        assert_eq!(pair.reads(), before + 2);
        // Without a statement behind it.
        let reply = client.ask(&request(&[begin]));
        assert_eq!((reply.tag().as_str(), reply.status()), ("BEGIN", 'T'));
        assert_eq!(client.ask(&unit(READ, &[])).value(), "0");
        assert_eq!(client.ok("COMMIT").status(), 'I');
        assert_eq!(pair.reads(), before + 3);
    }
    let before = pair.reads();
    client.ask(&request(&[prepares("b", BEGIN, 0), read.clone()]));
    assert_eq!(pair.reads(), before + 1);
    client.ask(&request(&[prepares("c", "COMMIT", 1)]));
    for _ in 0..3 {
        let reply = client.ask(&request(&[executes("b", 0), read.clone()]));
        assert_eq!((reply.tags().as_str(), reply.status()), ("2C12TDCZ", 'T'));
        let reply = client.ask(&request(&[executes("c", 1)]));
        assert_eq!((reply.tags().as_str(), reply.status()), ("2CZ", 'I'));
    }
    assert_eq!(pair.reads(), before + 4);
    // Not killed: Paceline would notice at once, and then no transaction is deferred.
    pair.primary.signal_all("STOP");
    client.ask(&request(&[executes("b", 0)])).expect_ok("BEGIN");
    let reply = client.ask(&request(&[executes("c", 1)]));
    pair.primary.signal_all("CONT");
    assert_eq!((reply.tag().as_str(), reply.status()), ("COMMIT", 'I'));
}

/// A request arrives byte by byte.
#[test]
fn an_extended_begin_may_arrive_in_parts() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = reader(&pair);
    let whole = request(&[run(BEGIN, &[]), run(READ, &[])]);
    for cut in 1..whole.len() {
        let (first, second) = whole.split_at(cut);
        client.send(first);
        client.send(second);
        let reply = client.reply();
        assert_eq!((reply.tags().as_str(), reply.status()), ("12C12DCZ", 'T'));
        let reply = client.ask(&unit("COMMIT", &[]));
        assert_eq!((reply.tag().as_str(), reply.status()), ("COMMIT", 'I'));
    }
    let long = format!("SELECT n FROM t WHERE id = 1 /* {} */", x(30_000));
    pair.await_replica(&mut client, &long);
    let reply = client.ask(&request(&[run(BEGIN, &[]), run(&long, &[])]));
    assert_eq!((reply.tags().as_str(), reply.status()), ("12C12DCZ", 'T'));
}

#[test]
fn an_extended_transaction_survives_a_failover() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = reader(&pair);
    client.ask(&unit(BEGIN, &[])).expect_ok("BEGIN");
    client.ask(&unit(READ, &[])).expect_ok("a read");
    pair.primary.kill();
    pair.promote();
    assert_eq!(client.ask(&unit(READ, &[])).value(), "0");
    let recovers = unit("SELECT pg_is_in_recovery()", &[]);
    assert_eq!(client.ask(&recovers).value(), "f");
    let reply = client.ask(&unit(WRITE, &[])).expect_error("25006");
    assert_eq!(reply.status(), 'E');
    assert_eq!(client.ask(&unit("COMMIT", &[])).tag(), "ROLLBACK");
}

/// The first read waits for a lock, or a statement for a server connection.
#[test]
fn a_cancelled_first_statement_fails_its_transaction() {
    let settings = ["reads=session", "replica_wait=10s", "default_pool_size=1"];
    let Some(pair) = Pair::reading(&settings) else {
        return;
    };
    let (mut client, mut other) = (reader(&pair), pair.client());
    let fails = |client: &mut RawClient| {
        client.cancel();
        let reply = client.reply().expect_error("57014");
        assert_eq!((reply.tags().as_str(), reply.status()), ("12CEZ", 'E'));
        let reply = client.ask(&unit(READ, &[])).expect_error("25P02");
        assert_eq!((reply.tags().as_str(), reply.status()), ("EZ", 'E'));
        let reply = client.ask(&unit("COMMIT", &[]));
        assert_eq!((reply.tag().as_str(), reply.status()), ("ROLLBACK", 'I'));
    };
    let mut status = pair.client();
    other.ok("BEGIN; SELECT 1");
    client.send(&request(&[run(BEGIN, &[]), run(WRITE, &[])]));
    until("the statement is in the line", || {
        counters(&mut status).waiting == 1
    });
    client.cancel();
    let reply = client.reply().expect_error("57014");
    assert_eq!((reply.tags().as_str(), reply.status()), ("12CEZ", 'E'));
    let reply = client.ask(&unit("COMMIT", &[]));
    assert_eq!((reply.tag().as_str(), reply.status()), ("ROLLBACK", 'I'));
    client.send(&request(&[run(BEGIN, &[]), run(WRITE, &[])]));
    until("the statement is in the line", || {
        counters(&mut status).waiting == 1
    });
    other.ok("COMMIT");
    let reply = client.reply().expect_error("25006");
    assert_eq!((reply.tags().as_str(), reply.status()), ("12C12EZ", 'E'));
    client.ask(&unit("ROLLBACK", &[])).expect_ok("ROLLBACK");
    let locker = lock(&pair);
    let (mut replica, mut primary) = (
        pair.replica.client("postgres"),
        pair.primary.client("postgres"),
    );
    client.send(&request(&[run(BEGIN, &[]), run(READ, &[])]));
    // It waits on the primary if the replica did not have all in time.
    until("the read waits", || {
        replica.number(WAITS) + primary.number(WAITS) == 1
    });
    fails(&mut client);
    drop(locker);
}

#[test]
fn an_extended_transaction_fails_without_replicas_if_configured() {
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0", "replicas_gone=error"]) else {
        return;
    };
    let mut client = reader(&pair);
    pair.replica.kill();
    until("the loss is known", || {
        shown(&pair.paceline, pair.replica.port(), &["serves_reads"]) == "0"
    });
    let reply = client.ask(&request(&[run(BEGIN, &[]), run(READ, &[])]));
    let reply = reply.expect_error("57P03");
    assert_eq!((reply.tags().as_str(), reply.status()), ("12CEZ", 'E'));
    client.ask(&unit(READ, &[])).expect_error("25P02");
    assert_eq!(client.ask(&unit("COMMIT", &[])).tag(), "ROLLBACK");
}

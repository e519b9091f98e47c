//! Transactions that begin READ ONLY read on replicas.

use super::READ;
use super::waits::{WAITS, lock};
use crate::failover::{Pair, console, shown};
use crate::harness::message::{bind, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::reply::{Message, Reply};
use crate::harness::stage::counters;
use crate::harness::until;

impl Pair {
    /// Runs this read in transactions of its own until the replica answers it.
    fn await_replica_in_transaction(&self, client: &mut RawClient, request: &[u8]) {
        let before = self.reads();
        until("the replica answers in a transaction", || {
            client.ok("BEGIN READ ONLY");
            client.ask(request).expect_ok("a read");
            client.ok("COMMIT");
            self.reads() > before
        });
    }
}

/// By both protocols; no read ran outside of a transaction before.
#[test]
fn the_replica_answers_reads_of_a_read_only_transaction() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.client();
    let extended = unit("SELECT n FROM t WHERE id = $1::int", &[Some("1")]);
    let requests = [query(READ), extended];
    for request in &requests {
        pair.await_replica_in_transaction(&mut client, request);
    }
    for begin in [
        "BEGIN READ ONLY",
        "start transaction read only;",
        "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY",
        "BEGIN READ ONLY ISOLATION LEVEL READ COMMITTED",
    ] {
        let before = pair.reads();
        assert_eq!(client.ok(begin).status(), 'T', "{begin}");
        for request in &requests {
            let reply = client.ask(request);
            assert_eq!((reply.value().as_str(), reply.status()), ("0", 'T'));
        }
        assert_eq!(client.ok("COMMIT").status(), 'I');
        assert_eq!(pair.reads(), before + 2, "{begin}");
    }
}

#[test]
fn the_replica_answers_reads_if_the_client_only_reads() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.client();
    for set in [
        "SET default_transaction_read_only TO on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    ] {
        client.ok(set);
        let before = pair.reads();
        until("the replica answers", || {
            client.ok("BEGIN");
            client.ok(READ);
            client.ok("ROLLBACK");
            pair.reads() > before
        });
        client.ok("RESET default_transaction_read_only");
    }
}

/// Several times each: the first execution of a statement under any settings runs on the primary.
#[test]
fn the_primary_serves_other_transactions() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.client();
    pair.await_replica_in_transaction(&mut client, &query(READ));
    let before = pair.reads();
    let read = |client: &mut RawClient, begin: &str| {
        for _ in 0..5 {
            client.ok(begin);
            client.ok(READ);
            client.ok("COMMIT");
        }
        assert_eq!(pair.reads(), before, "{begin}");
    };
    for begin in [
        "BEGIN",
        "BEGIN READ WRITE",
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "BEGIN READ ONLY, DEFERRABLE",
    ] {
        read(&mut client, begin);
    }
    client.ok("SET default_transaction_isolation TO 'repeatable read'");
    read(&mut client, "BEGIN READ ONLY");
    client.ok("RESET ALL");
    for limit in ["idle_in_transaction_session_timeout", "transaction_timeout"] {
        // Only PostgreSQL 17 and later have both.
        if client
            .simple(&format!("SET {limit} = '1h'"))
            .error()
            .is_none()
        {
            read(&mut client, "BEGIN READ ONLY");
            client.ok("RESET ALL");
        }
    }
}

#[test]
fn a_transaction_reads_what_the_client_wrote_before() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let (mut writer, mut other, before) = pair.write_unseen();
    writer.ok("BEGIN READ ONLY");
    assert_eq!(writer.number(READ), 7);
    assert_eq!(writer.number(READ), 7);
    writer.ok("COMMIT");
    assert_eq!(pair.reads(), before);
    // The other client has not seen the new state …
    other.ok("BEGIN READ ONLY");
    assert_eq!(other.number(READ), 0);
    assert_eq!(pair.reads(), before + 1);
    // … until the primary serves its transaction.
    assert_eq!(other.value("SELECT pg_is_in_recovery()"), "f");
    assert_eq!(other.number(READ), 7);
    other.ok("COMMIT");
    assert_eq!(other.number(READ), 7);
    assert_eq!(pair.reads(), before + 1);
    pair.resume_replay();
    pair.await_replica_in_transaction(&mut writer, &query(READ));
    assert_eq!(writer.number(READ), 7);
}

/// A group would run outside of the transaction.
#[test]
fn no_statement_of_a_transaction_joins_a_group() {
    const WRITE: &str = "UPDATE t SET n = n + 1 WHERE id = 2";
    const ON_PRIMARY: &str = "SELECT /*+ PRIMARY */ n FROM t WHERE id = 2";
    let Some(pair) = Pair::reading(&["reads=session", "default_pool_size=1"]) else {
        return;
    };
    let mut clients: Vec<_> = (0..3).map(|_| pair.client()).collect();
    let (mut holder, mut status) = (pair.client(), pair.client());
    for text in [WRITE, ON_PRIMARY] {
        // The second request waits for the analysis after the first.
        holder.ok(text);
        holder.ok(text);
    }
    let mut together = |text: &str, check: &dyn Fn(&Reply)| {
        holder.ok("BEGIN; SELECT 1");
        for (waiting, client) in (1..).zip(&mut clients) {
            client.ok("BEGIN READ ONLY");
            client.send(&query(text));
            until("the statement is in the line", || {
                counters(&mut status).waiting == waiting
            });
        }
        holder.ok("COMMIT");
        for client in &mut clients {
            check(&client.reply());
            client.ok("ROLLBACK");
        }
    };
    together(WRITE, &|reply| {
        assert_eq!(
            (reply.sqlstate(), reply.status()),
            ("25006".to_owned(), 'E')
        );
    });
    together(ON_PRIMARY, &|reply| {
        assert_eq!((reply.value().as_str(), reply.status()), ("2", 'T'));
    });
}

/// `now()` is constant in a transaction, although its reads run one by one.
#[test]
fn a_transaction_has_one_time() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.reader();
    let moment = |value| unit("SELECT $1::timestamptz FROM t WHERE id = 1", &[Some(value)]);
    let requests = [
        query("SELECT now() FROM t WHERE id = 1"),
        query("SELECT CURRENT_TIMESTAMP FROM t WHERE id = 1"),
        moment("now"),
    ];
    for request in &requests {
        let before = pair.reads();
        until("the replica answers", || {
            client.ask(request).expect_ok("a time");
            pair.reads() > before
        });
    }
    client.ok("BEGIN READ ONLY");
    let before = pair.reads();
    client.ok(READ);
    client.ask(&moment("2020-01-01")).expect_ok("a time");
    assert_eq!(pair.reads(), before + 2);
    let times: Vec<_> = (requests.iter().chain(&requests))
        .map(|request| client.ask(request).value())
        .collect();
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    client.ok("COMMIT");
}

/// In a transaction, a portal that has stopped at a row limit remains.
#[test]
fn a_transaction_continues_a_portal() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.reader();
    let sql = "SELECT i FROM t, (VALUES (1), (2), (3)) AS v(i) WHERE id = 1 ORDER BY i";
    let begin = [parse("", sql, &[]), bind("", "", &[])].concat();
    let first = [begin, execute("", 2), sync()].concat();
    let before = pair.reads();
    until("the replica answers", || {
        let reply = client.ask(&first);
        assert_eq!(reply.rows().len(), 2);
        assert!(reply.0.iter().any(|message| message.tag == b's'));
        pair.reads() > before
    });
    client.ok("BEGIN READ ONLY");
    assert_eq!(client.ask(&first).rows().len(), 2);
    let rest = client.ask(&[execute("", 2), sync()].concat());
    assert_eq!(rest.value(), "3");
    client.ok("COMMIT");
}

#[test]
fn a_transaction_continues_when_the_replica_is_lost() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.reader();
    client.ok("BEGIN READ ONLY");
    let before = pair.reads();
    assert_eq!(client.number(READ), 0);
    assert_eq!(pair.reads(), before + 1);
    pair.replica.kill();
    for _ in 0..3 {
        assert_eq!(client.number(READ), 0);
    }
    assert_eq!(client.value("SELECT pg_is_in_recovery()"), "f");
    assert_eq!(client.ok("COMMIT").tag(), "COMMIT");
}

#[test]
fn a_transaction_shows_and_takes_positions() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let (mut writer, mut client) = (pair.client(), pair.reader());
    pair.pause_replay();
    writer.ok("UPDATE t SET n = 7 WHERE id = 1");
    writer.ok("BEGIN READ ONLY");
    let reply = writer.ok("SHOW paceline.position");
    assert_eq!(reply.status(), 'T');
    client.ok("BEGIN READ ONLY");
    assert_eq!(client.number(READ), 0);
    let set = format!("SET paceline.after = '{}'", reply.value());
    assert_eq!(client.ok(&set).status(), 'T');
    assert_eq!(client.number(READ), 7);
    assert_eq!(client.ok("COMMIT").status(), 'I');
    assert_eq!(writer.ok("ROLLBACK").status(), 'I');
    pair.resume_replay();
}

/// The transaction has no server connection when the primary is lost.
#[test]
fn a_transaction_survives_a_failover() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.reader();
    client.ok("BEGIN READ ONLY");
    client.ok(READ);
    pair.primary.kill();
    pair.promote();
    assert_eq!(client.number(READ), 0);
    assert_eq!(client.value("SELECT pg_is_in_recovery()"), "f");
    let reply = client.simple("UPDATE t SET n = 1").expect_error("25006");
    assert_eq!(reply.status(), 'E');
    assert_eq!(client.ok("COMMIT").tag(), "ROLLBACK");
}

#[test]
fn a_cancelled_read_fails_its_transaction() {
    let Some(pair) = Pair::reading(&["reads=session", "replica_wait=10s"]) else {
        return;
    };
    let mut client = pair.reader();
    let locker = lock(&pair);
    let (mut replica, mut primary) = (
        pair.replica.client("postgres"),
        pair.primary.client("postgres"),
    );
    // It waits on the primary if the replica did not have all in time.
    let mut waits = || replica.number(WAITS) + primary.number(WAITS);
    let mut cancel = |client: &mut RawClient| {
        assert_eq!(client.ok("BEGIN READ ONLY").status(), 'T');
        client.send(&query(READ));
        until("the read waits", || waits() == 1);
        client.cancel();
        let reply = client.reply().expect_error("57014");
        assert_eq!(reply.status(), 'E');
        until("the read has ended", || waits() == 0);
    };
    cancel(&mut client);
    let reply = client.ok("COMMIT");
    assert_eq!((reply.tag().as_str(), reply.status()), ("ROLLBACK", 'I'));
    cancel(&mut client);
    for request in [query(READ), unit(READ, &[]), query("SELECT 1; SELECT 2")] {
        let reply = client.ask(&request).expect_error("25P02");
        assert_eq!(reply.status(), 'E');
    }
    assert_eq!(client.ok("COMMIT").tag(), "ROLLBACK");
    cancel(&mut client);
    assert_eq!(client.ok("ROLLBACK AND CHAIN").status(), 'T');
    client.ok("COMMIT");
    drop(locker);
}

#[test]
fn a_transaction_fails_without_replicas_if_configured() {
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0", "replicas_gone=error"]) else {
        return;
    };
    let mut client = pair.reader();
    client.ok("BEGIN READ ONLY");
    client.ok(READ);
    pair.replica.kill();
    until("the loss is known", || {
        shown(&pair.paceline, pair.replica.port(), &["serves_reads"]) == "0"
    });
    let reply = client.simple(READ).expect_error("57P03");
    assert_eq!(reply.status(), 'E');
    client
        .simple("SELECT pg_is_in_recovery()")
        .expect_error("25P02");
    assert_eq!(client.ok("COMMIT").tag(), "ROLLBACK");
}

/// `idle_transaction_timeout` of Paceline.
#[test]
fn an_idle_transaction_has_the_configured_limit() {
    let settings = ["reads=session", "idle_transaction_timeout=1s"];
    let Some(pair) = Pair::reading(&settings) else {
        return;
    };
    let mut client = pair.client();
    pair.await_replica_in_transaction(&mut client, &query(READ));
    client.ok("BEGIN READ ONLY");
    client.ok(READ);
    assert_ends(&mut client, "08P01", "idle transaction timeout");
}

#[test]
fn a_transaction_has_the_defaults_of_its_role() {
    let Some(pair) = Pair::reading(&["reads=session", "admin_users=postgres"]) else {
        return;
    };
    let (mut client, mut idle) = (pair.client(), pair.client());
    pair.await_replica_in_transaction(&mut client, &query(READ));
    client.ok("ALTER ROLE postgres SET idle_in_transaction_session_timeout = '900ms'");
    reconnect(&pair);
    idle.ok(READ);
    pair.await_replica(&mut idle, READ);
    let before = pair.reads();
    idle.ok("BEGIN READ ONLY");
    idle.ok(READ);
    assert_eq!(pair.reads(), before + 1);
    let text = "terminating connection due to idle-in-transaction timeout";
    assert_ends(&mut idle, "25P03", text);
    client.ok("ALTER ROLE postgres RESET idle_in_transaction_session_timeout");
    client.ok("ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'");
    reconnect(&pair);
    let mut other = pair.reader();
    let before = pair.reads();
    for _ in 0..3 {
        other.ok("BEGIN READ ONLY");
        other.ok(READ);
        assert_eq!(other.value("SHOW transaction_isolation"), "repeatable read");
        other.ok("COMMIT");
    }
    assert_eq!(pair.reads(), before);
}

/// Replaces all connections to the primary.
fn reconnect(pair: &Pair) {
    console(&pair.paceline).ok("RECONNECT postgres");
    pair.client().ok("CREATE TEMP TABLE mine ()");
}

/// The connection ends with this error.
#[track_caller]
fn assert_ends(client: &mut RawClient, sqlstate: &str, text: &str) {
    let messages = client.receive_to_end();
    let error = messages.iter().find(|message| message.tag == b'E');
    let fields = error.map(Message::fields).unwrap();
    assert_eq!((fields.sqlstate(), fields.text()), (sqlstate, text));
}

#[test]
fn kill_and_shutdown_end_a_transaction() {
    let settings = ["reads=session", "admin_users=postgres"];
    let Some(pair) = Pair::reading(&settings) else {
        return;
    };
    let begun = || {
        let mut client = pair.reader();
        client.ok("BEGIN READ ONLY");
        client.ok(READ);
        client
    };
    let mut client = begun();
    let mut console = console(&pair.paceline);
    console.ok("PAUSE postgres");
    console.ok("RESUME postgres");
    assert_eq!(client.number(READ), 0);
    console.ok("KILL postgres");
    assert_ends(&mut client, "08P01", "database removed");
    console.simple("RESUME postgres");
    let mut client = begun();
    console.send(&query("SHUTDOWN WAIT_FOR_SERVERS"));
    let text = "terminating connection due to administrator command";
    assert_ends(&mut client, "57P01", text);
}

/// PostgreSQL delivers notifications between transactions.
#[test]
fn notifications_wait_for_the_end_of_the_transaction() {
    let Some(pair) = Pair::reading(&["reads=session", "listen_mode=shared"]) else {
        return;
    };
    let (mut listener, mut writer) = (pair.client(), pair.client());
    let mut second = pair.client();
    listener.ok("LISTEN changed");
    second.ok("LISTEN changed");
    pair.await_replica(&mut listener, READ);
    let before = pair.reads();
    listener.ok("BEGIN READ ONLY");
    writer.ok("NOTIFY changed");
    second.receive_until(b"A");
    for _ in 0..3 {
        assert_eq!(listener.ok(READ).tags(), "TDCZ");
    }
    assert!(pair.reads() > before);
    assert_eq!(listener.ok("COMMIT").tags(), "CAZ");
}

#[test]
fn statement_pooling_permits_no_transaction() {
    let Some(pair) = Pair::reading(&["reads=session", "pool_mode=statement"]) else {
        return;
    };
    let mut client = pair.reader();
    client.send(&query("BEGIN READ ONLY"));
    let text = "transaction blocks not allowed in statement pooling mode";
    assert_ends(&mut client, "08P01", text);
}

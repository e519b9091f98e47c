//! Reads on replicas that wait there, and clients that do not wait for them.

use super::READ;
use crate::failover::{Pair, console};
use crate::harness::message::{query, run, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::counters;
use crate::harness::until;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub(super) const WAITS: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

const RUNS: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%FROM big a%' AND pid <> pg_backend_pid()";

/// Holds the table's lock on both servers.
pub(super) fn lock(pair: &Pair) -> RawClient {
    let mut locker = pair.primary.client("postgres");
    locker.ok("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; SELECT pg_current_xact_id()");
    let mut replica = pair.replica.client("postgres");
    until("replay has the lock", || {
        replica.number("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 't'::regclass") == 1
    });
    locker
}

/// The end of the transaction is not replayed: on the primary the lock is free.
#[test]
fn a_read_does_not_wait_for_a_lock_of_replay() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let (mut client, mut patient) = (pair.client(), pair.client());
    patient.ok("SET lock_timeout = 0");
    pair.await_replica(&mut client, READ);
    pair.await_replica(&mut patient, READ);
    let mut locker = lock(&pair);
    pair.pause_replay();
    locker.ok("COMMIT");
    let before = pair.reads();
    for client in [&mut client, &mut patient] {
        assert_eq!(client.number(READ), 0);
    }
    assert_eq!(pair.reads(), before);
    assert_eq!(patient.value("SHOW lock_timeout"), "0");
    assert_eq!(pair.replica.client("postgres").number(WAITS), 0);
    pair.resume_replay();
    pair.await_replica(&mut patient, READ);
}

/// The client cancels, or disconnects.
#[test]
fn a_read_that_its_client_gave_up_ends_on_the_replica() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut primary = pair.primary.client("postgres");
    // Compiled, it would be too slow for the strategy pipeline.
    primary.ok("ALTER DATABASE postgres SET jit = off");
    primary.ok("CREATE TABLE big AS SELECT i AS id FROM generate_series(1, 1000) i");
    // With all rows it does not end.
    let slow = "SELECT count(*) FROM big a, big b, big c, big d \
                WHERE a.id < $1::int AND b.id < $1 AND c.id < $1 AND d.id < $1";
    let ask = |client: &mut RawClient, count: &str| {
        client.send(&unit(slow, &[Some(count)]));
    };
    let mut warm = pair.client();
    let before = pair.reads();
    until(
        "the replica answers often enough for the strategy pipeline",
        || {
            ask(&mut warm, "0");
            warm.reply().expect_ok("a read of no rows");
            pair.reads() > before + 5
        },
    );
    let mut replica = pair.replica.client("postgres");
    let mut client = pair.client();
    ask(&mut client, "1000000");
    until("the read runs", || replica.number(RUNS) == 1);
    client.cancel();
    client.reply().expect_error("57014");
    until("the read has ended", || replica.number(RUNS) == 0);
    ask(&mut client, "1000000");
    until("the read runs again", || {
        replica.number(RUNS) + primary.number(RUNS) == 1
    });
    let was_on_replica = replica.number(RUNS) == 1;
    drop(client);
    if was_on_replica {
        until("the read has ended", || replica.number(RUNS) == 0);
    }
}

/// The replica is behind.
#[test]
fn a_read_that_waits_for_a_replica_is_cancelled() {
    let Some(pair) = Pair::reading(&["reads=session", "replica_wait=1min"]) else {
        return;
    };
    let (mut client, ..) = pair.write_unseen();
    for begin in ["", "BEGIN READ ONLY"] {
        client.simple(begin);
        let (cancel, answered) = (client.canceller(), AtomicBool::new(false));
        thread::scope(|scope| {
            // A cancel request that arrives before the read has no effect.
            scope.spawn(|| {
                until("the read has ended", || {
                    cancel();
                    answered.load(Ordering::SeqCst)
                });
            });
            client.simple(READ).expect_error("57014");
            answered.store(true, Ordering::SeqCst);
        });
        client.simple("ROLLBACK");
    }
}

/// The read does not begin again on the primary.
#[test]
fn a_read_has_its_time_once() {
    let settings = ["reads=session", "query_timeout=4s", "admin_users=postgres"];
    let Some(pair) = Pair::reading(&settings) else {
        return;
    };
    let mut primary = pair.primary.client("postgres");
    // Compiling would take long.
    primary.ok("ALTER DATABASE postgres SET jit = off");
    primary.ok("CREATE TABLE big AS SELECT i AS id FROM generate_series(1, 1000) i");
    let mut client = pair.client();
    client.ok("SET statement_timeout = '1s'");
    // With all rows a read does not end.
    let long = |name: usize, count: &str| {
        format!(
            "SELECT count(*) AS n{name} FROM big a, big b, big c, big d, big e WHERE a.id < {count}"
        )
    };
    let mut names = 0;
    // After two executions, a statement is not known to be short: a pipeline would give up the read soon.
    let mut executed_twice = |client: &mut RawClient| {
        until("the replica answers the second time", || {
            names += 1;
            client.ok(&long(names, "0"));
            let before = pair.reads();
            client.ok(&long(names, "0"));
            pair.reads() > before
        });
        long(names, "1000000")
    };
    let read = executed_twice(&mut client);
    let before = pair.reads();
    client.simple(&read).expect_error("57014");
    assert_eq!(pair.reads(), before + 1);
    client.ok("BEGIN READ ONLY");
    let reply = client.simple(&read).expect_error("57014");
    assert_eq!((pair.reads(), reply.status()), (before + 2, 'E'));
    assert_eq!(client.ok("COMMIT").tag(), "ROLLBACK");
    client.ok("SET statement_timeout = 0");
    let read = executed_twice(&mut client);
    let relayed = || {
        let mut rows = console(&pair.paceline).ok("SHOW GROUPS").rows();
        rows.retain(|row| row.contains(&Some("solo".to_owned())));
        rows
    };
    let before = relayed();
    client.send(&query(&read));
    let end = client.receive_to_end();
    assert!(end.iter().any(|message| message.tag == b'E'), "{end:?}");
    assert_eq!(relayed(), before);
}

/// A notification tells the client of a commit: its next read sees it.
#[test]
fn a_client_reads_what_it_was_notified_of() {
    let Some(pair) = Pair::reading(&["reads=session", "listen_mode=shared"]) else {
        return;
    };
    let (mut listener, mut writer) = (pair.client(), pair.client());
    listener.ok("LISTEN changed");
    pair.await_replica(&mut listener, READ);
    pair.pause_replay();
    assert_eq!(listener.number(READ), 0);
    writer.ok("BEGIN; UPDATE t SET n = 7 WHERE id = 1; NOTIFY changed; COMMIT");
    listener.receive_until(b"A");
    assert_eq!(listener.number(READ), 7);
    pair.resume_replay();
}

/// The client reads everything that was committed before the answer to its LISTEN or UNLISTEN.
#[test]
fn a_client_that_listens_reads_what_was_committed_before() {
    let Some(pair) = Pair::reading(&["reads=session", "listen_mode=shared"]) else {
        return;
    };
    let (mut listener, mut writer) = (pair.reader(), pair.client());
    pair.pause_replay();
    for (n, sql) in (7..).zip(["LISTEN changed", "UNLISTEN other", "UNLISTEN *"]) {
        writer.ok(&format!("UPDATE t SET n = {n} WHERE id = 1"));
        listener.ok(sql);
        assert_eq!(listener.number(READ), n, "{sql}");
    }
    pair.resume_replay();
}

/// The primary has served the client while it was the only host.
#[test]
fn a_client_reads_what_it_wrote_before_a_reload_added_the_replica() {
    let settings = "admin_users = \"postgres\"\nreads = \"session\"\nmax_lag = \"1h\"";
    let Some(pair) = Pair::configured() else {
        return;
    };
    pair.reload_without_replica(settings);
    let mut writer = pair.client();
    // The lag of a replica is known if it has replayed a commit.
    writer.ok("UPDATE t SET n = 1 WHERE id = 1");
    let mut replica = pair.replica.client("postgres");
    until("the commit is replayed", || replica.number(READ) == 1);
    pair.pause_replay();
    writer.ok("UPDATE t SET n = 7 WHERE id = 1");
    pair.reload(settings);
    pair.await_readable();
    // The replica is behind: it answers only clients that the primary has not served.
    until("the replica answers", || {
        pair.client().ok(READ);
        pair.reads() > 0
    });
    assert_eq!(writer.number(READ), 7);
    pair.resume_replay();
}

#[test]
fn kill_ends_a_client_whose_read_is_under_way_on_a_replica() {
    let Some(pair) = Pair::reading(&["reads=session", "admin_users=postgres", "replica_wait=10s"])
    else {
        return;
    };
    let mut client = pair.reader();
    let locker = lock(&pair);
    client.send(&query(READ));
    let mut replica = pair.replica.client("postgres");
    until("the read waits", || replica.number(WAITS) == 1);
    console(&pair.paceline).ok("KILL postgres");
    let last = client.receive_to_end();
    let error = last.iter().find(|message| message.tag == b'E');
    let error = error.expect("an error precedes the end");
    assert_eq!(error.fields().sqlstate(), "08P01");
    drop(locker);
}

/// A replica rejects each statement of such a client, so it is not asked.
#[test]
fn a_serializable_client_reads_on_the_primary() {
    let Some(pair) = Pair::reading(&["reads=session", "admin_users=postgres"]) else {
        return;
    };
    let mut client = pair.reader();
    let rejected = "SELECT xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    let mut replica = pair.replica.client("postgres");
    let before = replica.number(rejected);
    client.ok("SET default_transaction_isolation TO 'serializable'");
    for _ in 0..5 {
        client.ok(READ);
    }
    client.ok("RESET default_transaction_isolation");
    // The statistics of a connection are complete at the latest when it has ended.
    console(&pair.paceline).ok("RECONNECT postgres");
    until("the connection to the replica has ended", || {
        shown_connections(&pair) == 0
    });
    assert_eq!(replica.number(rejected), before);
    pair.await_replica(&mut client, READ);
}

pub(super) fn shown_connections(pair: &Pair) -> usize {
    let servers = console(&pair.paceline).ok("SHOW SERVERS").rows();
    let port = Some(pair.replica.port().to_string());
    servers.iter().filter(|row| row.contains(&port)).count()
}

/// It waits in the line of the primary, and another client analyzes its template.
#[test]
fn a_read_that_waits_for_the_first_analysis_runs_on_the_replica() {
    const NEW: &str = "SELECT n + 1 FROM t WHERE id = 1";
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0", "default_pool_size=1"]) else {
        return;
    };
    let mut clients: Vec<_> = (0..5).map(|_| pair.client()).collect();
    let (mut holder, mut status) = (pair.client(), pair.client());
    holder.ok("BEGIN; SELECT 1");
    let before = pair.reads();
    for (waiting, client) in (1..).zip(&mut clients) {
        client.send(&query(NEW));
        until("the read is in the line", || {
            counters(&mut status).waiting == waiting
        });
    }
    clients[1].cancel();
    assert_eq!(clients[1].reply().sqlstate(), "57014");
    holder.ok("COMMIT");
    for place in [0, 2, 3, 4] {
        assert_eq!(clients[place].reply().value(), "1");
    }
    // The first one has run on the primary.
    assert_eq!(pair.reads(), before + 3);
    assert_eq!(counters(&mut status).waiting, 0);
}

/// It is an autocommit statement like any other: it waits for the new primary, or gets the error that others get.
#[test]
fn the_position_is_shown_after_a_failover() {
    let Some(pair) = Pair::reading(&["reads=session", "failover_timeout=60s"]) else {
        return;
    };
    let (mut one, mut other, mut cancelled) = (pair.reader(), pair.reader(), pair.reader());
    pair.primary.kill();
    until("the loss is known", || {
        pair.paceline.logged("the primary is lost")
    });
    for client in [&mut one, &mut cancelled] {
        client.send(&query("SHOW paceline.position"));
    }
    other.send(&[run("SHOW paceline.position", &[]), sync()].concat());
    until("they wait", || {
        let pools = console(&pair.paceline).ok("SHOW POOLS");
        let place = pools.0[0]
            .columns()
            .iter()
            .position(|name| name == "cl_waiting");
        pools
            .rows()
            .iter()
            .any(|row| row[place.unwrap()].as_deref() == Some("3"))
    });
    cancelled.cancel();
    assert_eq!(cancelled.reply().error().unwrap().sqlstate(), "57014");
    pair.promote();
    for client in [&mut one, &mut other] {
        let position = client.reply().expect_ok("SHOW").value();
        assert_eq!(position.split(':').nth(1), Some("2"), "{position}");
    }
}

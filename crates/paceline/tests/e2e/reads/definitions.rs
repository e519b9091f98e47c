//! DDL while a replica may answer reads, and defaults that differ between the servers.

use super::READ;
use super::waits::shown_connections;
use crate::failover::{Pair, console, shown};
use crate::harness::message::{bind, describe, execute, parse, sync, unit};
use crate::harness::until;

impl Pair {
    /// Returns when the replica has replayed what the primary has written so far.
    fn await_replay(&self) {
        let mut primary = self.primary.client("postgres");
        let end = primary.value("SELECT pg_current_wal_lsn()");
        let mut replica = self.replica.client("postgres");
        replica.ok("SET default_transaction_isolation = 'read committed'");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
        until("the replica has replayed it", || {
            replica.value(&replayed) == "t"
        });
    }
}

/// The replica has parsed the statement before it replayed the DDL, and the client after the DDL.
#[test]
fn a_plan_that_is_stale_on_the_replica_is_no_answer() {
    const ALL: &str = "SELECT * FROM t WHERE id = $1";
    for describes in [false, true] {
        let Some(pair) = Pair::reading(&["reads=any", "max_lag=0"]) else {
            return;
        };
        let mut client = pair.client();
        let before = pair.reads();
        let read = unit(ALL, &[Some("1")]);
        until("the replica answers", || {
            client.ask(&read).expect_ok("a read");
            pair.reads() > before
        });
        pair.pause_replay();
        client.ok("ALTER TABLE t ADD c int");
        let described = match describes {
            true => describe(b'S', "s"),
            false => Vec::new(),
        };
        let prepare = [parse("s", ALL, &[]), described, sync()].concat();
        client.ask(&prepare).expect_ok("Parse");
        let read = [bind("", "s", &[Some("1")]), execute("", 0), sync()].concat();
        let mut columns = || client.ask(&read).expect_ok("a read").rows()[0].len();
        for _ in 0..5 {
            let columns = columns();
            assert!(columns == 3 || (columns == 2 && !describes), "{columns}");
        }
        pair.resume_replay();
        pair.await_replay();
        let before = pair.reads();
        until("the replica answers", || {
            assert_eq!(columns(), 3);
            pair.reads() > before
        });
    }
}

/// In `postgresql.conf` of one server.
#[test]
fn a_replica_with_other_defaults_serves_no_reads() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let await_difference = || {
        until("the difference is known", || {
            let shown = shown(&pair.paceline, pair.replica.port(), &["reason"]);
            shown.contains("another setting for the form of answers differs")
        });
    };
    let mut primary = pair.primary.client("postgres");
    primary.ok("ALTER SYSTEM SET default_transaction_isolation = 'serializable'");
    primary.ok("SELECT pg_reload_conf()");
    await_difference();
    primary.ok("ALTER SYSTEM RESET default_transaction_isolation");
    primary.ok("SELECT pg_reload_conf()");
    pair.await_readable();
    let mut replica = pair.replica.client("postgres");
    replica.ok("ALTER SYSTEM SET client_encoding = 'LATIN1'");
    // Sessions that exist do not take it over.
    pair.replica.kill();
    pair.replica.restart();
    await_difference();
}

/// By the default of the role.
#[test]
fn a_client_that_is_serializable_by_default_reads_on_the_primary() {
    let Some(pair) = Pair::reading(&["reads=session", "admin_users=postgres"]) else {
        return;
    };
    let mut client = pair.client();
    pair.await_replica(&mut client, READ);
    client.ok("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'");
    pair.await_replay();
    console(&pair.paceline).ok("RECONNECT postgres");
    until("the connection to the replica has ended", || {
        shown_connections(&pair) == 0
    });
    // On a new connection.
    client.ok("BEGIN; COMMIT");
    for _ in 0..5 {
        client.ok(READ);
    }
    assert_eq!(shown_connections(&pair), 0);
    let tried = pair.paceline.logged("cannot use serializable mode");
    assert!(!tried, "a read was sent to the replica");
}

/// The next client must not have the replica execute what the name means now.
#[test]
fn ddl_ends_the_verdict_that_a_statement_only_reads() {
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0"]) else {
        return;
    };
    let job = "SELECT * FROM job";
    let (mut client, mut other) = (pair.client(), pair.client());
    client.ok("CREATE TABLE job (a bool)");
    pair.await_replica(&mut other, job);
    client
        .ok("CREATE TEMP TABLE mine AS SELECT 1; CREATE TEMP TABLE more (a int); DROP TABLE more");
    let before = pair.reads();
    other.ok(job);
    assert_eq!(pair.reads(), before + 1, "other tables change nothing");
    client.ok(
        "ALTER TABLE job RENAME TO old; CREATE VIEW job AS SELECT pg_try_advisory_lock(1) AS a",
    );
    pair.await_replay();
    for _ in 0..5 {
        assert_eq!(other.value(job), "t");
    }
    assert_eq!(pair.reads(), before + 1);
    pair.await_replica(&mut other, "SELECT * FROM old");
}

//! Reads on replicas: a client never reads a state older than it may, and gets errors only from the primary.

mod begin_fails;
mod definitions;
mod extended_begin;
mod functions;
pub(crate) mod pairs;
mod scripts;
mod several;
mod subscribers;
mod transactions;
mod waits;

use crate::failover::{Pair, console, shown, shown_in};
use crate::harness::cluster::Cluster;
use crate::harness::message::{bind, describe, execute, parse, query, run, sync, unit};
use crate::harness::open_metrics::Scrape;
use crate::harness::raw::RawClient;
use crate::harness::reply::assert_same;
use crate::harness::{http, until};

const READ: &str = "SELECT n FROM t WHERE id = 1";

impl Pair {
    /// Paceline with these settings, when the replica may serve reads and Paceline has analyzed [`READ`].
    pub(crate) fn reading(settings: &[&str]) -> Option<Self> {
        let pair = Self::start(settings)?;
        pair.await_readable();
        Some(pair)
    }

    /// Reads that the replica has answered.
    pub(crate) fn reads(&self) -> i64 {
        let reads = shown(&self.paceline, self.replica.port(), &["reads"]);
        reads.parse().unwrap()
    }

    /// A client whose read the replica has answered.
    fn reader(&self) -> RawClient {
        let mut client = self.client();
        self.await_replica(&mut client, READ);
        client
    }

    /// Runs this read until the replica answers it.
    fn await_replica(&self, client: &mut RawClient, sql: &str) {
        let before = self.reads();
        until("the replica answers", || {
            client.ok(sql);
            self.reads() > before
        });
    }

    pub(crate) fn pause_replay(&self) {
        let mut replica = self.replica.client("postgres");
        replica.ok("SELECT pg_wal_replay_pause()");
        until("replay is paused", || {
            replica.value("SELECT pg_get_wal_replay_pause_state()") == "paused"
        });
    }

    /// Pauses replay, and has a client write. Returns this client, one that has not seen the write, and the number of reads that the
    /// replica has answered.
    fn write_unseen(&self) -> (RawClient, RawClient, i64) {
        let (mut writer, other) = (self.reader(), self.reader());
        self.pause_replay();
        writer.ok("UPDATE t SET n = 7 WHERE id = 1");
        (writer, other, self.reads())
    }

    pub(crate) fn resume_replay(&self) {
        let mut replica = self.replica.client("postgres");
        replica.ok("SELECT pg_wal_replay_resume()");
    }
}

#[test]
fn a_client_reads_what_it_wrote_while_the_replica_is_behind() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let (mut writer, mut other, before) = pair.write_unseen();
    assert_eq!(writer.number(READ), 7);
    assert_eq!(pair.reads(), before);
    // The other client has not seen the new state.
    assert_eq!(other.number(READ), 0);
    assert_eq!(pair.reads(), before + 1);
    // Now it has, on the primary.
    other.ok("BEGIN; SELECT n FROM t WHERE id = 1; COMMIT");
    assert_eq!(other.number(READ), 7);
    pair.resume_replay();
    pair.await_replica(&mut writer, READ);
    assert_eq!(writer.number(READ), 7);
}

#[test]
fn a_global_read_sees_what_others_wrote() {
    let Some(pair) = Pair::reading(&["reads=global"]) else {
        return;
    };
    let (mut writer, mut reader) = (pair.client(), pair.reader());
    pair.pause_replay();
    writer.ok("UPDATE t SET n = 7 WHERE id = 1");
    assert_eq!(reader.number(READ), 7);
    pair.resume_replay();
    let before = pair.reads();
    for n in 10..60 {
        writer.ok(&format!("UPDATE t SET n = {n} WHERE id = 1"));
        assert_eq!(reader.number(READ), n);
    }
    assert!(pair.reads() > before, "no read was answered by the replica");
}

/// The client chooses by a setting, and a statement by a hint.
#[test]
fn any_read_may_be_behind() {
    let Some(pair) = Pair::reading(&["max_lag=0"]) else {
        return;
    };
    let mut client = pair.client();
    for _ in 0..5 {
        client.ok(READ);
    }
    assert_eq!(pair.reads(), 0, "reads = primary");
    let hinted = "SELECT /*+ REPLICA */ n FROM t WHERE id = 1";
    pair.await_replica(&mut client, hinted);
    client.ok("SET paceline.reads = 'any'");
    pair.await_replica(&mut client, READ);
    pair.pause_replay();
    client.ok("UPDATE t SET n = 7 WHERE id = 1");
    assert_eq!(client.number(READ), 0);
    let primary = "SELECT /*+ PRIMARY */ n FROM t WHERE id = 1";
    for _ in 0..5 {
        assert_eq!(client.number(primary), 7);
    }
    client.ok("RESET paceline.reads");
    assert_eq!(client.number(READ), 7);
    let parameters = [
        ("user", "postgres"),
        ("database", "postgres"),
        ("paceline.reads", "any"),
    ];
    let mut other = RawClient::connect(pair.paceline.port(), &parameters);
    pair.await_replica(&mut other, READ);
    assert_eq!(other.number(READ), 0);
    pair.resume_replay();
}

/// Statements that write, that read what a replica does not have, or whose result depends on the server.
#[test]
fn the_primary_serves_what_a_replica_cannot() {
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0"]) else {
        return;
    };
    let mut client = pair.client();
    client.ok(
        "CREATE UNLOGGED TABLE u (id int); INSERT INTO u VALUES (1);
         CREATE SEQUENCE s;
         CREATE TABLE parent (id int); CREATE UNLOGGED TABLE child () INHERITS (parent); INSERT INTO child VALUES (5);
         CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'UPDATE t SET n = n + 1 WHERE id = 2 RETURNING n';
         CREATE FUNCTION lies() RETURNS int STABLE LANGUAGE plpgsql AS
           $$ BEGIN PERFORM set_config('app.x', 'y', false); RETURN writes(); END $$;
         CREATE VIEW v AS SELECT writes() AS n",
    );
    let statements = [
        ("SELECT pg_is_in_recovery()", "f"),
        ("SELECT inet_server_port()", ""),
        (
            "SELECT current_setting('transaction_read_only') FROM t WHERE id = 1",
            "off",
        ),
        (
            "SELECT current_setting('lock_timeout') FROM t WHERE id = 1",
            "0",
        ),
        ("SELECT id FROM u", "1"),
        ("SELECT id FROM parent", "5"),
        ("SELECT nextval('s') > 0", "t"),
        ("SELECT writes() > 0", "t"),
        ("SELECT n > 0 FROM v", "t"),
        ("SELECT id FROM t WHERE id = 1 FOR UPDATE", "1"),
        ("SELECT count(*) > 0 FROM pg_stat_activity", "t"),
        (
            "WITH w AS (UPDATE t SET n = n + 1 WHERE id = 3 RETURNING n) SELECT n > 0 FROM w",
            "t",
        ),
        ("SELECT pg_try_advisory_lock(1)", "t"),
    ];
    let before = pair.reads();
    for (sql, expected) in statements {
        for _ in 0..4 {
            let value = client.value(sql);
            assert!(expected.is_empty() || value == expected, "{sql}: {value}");
        }
    }
    client.ok("CREATE TEMP TABLE mine AS SELECT 1 AS id");
    for _ in 0..4 {
        assert_eq!(client.value("SELECT id FROM mine"), "1");
    }
    assert_eq!(pair.reads(), before);
    let calls = pair
        .primary
        .client("postgres")
        .number("SELECT n FROM t WHERE id = 2");
    assert_eq!(calls, 8, "each call writes once");
    drop(client);
    let refused = pair.client().simple("SELECT lies()");
    assert!(refused.error().is_none(), "the primary executes it");
}

#[test]
fn errors_are_those_of_the_primary() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let (mut client, mut direct) = (pair.client(), pair.primary.client("postgres"));
    let divide = "SELECT 1 / n FROM t WHERE id = 1";
    client.ok("UPDATE t SET n = 1 WHERE id = 1");
    pair.await_replica(&mut client, divide);
    client.ok("UPDATE t SET n = 0 WHERE id = 1");
    for _ in 0..3 {
        let extended = unit("SELECT 10 / n FROM t WHERE id = $1", &[Some("1")]);
        for request in [query(divide), extended] {
            assert_same("an error", &direct.ask(&request).0, &client.ask(&request).0);
        }
    }
    // A statement of the client's own, which the replica's connection does not have.
    let prepare = [parse("p", "SELECT n FROM t WHERE id = $1", &[]), sync()].concat();
    assert_same("Parse", &direct.ask(&prepare).0, &client.ask(&prepare).0);
    let again = [bind("", "p", &[Some("2")]), execute("", 0), sync()].concat();
    let before = pair.reads();
    until("the replica executes the statement", || {
        assert_same("Execute", &direct.ask(&again).0, &client.ask(&again).0);
        pair.reads() > before
    });
}

/// A replica that cancels reads because they conflict with replay.
#[test]
fn a_read_that_conflicts_with_replay_runs_on_the_primary() {
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0"]) else {
        return;
    };
    let mut replica = pair.replica.client("postgres");
    replica.ok("ALTER SYSTEM SET max_standby_streaming_delay = 0");
    replica.ok("SELECT pg_reload_conf()");
    let mut client = pair.client();
    let slow = "SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g";
    pair.await_replica(&mut client, slow);
    let mut writer = pair.primary.client("postgres");
    until("a read was cancelled by a conflict", || {
        client.send(&query(slow));
        writer.ok("UPDATE t SET n = n + 1");
        writer.ok("VACUUM t");
        assert_eq!(client.reply().expect_ok("a read").value(), "78125");
        let conflicts = "SELECT sum(confl_snapshot + confl_bufferpin + confl_lock) FROM pg_stat_database_conflicts";
        replica.number(conflicts) > 0
    });
}

#[test]
fn reads_continue_when_the_replica_is_lost_frozen_or_back() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.reader();
    pair.replica.kill();
    for _ in 0..20 {
        assert_eq!(client.number(READ), 0);
    }
    pair.replica.restart();
    pair.await_replica(&mut client, READ);
    pair.replica.signal_all("STOP");
    let mut clients: Vec<_> = (0..5).map(|_| pair.client()).collect();
    for client in &mut clients {
        client.send(&query(READ));
    }
    for client in &mut clients {
        client
            .reply()
            .expect_ok("a read while the replica is frozen");
    }
    pair.replica.signal_all("CONT");
    pair.await_replica(&mut client, READ);
}

#[test]
fn metrics_have_the_state_of_each_host() {
    let Some(pair) = Pair::reading(&["reads=session", "metrics_listen=127.0.0.1:0"]) else {
        return;
    };
    let metric = |server: &Cluster, name: &str| {
        let answer = http::get(&pair.paceline.metrics(), "/metrics");
        let host = format!("127.0.0.1:{}", server.port());
        let labels = [("database", "*"), ("host", host.as_str())];
        Scrape::read(&answer.body).value(&format!("paceline_host_{name}"), &labels)
    };
    assert_eq!(metric(&pair.replica, "serves_reads"), Some(1.0));
    assert_eq!(metric(&pair.primary, "serves_reads"), Some(0.0));
    assert_eq!(metric(&pair.replica, "timeline"), Some(1.0));
    assert_eq!(metric(&pair.replica, "primary"), Some(0.0));
    assert_eq!(metric(&pair.primary, "lag_seconds"), None);
    // The time is that of the last commit that the replica has replayed.
    let mut client = pair.client();
    client.ok("UPDATE t SET n = 1 WHERE id = 1");
    pair.await_replica(&mut client, READ);
    pair.pause_replay();
    client.ok("UPDATE t SET n = 2 WHERE id = 1");
    until("the replica is behind", || {
        let lag = ["lag_bytes", "lag_seconds"].map(|name| metric(&pair.replica, name));
        lag.iter().all(|lag| lag.is_some_and(|lag| lag > 0.0))
    });
    pair.replica.kill();
    until("the loss is known", || {
        metric(&pair.replica, "serves_reads") == Some(0.0)
    });
}

#[test]
fn reads_for_replicas_fail_without_one_if_configured() {
    let Some(pair) = Pair::reading(&["reads=any", "max_lag=0", "replicas_gone=error"]) else {
        return;
    };
    let mut client = pair.reader();
    pair.replica.kill();
    until("the loss is known", || {
        shown(&pair.paceline, pair.replica.port(), &["serves_reads"]) == "0"
    });
    let reply = client.simple(READ);
    assert_eq!(reply.error().unwrap().sqlstate(), "57P03");
    client.ok("UPDATE t SET n = 3 WHERE id = 1");
    assert_eq!(
        client.number("SELECT /*+ PRIMARY */ n FROM t WHERE id = 1"),
        3
    );
}

#[test]
fn a_client_follows_another_by_its_position() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let (mut writer, mut reader) = (pair.client(), pair.reader());
    pair.pause_replay();
    writer.ok("UPDATE t SET n = 7 WHERE id = 1");
    let position = writer.value("SHOW paceline.position");
    assert_eq!(reader.number(READ), 0);
    let reply = reader.ok(&format!("SET paceline.after = '{position}'"));
    assert_eq!(reply.tag(), "SET");
    assert_eq!(reader.number(READ), 7);
    let mut third = pair.client();
    let set = format!("SET paceline.after TO '{position}'");
    let set = [run(&set, &[]), sync()].concat();
    third.ask(&set).expect_ok("the extended protocol");
    assert_eq!(third.number(READ), 7);
    let show = [run("SHOW paceline.position", &[]), sync()].concat();
    assert!(third.ask(&show).value().contains(':'));
    // A position of another cluster: the client reads the present state of the primary.
    let mut lost = pair.client();
    lost.ok("SET paceline.after = '1:1:0/1'");
    assert_eq!(lost.number(READ), 7);
    pair.resume_replay();
    pair.await_replica(&mut reader, READ);
    assert_eq!(reader.number(READ), 7);
}

/// If the last record ends with its page, the position for the next record is behind a page header, which replay does not reach.
#[test]
fn a_replica_reaches_the_position_of_an_idle_primary_at_the_end_of_a_page() {
    const PAGE: i64 = 8_192;
    let Some(pair) = Pair::reading(&["reads=session", "replica_wait=10s"]) else {
        return;
    };
    let mut client = pair.reader();
    let mut primary = pair.primary.client("postgres");
    let mut offset = || primary.number("SELECT (pg_current_wal_insert_lsn() - '0/0') % 8192");
    let mut writer = pair.primary.client("postgres");
    let (mut at, mut length, mut around) = (offset(), 1_000, 100);
    until("a record ends with its page", || {
        writer.ok(&format!(
            "SELECT pg_logical_emit_message(true, '', repeat('x', {length}))"
        ));
        let before = std::mem::replace(&mut at, offset());
        if at > before {
            around = at - before - length;
        }
        length = match PAGE - at - around {
            fits if fits > 0 => fits,
            _ => 1_000,
        };
        at == 24
    });
    client.ok("BEGIN; SELECT 1; COMMIT");
    let before = pair.reads();
    client.ok(READ);
    assert_eq!(pair.reads(), before + 1);
}

#[test]
fn a_reload_changes_the_mode_and_the_console_shows_the_connections() {
    let Some(pair) = Pair::configured() else {
        return;
    };
    pair.await_readable();
    let mut client = pair.client();
    client.ok(READ);
    pair.reload("reads = \"session\"");
    pair.await_replica(&mut client, READ);
    let mut console = console(&pair.paceline);
    let port = Some(pair.replica.port().to_string());
    let servers = console.ok("SHOW SERVERS").rows();
    let of_replica = servers.iter().filter(|row| row.contains(&port));
    assert_eq!(of_replica.count(), 1);
    let pools = console.ok("SHOW POOLS").rows();
    let of_database = pools
        .iter()
        .filter(|row| row[0].as_deref() == Some("postgres"));
    assert_eq!(of_database.count(), 1);
    // Other hosts: the pools of the replicas are new ones.
    pair.reload("reads = \"session\"\nfailover_timeout = \"20s\"");
    pair.await_replica(&mut client, READ);
    pair.reload("reads = \"primary\"");
    client.ok(READ);
    let before = pair.reads();
    for _ in 0..5 {
        client.ok(READ);
    }
    assert_eq!(pair.reads(), before);
}

/// Most drivers have a statement described when they prepare it, and not when they execute it.
#[test]
fn a_replica_executes_statements_whose_columns_the_client_knows() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.client();
    let prepare = [parse("s", READ, &[]), describe(b'S', "s"), sync()].concat();
    let described = client.ask(&prepare).expect_ok("prepare");
    assert!(described.0.iter().any(|message| message.tag == b'T'));
    let execute = [bind("", "s", &[]), execute("", 0), sync()].concat();
    let before = pair.reads();
    until("the replica answers", || {
        assert_eq!(client.ask(&execute).value(), "0");
        pair.reads() > before
    });
    // A client of the same statement on the same connections.
    let mut other = pair.client();
    other.ask(&prepare).expect_ok("prepare");
    until("the replica answers the other one", || {
        let before = pair.reads();
        assert_eq!(other.ask(&execute).value(), "0");
        pair.reads() > before
    });
}

#[test]
fn connections_and_databases_show_their_hosts() {
    let Some(pair) = Pair::reading(&["reads=session"]) else {
        return;
    };
    let mut client = pair.client();
    client.ok("UPDATE t SET n = n + 1 WHERE id = 1");
    pair.await_replica(&mut client, READ);
    let server = |server: &Cluster, columns: &[&str]| {
        let port = server.port().to_string();
        shown_in(&pair.paceline, "SHOW SERVERS", ("port", &port), columns)
    };
    let columns = ["role", "timeline", "lag_bytes", "host_state"];
    assert_eq!(server(&pair.primary, &columns), "primary 1 - in use");
    until("the replica has replayed everything", || {
        let columns = ["role", "timeline", "lag_bytes", "lag_ms", "host_state"];
        server(&pair.replica, &columns) == "replica 1 0 0 in use"
    });
    let database = |columns: &[&str]| {
        let name = ("name", "postgres");
        shown_in(&pair.paceline, "SHOW DATABASES", name, columns)
    };
    let columns = ["port", "role", "timeline", "lag_bytes", "host_state"];
    let primary = pair.primary.port();
    assert_eq!(database(&columns), format!("{primary} primary 1 0 in use"));
    pair.primary.kill();
    pair.promote();
    client.ok("UPDATE t SET n = n + 1 WHERE id = 1");
    let replica = pair.replica.port();
    assert_eq!(database(&columns), format!("{replica} primary 2 - in use"));
    let mut console = console(&pair.paceline);
    let rows = console.ok("SHOW DATABASES").rows();
    let own = rows
        .iter()
        .find(|row| row[0].as_deref() == Some("pgbouncer"));
    assert_eq!(own.unwrap().last(), Some(&None), "the console has no host");
}

/// After a crash, a replica serves as soon as its files are consistent, before it has replayed all that it had replayed before.
#[test]
fn a_restarted_replica_may_be_behind_what_it_has_shown() {
    let Some(pair) = Pair::reading(&["reads=session", "max_lag=0"]) else {
        return;
    };
    let mut client = pair.client();
    client.ok("UPDATE t SET n = 7 WHERE id = 1");
    pair.await_replica(&mut client, READ);
    let mut replica = pair.replica.client("postgres");
    replica.ok("ALTER SYSTEM SET recovery_min_apply_delay = '1h'");
    pair.replica.kill();
    pair.replica.restart();
    let mut restarted = pair.replica.client("postgres");
    assert_eq!(restarted.number(READ), 0, "the replica is behind");
    until("the replica may serve reads", || {
        assert_eq!(client.number(READ), 7);
        shown(&pair.paceline, pair.replica.port(), &["serves_reads"]) == "1"
    });
    for _ in 0..5 {
        assert_eq!(client.number(READ), 7);
    }
}

/// Requests that wait for the primary are no reason to refuse a read that its replica can answer.
#[test]
fn a_read_on_a_replica_without_connections_is_not_refused() {
    let settings = [
        "reads=any",
        "default_pool_size=1",
        "max_queued=1",
        "admin_users=postgres",
    ];
    let Some(pair) = Pair::reading(&settings) else {
        return;
    };
    let mut reader = pair.reader();
    let mut holder = pair.client();
    holder.ok("BEGIN; UPDATE t SET n = n + 1 WHERE id = 2");
    let mut waiting = pair.client();
    waiting.send(&query("UPDATE t SET n = n + 1 WHERE id = 2"));
    until("the update waits", || of_pool(&pair, "cl_waiting") == "1");
    let refused = pair.client().simple("UPDATE t SET n = n + 1 WHERE id = 3");
    assert_eq!(refused.sqlstate(), "53400");
    let before = pair.reads();
    console(&pair.paceline).ok("RECONNECT");
    assert_eq!(reader.number(READ), 0);
    assert_eq!(pair.reads(), before + 1);
    holder.ok("COMMIT");
    waiting.reply().expect_ok("it has waited");
}

/// A column of SHOW POOLS.
fn of_pool(pair: &Pair, column: &str) -> String {
    let row = ("database", "postgres");
    shown_in(&pair.paceline, "SHOW POOLS", row, &[column])
}

/// With BEGIN by the extended protocol, its transaction is counted with its first statement, whether or not a Sync is between them.
#[test]
fn a_read_only_transaction_is_one_request_of_the_limit() {
    let settings = ["reads=any", "max_requests_per_second=20"];
    let Some(pair) = Pair::reading(&settings) else {
        return;
    };
    let begins = [
        (run("BEGIN READ ONLY", &[]), vec!["12C12DCZ"]),
        (unit("BEGIN READ ONLY", &[]), vec!["12CZ", "12DCZ"]),
    ];
    for (begin, replies) in begins {
        let first = [begin, unit(READ, &[])].concat();
        let mut clients: Vec<RawClient> = (0..100).map(|_| pair.client()).collect();
        for client in &mut clients {
            client.send(&first);
        }
        until("some wait for their turn", || {
            of_pool(&pair, "cl_throttled") != "0"
        });
        let mut last = clients.pop().unwrap();
        drop(clients);
        for reply in replies {
            assert_eq!(last.reply().tags(), reply);
        }
        // The rest of the transaction does not count.
        for _ in 0..3 {
            assert_eq!(last.ask(&unit(READ, &[])).status(), 'T');
        }
        last.ok("COMMIT");
        until("none waits", || of_pool(&pair, "cl_throttled") == "0");
    }
}

//! `max_queued` and `max_requests_per_second`: requests that are refused, and requests that wait for their turn.

use super::{await_waiting, client_as, role, stage};
use crate::harness::gate::lock_waiters;
use crate::harness::message::{bind, execute, flush, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::{Reply, Stage, until};

const MESSAGE: &str = "too many requests wait for a server connection (max_queued)";

/// A client in a transaction on the only connection of the pool, and `waiting` others that wait for it.
fn full(stage: &Stage, waiting: usize) -> (RawClient, Vec<RawClient>) {
    let mut holder = stage.client();
    holder.ok("BEGIN");
    let mut others = stage.clients(waiting);
    for other in &mut others {
        other.send(&query("SELECT 'waited'"));
    }
    await_waiting(stage, waiting as i64);
    (holder, others)
}

#[track_caller]
fn assert_refused(reply: &Reply) {
    let error = reply.error().unwrap();
    assert_eq!((error.sqlstate(), error.text()), ("53400", MESSAGE));
    assert_eq!((reply.tags().as_str(), reply.status()), ("EZ", 'I'));
}

/// The value of a column of SHOW POOLS for the pool of the stage's clients.
fn shown(stage: &Stage, column: &str) -> String {
    let parameters = [("user", "postgres"), ("database", "pgbouncer")];
    let mut console = RawClient::connect(stage.port(), &parameters);
    let reply = console.ok("SHOW POOLS");
    let header = reply.0.iter().find(|message| message.tag == b'T');
    let columns = header.unwrap().columns();
    let place = columns.iter().position(|name| name == column);
    let rows = reply.rows();
    let row = rows.iter().find(|row| {
        let name = |place: usize| row[place].as_deref();
        (name(0), name(1)) == (Some(stage.database.as_str()), Some("postgres"))
    });
    row.unwrap()[place.unwrap()].clone().unwrap()
}

#[test]
fn a_request_beyond_the_queue_is_refused_and_its_client_stays() {
    let Some(stage) = stage(&[], "default_pool_size = 1\nmax_queued = 2") else {
        return;
    };
    let (mut holder, mut others) = full(&stage, 2);
    let mut client = stage.client();
    assert_refused(&client.simple("SELECT 1"));
    assert_refused(&client.simple("BEGIN; SELECT 1; COMMIT"));
    assert_refused(&client.simple("CREATE TABLE t (id int)"));
    assert_refused(&client.ask(&unit("SELECT $1::text", &[Some("x")])));
    assert_eq!(
        holder.value("SELECT 'in a transaction'"),
        "in a transaction"
    );
    assert_eq!(shown(&stage, "refused"), "4");
    assert_eq!(shown(&stage, "cl_waiting"), "2");
    holder.ok("COMMIT");
    for other in &mut others {
        assert_eq!(other.reply().value(), "waited");
    }
    assert_eq!(client.value("SELECT 'served'"), "served");
    let tables = "SELECT count(*) FROM pg_class WHERE relname = 't'";
    assert_eq!(stage.direct().number(tables), 0);
}

/// As in PostgreSQL, the rest of a request is skipped up to its Sync; the next request is another one.
#[test]
fn each_request_of_a_pipeline_is_refused_up_to_its_sync() {
    let Some(stage) = stage(&[], "default_pool_size = 1\nmax_queued = 1") else {
        return;
    };
    let (mut holder, mut others) = full(&stage, 1);
    let mut client = stage.client();
    let long = [
        parse("s", "SELECT 1", &[]),
        bind("", "s", &[]),
        execute("", 0),
        bind("", "s", &[]),
        execute("", 0),
        sync(),
    ];
    let mut pipeline = long.concat();
    pipeline.extend(unit("SELECT $1::text", &[Some("x")]));
    pipeline.extend(query("SELECT 2"));
    client.send(&pipeline);
    for _ in 0..3 {
        assert_refused(&client.reply());
    }
    holder.ok("COMMIT");
    assert_eq!(others[0].reply().value(), "waited");
    let unknown = [bind("", "s", &[]), execute("", 0), sync()].concat();
    client.ask(&unknown).expect_error("26000");
    assert_eq!(
        client.ask(&long.concat()).expect_ok("again").tags(),
        "12DC2DCZ"
    );
}

/// They wait for the group that is under way, though another connection is idle.
#[test]
fn consumers_that_wait_for_a_group_of_their_queue_are_refused() {
    let settings = ["hotspot_for_autocommit=true", "queue_reorder_time=1h"];
    let Some(stage) = stage(&settings, "default_pool_size = 2\nmax_queued = 1") else {
        return;
    };
    stage
        .direct()
        .ok("CREATE TABLE q (id int PRIMARY KEY); INSERT INTO q VALUES (1), (2), (3)");
    let take = "DELETE FROM q WHERE id = \
        (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    let mut consumers = stage.clients(3);
    assert_eq!(consumers[0].ask(&unit(take, &[])).value(), "1");
    stage.await_analysis();
    // Opens the other connection.
    consumers[1].ok("BEGIN");
    consumers[2].ok("SELECT 1");
    consumers[1].ok("COMMIT");
    stage.await_analysis();
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; LOCK TABLE q");
    consumers[0].send(&unit(take, &[]));
    let mut observer = stage.direct();
    until("the first one waits for the table", || {
        lock_waiters(&mut observer) == 1
    });
    consumers[1].send(&unit(take, &[]));
    await_waiting(&stage, 1);
    assert_refused(&consumers[2].ask(&unit(take, &[])));
    outsider.ok("COMMIT");
    assert_eq!(consumers[0].reply().value(), "2");
    assert_eq!(consumers[1].reply().value(), "3");
}

/// PostgreSQL answers it at once, and never with an error.
#[test]
fn a_sync_alone_is_not_refused() {
    let Some(stage) = stage(&[], "default_pool_size = 1\nmax_queued = 1") else {
        return;
    };
    let (_holder, _others) = full(&stage, 1);
    assert_eq!(stage.client().ask(&sync()).tags(), "Z");
}

/// The error would not be the end of a request whose rest is still to come.
#[test]
fn a_request_in_parts_waits() {
    let Some(stage) = stage(&[], "default_pool_size = 1\nmax_queued = 1") else {
        return;
    };
    let (mut holder, mut others) = full(&stage, 1);
    let mut client = stage.client();
    client.send(&[parse("s", "SELECT 1", &[]), flush()].concat());
    await_waiting(&stage, 2);
    holder.ok("COMMIT");
    assert_eq!(others[0].reply().value(), "waited");
    assert_eq!(client.receive().tag, b'1');
    assert_eq!(client.ask(&sync()).tags(), "Z");
}

#[test]
fn the_limit_of_a_user_is_not_that_of_others() {
    role("unlimited", "");
    let of_user = "default_pool_size = 1\n[users.postgres]\nmax_queued = 1";
    let Some(stage) = stage(&[], of_user) else {
        return;
    };
    let (mut holder, mut others) = full(&stage, 1);
    assert_refused(&stage.client().simple("SELECT 1"));
    let mut unlimited = client_as(&stage, "unlimited");
    unlimited.ok("BEGIN");
    let mut behind = [(); 3].map(|()| client_as(&stage, "unlimited"));
    for client in &mut behind {
        client.send(&query("SELECT 'waited'"));
    }
    await_waiting(&stage, 4);
    unlimited.ok("COMMIT");
    holder.ok("COMMIT");
    for client in behind.iter_mut().chain(&mut others) {
        assert_eq!(client.reply().value(), "waited");
    }
}

/// The requests that have had their turn wait for the connection, so that all of them wait until clients leave.
#[test]
fn requests_wait_for_their_turn() {
    let keys = "default_pool_size = 1\nmax_queued = 20\nmax_requests_per_second = 1";
    let Some(stage) = stage(&[], keys) else {
        return;
    };
    let mut holder = stage.client();
    holder.ok("BEGIN");
    let mut others = stage.clients(20);
    for other in &mut others {
        other.send(&query("SELECT 'waited'"));
    }
    until("some have had no turn", || {
        shown(&stage, "cl_throttled") != "0"
    });
    until("all wait", || shown(&stage, "cl_waiting") == "20");
    assert_refused(&stage.client().simple("SELECT 1"));
    assert_refused(&stage.client().ask(&unit("SELECT $1::text", &[Some("x")])));
    for _ in 0..5 {
        holder.ok("SELECT 'a transaction is one request'");
    }
    others.truncate(3);
    until("most have left", || shown(&stage, "cl_waiting") == "3");
    others[2].cancel();
    others[2].reply().expect_error("57014");
    holder.ok("COMMIT");
    for other in &mut others[..2] {
        assert_eq!(other.reply().value(), "waited");
    }
    assert_eq!(others[2].value("SELECT 'served'"), "served");
    assert_eq!(shown(&stage, "cl_throttled"), "0");
}

/// The client keeps its connection, so that its transactions never wait; those of others do.
#[test]
fn transactions_of_a_session_are_counted_while_it_lasts() {
    let keys = "pool_mode = \"session\"\ndefault_pool_size = 5\nmax_requests_per_second = 20";
    let Some(stage) = stage(&[], keys) else {
        return;
    };
    let mut holder = stage.client();
    for _ in 0..5 {
        holder.ok("SELECT 1");
    }
    let mut other = stage.client();
    other.send(&query("SELECT 'waited'"));
    until("the other waits for its turn", || {
        holder.ok("SELECT 1");
        shown(&stage, "cl_throttled") == "1"
    });
    assert_eq!(state_of_waiting(&stage), 1);
    assert_eq!(other.reply().value(), "waited");
}

/// Number of clients that SHOW CLIENTS shows as waiting.
fn state_of_waiting(stage: &Stage) -> usize {
    let parameters = [("user", "postgres"), ("database", "pgbouncer")];
    let mut console = RawClient::connect(stage.port(), &parameters);
    let rows = console.ok("SHOW CLIENTS").rows();
    let waits = |row: &&Vec<Option<String>>| row.iter().flatten().any(|value| value == "waiting");
    rows.iter().filter(waits).count()
}

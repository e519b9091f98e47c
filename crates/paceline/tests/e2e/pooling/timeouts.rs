//! Time-outs of clients.

use super::{assert_message, await_waiting, client_as, farewell, role, stage};
use crate::harness::gate::lock_waiters;
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::{Gate, Stage, until};

/// Returns when no session of the database is in this state.
#[track_caller]
fn await_none(direct: &mut RawClient, state: &str) {
    until(&format!("no session is {state}"), || {
        direct.number(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND pid <> pg_backend_pid() AND state = '{state}'"
        )) == 0
    });
}

#[test]
fn a_query_that_takes_too_long_is_cancelled_and_its_client_sent_away() {
    let Some(stage) = stage(&["query_timeout=500ms"], "") else {
        return;
    };
    let mut client = stage.client();
    client.send(&query("SELECT pg_sleep(3600)"));
    assert_message(&farewell(&mut client), "query timeout");
    await_none(&mut stage.direct(), "active");
    stage.client().ok("SELECT 1");
}

#[test]
fn a_user_may_have_time_outs_of_its_own() {
    role("times_of_its_own", "");
    let own =
        "[users.times_of_its_own]\nquery_timeout = \"500ms\"\nidle_transaction_timeout = \"500ms\"";
    let Some(stage) = stage(&["transaction_timeout=1h"], own) else {
        return;
    };
    let mut other = stage.client();
    other.ok("BEGIN");
    let mut client = client_as(&stage, "times_of_its_own");
    client.send(&query("SELECT pg_sleep(3600)"));
    assert_message(&farewell(&mut client), "query timeout");
    let mut client = client_as(&stage, "times_of_its_own");
    client.ok("BEGIN");
    assert_message(&farewell(&mut client), "idle transaction timeout");
    other.ok("COMMIT");
}

const BUMP: &str = "UPDATE t SET n = n + 1 WHERE id = 1";

/// A table with one row, and Paceline with one server connection that has analyzed the update of it.
fn row_stage(query_timeout: &str) -> Option<(Stage, RawClient)> {
    let stage = stage(
        &[
            "default_pool_size=1",
            "hotspot_for_autocommit=true",
            query_timeout,
        ],
        "",
    )?;
    let mut outsider = stage.direct();
    outsider.ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 0)");
    stage.client().ok(BUMP);
    stage.await_analysis();
    Some((stage, outsider))
}

/// Members of a group start together and have the same limit, so they time out together. None of their changes is made.
#[test]
fn a_group_is_cut_off_as_a_whole() {
    let Some((stage, mut outsider)) = row_stage("query_timeout=2s") else {
        return;
    };
    let mut gate = Gate::close(&stage);
    let mut clients = stage.clients(4);
    for client in &mut clients {
        gate.submit(client, &query(BUMP));
    }
    outsider.ok("BEGIN; LOCK TABLE t");
    gate.open();
    for client in &mut clients {
        assert_message(&farewell(client), "query timeout");
    }
    let mut observer = stage.direct();
    until("they are cancelled", || lock_waiters(&mut observer) == 0);
    outsider.ok("COMMIT");
    assert_eq!(outsider.number("SELECT n FROM t"), 1);
    stage.assert_grouped(4, 4);
}

/// The time in which a request waits for a row counts, also while another request's server waits for the lock.
#[test]
fn requests_that_wait_for_a_row_are_cut_off() {
    let Some((stage, mut outsider)) = row_stage("query_timeout=500ms") else {
        return;
    };
    outsider.ok("BEGIN; SELECT FROM t WHERE id = 1 FOR UPDATE");
    let mut clients = stage.clients(4);
    for client in &mut clients {
        client.send(&query(BUMP));
    }
    for client in &mut clients {
        assert_message(&farewell(client), "query timeout");
    }
    let mut observer = stage.direct();
    until("they are cancelled", || lock_waiters(&mut observer) == 0);
    outsider.ok("COMMIT");
    assert_eq!(outsider.number("SELECT n FROM t"), 1);
}

#[test]
fn a_transaction_in_which_nothing_happens_ends() {
    let Some(stage) = stage(&["idle_transaction_timeout=500ms"], "") else {
        return;
    };
    let mut client = stage.client();
    client.ok("BEGIN");
    assert_message(&farewell(&mut client), "idle transaction timeout");
    await_none(&mut stage.direct(), "idle in transaction");
    let mut client = stage.client();
    client.ok("BEGIN");
    assert!(
        client
            .simple("SELECT 1/0")
            .0
            .iter()
            .any(|message| message.tag == b'E')
    );
    assert_message(&farewell(&mut client), "idle transaction timeout");
}

/// Whether the connection is still open.
fn is_open(client: &mut RawClient) -> bool {
    let sent = client.try_send(&query("SELECT 1"));
    loop {
        match client.try_receive() {
            Ok(message) if message.tag == b'Z' => return sent.is_ok(),
            Ok(message) if message.tag == b'E' => {
                assert_message(&message.fields(), "transaction timeout");
                return false;
            }
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn a_transaction_that_takes_too_long_ends_though_something_happens() {
    let Some(stage) = stage(&["transaction_timeout=500ms"], "") else {
        return;
    };
    let mut client = stage.client();
    for _ in 0..100 {
        client.ok("SELECT 1");
    }
    client.ok("BEGIN");
    until("the transaction is over", || !is_open(&mut client));
    let mut client = stage.client();
    client.send(&query("SELECT pg_sleep(3600)"));
    assert_message(&farewell(&mut client), "transaction timeout");
    await_none(&mut stage.direct(), "active");
}

#[test]
fn a_client_that_is_silent_is_sent_away_but_not_in_a_transaction() {
    let Some(stage) = stage(&["client_idle_timeout=500ms"], "") else {
        return;
    };
    let mut busy = stage.client();
    busy.ok("BEGIN");
    for _ in 0..3 {
        let mut silent = stage.client();
        silent.ok("SELECT 1");
        assert_message(&farewell(&mut silent), "client_idle_timeout");
    }
    busy.ok("COMMIT");
    assert_message(&farewell(&mut busy), "client_idle_timeout");
}

/// A stage with one server connection, and the client that keeps it in a transaction.
fn occupied(settings: &[&str], more: &str) -> Option<(Stage, RawClient)> {
    let stage = stage(&[&["default_pool_size=1"], settings].concat(), more)?;
    let mut holder = stage.client();
    holder.ok("BEGIN");
    Some((stage, holder))
}

#[test]
fn a_client_that_waits_for_query_wait_timeout_is_disconnected() {
    let Some((mut stage, mut holder)) = occupied(&[], "query_wait_timeout = \"1s\"") else {
        return;
    };
    let mut client = stage.client();
    client.send(&query("SELECT 1"));
    assert_message(&farewell(&mut client), "query_wait_timeout");
    let told = "pooler error: query_wait_timeout";
    let log = stage.paceline().unwrap();
    until("the log has it", || log.heard(told) == 1);
    holder.ok("COMMIT");
}

#[test]
fn a_client_that_waits_for_query_wait_notify_gets_one_notice() {
    let Some((stage, mut holder)) = occupied(&["query_wait_notify=50ms"], "") else {
        return;
    };
    let mut clients = stage.clients(2);
    for client in &mut clients {
        client.send(&query("SELECT 'served'"));
        let notice = client.receive();
        assert_eq!(notice.tag, b'N', "{notice:?}");
        let fields = notice.fields();
        let words = "No server connection available in postgres backend, client being queued";
        assert_eq!(
            (fields.get('V'), fields.sqlstate(), fields.text()),
            ("NOTICE", "00000", words)
        );
    }
    await_waiting(&stage, 2);
    holder.ok("COMMIT");
    for client in &mut clients {
        let reply = client.reply();
        assert!(
            reply.0.iter().all(|message| message.tag != b'N'),
            "{reply:?}"
        );
        assert_eq!(reply.expect_ok("after the notice").value(), "served");
    }
}

/// After the notice, a request still leaves the line when its client cancels it or disconnects.
#[test]
fn after_the_notice_a_client_may_cancel_and_leave() {
    let Some((stage, mut holder)) = occupied(&["query_wait_notify=50ms"], "") else {
        return;
    };
    let mut clients = stage.clients(2);
    for client in &mut clients {
        client.send(&query("SELECT 1"));
        assert_eq!(client.receive().tag, b'N');
    }
    let mut gone = clients.pop().unwrap();
    gone.send(&crate::harness::message::terminate());
    drop(gone);
    await_waiting(&stage, 1);
    clients[0].cancel();
    let reply = clients[0].reply();
    assert_eq!(reply.0[0].fields().sqlstate(), "57014");
    await_waiting(&stage, 0);
    holder.ok("COMMIT");
    clients[0].ok("SELECT 1");
}

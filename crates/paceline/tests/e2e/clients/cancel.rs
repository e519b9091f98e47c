//! Cancel requests: for a unit in line, for one that runs, for nobody. They never hit a neighbour.

use super::{BUMP, Neighbour, n, stage};
use crate::harness::gate::lock_waiters;
use crate::harness::message::{cancel_request, query};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

#[test]
fn a_unit_in_line_is_cancelled() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let mut gate = Gate::close(&stage);
    let mut clients = stage.clients(5);
    for client in &mut clients {
        gate.submit(client, &query(BUMP));
    }
    clients[2].cancel();
    let reply = clients[2].reply().expect_error("57014");
    assert_eq!(
        reply.error().unwrap().text(),
        "canceling statement due to user request"
    );
    assert_eq!(reply.status(), 'I');
    gate.await_line(4);
    gate.open();
    for number in [0, 1, 3, 4] {
        clients[number].reply().expect_ok("a neighbour in line");
    }
    assert_eq!(n(&stage), 4);
    assert_eq!(clients[2].value(BUMP), "5");
}

fn await_sleep(stage: &Stage) {
    let mut observer = stage.direct();
    until("a session sleeps", || {
        observer.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
        ) == 1
    });
}

#[test]
fn a_running_statement_is_cancelled() {
    let stage = Stage::on_shared().set("default_pool_size=2").open();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    for begin in ["", "BEGIN", "SELECT 1"] {
        client.simple(begin);
        client.send(&query("SELECT pg_sleep(600)"));
        await_sleep(&stage);
        client.cancel();
        client.reply().expect_error("57014");
        client.simple("ROLLBACK");
        assert_eq!(client.value("SELECT 7"), "7");
        neighbour.check();
    }
}

/// The server connection has gone over to a neighbour when the late cancel comes.
#[test]
fn a_late_cancel_hits_nobody() {
    let stage = stage();
    let mut client = stage.client();
    let mut neighbour = stage.client();
    for _ in 0..100 {
        client.ok("SELECT 1");
        neighbour.send(&query("SELECT 5, pg_sleep(0.002)"));
        client.cancel();
        assert_eq!(neighbour.reply().expect_ok("the neighbour").value(), "5");
        client.ok("SELECT 1");
    }
}

/// Cancels in close succession with statements that end by themselves.
#[test]
fn cancels_that_race_with_the_end_hit_nobody_else() {
    let stage = stage();
    let mut client = stage.client();
    let mut neighbours = stage.clients(3);
    for _ in 0..100 {
        client.send(&query("SELECT pg_sleep(0.001)"));
        neighbours
            .iter_mut()
            .for_each(|neighbour| neighbour.send(&query(BUMP)));
        client.cancel();
        let state = client.reply().sqlstate();
        assert!(state.is_empty() || state == "57014", "{state}");
        for neighbour in &mut neighbours {
            neighbour.reply().expect_ok("a neighbour");
        }
    }
    assert_eq!(n(&stage), 300);
}

#[test]
fn a_wrong_key_cancels_nothing() {
    let stage = stage();
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE t SET n = 0 WHERE id = 1");
    let mut client = stage.client();
    client.send(&query(BUMP));
    let mut observer = stage.direct();
    until("the update waits", || lock_waiters(&mut observer) == 1);
    let pid = u32::from_be_bytes(client.key[..4].try_into().unwrap());
    let mut secret = client.key[4..].to_vec();
    secret[0] ^= 0xff;
    for request in [
        cancel_request(pid, &secret),
        cancel_request(pid.wrapping_add(1), &client.key[4..]),
        cancel_request(pid, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        cancel_request(0, &[]),
    ] {
        let mut other = RawClient::open(stage.port());
        other.send(&request);
        other.hang_up();
    }
    outsider.ok("COMMIT");
    assert_eq!(client.reply().expect_ok("not cancelled").value(), "1");
}

#[test]
fn a_cancel_for_an_idle_client_does_nothing() {
    let stage = stage();
    let mut client = stage.client();
    client.cancel();
    client.ok("SELECT 1");
    client.ok("BEGIN");
    client.cancel();
    assert_eq!(client.ok("SELECT 1").status(), 'T');
    client.ok("COMMIT");
}

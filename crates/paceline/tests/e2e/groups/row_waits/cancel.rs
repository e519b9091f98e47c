//! A cancel request and the end of a connection reach a request while it waits for a row.

use super::*;
use std::time::{Duration, Instant};

/// Cancels until the answer is the error: a request between the line and a group may need two cancel requests.
#[track_caller]
fn cancelled(client: &mut RawClient) {
    client.cancel();
    let reply = client.reply().expect_error("57014");
    let error = reply.error().unwrap();
    assert_eq!(error.text(), "canceling statement due to user request");
}

/// The first, one in the middle and the last of those that wait.
#[test]
fn any_request_that_waits_for_a_row_can_be_cancelled() {
    for servers in [1, 2] {
        let stage = stage(servers, &[&add(SPARE)]);
        let mut outsider = outsider(&stage);
        let (mut clients, gate) = together(&stage, servers, &vec![add(1); 9]);
        gate.open();
        await_lock_waiters(&stage, 1);
        let mut gone: Vec<RawClient> = [8, 4, 0].map(|place| clients.remove(place)).into();
        gone.iter_mut().for_each(cancelled);
        outsider.ok("COMMIT");
        all_get(&mut clients, "UPDATE 1");
        for client in &mut gone {
            assert_eq!(client.value("SELECT 5"), "5", "the client continues");
        }
        assert_eq!(
            stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
            6
        );
    }
}

#[test]
fn every_request_can_be_cancelled_and_the_connection_serves_others() {
    let stage = stage(1, &[&add(SPARE)]);
    let mut outsider = outsider(&stage);
    let (mut clients, gate) = together(&stage, 1, &vec![add(1); 5]);
    gate.open();
    await_lock_waiters(&stage, 1);
    clients.iter_mut().for_each(cancelled);
    let mut other = stage.client();
    assert_eq!(other.value("SELECT count(*) FROM stock"), "9");
    outsider.ok("COMMIT");
    assert_eq!(other.ok(&add(1)).tag(), "UPDATE 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        1
    );
}

#[test]
fn requests_of_clients_that_leave_are_not_executed() {
    let stage = stage(1, &[&add(SPARE)]);
    let mut outsider = outsider(&stage);
    let (mut clients, gate) = together(&stage, 1, &vec![add(1); 6]);
    gate.open();
    await_lock_waiters(&stage, 1);
    if stage.target() == Target::Bare {
        // PostgreSQL notices the end of a client only when it sends a message.
        outsider.ok("COMMIT");
        return all_get(&mut clients, "UPDATE 1");
    }
    let mut status = stage.client();
    let mut await_waiting = |count: i64| {
        until(&format!("{count} requests are in the line"), || {
            crate::harness::stage::counters(&mut status).waiting == count
        });
    };
    await_waiting(6);
    let mut stays = clients.split_off(4);
    clients.into_iter().for_each(drop);
    await_waiting(2);
    outsider.ok("COMMIT");
    all_get(&mut stays, "UPDATE 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        2
    );
}

/// Upserts of one key, which wait where the key is inserted.
#[test]
fn an_upsert_that_waits_for_an_uncommitted_key_can_be_cancelled() {
    let stage = stage(2, &[&upsert(SPARE)]);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; INSERT INTO stock VALUES (77, 0)");
    let (mut clients, gate) = together(&stage, 2, &vec![upsert(77); 6]);
    gate.open();
    await_lock_waiters(&stage, 1);
    for place in [5, 3, 0] {
        cancelled(&mut clients.remove(place));
    }
    outsider.ok("ROLLBACK");
    all_get(&mut clients, "INSERT 0 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 77"),
        7
    );
}

/// A lock on the table, for which the group's statement waits before it begins.
#[test]
fn a_request_that_waits_for_the_table_can_be_cancelled() {
    for sql in [
        add(1),
        upsert(1),
        "INSERT INTO stock VALUES (50, 1)".to_owned(),
    ] {
        let stage = stage(
            1,
            &[
                &add(SPARE),
                &upsert(SPARE),
                "INSERT INTO stock VALUES (51, 1)",
            ],
        );
        let mut outsider = stage.direct();
        outsider.ok("BEGIN; LOCK TABLE stock");
        let (mut clients, gate) = together(&stage, 1, &vec![sql; 3]);
        gate.open();
        await_lock_waiters(&stage, 1);
        clients.iter_mut().rev().for_each(cancelled);
        outsider.ok("COMMIT");
        let same = "SELECT count(*) FROM stock WHERE qty <> 0 AND id < 50";
        assert_eq!(
            stage.direct().number(same),
            1,
            "only the analysis changed a row"
        );
    }
}

/// A client that cancels again and again does not keep the others from their turn.
#[test]
fn one_clients_cancels_do_not_end_the_wait_of_others() {
    let stage = stage(2, &[&add(SPARE)]);
    let mut outsider = outsider(&stage);
    let (mut clients, gate) = together(&stage, 2, &vec![add(1); 3]);
    gate.open();
    await_lock_waiters(&stage, 1);
    let mut restless = stage.client();
    for _ in 0..5 {
        restless.send(&query(&add(1)));
        cancelled(&mut restless);
    }
    outsider.ok("COMMIT");
    all_get(&mut clients, "UPDATE 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        3
    );
}

/// Bounds how long a cancel takes; generous, as it only shows that nothing else is waited for.
#[test]
fn a_cancel_does_not_wait_for_the_outsider() {
    let stage = stage(2, &[&add(SPARE)]);
    let _outsider = outsider(&stage);
    let (mut clients, gate) = together(&stage, 2, &vec![add(1); 4]);
    gate.open();
    let begin = Instant::now();
    clients.iter_mut().for_each(cancelled);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

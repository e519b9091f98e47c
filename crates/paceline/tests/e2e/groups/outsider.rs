//! Direct writers beside Paceline: who needs a row that an outsider holds waits for it, everybody else is answered
//! meanwhile, and an application that waits for one connection's answer before it commits another never hangs.

use std::thread;

use crate::harness::gate::lock_waiters;
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
    INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i;
    CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL);
    INSERT INTO other SELECT i, 0 FROM generate_series(1, 20) i";

fn stage(servers: usize) -> Stage {
    let stage = Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .set("hotspot_for_autocommit=true")
        .open();
    stage.direct().ok(SETUP);
    // Paceline learns the template.
    stage.client().ok(&bump("t", 99));
    stage.client().ok(&bump("other", 99));
    stage.await_learning();
    stage
}

fn bump(table: &str, id: usize) -> String {
    format!("UPDATE {table} SET n = n + 1 WHERE id = {id} RETURNING n")
}

fn await_lock_waiters(stage: &Stage, count: i64) {
    let mut observer = stage.direct();
    until(&format!("{count} sessions wait for a lock"), || {
        lock_waiters(&mut observer) >= count
    });
}

/// A group over several rows, one of which an outsider holds: the others do not wait for it.
#[test]
fn a_held_row_holds_up_its_own_members_only() {
    let stage = stage(2);
    let mut outsider = stage.direct();
    let mut gate = Gate::close_all(&stage, 2);
    let mut clients = stage.clients(12);
    for (number, client) in clients.iter_mut().enumerate() {
        // Members 0, 3, 6 and 9 want row 1.
        gate.submit(client, &query(&bump("t", 1 + number % 3)));
    }
    if stage.target() == Target::Paceline {
        outsider.ok("BEGIN; UPDATE t SET n = n + 100 WHERE id = 1");
    }
    gate.open();
    let (held, free): (Vec<_>, Vec<_>) = clients
        .into_iter()
        .enumerate()
        .partition(|(number, _)| number % 3 == 0);
    for (number, mut client) in free {
        let expected = (1 + number / 3).to_string();
        assert_eq!(
            client.reply().expect_ok("not on the held row").value(),
            expected
        );
    }
    if stage.target() == Target::Paceline {
        await_lock_waiters(&stage, 1);
        outsider.ok("COMMIT");
        for (number, mut client) in held {
            let expected = (101 + number / 3).to_string();
            assert_eq!(
                client.reply().expect_ok("on the held row").value(),
                expected
            );
        }
    }
}

/// The same where every member is on a row of its own.
#[test]
fn a_held_row_holds_up_nobody_on_another() {
    let stage = stage(1);
    let mut outsider = stage.direct();
    for round in 1..=3 {
        let mut gate = Gate::close(&stage);
        let mut clients = stage.clients(12);
        for (id, client) in (1..).zip(&mut clients) {
            gate.submit(client, &query(&bump("t", id)));
        }
        if stage.target() == Target::Paceline {
            outsider.ok("BEGIN; UPDATE t SET n = n + 100 WHERE id = 5");
        }
        gate.open();
        let mut held = clients.remove(4);
        for mut client in clients {
            let reply = client.reply().expect_ok("not on the held row");
            assert_eq!(reply.value(), round.to_string());
        }
        if stage.target() == Target::Paceline {
            await_lock_waiters(&stage, 1);
            outsider.ok("COMMIT");
            let expected = (101 * round).to_string();
            assert_eq!(held.reply().expect_ok("on the held row").value(), expected);
        }
    }
    stage.assert_grouped(33, 12);
}

/// Units on the held row stand in line while others come and go on the remaining server connection.
#[test]
fn others_pass_a_held_row() {
    let stage = stage(2);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE t SET n = 50 WHERE id = 1");
    let mut waiting = stage.clients(8);
    for client in &mut waiting {
        client.send(&query(&bump("t", 1)));
    }
    await_lock_waiters(&stage, 1);
    let mut client = stage.client();
    for round in 1..=20 {
        assert_eq!(client.value(&bump("t", 2)), round.to_string());
        assert_eq!(client.value("SELECT n FROM t WHERE id = 1"), "0");
    }
    outsider.ok("COMMIT");
    let mut values: Vec<i64> = waiting
        .iter_mut()
        .map(|client| client.reply().value().parse().unwrap())
        .collect();
    values.sort_unstable();
    assert_eq!(values, (51..=58).collect::<Vec<_>>());
}

/// An outsider rolls back: members see the row as it was.
#[test]
fn an_outsiders_rollback_leaves_no_trace() {
    let stage = stage(2);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; DELETE FROM t WHERE id = 1");
    let mut waiting = stage.clients(5);
    waiting
        .iter_mut()
        .for_each(|client| client.send(&query(&bump("t", 1))));
    await_lock_waiters(&stage, 1);
    outsider.ok("ROLLBACK");
    let mut values: Vec<String> = waiting
        .iter_mut()
        .map(|client| client.reply().value())
        .collect();
    values.sort();
    assert_eq!(values, ["1", "2", "3", "4", "5"]);
}

/// An outsider deletes the row: every member gets `UPDATE 0`.
#[test]
fn an_outsiders_delete_is_seen() {
    let stage = stage(2);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; DELETE FROM t WHERE id = 1");
    let mut waiting = stage.clients(5);
    waiting
        .iter_mut()
        .for_each(|client| client.send(&query(&bump("t", 1))));
    await_lock_waiters(&stage, 1);
    outsider.ok("COMMIT");
    for client in &mut waiting {
        assert_eq!(client.reply().expect_ok("deleted row").tag(), "UPDATE 0");
    }
}

/// A table lock holds up who needs the table; another table's units go on, grouped or not.
#[test]
fn a_table_lock_holds_up_its_table_only() {
    let stage = stage(2);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE");
    let mut waiting = stage.clients(6);
    waiting
        .iter_mut()
        .for_each(|client| client.send(&query(&bump("t", 3))));
    await_lock_waiters(&stage, 1);
    let mut client = stage.client();
    for round in 1..=20 {
        assert_eq!(client.value(&bump("other", 1)), round.to_string());
    }
    outsider.ok("COMMIT");
    for client in &mut waiting {
        client.reply().expect_ok("after the table lock");
    }
    assert_eq!(stage.direct().number("SELECT n FROM t WHERE id = 3"), 6);
}

/// An INSERT waits for the outsider who has inserted the same key; its neighbours do not.
#[test]
fn an_uncommitted_duplicate_key_holds_up_its_insert_only() {
    let stage = stage(2);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; INSERT INTO t VALUES (100, 0)");
    let mut waiting = stage.client();
    waiting.send(&query("INSERT INTO t VALUES (100, 1)"));
    await_lock_waiters(&stage, 1);
    let mut client = stage.client();
    for id in 101..120 {
        assert_eq!(
            client.ok(&format!("INSERT INTO t VALUES ({id}, 1)")).tag(),
            "INSERT 0 1"
        );
        client.ok(&bump("t", 4));
    }
    outsider.ok("COMMIT");
    waiting.reply().expect_error("23505");
}

/// One application, two connections: a transaction that holds row 1 is committed only after the other connection's
/// answer about row 2. Strangers group on both rows all the time. PostgreSQL alone never hangs here.
#[test]
fn an_application_with_two_connections_never_hangs() {
    let stage = stage(3);
    let [mut first, mut second] = [stage.client(), stage.client()];
    let mut strangers = stage.clients(12);
    for round in 1..=15 {
        first.ok("BEGIN");
        first.ok("UPDATE t SET n = n + 1 WHERE id = 1");
        for (number, stranger) in strangers.iter_mut().enumerate() {
            stranger.send(&query(&bump("t", 1 + number % 2)));
        }
        second.ok(&bump("t", 2));
        first.ok("COMMIT");
        for stranger in &mut strangers {
            stranger.reply().expect_ok("a stranger");
        }
        let mut direct = stage.direct();
        assert_eq!(direct.number("SELECT n FROM t WHERE id = 1"), round * 7);
        assert_eq!(direct.number("SELECT n FROM t WHERE id = 2"), round * 7);
    }
}

/// The same while the strangers' group over both rows is already on its way, and in both orders of the rows.
#[test]
fn a_group_on_its_way_never_waits_while_it_holds_a_row() {
    let stage = stage(3);
    for (mine, asked) in [(1, 2), (2, 1)] {
        let mut first = stage.client();
        first.ok("BEGIN");
        first.ok(&format!("UPDATE t SET n = n + 1 WHERE id = {mine}"));
        let mut strangers = stage.clients(10);
        let mut gate = Gate::close_all(&stage, 2);
        for (number, stranger) in strangers.iter_mut().enumerate() {
            if stage.target() == Target::Paceline {
                gate.submit(stranger, &query(&bump("t", 1 + number % 2)));
            }
        }
        gate.open();
        let mut second = stage.client();
        second.ok(&bump("t", asked));
        first.ok("COMMIT");
        if stage.target() == Target::Paceline {
            strangers
                .iter_mut()
                .for_each(|stranger| drop(stranger.reply().expect_ok("a stranger")));
        }
    }
}

/// Two transactions through Paceline that lock two rows in opposite orders: PostgreSQL's own deadlock error reaches one
/// of them, and the other goes on.
#[test]
fn a_real_deadlock_is_told_as_postgresql_tells_it() {
    let stage = stage(4);
    let mut clients: Vec<RawClient> = stage.clients(2);
    for (id, client) in (1..).zip(&mut clients) {
        client.ok("BEGIN");
        client.ok(&bump("t", id));
    }
    let states: Vec<String> = thread::scope(|scope| {
        let tasks: Vec<_> = (1..)
            .zip(&mut clients)
            .map(|(id, client)| scope.spawn(move || client.simple(&bump("t", 3 - id)).sqlstate()))
            .collect();
        let mut states = Vec::new();
        for task in tasks {
            states.push(task.join().unwrap());
        }
        states
    });
    let mut sorted = states;
    sorted.sort();
    assert_eq!(sorted, ["", "40P01"]);
}

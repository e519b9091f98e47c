//! Upserts of several rows beside outsiders, beside upserts of one row, and under DDL. That each client gets the answer that
//! it would have got alone is in [`crate::groups::upsert`].

use crate::harness::gate::lock_waiters;
use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Rng, Stage, until};

const SETUP: &str = "CREATE TABLE degree (id int PRIMARY KEY, degree int NOT NULL)";
const FILL: &str =
    "DELETE FROM degree; INSERT INTO degree SELECT id, 0 FROM generate_series(1, 6) AS id";
const ONE: &str = "INSERT INTO degree (id, degree) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + 1";
const TWO: &str = "INSERT INTO degree (id, degree) VALUES ($1, 1), ($2, 1) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + 1 RETURNING id, degree";

fn stage(servers: usize) -> Stage {
    let stage = Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .set("hotspot_for_autocommit=true")
        .open();
    stage.direct().ok(SETUP);
    // Paceline analyzes the templates.
    let mut client = stage.client();
    client.ask(&one(1)).expect_ok("one row");
    client.ask(&two(1, 2)).expect_ok("two rows");
    stage.await_analysis();
    stage.direct().ok(FILL);
    stage
}

fn one(id: usize) -> Vec<u8> {
    unit(ONE, &[Some(&id.to_string())])
}

fn two(id: usize, other: usize) -> Vec<u8> {
    unit(TWO, &[Some(&id.to_string()), Some(&other.to_string())])
}

/// An outsider that holds the first row.
fn outsider(stage: &Stage) -> RawClient {
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE degree SET degree = 100 WHERE id = 1");
    outsider
}

fn await_blocked(stage: &Stage, count: i64) {
    let mut observer = stage.direct();
    until("a request waits for the outsider", || {
        lock_waiters(&mut observer) >= count
    });
}

/// In PostgreSQL it has not reached its second row: a request on that one need not wait.
#[test]
fn a_request_that_waits_for_an_outsiders_row_does_not_keep_its_other_rows() {
    let stage = stage(3);
    let mut outsider = outsider(&stage);
    let mut blocked = stage.client();
    blocked.send(&two(1, 2));
    await_blocked(&stage, 1);
    let mut others = stage.clients(3);
    others[0].send(&one(2));
    others[1].send(&two(3, 4));
    others[2].send(&two(2, 3));
    for client in &mut others {
        client.reply().expect_ok("it is not held up");
    }
    outsider.ok("COMMIT");
    let rows = blocked.reply().expect_ok("the row is free").rows();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [[text("1"), text("101")], [text("2"), text("3")]]);
}

/// The one in front of it waits for the outsider, and it would, too; but those behind it would not.
#[test]
fn a_request_behind_several_rows_does_not_wait_for_what_they_wait_for() {
    let stage = stage(4);
    let mut outsider = outsider(&stage);
    let mut clients = stage.clients(3);
    clients[0].send(&one(1));
    await_blocked(&stage, 1);
    clients[1].send(&two(1, 2));
    if stage.target() == Target::Paceline {
        let mut status = stage.client();
        until("it is in the line, or has left it", || {
            crate::harness::stage::counters(&mut status).waiting >= 1
                || lock_waiters(&mut stage.direct()) >= 2
        });
    }
    clients[2].send(&one(2));
    clients[2].reply().expect_ok("it is not held up");
    outsider.ok("COMMIT");
    for client in &mut clients[..2] {
        client.reply().expect_ok("the row is free");
    }
    let left = stage
        .direct()
        .ok("SELECT degree FROM degree WHERE id < 3 ORDER BY id");
    let text = |text: &str| vec![Some(text.to_owned())];
    assert_eq!(left.rows(), [text("102"), text("2")]);
}

/// Rows in any order, on several connections: alone, such clients would run into deadlocks.
#[test]
fn nothing_is_lost_among_many_on_the_same_rows() {
    let stage = stage(4);
    let before = stage.counters();
    let mut rng = Rng::new(7);
    let mut clients = stage.clients(24);
    let (mut one_row, mut two_rows) = (0, 0);
    for round in 0..12 {
        for (number, client) in clients.iter_mut().enumerate() {
            let id = 1 + rng.below(12);
            match (round + number) % 4 {
                0 => {
                    one_row += 1;
                    client.send(&one(id));
                }
                _ => {
                    two_rows += 1;
                    client.send(&two(id, 1 + (id + rng.below(10)) % 12));
                }
            }
        }
        for client in &mut clients {
            client.reply().expect_ok("an upsert");
        }
    }
    let sum = stage.direct().number("SELECT sum(degree) FROM degree");
    assert_eq!(sum, one_row + 2 * two_rows);
    let members = stage.counters().members - before.members;
    assert!(members > 0 || stage.target() == Target::Bare);
}

/// A constraint that is added while they are in the line applies to each of them.
#[test]
fn ddl_while_they_wait_is_noticed() {
    let stage = stage(1);
    let mut clients = stage.clients(6);
    let mut gate = Gate::close(&stage);
    for (number, client) in (1..).zip(&mut clients) {
        gate.submit(client, &two(number, number + 10));
    }
    if stage.target() == Target::Paceline {
        stage.direct().ok(
            "ALTER TABLE degree ADD COLUMN extra int, ADD CONSTRAINT odd CHECK (id % 2 = 1) NOT VALID",
        );
    }
    gate.open();
    for (number, client) in (1..).zip(&mut clients) {
        let reply = client.reply();
        match number % 2 {
            0 if stage.target() == Target::Paceline => drop(reply.expect_error("23514")),
            _ => assert_eq!(reply.expect_ok("an odd one").rows().len(), 2),
        }
    }
}

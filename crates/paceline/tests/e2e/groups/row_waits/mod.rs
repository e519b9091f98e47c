//! Requests whose row an outsider has locked: each waits exactly as long as it waits on PostgreSQL alone, and its own
//! cancel request and time-outs reach it while it waits.

mod cancel;
mod committed;
mod group_length;
mod time_outs;

use crate::harness::gate::lock_waiters;
use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL);
    INSERT INTO stock SELECT i, 0 FROM generate_series(1, 9) i";

/// A row that nobody uses in a test: for the analysis of templates.
const SPARE: usize = 9;

const HOLD: &str = "BEGIN; SELECT FROM stock WHERE id = 1 FOR UPDATE";

/// A database with its table, and Paceline that has analyzed these statements.
fn stage(servers: usize, statements: &[&str]) -> Stage {
    let stage = unused_stage(servers);
    for sql in statements {
        stage.client().ok(sql);
    }
    stage.await_learning();
    stage
}

/// A database with its table, and Paceline that has no connection to it yet.
fn unused_stage(servers: usize) -> Stage {
    let stage = Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .set("hotspot_for_autocommit=true")
        .open();
    stage.direct().ok(SETUP);
    stage
}

/// Takes from a row if it has that many.
fn take(id: usize, from: i32) -> String {
    format!("UPDATE stock SET qty = qty - 1 WHERE id = {id} AND qty >= {from}")
}

fn add(id: usize) -> String {
    format!("UPDATE stock SET qty = qty + 1 WHERE id = {id}")
}

fn insert(id: usize) -> String {
    format!("INSERT INTO stock VALUES ({id}, 5) ON CONFLICT (id) DO NOTHING")
}

fn upsert(id: usize) -> String {
    format!("INSERT INTO stock VALUES ({id}, 5) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + 1")
}

/// An outsider that holds row 1.
fn outsider(stage: &Stage) -> RawClient {
    let mut outsider = stage.direct();
    outsider.ok(HOLD);
    outsider
}

/// Submits requests while the only server connections are held up, so that they leave together.
fn together(stage: &Stage, servers: usize, requests: &[String]) -> (Vec<RawClient>, Gate) {
    let mut gate = Gate::close_all(stage, servers);
    let mut clients = stage.clients(requests.len());
    for (client, sql) in clients.iter_mut().zip(requests) {
        match stage.target() {
            Target::Paceline => gate.submit(client, &query(sql)),
            Target::Bare => client.send(&query(sql)),
        }
    }
    (clients, gate)
}

fn await_lock_waiters(stage: &Stage, count: i64) {
    let mut observer = stage.direct();
    until(&format!("{count} sessions wait for a lock"), || {
        lock_waiters(&mut observer) >= count
    });
}

/// Each is answered `tag` now.
#[track_caller]
fn all_get(clients: &mut [RawClient], tag: &str) {
    for client in clients {
        assert_eq!(client.reply().expect_ok(tag).tag(), tag);
    }
}

/// A simple query and the same by the extended protocol.
fn both_protocols(sql: &str) -> [Vec<u8>; 2] {
    [query(sql), unit(sql, &[])]
}

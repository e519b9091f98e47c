//! Damaged and hostile streams: the connection ends with a line in the log, others are served, and memory is bounded.

use super::{Link, client, far};
use crate::harness::cluster;
use crate::harness::message::{self, query};
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::until;

const LOGGED: &str = "compressed data cannot be read; the connection is closed";

#[test]
fn a_damaged_answer_ends_the_server_connection() {
    let link = Link::with(&["default_pool_size=1"]);
    let mut client = link.client();
    // Paceline executes a read outside of a transaction again.
    client.ok("BEGIN");
    link.wire.damage(1, 0);
    client.send(&query("SELECT repeat('x', 10000)"));
    let end = client.receive_to_end();
    assert_eq!(end.last().unwrap().fields().sqlstate(), "08006");
    until("the fault is logged", || link.near.logged(LOGGED));
    assert_eq!(link.client().value("SELECT 2"), "2");
}

#[test]
fn a_damaged_request_ends_the_client_connection() {
    let link = Link::with(&["default_pool_size=1"]);
    let mut client = link.client();
    // Paceline executes a read outside of a transaction again.
    client.ok("BEGIN");
    link.wire.damage(0, 0);
    client.send(&query(&format!("SELECT '{}'", "x".repeat(10_000))));
    let end = client.receive_to_end();
    assert_eq!(end.last().unwrap().fields().sqlstate(), "08006");
    until("the fault is logged", || link.far.logged(LOGGED));
    assert_eq!(link.client().value("SELECT 2"), "2");
}

/// A client that has offered compression, and sends any bytes behind the login.
fn offering(port: u16, database: &str) -> RawClient {
    let mut client = RawClient::open(port);
    let offer = ("_pq_.paceline_compression", "zstd:1");
    let login = [("user", "postgres"), ("database", database), offer];
    client.send(&message::startup(PROTOCOL, &login));
    client.receive_until(b"Z");
    assert_eq!(client.parameters["paceline_compression"], "zstd:1");
    client
}

/// Eleven bytes of zstd that become 64 KiB of `x`, with the header of a block.
const BOMB: &[u8] = b"\x01\xff\xff\0\x0a\x28\xb5\x2f\xfd\x60\0\xff\x03\0\x08x";

#[test]
fn a_hostile_client_gets_no_memory() {
    let cluster = cluster::shared();
    let database = cluster.database();
    let far = far(&cluster).spawn();
    for garbage in [
        &b"Q\0\0\0\x0dselect 1\0"[..],
        b"\x03\0\x01\0\0x",
        &BOMB[..BOMB.len() - 1],
    ] {
        let mut client = offering(far.port(), &database);
        client.send(garbage);
        client.hang_up();
    }
    until("both that are no blocks are logged", || {
        far.heard(LOGGED) == 2
    });
    let mut bomber = offering(far.port(), &database);
    // The first 64 KiB of a statement of 64 MiB, and the rest.
    bomber.send(b"\0\0\x04Q\x03\xff\xff\xff");
    for _ in 0..1_000 {
        let _ = bomber.try_send(BOMB);
    }
    assert_eq!(client(&far, &database).value("SELECT 1"), "1");
    bomber.hang_up();
    let peak = far.memory_kib("VmHWM");
    println!("peak of resident memory: {peak} KiB");
    assert!(peak < 64 << 10, "{peak} KiB");
}

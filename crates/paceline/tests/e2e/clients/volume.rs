//! Much data: forwarded, never gathered. Memory is looked at from outside.

use super::{Neighbour, stage};
use crate::harness::message::{bind, copy_data, copy_done, execute, parse, query, sync};
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, until};

const RESULT_BYTES: usize = 200 << 20;
const MEMORY_KIB_MAX: u64 = 64 << 10;

#[track_caller]
fn check_memory(stage: &mut Stage) {
    let peak = stage
        .paceline()
        .map_or(0, |paceline: &mut Paceline| paceline.memory_kib("VmHWM"));
    println!("peak of resident memory: {peak} KiB");
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
}

/// Reads to ReadyForQuery without keeping anything; returns the bytes of the rows.
fn count_bytes(client: &mut RawClient) -> usize {
    let mut bytes = 0;
    loop {
        let message = client.receive();
        match message.tag {
            b'D' | b'd' => bytes += message.body.len(),
            b'E' => panic!("{message:?}"),
            b'Z' => return bytes,
            _ => {}
        }
    }
}

#[test]
fn large_results_pass_through() {
    let mut stage = stage();
    let rows = RESULT_BYTES / 8000;
    let sql = format!("SELECT repeat('x', 8000) FROM generate_series(1, {rows})");
    let mut client = stage.client();
    client.send(&query(&sql));
    assert!(count_bytes(&mut client) >= rows * 8000);
    client.send(
        &[
            parse("", &sql, &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    assert!(count_bytes(&mut client) >= rows * 8000);
    client.send(&query(&format!("COPY ({sql}) TO STDOUT")));
    assert!(count_bytes(&mut client) >= rows * 8000);
    check_memory(&mut stage);
}

/// A reader that stops holds the server back instead of filling Paceline's memory.
#[test]
fn a_slow_reader_fills_no_memory() {
    let mut stage = Stage::on_shared().set("default_pool_size=2").open();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    client.send(&query(
        "SELECT repeat('x', 8000) FROM generate_series(1, 26000)",
    ));
    client.receive();
    for _ in 0..200 {
        neighbour.check();
    }
    check_memory(&mut stage);
    count_bytes(&mut client);
    check_memory(&mut stage);
}

#[test]
fn large_copies_pass_through() {
    let mut stage = stage();
    stage.direct().ok("CREATE TABLE big (text text)");
    let mut client = stage.client();
    client.send(&query("COPY big FROM STDIN"));
    assert_eq!(client.receive().tag, b'G');
    let chunk = copy_data(format!("{}\n", "y".repeat(999)).repeat(64).as_bytes());
    for _ in 0..1000 {
        client.send(&chunk);
    }
    client.send(&copy_done());
    assert_eq!(client.reply().expect_ok("copy").tag(), "COPY 64000");
    assert_eq!(
        stage.direct().number("SELECT sum(length(text)) FROM big"),
        64_000 * 999
    );
    check_memory(&mut stage);
}

/// A unit that is relayed while it arrives, and whose end has arrived before the server reads its middle.
#[test]
fn the_end_of_a_long_unit_does_not_wait_for_more() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let mut holder = stage.client();
    holder.ok("BEGIN");
    let mut client = stage.client();
    let long = "x".repeat(4 << 20);
    client.send(
        &[
            parse("", "SELECT length($1)", &[25]),
            bind("", "", &[Some(&long)]),
        ]
        .concat(),
    );
    until("it is in the line", || {
        stage.target() == Target::Bare || stage.counters().waiting == 1
    });
    client.send(&[execute("", 0), sync()].concat());
    // The part that arrives while the request waits is read ahead.
    holder.ok("SELECT 1");
    holder.ok("COMMIT");
    assert_eq!(client.reply().value(), long.len().to_string());
}

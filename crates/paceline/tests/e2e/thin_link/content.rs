//! The content of a compressed connection: it is complete, and uses bounded memory.

use super::{Link, bytes};
use crate::harness::message::{
    bind, copy_data, copy_done, describe, execute, flush, parse, query, sync, unit,
};
use crate::harness::until;

/// Of each Paceline.
const MEMORY_KIB_MAX: u64 = 64 << 10;

#[track_caller]
fn check_memory(link: &Link) {
    for paceline in [&link.near, &link.far] {
        let peak = paceline.memory_kib("VmHWM");
        println!("peak of resident memory: {peak} KiB");
        assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
    }
}

/// Lengths around the limits of stored blocks, of a block and of a dictionary.
#[test]
fn values_of_every_length_are_the_same() {
    let link = Link::with(&[]);
    let (mut client, mut direct) = (link.client(), link.direct());
    for around in [1, 200, 4_096, 32_768, 65_536, 131_072, 1_000_000] {
        for len in [around - 1, around, around + 1, around + 100] {
            // Every second one compresses badly.
            for sql in [
                format!("SELECT repeat('x', {len})"),
                format!(
                    "SELECT substr(string_agg(md5(i::text), ''), 1, {len}) FROM generate_series(1, {len} / 32 + 1) i"
                ),
            ] {
                assert_eq!(client.value(&sql), direct.value(&sql), "{sql}");
                let sent = client.value(&sql);
                let back = client.ask(&unit("SELECT $1::text", &[Some(&sent)]));
                assert!(back.value() == sent, "{sql}");
            }
        }
    }
}

#[test]
fn pipelines_of_many_requests_are_answered_in_order() {
    let link = Link::with(&["default_pool_size=2"]);
    let mut clients = [(); 4].map(|()| link.client());
    let requests: Vec<u8> = (0..2_000)
        .flat_map(|n: usize| match n % 3 {
            0 => query(&format!("SELECT {n}")),
            1 => unit("SELECT $1::int", &[Some(&n.to_string())]),
            _ => query(&format!("SELECT {n}, repeat('x', {n})")),
        })
        .collect();
    for client in &mut clients {
        client.send(&requests);
    }
    for client in &mut clients {
        for n in 0..2_000 {
            let reply = client.reply().expect_ok("a request of a pipeline");
            assert_eq!(reply.rows()[0][0], Some(n.to_string()));
        }
    }
}

#[test]
fn copies_go_both_ways() {
    let link = Link::with(&[]);
    link.direct().ok("CREATE TABLE big (n int, text text)");
    let mut client = link.client();
    client.send(&query("COPY big FROM STDIN"));
    assert_eq!(client.receive().tag, b'G');
    for n in 0..20_000 {
        client.send(&copy_data(
            format!("{n}\t{}\n", "row ".repeat(n % 150)).as_bytes(),
        ));
    }
    client.send(&copy_done());
    assert_eq!(client.reply().expect_ok("copy").tag(), "COPY 20000");
    let copied = |mut client: crate::harness::raw::RawClient| {
        client.send(&query("COPY (SELECT * FROM big ORDER BY n) TO STDOUT"));
        let messages = client.receive_until(b"Z");
        let rows = messages.into_iter().filter(|message| message.tag == b'd');
        rows.map(|row| row.body).collect::<Vec<_>>()
    };
    let rows = copied(link.client());
    assert_eq!(rows.len(), 20_000);
    assert!(rows == copied(link.direct()));
    // An error in the middle of a copy ends it.
    client.send(&query("COPY big FROM STDIN"));
    assert_eq!(client.receive().tag, b'G');
    client.send(&copy_data(b"not a number\tx\n"));
    client.send(&copy_done());
    client.reply().expect_error("22P02");
    assert_eq!(client.value("SELECT count(*) FROM big"), "20000");
}

/// No part of an answer waits for more of it.
#[test]
fn what_was_flushed_arrives() {
    let link = Link::with(&[]);
    let mut client = link.client();
    let rows = "SELECT i, repeat('x', i) FROM generate_series(1, 1000) i";
    client.send(
        &[
            parse("", rows, &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            flush(),
        ]
        .concat(),
    );
    assert_eq!(client.receive_until(b"T").len(), 3);
    for _ in 0..10 {
        client.send(&[execute("", 100), flush()].concat());
        let rows = client.receive_until(b"sC");
        assert_eq!(rows.iter().filter(|row| row.tag == b'D').count(), 100);
    }
    client.send(&sync());
    client.reply().expect_ok("the end of a portal");
    client
        .ok("BEGIN; DECLARE rows CURSOR FOR SELECT repeat('x', i) FROM generate_series(1, 1000) i");
    for _ in 0..4 {
        assert_eq!(client.ok("FETCH 250 FROM rows").rows().len(), 250);
    }
    client.ok("COMMIT");
}

#[test]
fn cancel_requests_reach_the_statement() {
    let link = Link::with(&[]);
    let mut client = link.client();
    client.send(&query("SELECT repeat('x', 100000), pg_sleep(1000)"));
    let mut direct = link.direct();
    until("the statement runs", || {
        direct.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") > 0
    });
    client.cancel();
    client.reply().expect_error("57014");
    assert_eq!(client.value("SELECT 1"), "1");
}

/// 64 MB in one value, and in one parameter.
#[test]
fn large_values_pass_in_bounded_memory() {
    let link = Link::with(&[]);
    let mut client = link.client();
    let len = 64 << 20;
    client.send(&query(&format!("SELECT repeat('large', {len} / 5 + 1)")));
    let rows = client.receive_until(b"D");
    assert!(rows.last().unwrap().body.len() > len);
    client.reply().expect_ok("a large value");
    let [plain, transmitted] = bytes(&link.near, "servers", "received");
    assert!(
        plain > len as f64 && transmitted < plain,
        "{plain} {transmitted}"
    );
    let value = "value".repeat(len / 5);
    client.send(&unit("SELECT length($1::text)", &[Some(&value)]));
    assert_eq!(client.reply().value(), value.len().to_string());
    check_memory(&link);
}

//! Bytes that arrive one at a time, all at once, or as nonsense.

use super::{BUMP, Neighbour, stage};
use crate::harness::message::{any, bind, describe, execute, parse, query, startup, sync, unit};
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::reply::Message;
use crate::harness::{Rng, Stage, assert_same};

/// Sends bytes one by one; each is a packet of its own, as TCP_NODELAY is on.
fn dribble(client: &mut RawClient, bytes: &[u8]) {
    for byte in bytes {
        client.send(&[*byte]);
    }
}

#[test]
fn one_byte_at_a_time() {
    let stage = stage();
    let mut client = RawClient::open(stage.port());
    let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
    dribble(&mut client, &startup(PROTOCOL, &parameters));
    client.reply();
    for round in [1, 3] {
        dribble(&mut client, &query(BUMP));
        assert_eq!(client.reply().value(), round.to_string());
        dribble(
            &mut client,
            &unit(
                "UPDATE t SET n = n + $1 WHERE id = $2 RETURNING n",
                &[Some("1"), Some("1")],
            ),
        );
        assert_eq!(client.reply().value(), (round + 1).to_string());
    }
    dribble(
        &mut client,
        &[query("BEGIN"), query("SELECT 1"), query("COMMIT")].concat(),
    );
    assert_eq!([(); 3].map(|()| client.reply().status()), ['T', 'T', 'I']);
}

#[test]
fn a_thousand_units_at_once() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    let units: Vec<u8> = (0..500)
        .flat_map(|_| {
            [
                query(BUMP),
                unit(
                    "UPDATE t SET n = n + $1 WHERE id = 1 RETURNING n",
                    &[Some("1")],
                ),
            ]
            .concat()
        })
        .collect();
    client.send(&units);
    for expected in 1..=1000 {
        assert_eq!(
            client.reply().expect_ok("unit").value(),
            expected.to_string()
        );
    }
    neighbour.check();
}

#[test]
fn a_thousand_statements_with_one_sync() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    let mut messages = parse(
        "add",
        "UPDATE t SET n = n + $1 WHERE id = 1 RETURNING n",
        &[],
    );
    for _ in 0..1000 {
        messages.extend(bind("", "add", &[Some("1")]));
        messages.extend(execute("", 0));
    }
    client.send(&[messages.clone(), sync()].concat());
    let rows = client.reply().expect_ok("all").rows().concat();
    assert_eq!(rows.last(), Some(&Some("1000".to_owned())));
    assert_eq!(rows.len(), 1000);
    // The last one fails: none counts.
    messages.splice(..0, sync());
    messages.drain(
        ..5 + parse(
            "add",
            "UPDATE t SET n = n + $1 WHERE id = 1 RETURNING n",
            &[],
        )
        .len(),
    );
    messages.extend(bind("", "add", &[Some("x")]));
    messages.extend(sync());
    client.ask(&messages).expect_error("22P02");
    assert_eq!(super::n(&stage), 1000);
    neighbour.check();
}

#[test]
fn many_clients_pipeline_at_once() {
    let stage = stage();
    let mut clients = stage.clients(20);
    let burst = unit(
        "UPDATE t SET n = n + $1 WHERE id = $2",
        &[Some("1"), Some("1")],
    )
    .repeat(50);
    clients.iter_mut().for_each(|client| client.send(&burst));
    for client in &mut clients {
        for _ in 0..50 {
            assert_eq!(client.reply().expect_ok("burst").tag(), "UPDATE 1");
        }
    }
    assert_eq!(super::n(&stage), 1000);
}

/// Everything that a client can send in place of a startup message. The listener survives all of it.
#[test]
fn nonsense_at_startup() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let mut nonsense: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0],
        vec![0; 8],
        vec![0xff; 64],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0, 0, 0, 4],
        vec![0, 0, 0, 7, 0, 3, 0],
        vec![0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
        startup(2 << 16, &[("user", "postgres")]),
        startup(99 << 16, &[("user", "postgres")]),
        startup(PROTOCOL, &[]),
        startup(PROTOCOL, &[("user", "")]),
        query("SELECT 1"),
    ];
    let mut rng = Rng::new(7);
    for _ in 0..100 {
        let length = rng.below(200);
        nonsense.push((0..length).map(|_| rng.next() as u8).collect());
    }
    for bytes in nonsense {
        let mut client = RawClient::open(stage.port());
        let _ = client.try_send(&bytes);
        client.hang_up();
    }
    neighbour.check();
    assert_eq!(stage.client().value("SELECT 1"), "1");
}

/// Nonsense behind a proper login, inside and outside a transaction.
#[test]
fn nonsense_after_login() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let nonsense: Vec<Vec<u8>> = vec![
        any(b'?', b"what is this"),
        any(0, &[]),
        vec![b'Q', 0, 0, 0, 3],
        vec![b'Q', 0, 0, 0, 0],
        vec![b'Q', 0xff, 0xff, 0xff, 0xff],
        vec![b'Q', 0x7f, 0xff, 0xff, 0xff, b'S'],
        vec![b'S', 0, 0, 0, 9, 1, 2, 3, 4, 5],
        any(b'Q', b"no terminator"),
        any(b'Q', b"SELECT 1\0 behind it\0"),
        any(b'P', b"name"),
        any(b'P', b"name\0SELECT 1\0\0\x09"),
        any(b'B', b"\0\0\xff\xff"),
        any(b'B', b"\0\0\0\0\0\x01\0\0\0\x09x"),
        any(b'D', b"?x\0"),
        any(b'E', b"\0"),
        any(b'C', b""),
        any(b'F', b"\0\0"),
        any(b'p', b"password\0"),
    ];
    for bytes in nonsense {
        for begin in ["", "BEGIN; UPDATE t SET n = 1000 WHERE id = 1"] {
            println!("{begin:?} {:?}", bytes.escape_ascii().to_string());
            let mut client = stage.client();
            client.ok(begin);
            let _ = client.try_send(&[bytes.clone(), sync()].concat());
            client.hang_up();
            neighbour.check();
            assert_eq!(super::n(&stage), 0);
        }
    }
}

/// PostgreSQL answers some malformed messages with an error and continues; so does Paceline.
#[test]
fn malformed_messages_get_postgresqls_answers() {
    let stage = Stage::on_shared().open();
    let malformed = [
        any(b'B', b"\0\0\0\x01"),
        any(b'P', b"name\0SELECT 1\0\0\x01"),
        any(b'D', b"?x\0"),
        any(b'C', b"?x\0"),
        any(b'E', b"\0"),
    ];
    for bytes in malformed {
        println!("{:?}", bytes.escape_ascii().to_string());
        let answer = |mut client: RawClient| -> Vec<Message> {
            client.send(&[bytes.clone(), sync()].concat());
            let mut messages = client.reply().0;
            messages.extend(client.ask(&unit("SELECT 1", &[])).0);
            messages
        };
        assert_same(
            "malformed",
            &answer(stage.direct()),
            &answer(stage.client()),
        );
    }
}

/// A message of 8 MiB in each direction, and a statement text of 1 MiB.
#[test]
fn large_messages() {
    let stage = stage();
    let mut client = stage.client();
    let text = "x".repeat(8 << 20);
    let reply = client.ask(
        &[
            parse("", "SELECT $1::text, length($1)", &[]),
            bind("", "", &[Some(&text)]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    let row = reply.expect_ok("large").rows().remove(0);
    assert_eq!(row[0].as_deref().map(str::len), Some(8 << 20));
    let sql = format!("SELECT length('{}')", "y".repeat(1 << 20));
    assert_eq!(client.value(&sql), (1 << 20).to_string());
    assert_eq!(client.value(&sql), (1 << 20).to_string());
}

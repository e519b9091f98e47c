//! The first bytes: protocol versions, encryption requests, missing parameters.

use super::{Neighbour, stage};
use crate::harness::message::{gss_request, parse, query, ssl_request, startup, terminate};
use crate::harness::raw::{PROTOCOL, RawClient, socket};
use crate::harness::reply::transcript;
use crate::harness::stage::Target;
use crate::harness::wait::LIMIT;
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

fn login(stage: &crate::harness::Stage) -> Vec<u8> {
    startup(
        PROTOCOL,
        &[("user", "postgres"), ("database", &stage.database)],
    )
}

#[test]
fn encryption_is_declined() {
    let stage = stage();
    if stage.target() == Target::Bare {
        // Some builds of PostgreSQL know GSSAPI.
        return;
    }
    for requests in [
        vec![ssl_request()],
        vec![gss_request()],
        vec![gss_request(), ssl_request()],
        vec![ssl_request(), gss_request()],
    ] {
        let mut client = RawClient::open(stage.port());
        for request in requests {
            client.send(&request);
            assert_eq!(client.receive_byte(), b'N');
        }
        client.send(&login(&stage));
        client.reply();
        client.send(&query("SELECT 1"));
        assert_eq!(client.reply().value(), "1");
    }
}

#[test]
fn newer_protocols_are_negotiated_down() {
    let stage = stage();
    for (version, more) in [
        (PROTOCOL | 2, None),
        (PROTOCOL | 9999, None),
        (PROTOCOL, Some(("_pq_.unknown", "on"))),
    ] {
        let negotiate = |port: u16| {
            let mut client = RawClient::open(port);
            let mut parameters = vec![("user", "postgres"), ("database", stage.database.as_str())];
            parameters.extend(more);
            client.send(&startup(version, &parameters));
            let reply = client.reply();
            client.send(&query("SELECT 1"));
            assert_eq!(client.reply().value(), "1");
            reply.0.into_iter().find(|message| message.tag == b'v')
        };
        let (bare, paceline) = (negotiate(stage.cluster.port()), negotiate(stage.port()));
        let paceline = paceline.unwrap_or_else(|| panic!("nothing is negotiated: {version:#x}"));
        // PostgreSQL 18 takes 3.2, and need not negotiate it; Paceline supports 3.0.
        assert_eq!(paceline.body[..4], PROTOCOL.to_be_bytes()[..], "{bare:?}");
        match bare {
            Some(bare) => assert_eq!(bare.body[4..], paceline.body[4..]),
            None => assert_eq!(version, PROTOCOL | 2),
        }
    }
}

#[test]
fn a_missing_user_is_refused_as_by_postgresql() {
    let stage = stage();
    for (version, parameters) in [
        (PROTOCOL, vec![]),
        (PROTOCOL, vec![("database", "postgres")]),
        (PROTOCOL, vec![("user", "")]),
    ] {
        let refusal = |port: u16| {
            let mut client = RawClient::open(port);
            client.send(&startup(version, &parameters));
            transcript(&client.receive_to_end())
        };
        assert_eq!(refusal(stage.port()), refusal(stage.cluster.port()));
    }
}

/// The database's name is the user's when none is given.
#[test]
fn the_database_defaults_to_the_user() {
    let stage = stage();
    let mut client = RawClient::connect(stage.port(), &[("user", "postgres")]);
    assert_eq!(client.value("SELECT current_database()"), "postgres");
}

#[test]
fn pipelined_startup_is_accepted() {
    let stage = stage();
    let mut client = RawClient::open(stage.port());
    client.send(&[login(&stage), query("SELECT 1"), query("SELECT 2")].concat());
    client.reply();
    assert_eq!(client.reply().value(), "1");
    assert_eq!(client.reply().value(), "2");
}

#[test]
fn sigterm_ends_it_in_good_order() {
    let mut stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = stage.client();
    client.ok("SELECT 1");
    assert_eq!(stage.paceline().unwrap().stop(), Some(0));
    let last = client.receive_to_end();
    if let Some(message) = last.last() {
        assert_eq!(message.fields().sqlstate(), "57P01");
    }
}

/// As PostgreSQL has it where it declines both: the second request is taken for a version of the protocol.
#[test]
fn encryption_is_asked_for_once() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    for request in [ssl_request(), gss_request()] {
        let mut client = RawClient::open(stage.port());
        client.send(&request);
        assert_eq!(client.receive_byte(), b'N');
        client.send(&request);
        let told = client.receive_to_end();
        assert_eq!(told.last().unwrap().fields().sqlstate(), "0A000");
    }
}

/// A request for encryption.
fn request(code: u32) -> Vec<u8> {
    packet(code, b"")
}

fn packet(version: u32, body: &[u8]) -> Vec<u8> {
    let length = 8 + body.len() as u32;
    [&length.to_be_bytes()[..], &version.to_be_bytes(), body].concat()
}

/// The bytes that the server returns up to the end of the connection. The packets are sent one by one: each but the last when one byte has
/// answered the packet before it. The known protocols depend on the server's version.
fn said(port: u16, packets: &[Vec<u8>]) -> String {
    let mut socket = socket(port);
    let (last, first) = packets.split_last().unwrap();
    let mut answers = vec![0; first.len()];
    for (packet, answer) in first.iter().zip(answers.chunks_mut(1)) {
        socket.write_all(packet).unwrap();
        socket.read_exact(answer).unwrap();
    }
    socket.write_all(last).unwrap();
    let deadline = Instant::now() + LIMIT;
    let mut chunk = [0; 4096];
    loop {
        match socket.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answers.extend(&chunk[..count]),
            // Packets that were not read may be lost with the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(_) => assert!(Instant::now() < deadline, "{packets:?} {answers:?}"),
        }
    }
    // The source of an error differs, and the length of its message with it.
    let text = String::from_utf8_lossy(&answers).into_owned();
    let fields = text.split('\0').filter(|field| {
        let source = field.starts_with('F') && field.ends_with(".c");
        let line = field.strip_prefix('L');
        let line = line.is_some_and(|number| number.parse::<u32>().is_ok());
        !source && !line && *field != "RProcessStartupPacket"
    });
    let fields = fields.map(|field| match field.ends_with("SFATAL") {
        true => "SFATAL",
        false => field,
    });
    fields
        .collect::<Vec<_>>()
        .join("\n")
        .replace("to 3.2", "to 3.0")
}

/// Length words, versions and layouts that no client sends, and packets that must not be repeated.
#[test]
fn malformed_first_packets_are_answered_as_by_postgresql() {
    const TLS: u32 = 80_877_103;
    const GSS: u32 = 80_877_104;
    let stage = stage();
    let me = &b"user\0postgres\0"[..];
    let version_3 = |body: &[u8]| vec![packet(PROTOCOL, body)];
    let mut cases: Vec<Vec<Vec<u8>>> = Vec::new();
    for length in [
        0_u32,
        3,
        4,
        7,
        10_005,
        80_000_000,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX,
    ] {
        cases.push(vec![length.to_be_bytes().to_vec()]);
        cases.push(vec![request(TLS), length.to_be_bytes().to_vec()]);
    }
    cases.extend([
        vec![terminate()],
        vec![query("SELECT 1")],
        vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()],
        vec![request(TLS), b"\x16\x03\x01\x02\x00".to_vec()],
    ]);
    for version in [
        0,
        1,
        1 << 16,
        2 << 16,
        (2 << 16) + 9,
        4 << 16,
        u32::MAX,
        80_877_105,
    ] {
        cases.push(vec![request(version)]);
        cases.push(vec![packet(version, &[me, b"\0"].concat())]);
        cases.push(vec![request(TLS), request(version)]);
    }
    // From PostgreSQL 18 on a server offers 3.2 in answer to a newer version.
    let newest_is_3_0 = stage.direct().number("SHOW server_version_num") < 180_000;
    for body in [
        &b""[..],
        b"\0",
        b"x",
        b"\0\0",
        b"user\0",
        b"user\0\0",
        b"user\0\0\0",
        b"user\0postgres",
        me,
        b"user\0postgres\0\0\0",
        b"user\0postgres\0\0user\0postgres\0\0",
        b"user\0postgres\0database\0",
        b"user\0postgres\0database\0\0",
        b"database\0postgres\0\0",
        b"user\0postgres\0replication\0maybe\0\0",
        b"user\0postgres\0replication\0o\0\0",
        b"user\0postgres\0replication\0\0\0",
        b"replication\0maybe\0\0",
    ] {
        cases.push(version_3(body));
        if newest_is_3_0 {
            cases.push(vec![packet(PROTOCOL + 77, body)]);
        }
    }
    cases.push(version_3(
        &[me, b"application_name\0", &[b'x'; 9_968]].concat(),
    ));
    cases.extend([
        vec![request(TLS), request(TLS)],
        vec![[request(TLS), request(TLS)].concat()],
        vec![[request(TLS), login(&stage)].concat()],
        vec![[request(TLS), vec![0]].concat()],
        vec![packet(80_877_102, &[0; 4])],
        vec![packet(80_877_102, &[0; 12])],
        vec![request(TLS), packet(80_877_102, &[0; 8])],
    ]);
    let gss_is_known = {
        let mut client = RawClient::open(stage.cluster.port());
        client.send(&gss_request());
        client.receive_byte() == b'G'
    };
    if !gss_is_known {
        cases.extend([
            vec![request(GSS), request(GSS)],
            vec![[request(GSS), vec![0]].concat()],
            vec![request(GSS), request(TLS), request(GSS)],
        ]);
    }
    for packets in &cases {
        let (bare, here) = (
            said(stage.cluster.port(), packets),
            said(stage.port(), packets),
        );
        assert_eq!(bare, here, "{packets:?}");
    }
}

/// Longest and shortest, and how a boolean may be put.
#[test]
fn unusual_first_packets_are_taken_as_by_postgresql() {
    let stage = stage();
    let database = format!("database\0{}\0", stage.database);
    let begin = [b"user\0postgres\0", database.as_bytes()].concat();
    let rest = 10_000 - 4 - begin.len() - "application_name\0\0\0".len();
    let name = "x".repeat(rest);
    for more in [
        format!("application_name\0{name}\0"),
        "replication\0F\0".to_owned(),
        "replication\0of\0".to_owned(),
        "replication\0No\0".to_owned(),
        "user\0nobody\0user\0postgres\0".to_owned(),
    ] {
        let body = [&begin, more.as_bytes(), b"\0"].concat();
        for port in [stage.cluster.port(), stage.port()] {
            let mut client = RawClient::open(port);
            client.send(&packet(PROTOCOL, &body));
            client.reply().expect_ok(&more);
            client.send(&query("SELECT 1"));
            assert_eq!(client.reply().value(), "1");
        }
    }
}

/// Lengths that no message of their type has, in and out of a transaction.
#[test]
fn senseless_lengths_of_later_messages_end_the_connection_as_in_postgresql() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let message = |tag: u8, length: u32| [&[tag][..], &length.to_be_bytes()].concat();
    for (tag, length) in [
        (b'Q', 0),
        (b'Q', 3),
        (b'P', u32::MAX),
        (b'B', 0x3fff_ffff),
        (b'd', 0x4000_0000),
        (b'S', 10_001),
        (b'H', 3),
        (b'E', 20_000),
        (b'D', 20_000),
        (b'C', 20_000),
        (b'c', 20_000),
        (b'f', 20_000),
        (b'X', 20_000),
        (b'G', 0),
        (b'p', 8),
    ] {
        let known = b"QPBSHEDCcfXd".contains(&tag);
        let unfinished = known.then(|| parse("", "SELECT 1", &[]));
        for before in [query("SELECT 1"), query("BEGIN")]
            .into_iter()
            .chain(unfinished)
        {
            let seen = |port: u16| {
                let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
                let mut client = RawClient::connect(port, &parameters);
                client.send(&[before.clone(), message(tag, length)].concat());
                transcript(&client.receive_to_end())
            };
            let (bare, here) = (seen(stage.cluster.port()), seen(stage.port()));
            assert_eq!(bare, here, "{} {length}", char::from(tag));
        }
    }
    neighbour.check();
}

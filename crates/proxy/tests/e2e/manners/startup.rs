//! The first bytes: protocol versions, encryption requests, missing parameters.

use super::stage;
use crate::harness::message::{gss_request, query, ssl_request, startup};
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::reply::transcript;
use crate::harness::stage::Target;

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
        // PostgreSQL 18 takes 3.2, and need not negotiate it; Paceline speaks 3.0.
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
        assert_eq!(told.last().unwrap().fields().sqlstate(), "08P01");
    }
}

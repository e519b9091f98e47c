//! Clients that say what is not due, too much, or nothing more. Each has its end, and its place is free for others.

use super::*;
use crate::harness::message::query;

/// Bytes of the longest password that PostgreSQL takes: its message with length and zero byte has 65,535.
const LONGEST: usize = 65_530;

/// One place for clients: whoever keeps it shuts all others out.
fn narrow(cluster: &Cluster, auth_type: &str) -> Paceline {
    start(cluster)
        .set(&format!("auth_type={auth_type}"))
        .set(&format!(
            "auth_file={}",
            userlist(&[("app", "of the app")]).display()
        ))
        .set("max_client_conn=1")
        .spawn()
}

/// Returns when a client has been let in, as it must be when those before have gone.
fn assert_has_room(paceline: &Paceline) {
    crate::harness::until("there is room again", || {
        let done = psql("127.0.0.1", paceline.port(), "app", "of the app").output();
        done.unwrap().status.success()
    });
}

#[test]
fn what_is_no_proof_ends_the_login() {
    let Some(cluster) = cluster() else { return };
    let initial = |mechanism: &str, data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        proof(&[mechanism.as_bytes(), b"\0", &length, data].concat())
    };
    let scram = "SCRAM-SHA-256";
    let huge = vec![b'x'; 70_000];
    for (auth_type, sent, sqlstate, message) in [
        (
            "plain",
            query("SELECT 1"),
            "08P01",
            "expected password response, got message type 81",
        ),
        (
            "plain",
            proof(b"\0"),
            "28P01",
            "empty password returned by client",
        ),
        (
            "plain",
            proof(b"not ended"),
            "08P01",
            "invalid string in message",
        ),
        (
            "plain",
            proof(b"ended\0twice\0"),
            "08P01",
            "invalid message length",
        ),
        ("plain", proof(&huge), "08P01", "password too long"),
        (
            "plain",
            proof(&huge[..60_000]),
            "08P01",
            "invalid string in message",
        ),
        (
            "plain",
            proof(&[&huge[..60_000], b"\0"].concat()),
            "28P01",
            "password authentication failed for user \"app\"",
        ),
        (
            "plain",
            vec![b'p', 0, 0, 0, 3],
            "08P01",
            "invalid message length",
        ),
        // The longest that PostgreSQL takes, and one byte more.
        (
            "plain",
            proof(&[&huge[..LONGEST], b"\0"].concat()),
            "28P01",
            "password authentication failed for user \"app\"",
        ),
        (
            "plain",
            proof(&[&huge[..=LONGEST], b"\0"].concat()),
            "08P01",
            "password too long",
        ),
        ("md5", proof(&huge), "08P01", "password too long"),
        (
            "md5",
            proof(b"md5\0"),
            "28P01",
            "password authentication failed for user \"app\"",
        ),
        (
            "scram-sha-256",
            proof(b""),
            "08P01",
            "invalid string in message",
        ),
        ("scram-sha-256", proof(&huge), "08P01", "password too long"),
        (
            "scram-sha-256",
            initial("PLAIN", b"n,,n=,r=a"),
            "08P01",
            "malformed SCRAM message (client selected an invalid SASL authentication mechanism)",
        ),
        (
            "scram-sha-256",
            initial("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=a"),
            "08P01",
            "malformed SCRAM message (channel binding is not possible)",
        ),
        (
            "scram-sha-256",
            initial(scram, b""),
            "08P01",
            "malformed SCRAM message (a comma is missing)",
        ),
        (
            "scram-sha-256",
            initial(scram, b"n,,n=,r=\x07"),
            "08P01",
            "malformed SCRAM message (non-printable characters in nonce)",
        ),
    ] {
        let paceline = narrow(&cluster, auth_type);
        let (mut client, _) = knock(paceline.port(), "app");
        client.send(&sent);
        let told = client.receive_to_end();
        let fields = told.last().unwrap().fields();
        assert_eq!((fields.sqlstate(), fields.text()), (sqlstate, message));
        assert_has_room(&paceline);
    }
}

#[test]
fn a_proof_that_is_due_later_ends_the_login() {
    let Some(cluster) = cluster() else { return };
    let paceline = narrow(&cluster, "scram-sha-256");
    for last in [&b""[..], b"c=biws,r=abc,p=AAAA", b"c=biws", b"\xff"] {
        let mut client = None;
        crate::harness::until("there is room", || {
            let (knocked, first) = knock(paceline.port(), "app");
            client = Some(knocked);
            first.tag == b'R'
        });
        let mut client = client.unwrap();
        let first = b"n,,n=,r=abc";
        client.send(&proof(&[b"SCRAM-SHA-256\0\0\0\0\x0b", &first[..]].concat()));
        assert_eq!(client.receive().tag, b'R');
        client.send(&proof(last));
        let told = client.receive_to_end();
        assert_eq!(told.last().unwrap().fields().sqlstate(), "08P01");
    }
    assert_has_room(&paceline);
}

#[test]
fn who_hangs_up_leaves_its_place() {
    let Some(cluster) = cluster() else { return };
    for auth_type in ["plain", "md5", "scram-sha-256"] {
        let paceline = narrow(&cluster, auth_type);
        let (client, first) = knock(paceline.port(), "app");
        assert_eq!(first.tag, b'R');
        client.hang_up();
        assert_has_room(&paceline);
    }
}

#[test]
fn who_says_nothing_more_is_told_when_its_time_is_up() {
    let Some(cluster) = cluster() else { return };
    for auth_type in ["md5", "scram-sha-256"] {
        let paceline = start(&cluster)
            .set(&format!("auth_type={auth_type}"))
            .set(&format!(
                "auth_file={}",
                userlist(&[("app", "of the app")]).display()
            ))
            .set("client_login_timeout=1")
            .spawn();
        let (mut client, first) = knock(paceline.port(), "app");
        assert_eq!(first.tag, b'R');
        let told = client.receive_to_end();
        let fields = told.last().unwrap().fields();
        assert_eq!(
            (fields.sqlstate(), fields.text()),
            ("08P01", "client_login_timeout")
        );
        // Cut short before anybody knows who it is.
        let mut client = RawClient::open(paceline.port());
        client.send(&startup(PROTOCOL, &[("user", "app")])[..15]);
        let told = client.receive_to_end();
        assert_eq!(told.last().unwrap().fields().text(), "client_login_timeout");
    }
}

#[test]
fn oversized_start_ups_are_refused_at_their_length() {
    let Some(cluster) = cluster() else { return };
    let paceline = narrow(&cluster, "scram-sha-256");
    let long = "x".repeat(9_950);
    let fits = startup(PROTOCOL, &[("user", "app"), ("application_name", &long)]);
    assert!(fits.len() <= 10_000);
    let mut client = RawClient::open(paceline.port());
    client.send(&fits);
    assert_eq!(client.receive().tag, b'R');
    client.hang_up();
    for length in [10_005_u32, 0x7fff_ffff, u32::MAX] {
        let mut client = RawClient::open(paceline.port());
        client.send(&length.to_be_bytes());
        // PostgreSQL says nothing to it, either.
        assert!(client.receive_to_end().is_empty());
    }
    assert_has_room(&paceline);
}

/// However long it would wait for those who work: who has not come in does not.
#[test]
fn who_is_at_the_door_does_not_hold_up_the_end() {
    let Some(cluster) = cluster() else { return };
    let paceline = start(&cluster)
        .set("auth_type=scram-sha-256")
        .set(&format!(
            "auth_file={}",
            userlist(&[("app", "of the app")]).display()
        ))
        .set("shutdown_timeout=1h")
        .spawn();
    let (mut client, first) = knock(paceline.port(), "app");
    assert_eq!(first.tag, b'R');
    paceline.signal("INT");
    let told = client.receive_to_end();
    assert_eq!(told.last().unwrap().fields().sqlstate(), "57P01");
}

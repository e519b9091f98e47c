//! Servers of every kind behind Paceline.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::harness::message;
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::raw::RawClient;
use crate::harness::{cluster as plain, http};

use super::papers::papers;
use super::{IS_ENCRYPTED, LOGIN, before, cluster};

/// Whether the server connection is encrypted, or the message that the client gets.
fn encrypted(builder: Builder) -> Result<bool, String> {
    let paceline = builder.spawn();
    match RawClient::try_connect(paceline.port(), &LOGIN) {
        Ok(mut client) => Ok(client.value(IS_ENCRYPTED) == "t"),
        Err(fields) => Err(fields.text().to_owned()),
    }
}

fn with_root(mode: &str, root: &str) -> String {
    format!("sslmode={mode}&sslrootcert={root}")
}

#[test]
fn a_mode_says_whether_the_server_connection_is_encrypted() {
    let (known, other) = (papers().authority(), papers().other_authority());
    for (query, expected) in [
        ("".to_owned(), true),
        ("sslmode=disable".to_owned(), false),
        ("sslmode=allow".to_owned(), false),
        ("sslmode=prefer".to_owned(), true),
        ("sslmode=require".to_owned(), true),
        (with_root("verify-ca", &known), true),
        (with_root("verify-full", &known), true),
        // As with libpq, prefer connects without TLS when that fails.
        (with_root("prefer", &other), false),
    ] {
        assert_eq!(encrypted(before("", &query)), Ok(expected), "{query}");
    }
    let refused = encrypted(before("", &with_root("verify-ca", &other))).unwrap_err();
    assert!(
        refused.contains("invalid peer certificate: UnknownIssuer"),
        "{refused}"
    );
}

#[test]
fn all_servers_have_what_their_urls_leave_open() {
    let all = |query| before("", query).set("server_tls_sslmode=verify-full");
    let known = format!("server_tls_ca_file={}", papers().authority());
    let other = format!("server_tls_ca_file={}", papers().other_authority());
    assert_eq!(encrypted(all("").set(&known)), Ok(true));
    assert!(encrypted(all("").set(&other)).is_err());
    assert_eq!(encrypted(all("sslmode=disable").set(&other)), Ok(false));
    let own = format!("sslrootcert={}", papers().authority());
    assert_eq!(encrypted(all(&own).set(&other)), Ok(true));
}

/// After a reload to another TLS mode, connections of the earlier mode are replaced when they become idle.
#[test]
fn connections_from_before_another_mode_are_replaced() {
    let file = |mode| {
        let port = cluster().port();
        format!(
            "[paceline]\nserver_tls_sslmode = \"{mode}\"\n[databases.\"*\"]\nprimary = \"postgres://127.0.0.1:{port}\"\n"
        )
    };
    let paceline = Paceline::configured(&file("disable")).spawn();
    let mut client = RawClient::connect(paceline.port(), &LOGIN);
    let mut busy = RawClient::connect(paceline.port(), &LOGIN);
    busy.ok("BEGIN");
    let shown = [client.value(IS_ENCRYPTED), busy.value(IS_ENCRYPTED)];
    assert_eq!(shown, ["f", "f"]);
    paceline.reload(&file("require"), "changed=[\"server_tls_sslmode\"]");
    assert_eq!(client.value(IS_ENCRYPTED), "t");
    assert_eq!(busy.value(IS_ENCRYPTED), "f");
    busy.ok("COMMIT");
    assert_eq!(busy.value(IS_ENCRYPTED), "t");
}

#[test]
fn a_server_without_tls_is_used_where_that_is_allowed() {
    let start = |mode| {
        let port = plain::shared().port();
        Paceline::start(&format!("postgres://127.0.0.1:{port}/?sslmode={mode}"))
    };
    for mode in ["disable", "allow", "prefer"] {
        assert_eq!(encrypted(start(mode)), Ok(false), "{mode}");
    }
    let refused = encrypted(start("require")).unwrap_err();
    assert_eq!(
        refused,
        "cannot connect to the server: server does not support SSL, but SSL was required"
    );
}

/// Lines of `pg_hba.conf` that want TLS, or do not want it.
#[test]
fn a_server_that_insists_is_asked_the_other_way() {
    for (login, mode, expected) in [
        ("only_tls@", "allow", Some(true)),
        ("only_tls@", "prefer", Some(true)),
        ("only_tls@", "disable", None),
        ("only_plain@", "prefer", Some(false)),
        ("only_plain@", "allow", Some(false)),
        ("only_plain@", "require", None),
    ] {
        let came = encrypted(before(login, &format!("sslmode={mode}")));
        assert_eq!(
            came.as_ref().ok().copied(),
            expected,
            "{login} {mode}: {came:?}"
        );
        if let Err(refused) = came {
            assert!(
                refused.contains("pg_hba.conf rejects connection"),
                "{refused}"
            );
        }
    }
}

/// PostgreSQL refuses a login that is bound to something else than its own certificate.
#[test]
fn a_password_is_bound_to_the_connection() {
    for mode in ["require", "disable"] {
        let came = encrypted(before("bound:secret@", &format!("sslmode={mode}")));
        assert_eq!(came, Ok(mode == "require"));
    }
}

#[test]
fn paceline_shows_a_certificate_to_servers() {
    let own = |name| {
        let (cert, key) = (papers().cert(name), papers().key(name));
        before(
            "certified@",
            &format!("sslmode=require&sslcert={cert}&sslkey={key}"),
        )
    };
    assert_eq!(encrypted(own("certified")), Ok(true));
    assert!(encrypted(own("postgres")).is_err());
    let all = before("certified@", "sslmode=require")
        .set(&format!(
            "server_tls_cert_file={}",
            papers().cert("certified")
        ))
        .set(&format!(
            "server_tls_key_file={}",
            papers().key("certified")
        ));
    assert_eq!(encrypted(all), Ok(true));
}

/// CVE-2021-23222: a man in the middle adds bytes to the server's answer.
#[test]
fn bytes_before_the_handshake_are_not_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = message::ssl_request();
            stream.read_exact(&mut request).unwrap();
            stream.write_all(b"Sforged").unwrap();
        }
    });
    let upstream = format!("postgres://127.0.0.1:{port}/?sslmode=require");
    let refused = encrypted(Paceline::start(&upstream)).unwrap_err();
    assert!(
        refused.ends_with("received unencrypted data after SSL response"),
        "{refused}"
    );
}

/// If a server cannot answer whether it has TLS (PostgreSQL without memory for another process), Paceline tries once more without.
#[test]
fn an_error_instead_of_an_answer_means_without() {
    let (cluster, listener) = (cluster(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let failing = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = message::ssl_request();
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"Ecould not fork new process\0").unwrap();
        drop(stream);
        // The second attempt succeeds: bytes arrive in both directions.
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(("127.0.0.1", cluster.port())).unwrap();
        let (mut to, mut from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Both)
        });
        let (mut from, mut to) = (server, client);
        let _ = std::io::copy(&mut from, &mut to);
    });
    let upstream = format!("postgres://127.0.0.1:{port}/?sslmode=prefer");
    assert_eq!(encrypted(Paceline::start(&upstream)), Ok(false));
    failing.join().unwrap();
}

#[test]
fn readiness_is_asked_over_tls() {
    let builder = before("only_tls@", "sslmode=require");
    let paceline = builder.set("metrics_listen=127.0.0.1:0").spawn();
    RawClient::connect(paceline.port(), &LOGIN);
    let answer = http::get(&paceline.metrics(), "/ready");
    assert_eq!(answer.status, 200, "{}", answer.body);
}

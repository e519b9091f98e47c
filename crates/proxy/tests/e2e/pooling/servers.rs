//! Connections to servers: how old they become, and what happens when none can be had.

use super::{assert_told, await_waiting, client_as, role, stage};
use crate::harness::cluster;
use crate::harness::message::query;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::reply::Fields;
use crate::harness::{Stage, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

const PID: &str = "SELECT pg_backend_pid()";

#[test]
fn connections_are_replaced_when_they_are_old() {
    let Some(stage) = stage(&["server_lifetime=100ms"], "") else {
        return;
    };
    let mut client = stage.client();
    let pid = client.value(PID);
    until("another one serves", || client.value(PID) != pid);
    client.ok("BEGIN");
    let pid = client.value(PID);
    for _ in 0..3 {
        // Others come and go meanwhile; a transaction stays where it is.
        let mut other = stage.client();
        let first = other.value(PID);
        until("another one serves", || other.value(PID) != first);
    }
    assert_eq!(client.value(PID), pid);
    client.ok("COMMIT");
}

#[test]
fn without_a_lifetime_a_connection_is_used_once() {
    let Some(stage) = stage(&[], "server_lifetime = 0") else {
        return;
    };
    let mut client = stage.client();
    let pids = [client.value(PID), client.value(PID), client.value(PID)];
    assert!(pids[0] != pids[1] && pids[1] != pids[2], "{pids:?}");
}

#[track_caller]
fn refusal(stage: &Stage, user: &str) -> Fields {
    let login = RawClient::try_connect(
        stage.port(),
        &[("user", user), ("database", &stage.database)],
    );
    login.err().unwrap()
}

#[test]
fn a_login_that_fails_is_not_tried_again_at_once() {
    let Some(stage) = stage(&["server_login_retry=1h"], "") else {
        return;
    };
    let first = refusal(&stage, "nobody_at_all");
    assert_eq!(
        (first.sqlstate(), first.text()),
        ("28000", "role \"nobody_at_all\" does not exist")
    );
    let cached = "server login has been failing, cached error: role \"nobody_at_all\" does not exist (server_login_retry)";
    for _ in 0..2 {
        assert_told(&refusal(&stage, "nobody_at_all"), cached);
    }
    stage.client().ok("SELECT 1");
}

#[test]
fn a_login_is_tried_again_after_its_time() {
    let Some(stage) = stage(&["server_login_retry=100ms"], "") else {
        return;
    };
    assert_eq!(refusal(&stage, "comes_later").sqlstate(), "28000");
    role("comes_later", "");
    until("it is let in", || {
        RawClient::try_connect(
            stage.port(),
            &[("user", "comes_later"), ("database", &stage.database)],
        )
        .is_ok()
    });
}

#[test]
fn without_a_pause_every_client_makes_an_attempt() {
    let Some(stage) = stage(&["server_login_retry=0"], "") else {
        return;
    };
    for _ in 0..3 {
        assert_eq!(refusal(&stage, "never_there").sqlstate(), "28000");
    }
}

/// PostgreSQL has no place for a further connection (53300): those that are there serve everybody.
#[test]
fn a_server_that_is_full_is_no_error_while_there_is_a_connection() {
    role("has_one_place", "CONNECTION LIMIT 1");
    let Some(stage) = stage(&["default_pool_size=3"], "") else {
        return;
    };
    let mut holder = client_as(&stage, "has_one_place");
    holder.ok("BEGIN");
    let mut clients: Vec<RawClient> = (0..4).map(|_| client_as(&stage, "has_one_place")).collect();
    for (before, client) in clients.iter_mut().enumerate() {
        client.send(&query("SELECT 'served'"));
        await_waiting(&stage, before as i64 + 1);
    }
    holder.ok("COMMIT");
    for client in &mut clients {
        assert_eq!(
            client.reply().expect_ok("served by the one").value(),
            "served"
        );
    }
}

#[test]
fn a_server_that_is_full_is_told_and_tried_again() {
    role("has_no_place", "CONNECTION LIMIT 1");
    let Some(stage) = stage(&[], "") else {
        return;
    };
    let database = stage.database.as_str();
    let parameters = [("user", "has_no_place"), ("database", database)];
    let outsider = RawClient::connect(stage.cluster.port(), &parameters);
    let told = refusal(&stage, "has_no_place");
    assert_eq!(
        (told.sqlstate(), told.text()),
        ("53300", "too many connections for role \"has_no_place\"")
    );
    outsider.hang_up();
    until("there is a place", || {
        RawClient::try_connect(stage.port(), &parameters).is_ok()
    });
}

/// A server that starts up, refuses while it recovers, and is there again: clients are told, and served in good time.
#[test]
fn a_server_that_comes_back_is_found_again() {
    if stage(&[], "").is_none() {
        return;
    }
    let cluster = cluster::Cluster::private();
    let stage = Stage::on(cluster.clone()).set("default_pool_size=2").open();
    let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
    let connect = || RawClient::try_connect(stage.port(), &parameters);
    for _ in 0..2 {
        connect().unwrap().ok("SELECT 1");
        cluster.kill();
        until("its absence is told", || {
            let mut client = connect().unwrap_or_else(|_| panic!("its welcome is known"));
            client.send(&query("SELECT 1"));
            let told = client.receive_until(b"EZ");
            told.last().is_some_and(|last| {
                last.tag == b'E'
                    && last
                        .fields()
                        .text()
                        .contains("server login has been failing")
            })
        });
        cluster.restart();
        until("it serves again", || {
            let mut client = connect().unwrap_or_else(|_| panic!("its welcome is known"));
            client.send(&query("SELECT 1"));
            client
                .receive_until(b"EZ")
                .last()
                .is_some_and(|last| last.tag == b'Z')
        });
    }
}

/// A server that takes connections and answers each with these bytes, or not at all.
fn stand_in(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            match answer {
                [] => silent.push(stream),
                answer => {
                    // The whole start-up is read, so that the answer is not lost with a reset.
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(answer);
                }
            }
        }
    });
    port
}

#[track_caller]
fn refusal_of(paceline: &Paceline) -> Fields {
    let parameters = [("user", "someone"), ("database", "somewhere")];
    let login = RawClient::try_connect(paceline.port(), &parameters);
    login.err().unwrap()
}

/// PostgreSQL says so while it starts up, shuts down, or recovers without taking reads.
#[test]
fn a_server_in_recovery_is_told_as_it_tells() {
    const STARTS_UP: &[u8] =
        b"E\0\0\0\x3eSFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
    let port = stand_in(STARTS_UP);
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}"))
        .set("server_login_retry=0")
        .spawn();
    for _ in 0..2 {
        let told = refusal_of(&paceline);
        assert_eq!(
            (told.sqlstate(), told.text()),
            ("57P03", "the database system is starting up")
        );
    }
}

/// One that begins SCRAM and then is ready would have our proof, and we none of its own.
#[test]
fn a_server_that_has_let_nobody_in_is_not_believed() {
    let port = stand_in(b"Z\0\0\0\x05I");
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}/?sslmode=disable"))
        .set("server_login_retry=0")
        .spawn();
    let told = refusal_of(&paceline);
    assert!(told.text().contains("before it has let us in"), "{told:?}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let port = stand_in(b"");
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}"))
        .set("server_connect_timeout=50ms")
        .set("server_login_retry=1h")
        .spawn();
    let told = refusal_of(&paceline);
    assert_eq!(told.sqlstate(), "08006");
    assert!(told.text().contains("server_connect_timeout"), "{told:?}");
    // Others wait for the same attempt, or make the next one.
    let cached = |told: &Fields| told.text().contains("server login has been failing");
    until("it is known for a while", || cached(&refusal_of(&paceline)));
}

//! Connections to servers: their age, and the wait if none can be opened.

use super::{assert_message, await_waiting, client_as, role, stage};
use crate::harness::cluster;
use crate::harness::message::{query, startup};
use crate::harness::paceline::Paceline;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::reply::Fields;
use crate::harness::{Stage, until};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
        // Other clients connect and disconnect meanwhile; a transaction stays on its server connection.
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
        assert_message(&refusal(&stage, "nobody_at_all"), cached);
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

/// PostgreSQL accepts no further connection (53300): the existing ones serve all clients.
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

/// A login and a client that has been there before wait, as they would for a place in the pool.
#[test]
fn a_server_that_is_full_is_waited_for() {
    role("has_no_place", "CONNECTION LIMIT 1");
    let Some(stage) = stage(&["server_login_retry=50ms"], "") else {
        return;
    };
    let database = stage.database.as_str();
    let parameters = [("user", "has_no_place"), ("database", database)];
    let outsider = RawClient::connect(stage.cluster.port(), &parameters);
    let mut login = RawClient::open(stage.port());
    login.send(&startup(PROTOCOL, &parameters));
    await_waiting(&stage, 1);
    outsider.hang_up();
    login.reply();
    assert_eq!(login.value("SELECT 'served'"), "served");
}

/// As with PgBouncer, a restart of the server only delays clients, also those that connect meanwhile.
#[test]
fn clients_wait_for_a_server_that_restarts() {
    if stage(&[], "").is_none() {
        return;
    }
    let cluster = cluster::Cluster::private();
    let stage = Stage::on(cluster.clone())
        .set("default_pool_size=2")
        .set("server_login_retry=100ms")
        .open();
    let mut old = stage.clients(3);
    for client in &mut old {
        client.ok("SELECT 1");
    }
    for _ in 0..2 {
        cluster.kill();
        let mut all = stage.clients(3);
        all.append(&mut old);
        for (before, client) in all.iter_mut().enumerate() {
            client.send(&query("SELECT 'served'"));
            // The client of a lost session gets an error; the others wait.
            await_waiting(&stage, before as i64 + 1);
        }
        cluster.restart();
        for client in &mut all {
            assert_eq!(client.reply().expect_ok("served").value(), "served");
        }
        old = all.split_off(3);
    }
}

/// Clients that connect, lose patience and connect again while the server is away for long: those that wait see no error, and when
/// the server is back it gets no more connections than the pool has.
#[test]
fn clients_that_connect_again_and_again_during_an_outage_see_no_error() {
    const POOL: usize = 5;
    if stage(&[], "").is_none() {
        return;
    }
    let cluster = cluster::Cluster::private();
    let mut stage = Stage::on(cluster.clone())
        .set(&format!("default_pool_size={POOL}"))
        .set("max_client_conn=500")
        .open();
    stage.client().ok("SELECT 1");
    cluster.kill();
    let failures = |stage: &mut Stage| stage.paceline().unwrap().heard("no server connection");
    for wave in 1..=3 {
        let impatient: Vec<RawClient> = (0..50)
            .map(|_| {
                let mut client = stage.client();
                client.send(&query(PID));
                client
            })
            .collect();
        await_waiting(&stage, 50);
        until("another attempt fails", || failures(&mut stage) >= wave);
        impatient.into_iter().for_each(RawClient::hang_up);
        await_waiting(&stage, 0);
    }
    let mut patient = stage.clients(200);
    for client in &mut patient {
        client.send(&query(PID));
    }
    await_waiting(&stage, 200);
    let failed = failures(&mut stage);
    until("another attempt fails", || failures(&mut stage) > failed);
    cluster.restart();
    let pids: HashSet<String> = patient
        .iter_mut()
        .map(|client| client.reply().expect_ok(PID).value().to_owned())
        .collect();
    assert!((1..=POOL).contains(&pids.len()), "{pids:?}");
    let opened = stage
        .cluster
        .client("postgres")
        .number("SELECT sum(sessions)::bigint FROM pg_stat_database WHERE datname <> 'postgres'");
    assert!(opened <= POOL as i64, "{opened} connections");
    // Each pause is twice the one before.
    let failed = failures(&mut stage);
    assert!(failed < 20, "{failed} attempts");
}

/// However many wait, one attempt is made at a time, and fewer the longer it lasts.
#[test]
fn a_server_that_is_away_is_not_stampeded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    let url = format!("postgres://127.0.0.1:{port}/?sslmode=disable");
    let paceline = Paceline::start(&url)
        .set("client_login_timeout=1s")
        .set("max_client_conn=200")
        .spawn();
    let parameters = [("user", "someone"), ("database", "somewhere")];
    let logins: Vec<RawClient> = (0..100)
        .map(|_| {
            let mut login = RawClient::open(paceline.port());
            login.send(&startup(PROTOCOL, &parameters));
            login
        })
        .collect();
    for mut login in logins {
        let told = login.receive_to_end();
        let fields = told.last().unwrap().fields();
        assert_eq!(fields.text(), "client_login_timeout (server down)");
    }
    // 100 ms after the first, 200 ms after the second, and so on.
    let made = attempts.load(Ordering::SeqCst);
    assert!((2..10).contains(&made), "{made} attempts");
}

/// Else clients with time limits of their own fill `max_client_conn` in an outage.
#[test]
fn a_client_that_leaves_while_its_login_waits_is_forgotten() {
    let port = stand_in(b"");
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}/?sslmode=disable"))
        .set("max_client_conn=5")
        .set("admin_users=boss")
        .spawn();
    let operator = [("user", "boss"), ("database", "pgbouncer")];
    let mut operator = RawClient::connect(paceline.port(), &operator);
    let mut logins = || operator.ok("SHOW CLIENTS").rows().len();
    let parameters = [("user", "someone"), ("database", "somewhere")];
    for _ in 0..2 {
        let waiting: Vec<RawClient> = (0..5)
            .map(|_| {
                let mut login = RawClient::open(paceline.port());
                login.send(&startup(PROTOCOL, &parameters));
                login
            })
            .collect();
        until("all of them wait", || logins() == 5);
        waiting.into_iter().for_each(RawClient::hang_up);
        until("they are forgotten", || logins() == 0);
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

/// PostgreSQL returns this error while it starts up, shuts down, or recovers without taking reads.
#[test]
fn a_server_in_recovery_is_waited_for() {
    const STARTS_UP: &[u8] =
        b"E\0\0\0\x3eSFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
    let port = stand_in(STARTS_UP);
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}"))
        .set("server_login_retry=0")
        .set("query_wait_timeout=200ms")
        .spawn();
    let told = refusal_of(&paceline);
    assert_eq!(told.text(), "query_wait_timeout");
    let why = "the database system is starting up";
    assert!(told.get('D').contains(why), "{told:?}");
}

/// A server that begins SCRAM and then is ready would have Paceline's proof, without having proved itself.
#[test]
fn a_server_that_is_ready_before_the_login_is_rejected() {
    let port = stand_in(b"Z\0\0\0\x05I");
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}/?sslmode=disable"))
        .set("server_login_retry=0")
        .spawn();
    let told = refusal_of(&paceline);
    assert!(
        told.text().contains("before the login is complete"),
        "{told:?}"
    );
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let port = stand_in(b"");
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{port}"))
        .set("server_connect_timeout=50ms")
        .set("server_login_retry=1h")
        .set("query_wait_timeout=300ms")
        .spawn();
    let told = refusal_of(&paceline);
    assert_eq!(told.text(), "query_wait_timeout");
    assert!(told.get('D').contains("server_connect_timeout"), "{told:?}");
}

//! `connect_query`, `server_check_query` and `login_notify_message`; hosts and versions of TLS that PgBouncer accepts.

use super::{Site, console};
use crate::harness::message::startup;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::until;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const PID: &str = "SELECT pg_backend_pid()";

/// The settings of the query are in force on every connection, whatever clients set and reset.
#[test]
fn connect_query_runs_on_each_new_server_connection() {
    let query = "connect_query='SET work_mem TO ''7MB''; SET ROLE pg_monitor'";
    let Some(site) = Site::new("pool_mode = transaction\ndefault_pool_size = 2", query) else {
        return;
    };
    let paceline = site.served();
    let (mut one, mut other) = (site.client(paceline.port()), site.client(paceline.port()));
    one.ok("BEGIN");
    let pids = [one.value(PID), other.value(PID)];
    assert_ne!(pids[0], pids[1]);
    for client in [&mut one, &mut other] {
        assert_eq!(client.value("SHOW work_mem"), "7MB");
        assert_eq!(client.value("SELECT current_user"), "pg_monitor");
    }
    one.ok("COMMIT");
    one.ok("SET work_mem = '9MB'");
    assert_eq!(one.value("SHOW work_mem"), "9MB");
    assert_eq!(other.value("SHOW work_mem"), "7MB");
    one.ok("RESET ALL");
    assert_eq!(one.value("SHOW work_mem"), "7MB");
}

#[test]
fn what_connect_query_sets_outlives_a_session() {
    let Some(site) = Site::new(
        "pool_mode = session\ndefault_pool_size = 1",
        "connect_query='SET work_mem TO ''7MB'''",
    ) else {
        return;
    };
    let paceline = site.served();
    let mut pids = Vec::new();
    for _ in 0..2 {
        let mut client = site.client(paceline.port());
        assert_eq!(client.value("SHOW work_mem"), "7MB");
        client.ok("SET work_mem = '9MB'");
        pids.push(client.value(PID));
        client.hang_up();
    }
    assert_eq!(pids[0], pids[1], "DISCARD ALL was run between the two");
}

/// As PgBouncer documents it: errors are logged, and the connection serves all the same.
#[test]
fn an_error_of_connect_query_is_logged() {
    let Some(site) = Site::new("", "connect_query='SELECT 1/0'") else {
        return;
    };
    let paceline = site.served();
    site.client(paceline.port()).ok("SELECT 1");
    assert!(paceline.logged("connect_query"));
    assert!(paceline.logged("division by zero"));
}

/// The work of clients in that transaction would be undone although they got an answer that it was done.
#[test]
fn a_transaction_that_the_operators_query_begins_is_no_clients() {
    let check = "server_check_delay = 0\nserver_check_query = begin";
    for (settings, query) in [
        ("", "connect_query=begin"),
        ("", "connect_query='begin; select 1/0'"),
        (check, ""),
    ] {
        let settings = format!("pool_mode = transaction\ndefault_pool_size = 1\n{settings}");
        let Some(site) = Site::new(&settings, query) else {
            return;
        };
        site.direct().ok("CREATE TABLE kept (n int)");
        let paceline = site.served();
        let mut client = site.client(paceline.port());
        for n in 0..3 {
            client.ok(&format!("INSERT INTO kept VALUES ({n})"));
        }
        assert_eq!(
            site.direct().number("SELECT count(*) FROM kept"),
            3,
            "{query}"
        );
    }
}

/// One that has just been opened need not be checked.
#[test]
fn a_check_that_always_fails_lets_each_connection_serve_once() {
    let check = "server_check_delay = 0\nserver_check_query = select pg_terminate_backend(pg_backend_pid())";
    let settings = format!("pool_mode = transaction\ndefault_pool_size = 1\n{check}");
    let Some(site) = Site::new(&settings, "") else {
        return;
    };
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    assert_ne!(client.value(PID), client.value(PID));
}

#[test]
fn connections_with_another_connect_query_are_replaced() {
    let Some(site) = Site::new("", "connect_query='SET work_mem TO ''7MB'''") else {
        return;
    };
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    assert_eq!(client.value("SHOW work_mem"), "7MB");
    drop(client);
    site.write("", "connect_query='SET work_mem TO ''8MB'''");
    console(paceline.port()).ok("RELOAD");
    let mut client = site.client(paceline.port());
    assert_eq!(client.value("SHOW work_mem"), "8MB");
}

/// The number of checks: each draws a number from a sequence.
fn checks(site: &Site) -> i64 {
    let mut direct = site.direct();
    direct.number("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM checks")
}

#[test]
fn connections_are_checked_when_they_have_been_idle() {
    for (delay, expected) in [("0", 5), ("3600", 0)] {
        let settings = format!(
            "pool_mode = transaction\ndefault_pool_size = 1\n\
             server_check_query = select nextval('checks')\nserver_check_delay = {delay}"
        );
        let Some(site) = Site::new(&settings, "") else {
            return;
        };
        site.direct().ok("CREATE SEQUENCE checks");
        let paceline = site.served();
        let mut client = site.client(paceline.port());
        let before = checks(&site);
        for _ in 0..5 {
            client.ok("SELECT 1");
        }
        assert_eq!(checks(&site) - before, expected, "delay {delay}");
    }
}

#[test]
fn an_empty_check_is_none_and_a_failing_one_is_an_answer() {
    for check in ["", "select 1/0", "<empty>"] {
        let settings = format!(
            "pool_mode = transaction\ndefault_pool_size = 1\nserver_check_delay = 0\nserver_check_query = {check}"
        );
        let Some(site) = Site::new(&settings, "") else {
            return;
        };
        let paceline = site.served();
        let mut client = site.client(paceline.port());
        let pid = client.value(PID);
        for _ in 0..3 {
            assert_eq!(client.value(PID), pid, "{check:?}");
        }
    }
}

/// A way to a server that can stop passing bytes on, as a firewall does that has forgotten a connection.
fn forgetful(server: u16, forgets: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let forgets = Arc::clone(forgets);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
            // Later connections are not forgotten.
            let is_old = !forgets.load(Ordering::SeqCst);
            let (from, to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            let outward = is_old.then(|| Arc::clone(&forgets));
            thread::spawn(move || pass(from, to, outward));
            thread::spawn(move || pass(upstream, client, None));
        }
    });
    port
}

fn pass(mut from: TcpStream, mut to: TcpStream, forgets: Option<Arc<AtomicBool>>) {
    let mut bytes = [0; 8192];
    while let Ok(len) = from.read(&mut bytes) {
        let swallows = forgets
            .as_ref()
            .is_some_and(|forgets| forgets.load(Ordering::SeqCst));
        if len == 0 || (!swallows && to.write_all(&bytes[..len]).is_err()) {
            return;
        }
    }
}

#[test]
fn a_connection_that_does_not_answer_is_replaced() {
    let forgets = Arc::new(AtomicBool::new(false));
    let settings = "pool_mode = session\ndefault_pool_size = 1\nserver_check_delay = 0\nserver_connect_timeout = 1\n\
                    server_tls_sslmode = disable";
    let Some(site) = Site::new(settings, "") else {
        return;
    };
    let port = forgetful(site.cluster.port(), &forgets);
    let text = std::fs::read_to_string(&site.ini).unwrap();
    let text = text.replace(
        &format!("port={}", site.cluster.port()),
        &format!("port={port}"),
    );
    std::fs::write(&site.ini, text).unwrap();
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    let first = client.value(PID);
    client.hang_up();
    let mut boss = console(paceline.port());
    until("the connection is idle", || {
        site.in_pools(&mut boss, "sv_idle").as_deref() == Some("1")
    });
    forgets.store(true, Ordering::SeqCst);
    // The whole pool is this one connection: without the check the client would wait for ever.
    assert_ne!(site.client(paceline.port()).value(PID), first);
    assert!(paceline.logged("server_check_query: no answer"));
}

#[test]
fn connections_in_a_check_are_shown() {
    let settings = "pool_mode = transaction\ndefault_pool_size = 1\nserver_check_delay = 0\n\
                    server_check_query = select pg_advisory_lock_shared(77), pg_advisory_unlock_shared(77)";
    let Some(site) = Site::new(settings, "") else {
        return;
    };
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    client.ok("SELECT 1");
    let mut holder = site.direct();
    holder.ok("SELECT pg_advisory_lock(77)");
    client.send(&crate::harness::message::query("SELECT 42"));
    let mut boss = console(paceline.port());
    until("it is being checked", || {
        site.in_pools(&mut boss, "sv_tested").as_deref() == Some("1")
    });
    holder.ok("SELECT pg_advisory_unlock(77)");
    assert_eq!(client.reply().value(), "42");
}

#[test]
fn clients_are_greeted() {
    let Some(site) = Site::new("login_notify_message = read only from 22:00", "") else {
        return;
    };
    let paceline = site.served();
    let mut client = RawClient::open(paceline.port());
    client.send(&startup(PROTOCOL, &site.parameters()));
    let login = client.reply();
    let notices: Vec<_> = login
        .0
        .iter()
        .filter(|message| message.tag == b'N')
        .collect();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].fields().text(), "read only from 22:00");
    client.ok("SELECT 1");
    console(paceline.port()).ok("SET login_notify_message = ''");
    let mut client = RawClient::open(paceline.port());
    client.send(&startup(PROTOCOL, &site.parameters()));
    assert!(client.reply().0.iter().all(|message| message.tag != b'N'));
}

#[test]
fn old_versions_of_tls_are_remarked() {
    let Some(site) = Site::new("server_tls_protocols = legacy", "") else {
        return;
    };
    let paceline = site.served();
    assert!(paceline.logged("server_tls_protocols: TLS 1.0 and 1.1 are not available"));
    let mut boss = console(paceline.port());
    let reply = boss.ok("SET client_tls_protocols = 'tlsv1.1,tlsv1.2'");
    let notice = reply.0[0].fields().text().to_owned();
    assert!(notice.starts_with("client_tls_protocols: "), "{notice}");
    let refused = boss.simple("SET client_tls_protocols = 'sslv3'");
    assert!(refused.error().is_some());
}

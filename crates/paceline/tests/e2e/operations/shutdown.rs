//! The end of the process: SIGINT (WAIT_FOR_SERVERS), SIGTERM (WAIT_FOR_CLIENTS), SIGQUIT, and a second one of them.

use super::{Scene, await_line, scene};
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::until;
use std::net::TcpStream;

fn patient(settings: &str) -> Option<Scene> {
    scene(settings, |builder| builder.set("shutdown_timeout=1h"))
}

/// The last error that a client gets: SQLSTATE and message.
#[track_caller]
fn last_words(client: &mut RawClient) -> (String, String) {
    let told = client.receive_to_end();
    let fields = told.last().unwrap().fields();
    (fields.sqlstate().to_owned(), fields.text().to_owned())
}

fn by_command() -> (String, String) {
    let message = "terminating connection due to administrator command";
    ("57P01".to_owned(), message.to_owned())
}

#[track_caller]
fn refuses_newcomers(scene: &Scene) {
    until("no new connection is accepted", || {
        TcpStream::connect(("127.0.0.1", scene.paceline.port())).is_err()
    });
}

#[test]
fn an_interrupt_waits_for_transactions_only() {
    let Some(mut scene) = patient("default_pool_size = 1") else {
        return;
    };
    let mut status = scene.client();
    let (mut idle, mut at_work) = (scene.client(), scene.client());
    let mut waiting = scene.client();
    at_work.ok("CREATE TABLE t (n int); BEGIN; INSERT INTO t VALUES (1)");
    waiting.send(&query("SELECT 1"));
    await_line(&mut status, 1);
    scene.paceline.signal_and_hear("INT", "shutting down");
    assert_eq!(last_words(&mut idle), by_command());
    let turned_away = ("08P01".to_owned(), "server shutting down".to_owned());
    assert_eq!(last_words(&mut waiting), turned_away);
    refuses_newcomers(&scene);
    at_work.ok("INSERT INTO t VALUES (2)");
    assert!(scene.paceline.runs());
    at_work.ok("COMMIT");
    assert_eq!(last_words(&mut at_work), by_command());
    assert_eq!(scene.paceline.ended(), Some(0));
    assert_eq!(scene.direct().number("SELECT count(*) FROM t"), 2);
}

/// As PgBouncer: a session has its server connection until its client leaves.
#[test]
fn an_interrupt_waits_for_sessions() {
    let Some(mut scene) = patient("pool_mode = \"session\"") else {
        return;
    };
    let (mut idle, mut session) = (scene.client(), scene.client());
    session.ok("SELECT 1");
    scene.paceline.signal_and_hear("INT", "shutting down");
    assert_eq!(last_words(&mut idle), by_command());
    refuses_newcomers(&scene);
    session.ok("CREATE TEMP TABLE t (n int)");
    assert_eq!(session.value("SELECT count(*) FROM t"), "0");
    session.hang_up();
    assert_eq!(scene.paceline.ended(), Some(0));
}

#[test]
fn a_termination_waits_for_clients() {
    let Some(mut scene) = patient("") else {
        return;
    };
    let (mut one, mut other) = (scene.client(), scene.client());
    scene.paceline.signal_and_hear("TERM", "shutting down");
    refuses_newcomers(&scene);
    for client in [&mut one, &mut other] {
        client.ok("BEGIN");
        client.ok("COMMIT");
        assert_eq!(client.value("SELECT 7"), "7");
    }
    one.hang_up();
    assert_eq!(other.value("SELECT 8"), "8");
    assert!(scene.paceline.runs());
    other.hang_up();
    assert_eq!(scene.paceline.ended(), Some(0));
}

/// A connection that has not sent anything yet is a client, too.
#[test]
fn a_termination_waits_for_a_new_connection() {
    let Some(mut scene) = patient("") else {
        return;
    };
    scene.client().hang_up();
    let mut silent = RawClient::open(scene.paceline.port());
    scene.paceline.signal_and_hear("TERM", "shutting down");
    refuses_newcomers(&scene);
    let startup = crate::harness::message::startup(
        crate::harness::raw::PROTOCOL,
        &[("user", "postgres"), ("database", &scene.database)],
    );
    silent.send(&startup);
    silent.reply();
    assert_eq!(silent.value("SELECT 7"), "7");
    silent.hang_up();
    assert_eq!(scene.paceline.ended(), Some(0));
}

#[test]
fn the_second_signal_ends_it_at_once() {
    for (first, second) in [("INT", "INT"), ("TERM", "TERM"), ("TERM", "INT")] {
        let Some(mut scene) = patient("") else {
            return;
        };
        let mut at_work = scene.client();
        at_work.ok("BEGIN; SELECT 1");
        scene.paceline.signal_and_hear(first, "shutting down");
        assert!(scene.paceline.runs());
        scene.paceline.signal(second);
        assert_eq!(scene.paceline.ended(), Some(0), "{first}, {second}");
        at_work.receive_to_end();
    }
}

#[test]
fn quit_ends_it_at_once() {
    let Some(mut scene) = patient("") else {
        return;
    };
    let mut at_work = scene.client();
    at_work.ok("BEGIN; SELECT 1");
    scene.paceline.signal("QUIT");
    assert_eq!(scene.paceline.ended(), Some(0));
}

/// After `shutdown_timeout` Paceline waits for no client; idle clients get an error.
#[test]
fn a_shutdown_has_its_limit() {
    let session = "pool_mode = \"session\"";
    for (signal, settings) in [
        ("INT", ""),
        ("TERM", ""),
        ("INT", session),
        ("TERM", session),
    ] {
        let limited = scene(settings, |builder| builder.set("shutdown_timeout=100ms"));
        let Some(mut scene) = limited else {
            return;
        };
        let (mut idle, mut at_work) = (scene.client(), scene.client());
        at_work.ok("BEGIN; SELECT 1");
        idle.ok("SELECT 1");
        scene.paceline.signal(signal);
        assert_eq!(scene.paceline.ended(), Some(0));
        assert_eq!(last_words(&mut idle), by_command());
        at_work.receive_to_end();
    }
}

/// A pause that waits for a transaction does not keep the process from ending.
#[test]
fn a_paused_process_ends() {
    let Some(mut scene) = patient("") else {
        return;
    };
    let mut at_work = scene.client();
    at_work.ok("BEGIN; SELECT 1");
    let mut waiting = scene.client();
    scene.paceline.signal_and_hear("USR1", "Pause(None)");
    waiting.send(&query("SELECT 1"));
    scene.paceline.signal_and_hear("INT", "shutting down");
    assert_eq!(last_words(&mut waiting).1, "server shutting down");
    at_work.ok("COMMIT");
    assert_eq!(last_words(&mut at_work), by_command());
    assert_eq!(scene.paceline.ended(), Some(0));
    assert_eq!(scene.paceline.heard("pooler is shutting down"), 0);
}

/// It ends when the process does, and may look on meanwhile.
#[test]
fn console_sessions_do_not_delay_the_shutdown() {
    for signal in ["TERM", "INT"] {
        let Some(mut scene) = patient("admin_users = \"boss\"") else {
            return;
        };
        let mut at_work = scene.client();
        at_work.ok("BEGIN; SELECT 1");
        let parameters = [("user", "boss"), ("database", "pgbouncer")];
        let mut operator = RawClient::connect(scene.paceline.port(), &parameters);
        scene.paceline.signal_and_hear(signal, "shutting down");
        operator.ok("SHOW CLIENTS");
        let refused = operator.simple("RESUME").error().unwrap();
        assert_eq!(refused.text(), "pooler is shutting down");
        at_work.ok("COMMIT");
        at_work.hang_up();
        assert_eq!(scene.paceline.ended(), Some(0), "{signal}");
        assert_eq!(last_words(&mut operator), by_command());
    }
}

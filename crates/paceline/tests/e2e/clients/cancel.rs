//! Cancel requests for a request in the line, for one that runs, and with a wrong key. They never cancel another client's request.

use super::{BUMP, Neighbour, n, stage};
use crate::harness::caretaker;
use crate::harness::gate::lock_waiters;
use crate::harness::message::{
    bind, cancel_request, copy_data, copy_done, copy_fail, execute, flush, function_call, parse,
    query, run, sync, unit,
};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

#[test]
fn a_unit_in_line_is_cancelled() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let mut gate = Gate::close(&stage);
    let mut clients = stage.clients(5);
    for client in &mut clients {
        gate.submit(client, &query(BUMP));
    }
    clients[2].cancel();
    let reply = clients[2].reply().expect_error("57014");
    assert_eq!(
        reply.error().unwrap().text(),
        "canceling statement due to user request"
    );
    assert_eq!(reply.status(), 'I');
    gate.await_line(4);
    gate.open();
    for number in [0, 1, 3, 4] {
        clients[number].reply().expect_ok("a neighbour in line");
    }
    assert_eq!(n(&stage), 4);
    assert_eq!(clients[2].value(BUMP), "5");
}

/// Paceline relays such a request while it arrives. If the client cancels it before it has a server connection, none of it is executed, and
/// its answer ends where the request ends: the next request has its own.
#[test]
fn a_request_in_parts_is_cancelled_in_line_as_a_whole() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let long = "x".repeat(300_000);
    let long_query = query(&format!("{BUMP}; -- {long}"));
    let by_text = [
        parse("", "UPDATE t SET n = n + length($1) WHERE id = 1", &[25]),
        bind("", "", &[Some(&long)]),
        execute("", 0),
    ]
    .concat();
    let further = [run("UPDATE t SET n = n + 10 WHERE id = 1", &[]), sync()].concat();
    let later_sync = [query(BUMP), flush(), sync()].concat();
    let length = stage
        .direct()
        .number("SELECT 'length(text)'::regprocedure::oid");
    let call = function_call(length as u32, &[Some(&long[..9_000])]);
    let (first_half, second_half) = long_query.split_at(280_000);
    // What arrives before the cancel request, and after it.
    let cases: [(&[u8], &[u8]); 8] = [
        (&long_query, &[]),
        (first_half, second_half),
        (&long_query, &unit(BUMP, &[])),
        (&[run(BUMP, &[]), flush()].concat(), &sync()),
        (&[run(BUMP, &[]), flush()].concat(), &further),
        (&[run(BUMP, &[]), flush()].concat(), &later_sync),
        (&by_text, &sync()),
        (&call, &[]),
    ];
    for (number, (before, after)) in cases.into_iter().enumerate() {
        let mut gate = Gate::close(&stage);
        let mut client = stage.client();
        gate.submit(&mut client, before);
        client.cancel();
        gate.await_line(0);
        client.send(after);
        client.send(&query("SELECT 'own'"));
        let reply = client.reply().expect_error("57014");
        assert_eq!(reply.tags(), "EZ", "case {number}");
        gate.await_line(1);
        gate.open();
        if number == 2 {
            // What follows a Query is another request.
            client.reply().expect_ok("the next request");
        }
        assert_eq!(client.reply().value(), "own", "case {number}");
        assert_eq!(n(&stage), i64::from(number >= 2), "case {number}");
    }
}

/// PostgreSQL ignores them between two requests: they wait for no server connection, and are no request that can be cancelled.
#[test]
fn messages_of_a_copy_that_has_failed_are_no_request() {
    let stage = stage();
    let mut client = stage.client();
    client.ok("CREATE TABLE copied (n int)");
    client.send(&query("COPY copied FROM STDIN"));
    client.receive_until(b"G");
    client.send(&copy_data(b"no number\n"));
    client.send(&copy_done());
    assert_eq!(client.reply().expect_error("22P02").tags(), "EZ");
    let mut holder = stage.client();
    holder.ok("BEGIN");
    let rest = [
        flush(),
        copy_data(&[b'x'; 70_000]),
        copy_done(),
        copy_fail("late"),
        flush(),
        sync(),
    ];
    client.send(&rest.concat());
    assert_eq!(client.reply().tags(), "Z");
    client.send(&copy_data(b"1\n"));
    client.cancel();
    client.send(&query("SELECT 'own'"));
    holder.ok("COMMIT");
    let reply = client.reply();
    let state = reply.sqlstate();
    assert!(state.is_empty() || state == "57014", "{state}");
    assert_eq!(client.value("SELECT 'next'"), "next");
}

fn await_sleep(stage: &Stage) {
    let mut observer = stage.direct();
    until("a session sleeps", || {
        observer.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
        ) == 1
    });
}

#[test]
fn a_running_statement_is_cancelled() {
    let stage = Stage::on_shared().set("default_pool_size=2").open();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    for begin in ["", "BEGIN", "SELECT 1"] {
        client.simple(begin);
        client.send(&query("SELECT pg_sleep(600)"));
        await_sleep(&stage);
        client.cancel();
        client.reply().expect_error("57014");
        client.simple("ROLLBACK");
        assert_eq!(client.value("SELECT 7"), "7");
        neighbour.check();
    }
}

/// When the late cancel request arrives, another client has the server connection. The loop makes them race: the result must not
/// depend on which is first.
#[test]
fn a_late_cancel_request_cancels_nothing() {
    let stage = stage();
    let mut client = stage.client();
    let mut neighbour = stage.client();
    for _ in 0..100 {
        client.ok("SELECT 1");
        neighbour.send(&query("SELECT 5, pg_sleep(0.002)"));
        client.cancel();
        assert_eq!(neighbour.reply().expect_ok("the neighbour").value(), "5");
        client.ok("SELECT 1");
    }
}

/// Cancel requests race with statements that end by themselves: the result must not depend on which is first.
#[test]
fn cancel_requests_that_race_with_the_end_cancel_no_other_request() {
    let stage = stage();
    let mut client = stage.client();
    let mut neighbours = stage.clients(3);
    for _ in 0..100 {
        client.send(&query("SELECT pg_sleep(0.001)"));
        neighbours
            .iter_mut()
            .for_each(|neighbour| neighbour.send(&query(BUMP)));
        client.cancel();
        let state = client.reply().sqlstate();
        assert!(state.is_empty() || state == "57014", "{state}");
        for neighbour in &mut neighbours {
            neighbour.reply().expect_ok("a neighbour");
        }
    }
    assert_eq!(n(&stage), 300);
}

#[test]
fn a_wrong_key_cancels_nothing() {
    let stage = stage();
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE t SET n = 0 WHERE id = 1");
    let mut client = stage.client();
    client.send(&query(BUMP));
    let mut observer = stage.direct();
    until("the update waits", || lock_waiters(&mut observer) == 1);
    let pid = u32::from_be_bytes(client.key[..4].try_into().unwrap());
    let mut secret = client.key[4..].to_vec();
    secret[0] ^= 0xff;
    for request in [
        cancel_request(pid, &secret),
        cancel_request(pid.wrapping_add(1), &client.key[4..]),
        cancel_request(pid, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        cancel_request(0, &[]),
    ] {
        let mut other = RawClient::open(stage.port());
        other.send(&request);
        other.hang_up();
    }
    outsider.ok("COMMIT");
    assert_eq!(client.reply().expect_ok("not cancelled").value(), "1");
}

#[test]
fn a_cancel_for_an_idle_client_does_nothing() {
    let stage = stage();
    let mut client = stage.client();
    client.cancel();
    client.ok("SELECT 1");
    client.ok("BEGIN");
    client.cancel();
    assert_eq!(client.ok("SELECT 1").status(), 'T');
    client.ok("COMMIT");
}

/// The server has to take over the client's settings first, and does not answer.
#[test]
fn a_request_is_cancelled_before_its_settings_are_in_force() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("admin_users=boss")
        .open();
    if stage.target() == Target::Bare {
        return;
    }
    let (mut other, mut client) = (stage.client(), stage.client());
    other.ok("SET work_mem = '5MB'");
    let backend = u32::try_from(other.number("SELECT pg_backend_pid()")).unwrap();
    let parameters = [("user", "boss"), ("database", "pgbouncer")];
    let mut operator = RawClient::connect(stage.port(), &parameters);
    stage.await_analysis();
    caretaker::signal("STOP", backend);
    client.send(&query("SELECT 1; SELECT 2"));
    until("the client has the server connection", || {
        let servers = operator.ok("SHOW SERVERS").rows();
        servers
            .iter()
            .any(|row| row.iter().flatten().any(|value| value == "active"))
    });
    client.cancel();
    caretaker::signal("CONT", backend);
    client.reply().expect_error("57014");
    assert_eq!(client.value("SHOW work_mem"), "4MB");
}

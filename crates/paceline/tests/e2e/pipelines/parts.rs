//! A request whose beginning is executed before its end is sent: each answer is that of PostgreSQL, whatever the request contains.

use super::early::{await_lock, lock};
use super::{executions, prepare, stage};
use crate::harness::message::{
    bind, close, copy_data, copy_done, copy_fail, describe, execute, flush, function_call, parse,
    query, run, sync, unit,
};
use crate::harness::raw::RawClient;
use crate::harness::{Message, Stage, assert_same, until};
use std::cell::Cell;

/// A request in two parts. The client sends the second when the server has executed the first.
struct Parts {
    what: &'static str,
    first: Vec<u8>,
    second: Vec<u8>,
}

fn parts(what: &'static str, first: &[Vec<u8>], second: &[Vec<u8>]) -> Parts {
    Parts {
        what,
        first: first.concat(),
        second: second.concat(),
    }
}

/// Parts that a client may send in one unit.
fn all_parts() -> Vec<Parts> {
    let update = |id: u32| format!("UPDATE t SET n = n + 1 WHERE id = {id} RETURNING n");
    vec![
        parts(
            "a setting",
            &[run("SET datestyle TO 'German'", &[])],
            &[run("SHOW datestyle", &[])],
        ),
        parts(
            "a setting that comes to nothing",
            &[run("SET datestyle TO 'SQL'", &[])],
            &[run("SELECT 1/0", &[])],
        ),
        parts("what is in force", &[run("SHOW datestyle", &[])], &[]),
        parts(
            "a local setting",
            &[
                run("BEGIN", &[]),
                run("SET LOCAL datestyle TO 'Postgres'", &[]),
            ],
            &[run("SHOW datestyle", &[]), run("COMMIT", &[])],
        ),
        parts(
            "a reset",
            &[run("RESET datestyle", &[])],
            &[run("SHOW datestyle", &[])],
        ),
        parts(
            "a transaction",
            &[run("BEGIN", &[]), run(&update(1), &[])],
            &[run(&update(2), &[]), run("COMMIT", &[])],
        ),
        parts(
            "a transaction that fails",
            &[run("BEGIN", &[]), run(&update(1), &[])],
            &[
                run("SELECT 1/0", &[]),
                run("COMMIT", &[]),
                sync(),
                run("SELECT 1", &[]),
                sync(),
                run("ROLLBACK", &[]),
            ],
        ),
        parts(
            "a transaction that stays open",
            &[run(&update(1), &[]), run("BEGIN", &[])],
            &[run(&update(2), &[])],
        ),
        parts(
            "a savepoint",
            &[run("SAVEPOINT s", &[]), run(&update(3), &[])],
            &[run("ROLLBACK TO s", &[]), run("COMMIT", &[])],
        ),
        parts(
            "two writes that could each travel",
            &[run(&update(1), &[])],
            &[run(&update(2), &[])],
        ),
        parts(
            "a write and an error",
            &[run(&update(1), &[])],
            &[
                run("SELECT 1/0", &[]),
                run(&update(2), &[]),
                sync(),
                run("SELECT 3", &[]),
            ],
        ),
        parts(
            "an error of each kind",
            &[run("SELECT 1", &[])],
            &[
                parse("", "no SQL", &[]),
                run("SELECT 1", &[]),
                sync(),
                run("SELECT 2", &[]),
                bind("", "nobody", &[]),
                execute("", 0),
                sync(),
                run("SELECT 3", &[]),
                describe(b'P', "nobody"),
                run("SELECT 3", &[]),
                sync(),
                run("SELECT 4", &[]),
                execute("nobody", 0),
                run("SELECT 4", &[]),
            ],
        ),
        parts(
            "statements by SQL",
            &[run("PREPARE q AS SELECT 6", &[]), run("EXECUTE q", &[])],
            &[
                run("EXECUTE q", &[]),
                run("DEALLOCATE q", &[]),
                run("EXECUTE q", &[]),
            ],
        ),
        parts(
            "statements by name",
            &[
                parse("n", "SELECT $1::int", &[]),
                bind("", "n", &[Some("7")]),
                execute("", 0),
            ],
            &[
                describe(b'S', "n"),
                bind("p", "n", &[Some("8")]),
                describe(b'P', "p"),
                execute("p", 0),
                close(b'P', "p"),
                close(b'S', "n"),
                bind("", "n", &[Some("9")]),
            ],
        ),
        parts(
            "a portal in portions",
            &[
                parse("", "SELECT generate_series(1, 5)", &[]),
                bind("p", "", &[]),
                execute("p", 2),
            ],
            &[execute("p", 2), execute("p", 2), execute("p", 2)],
        ),
        parts(
            "a cursor",
            &[
                run("BEGIN", &[]),
                run("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id", &[]),
            ],
            &[
                run("FETCH 2 FROM c", &[]),
                run("CLOSE c", &[]),
                run("COMMIT", &[]),
            ],
        ),
        parts(
            "a temporary table",
            &[run("CREATE TEMP TABLE mine AS SELECT 1 AS a", &[])],
            &[run("SELECT a FROM mine", &[]), run("DROP TABLE mine", &[])],
        ),
        parts(
            "copy out",
            &[run("COPY (SELECT 1) TO STDOUT", &[])],
            &[run("COPY (SELECT 2) TO STDOUT", &[]), run("SELECT 3", &[])],
        ),
        parts(
            "copy in, all at once",
            &[run("SELECT 1", &[])],
            &[
                run("COPY log FROM STDIN", &[]),
                copy_data(b"1\n"),
                copy_done(),
                run("SELECT 2", &[]),
            ],
        ),
        parts(
            "copy in that fails",
            &[run("SELECT 1", &[])],
            &[
                run("COPY log FROM STDIN", &[]),
                copy_data(b"1\n"),
                copy_fail("changed my mind"),
                run("SELECT 2", &[]),
            ],
        ),
        parts(
            "a flush",
            &[run("SELECT 1", &[]), flush()],
            &[flush(), run("SELECT 2", &[]), flush()],
        ),
        parts(
            "a query where the unit goes on",
            &[run("SELECT 1", &[])],
            &[query("SELECT 2; SELECT 3"), run("SELECT 4", &[])],
        ),
        parts(
            "a query that fails where the unit goes on",
            &[run(&update(1), &[])],
            &[query("SELECT 1/0"), run("SELECT 4", &[])],
        ),
        parts(
            "a function call where the unit goes on",
            &[run("SELECT 1", &[])],
            &[
                // abs(integer)
                function_call(1_397, &[Some("-5")]),
                run("SELECT 4", &[]),
            ],
        ),
        parts(
            "what ends with DISCARD",
            &[run("SET datestyle TO 'German'", &[])],
            &[sync(), query("DISCARD ALL"), run("SHOW datestyle", &[])],
        ),
    ]
}

/// Sends a unit in parts, the way that is wanted, and a question behind it, to whose answer the last message belongs.
fn outcomes(
    stage: &Stage,
    mut client: RawClient,
    send: impl Fn(&mut RawClient, &Parts),
) -> Vec<Told> {
    stage
        .direct()
        .ok("UPDATE t SET n = 0; TRUNCATE log; DROP TABLE IF EXISTS mine");
    let outcome = |parts: Parts| {
        send(&mut client, &parts);
        client.send(&unit("SELECT 'the last'", &[]));
        let mut messages = Vec::new();
        loop {
            let reply = client.reply();
            let last = reply.rows().last() == Some(&vec![Some("the last".to_owned())]);
            messages.extend(reply.0);
            // In a failed transaction it gets no answer of its own.
            if last || messages.iter().filter(|m| m.tag == b'Z').count() == boundaries(&parts) {
                return (parts.what, messages);
            }
        }
    };
    all_parts().into_iter().map(outcome).collect()
}

type Told = (&'static str, Vec<Message>);

/// The number of ReadyForQuery for parts that have a Sync and one more unit behind them.
fn boundaries(parts: &Parts) -> usize {
    let all = [&parts.first[..], &parts.second].concat();
    let mut rest = &all[..];
    let mut count = 2;
    while let [tag, a, b, c, d, ..] = *rest {
        count += usize::from(matches!(tag, b'S' | b'Q' | b'F'));
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        rest = &rest[1 + len..];
    }
    count
}

#[track_caller]
fn assert_all_same(how: &str, bare: &[Told], here: &[Told]) {
    assert_eq!(bare.len(), here.len());
    for ((what, bare), (_, here)) in bare.iter().zip(here) {
        assert_same(&format!("{what}, {how}"), bare, here);
    }
}

#[test]
fn a_unit_in_parts_says_the_same() {
    let stage = stage();
    let whole = |client: &mut RawClient, parts: &Parts| {
        client.send(&[&parts.first[..], &parts.second, &sync()].concat());
    };
    let bare = outcomes(&stage, stage.direct(), whole);
    assert_all_same("at once", &bare, &outcomes(&stage, stage.client(), whole));
    for len in [1, 61] {
        let here = outcomes(&stage, stage.client(), |client, parts| {
            let bytes = [&parts.first[..], &parts.second, &sync()].concat();
            bytes.chunks(len).for_each(|part| client.send(part));
        });
        assert_all_same("in pieces", &bare, &here);
    }
}

/// The second part is sent when the first was executed.
#[test]
fn a_request_continues_after_its_beginning_was_executed() {
    let stage = stage();
    let by_steps = |client: RawClient| {
        let key = Cell::new(0);
        let send = |client: &mut RawClient, parts: &Parts| {
            let mut observer = stage.direct();
            key.set(key.get() + 1);
            client.send(&[&parts.first[..], &lock(key.get())].concat());
            await_lock(&mut observer, key.get());
            client.send(&[&parts.second[..], &sync()].concat());
        };
        outcomes(&stage, client, send)
    };
    assert_all_same(
        "by steps",
        &by_steps(stage.direct()),
        &by_steps(stage.client()),
    );
}

/// PostgreSQL reads CopyData before the request ends, and continues with the request behind it.
#[test]
fn a_copy_within_a_unit_waits_for_its_data() {
    let stage = stage();
    let said = |mut client: RawClient| {
        let mut answer = Vec::new();
        for end in [
            copy_done(),
            copy_fail("enough"),
            [copy_data(b"no number\n"), copy_done()].concat(),
        ] {
            client.send(&[run("SELECT 1", &[]), run("COPY log FROM STDIN", &[])].concat());
            answer.extend(client.receive_until(b"GE"));
            client.send(&copy_data(b"1\n2\n"));
            client.send(&[end, run("SELECT count(*) FROM log", &[]), sync()].concat());
            answer.extend(client.reply().0);
        }
        client.ok("TRUNCATE log");
        answer
    };
    let bare = said(stage.direct());
    assert_same("copies", &bare, &said(stage.client()));
}

/// A client whose unit waits for a lock that an outsider holds, with more of the unit behind.
fn waiting(stage: &Stage, client: &mut RawClient) -> RawClient {
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; SELECT FROM t WHERE id = 1 FOR UPDATE");
    let held = run("UPDATE t SET n = n + 1 WHERE id = 1", &[]);
    client.send(&[prepare(), executions(100), held, executions(100)].concat());
    let mut observer = stage.direct();
    until("it waits for the row", || {
        observer.number(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        ) == 1
    });
    outsider
}

#[test]
fn a_unit_is_cancelled_in_the_middle() {
    let stage = stage();
    let said = |mut client: RawClient| {
        let outsider = waiting(&stage, &mut client);
        client.cancel();
        let mut answer = client.receive_until(b"E");
        client.send(&[executions(10), sync()].concat());
        answer.extend(client.reply().0);
        outsider.hang_up();
        // A name is defined although what follows is undone.
        answer.extend(client.ask(&[executions(10), sync()].concat()).0);
        answer.extend(client.simple("SELECT count(*) FROM log").0);
        client.ok("TRUNCATE log");
        answer
    };
    let bare = said(stage.direct());
    assert_same("a cancelled unit", &bare, &said(stage.client()));
}

#[test]
fn a_server_is_lost_in_the_middle_of_a_unit() {
    let stage = stage();
    let said = |mut client: RawClient| {
        let outsider = waiting(&stage, &mut client);
        stage
            .direct()
            .ok("SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'");
        let answer = client.receive_to_end();
        outsider.hang_up();
        answer
    };
    let bare = said(stage.direct());
    assert_same("a lost server", &bare, &said(stage.client()));
    let mut another = stage.client();
    assert_eq!(another.value("SELECT count(*) FROM log"), "0");
    assert_eq!(another.value("SELECT n FROM t WHERE id = 1"), "0");
}

/// A client that leaves in the middle leaves nothing behind.
#[test]
fn a_request_whose_client_leaves_is_undone() {
    let stage = stage();
    for mut client in [stage.direct(), stage.client()] {
        let outsider = waiting(&stage, &mut client);
        drop(client);
        outsider.hang_up();
        let mut observer = stage.direct();
        until("it has come to an end", || {
            observer.number(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND (state LIKE '%transaction%' OR wait_event_type = 'Lock')",
            ) == 0
        });
        assert_eq!(observer.number("SELECT count(*) FROM log"), 0);
        assert_eq!(observer.number("SELECT n FROM t WHERE id = 1"), 0);
    }
}

//! Messages so long that they are passed on while they arrive.

use super::stage;
use crate::harness::message::{bind, describe, execute, parse, query, run, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::reply::Message;
use crate::harness::stage::Target;
use crate::harness::{assert_same, until};

/// Longer than the part of a message that Paceline keeps.
fn long(letter: &str) -> String {
    letter.repeat(3 << 20)
}

/// A long message has the same effect as in PostgreSQL, whatever surrounds it.
#[test]
fn a_long_message_says_the_same() {
    let stage = stage();
    let value = long("x");
    let text = format!("SELECT length('{value}')");
    let length = [parse("length", "SELECT length($1)", &[25]), sync()].concat();
    let named = bind("", "length", &[Some(&value)]);
    let steps = [
        query(&text),
        length,
        [named.clone(), describe(b'P', ""), execute("", 0), sync()].concat(),
        [
            parse("", "SELECT length($1)", &[25]),
            bind("", "", &[Some(&value)]),
            execute("", 0),
            sync(),
        ]
        .concat(),
        // A text to prepare, which is kept.
        unit(&text, &[]),
        [parse("text", &text, &[]), sync()].concat(),
        [bind("", "text", &[]), execute("", 0), sync()].concat(),
        [
            run("SELECT 1", &[]),
            run(&format!("INSERT INTO log SELECT length('{value}')"), &[]),
            sync(),
        ]
        .concat(),
        unit(&format!("SET application_name TO '{value}'"), &[]),
        unit(&format!("no SQL {value}"), &[]),
        // Behind other messages, before others, and among them.
        [
            run("SELECT 1", &[]),
            named.clone(),
            execute("", 0),
            run("SELECT 2", &[]),
            sync(),
        ]
        .concat(),
        [run("SELECT 1", &[]), query(&text)].concat(),
        // Messages that the server skips.
        [
            run("SELECT 1/0", &[]),
            named.clone(),
            execute("", 0),
            sync(),
        ]
        .concat(),
        [run("SELECT 1/0", &[]), query(&text), sync()].concat(),
        // A statement that fails, and one that does not exist.
        query(&format!("SELECT '{value}'::int")),
        query(&format!("no SQL {value}")),
        [bind("", "nobody", &[Some(&value)]), execute("", 0), sync()].concat(),
        [
            bind("", "length", &[Some(&value), Some("1")]),
            execute("", 0),
            sync(),
        ]
        .concat(),
        query("BEGIN"),
        query(&text),
        [named.clone(), execute("", 0), sync()].concat(),
        query(&format!(
            "SET LOCAL application_name TO '{}'; {text}; SELECT 3",
            "y".repeat(50)
        )),
        query("ROLLBACK"),
        // One after the other.
        query("SELECT 4"),
        query(&format!("SELECT 5; {text}")),
        query("SELECT 6"),
    ];
    let said = |mut client: RawClient| -> Vec<Message> {
        let answer = |step: &Vec<u8>| client.ask(step).0;
        steps.iter().flat_map(answer).collect()
    };
    let (bare, here) = (said(stage.direct()), said(stage.client()));
    // A client prepares statements under names that the error's text may show.
    assert_same("long messages", &bare, &here);
}

/// The server that gets the message has the statement, whichever client has prepared it on whichever server.
#[test]
fn a_long_message_finds_its_statement_on_every_server() {
    let stage = stage();
    let value = long("x");
    let mut client = stage.client();
    client.ask(&[parse("length", "SELECT length($1)", &[25]), sync()].concat());
    let mut others = stage.clients(3);
    others.iter_mut().for_each(|other| drop(other.ok("BEGIN")));
    for other in &mut others {
        let unit = [bind("", "length", &[Some(&value)]), execute("", 0), sync()].concat();
        assert_eq!(client.ask(&unit).value(), value.len().to_string());
        other.ok("COMMIT");
    }
}

/// Neither side holds it in memory as a whole.
#[test]
fn a_long_message_fills_no_memory() {
    const BYTES: usize = 100 << 20;
    let mut stage = stage();
    let mut client = stage.client();
    let value = "x".repeat(BYTES);
    client.send(&query(&format!("SELECT length('{value}')")));
    assert_eq!(client.reply().value(), BYTES.to_string());
    let unit = [
        parse("", "SELECT length($1)", &[25]),
        bind("", "", &[Some(&value)]),
        execute("", 0),
        sync(),
    ];
    assert_eq!(client.ask(&unit.concat()).value(), BYTES.to_string());
    if let Some(paceline) = stage.paceline() {
        let peak = paceline.memory_kib("VmHWM");
        assert!(peak < 64 << 10, "{peak} KiB");
    }
}

/// Others need not wait for its end.
#[test]
fn others_are_served_while_a_long_message_arrives() {
    let stage = stage();
    let mut other = stage.client();
    let value = long("x");
    for bytes in [
        query(&format!("SELECT length('{value}')")),
        [run("SELECT length($1)", &[Some(&value)]), sync()].concat(),
    ] {
        let mut client = stage.client();
        let (first, last) = bytes.split_at(bytes.len() - 10);
        client.send(first);
        for _ in 0..10 {
            assert_eq!(other.value("SELECT 7"), "7");
        }
        client.send(last);
        assert_eq!(client.reply().value(), value.len().to_string());
        // And one whose end never arrives.
        let mut leaving = stage.client();
        leaving.send(first);
        drop(leaving);
        assert_eq!(other.value("SELECT 8"), "8");
    }
    let mut observer = stage.direct();
    until("no client waits for the missing end", || {
        observer.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND state <> 'idle' AND pid <> pg_backend_pid()",
        ) == 0
    });
}

#[test]
fn the_hints_of_a_long_message_count() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let value = long(" ");
    let mut client = stage.client();
    let aim = |hint: &str, id: u32| {
        format!("UPDATE /*+ {hint} */ t SET n = n + length(rtrim('{value}')) + 1 WHERE id = {id}")
    };
    client
        .simple(&aim("TARGET_AFFECT_ROW(1)", 77))
        .expect_error("21000");
    client.ok(&aim("TARGET_AFFECT_ROW(1)", 1));
    let prepared = |id: u32| unit(&aim("TARGET_AFFECT_ROW(1)", id), &[]);
    client.ask(&prepared(77)).expect_error("21000");
    client.ask(&prepared(1)).expect_ok("it touches one row");
    client.ok("BEGIN");
    assert_eq!(client.ok(&aim("COMMIT_ON_SUCCESS", 1)).status(), 'I');
    let text =
        "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET n = n + length(rtrim($1)) + 1 WHERE id = $2";
    client.ask(&[parse("aim", text, &[25, 23]), sync()].concat());
    for before in [Vec::new(), run("INSERT INTO log VALUES (1)", &[])] {
        for (id, lasts) in [("77", false), ("1", true)] {
            let unit = [
                before.clone(),
                bind("", "aim", &[Some(&value), Some(id)]),
                execute("", 0),
                sync(),
            ];
            let reply = client.ask(&unit.concat());
            match lasts {
                true => drop(reply.expect_ok("it touches one row")),
                false => drop(reply.expect_error("21000")),
            }
        }
    }
    let mut observer = stage.direct();
    assert_eq!(observer.number("SELECT n FROM t WHERE id = 1"), 5);
    assert_eq!(observer.number("SELECT count(*) FROM log"), 1);
}

/// A request whose answer needs a relay, at the end of a client's turn: what the server has received is taken by the relay as a whole.
#[test]
fn a_turn_may_end_within_a_request_that_was_sent() {
    const COUNT: usize = 400;
    let stage = stage();
    let mut client = stage.client();
    let fails = [
        unit("SELECT 1 / $1::int", &[Some("0")]),
        query("SELECT 1 / 0"),
    ];
    for fails in fails {
        client.send(&fails.repeat(COUNT));
        for number in 0..COUNT {
            assert_eq!(client.reply().sqlstate(), "22012", "{number}");
        }
    }
}

//! `session_state`: the treatment of state that cannot follow its client. Under each value, no other client finds any of it.

use crate::harness::message::{bind, execute, parse, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::reply::{Message, Reply};
use crate::harness::stage::Target;
use crate::harness::{Stage, until};

fn stage(state: &str) -> Stage {
    Stage::on_shared()
        .set("default_pool_size=1")
        .set(&format!("session_state={state}"))
        .open()
}

/// Statements that create state that only its server has, and statements that remove it.
const STATES: [(&str, &str); 9] = [
    ("CREATE TEMP TABLE mine (id int)", "DROP TABLE mine"),
    ("CREATE TEMP TABLE mine (id int)", "DISCARD TEMP"),
    ("CREATE TEMP SEQUENCE mine", "DISCARD ALL"),
    ("LISTEN mine", "UNLISTEN mine"),
    ("LISTEN mine", "UNLISTEN *"),
    (
        "DECLARE mine CURSOR WITH HOLD FOR SELECT generate_series(1, 9)",
        "CLOSE mine",
    ),
    (
        "SELECT pg_advisory_lock(4711)",
        "SELECT pg_advisory_unlock(4711)",
    ),
    (
        "SELECT pg_advisory_lock_shared(4711)",
        "SELECT pg_advisory_unlock_all()",
    ),
    ("LOAD 'plpgsql'", "DISCARD ALL"),
];

/// No other client may see anything of it.
const TRACES: &str = "SELECT (SELECT count(*) FROM pg_listening_channels()) \
    + (SELECT count(*) FROM pg_cursors WHERE is_holdable) \
    + (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()) \
    + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND pid = pg_backend_pid())";

fn process(client: &mut RawClient) -> String {
    client.value("SELECT pg_backend_pid()")
}

/// There is one server connection: an answer to another client proves that no client is pinned.
#[test]
fn a_client_keeps_its_server_until_it_lets_go() {
    for (begin, end) in STATES {
        println!("{begin}; {end}");
        let stage = stage("pin");
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok(begin);
        let own = process(&mut client);
        neighbour.send(&unit("SELECT 'served'", &[]));
        // The client continues on the same server, any number of times.
        for _ in 0..3 {
            assert_eq!(process(&mut client), own);
        }
        client.ok(end);
        assert_eq!(neighbour.reply().value(), "served");
        assert_eq!(neighbour.value(TRACES), "0");
        // The client itself is served again, too.
        client.ok("SELECT 1");
    }
}

#[test]
fn the_extended_protocol_keeps_and_lets_go_as_well() {
    let stage = stage("pin");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ask(&unit("LISTEN mine", &[])).expect_ok("listen");
    let own = process(&mut client);
    neighbour.send(&unit("SELECT 'served'", &[]));
    assert_eq!(process(&mut client), own);
    client.ask(&unit("UNLISTEN *", &[])).expect_ok("unlisten");
    assert_eq!(neighbour.reply().value(), "served");
}

/// A lock needs one unlock for each time that it was taken.
#[test]
fn a_lock_that_was_taken_twice_is_let_go_twice() {
    let stage = stage("pin");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("SELECT pg_advisory_lock(4712), pg_advisory_lock(4712)");
    client.ok("SELECT pg_advisory_unlock(4712)");
    let own = process(&mut client);
    neighbour.send(&unit("SELECT 'served'", &[]));
    assert_eq!(process(&mut client), own);
    client.ok("SELECT pg_advisory_unlock(4712)");
    assert_eq!(neighbour.reply().value(), "served");
}

/// State that the end of its transaction removes is no reason to pin a client.
#[test]
fn state_that_ends_with_its_transaction_pins_no_client() {
    let stage = stage("pin");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let (mut holder, tried) = (stage.direct(), "SELECT pg_try_advisory_lock(4713)");
    holder.ok("SELECT pg_advisory_lock(4713)");
    for units in [
        &["BEGIN", "LISTEN mine", "ROLLBACK"][..],
        &[
            "BEGIN",
            "CREATE TEMP TABLE mine (id int) ON COMMIT DROP",
            "COMMIT",
        ],
        &["CREATE TEMP TABLE mine (id int); SELECT 1/0"],
        &[tried],
        &["DO 'BEGIN END'"],
    ] {
        for sql in units {
            client.simple(sql);
        }
        assert_eq!(neighbour.value("SELECT 'served'"), "served", "{units:?}");
    }
}

/// The text does not show what a DO block leaves behind: Paceline asks the server.
#[test]
fn state_that_no_text_shows_is_found() {
    let stage = stage("pin");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("DO $$ BEGIN PERFORM pg_advisory_lock(4714); END $$");
    let own = process(&mut client);
    neighbour.send(&unit("SELECT 'served'", &[]));
    assert_eq!(process(&mut client), own);
    client.ok("SELECT pg_advisory_unlock_all()");
    assert_eq!(neighbour.reply().value(), "served");
}

#[test]
fn state_that_is_lost_reaches_no_other_client() {
    for state in ["track", "warn"] {
        for (begin, _) in STATES {
            println!("{state}: {begin}");
            let stage = stage(state);
            let (mut client, mut neighbour) = (stage.client(), stage.client());
            let reply = client.ok(begin);
            let warned = reply.tags().contains('N');
            assert_eq!(warned, state == "warn", "{reply:?}");
            assert_eq!(neighbour.value(TRACES), "0");
            client.ok("SELECT 1");
        }
    }
}

#[test]
fn a_warning_names_what_is_lost_and_is_logged() {
    let mut stage = stage("warn");
    let mut client = stage.client();
    client.send(&crate::harness::message::query("LISTEN mine"));
    let notice = client.receive();
    assert_eq!(notice.tag, b'N');
    assert_eq!(notice.fields().get('V'), "WARNING");
    assert!(notice.fields().text().starts_with("LISTEN is lost"));
    client.reply().expect_ok("LISTEN");
    let line = "LISTEN is lost at the end of the transaction";
    until("it is logged", || {
        let paceline = stage.paceline();
        paceline.is_none_or(|paceline| paceline.logged(line))
    });
}

#[test]
fn state_that_cannot_follow_is_refused() {
    for (begin, _) in STATES {
        println!("{begin}");
        let stage = stage("error");
        let mut client = stage.client();
        for bytes in [crate::harness::message::query(begin), unit(begin, &[])] {
            let refused = client.ask(&bytes);
            let error = refused.error().unwrap();
            assert_eq!(error.sqlstate(), "0A000", "{error:?}");
            assert!(error.get('H').contains("session_state"), "{error:?}");
            assert_eq!(refused.status(), 'I');
        }
        assert_eq!(client.value(TRACES), "0");
        client.ok("BEGIN");
        client.simple(begin).expect_error("0A000");
        assert_eq!(client.simple("SELECT 1").sqlstate(), "25P02");
        client.ok("ROLLBACK");
    }
}

/// No other client gets a connection that has loaded a library.
#[test]
fn a_connection_that_no_reset_cleans_is_closed() {
    let stage = stage("track");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let before = process(&mut client);
    assert_eq!(process(&mut neighbour), before);
    client.ok("LOAD 'plpgsql'");
    assert_ne!(process(&mut neighbour), before);
}

/// Another client has made the server report a value that a new client asks for.
#[test]
fn a_new_client_is_welcomed_with_its_own_values() {
    let stage = stage("pin");
    let mut client = stage.client();
    client.ok("SET TimeZone = 'Asia/Tokyo'");
    let tokyo = stage.client_with(&[("TimeZone", "Asia/Tokyo")]);
    assert_eq!(tokyo.parameters["TimeZone"], "Asia/Tokyo");
    let other = stage.client_with(&[("application_name", "other")]);
    let bare = stage.direct();
    assert_eq!(other.parameters["TimeZone"], bare.parameters["TimeZone"]);
}

#[test]
fn startup_parameters_may_be_ignored() {
    let stage = Stage::on_shared()
        .set("ignore_startup_parameters=extra_float_digits, nosuchsetting, options")
        .open();
    let mut client = stage.client_with(&[
        ("nosuchsetting", "1"),
        ("extra_float_digits", "3"),
        // Settings that PgBouncer tracks are applied nevertheless.
        (
            "options",
            "-c alsounknown=1 -c timezone=Asia/Tokyo --IntervalStyle=iso_8601 -c work_mem=77 -x",
        ),
        ("application_name", "mine"),
    ]);
    assert_eq!(client.value("SHOW application_name"), "mine");
    assert_eq!(client.value("SHOW timezone"), "Asia/Tokyo");
    assert_eq!(client.value("SHOW intervalstyle"), "iso_8601");
    assert_ne!(client.value("SHOW work_mem"), "77kB");
}

/// A statement in the client's encoding, with a letter that is not ASCII.
fn not_utf8(name: &str) -> Vec<u8> {
    let mut message = parse(name, "SELECT '~'", &[]);
    let letter = message.iter().position(|byte| *byte == b'~').unwrap();
    message[letter] = 0xe9;
    message
}

#[test]
fn a_statement_that_is_not_utf8_is_executed() {
    for mode in ["transaction", "session"] {
        let stage = Stage::on_shared()
            .set(&format!("pool_mode={mode}"))
            .set("default_pool_size=1")
            .open();
        let mut client = stage.client_with(&[("client_encoding", "latin1")]);
        for name in ["", "own"] {
            let bound = [bind("", name, &[]), execute("", 0), sync()].concat();
            let reply = client.ask(&[not_utf8(name), bound.clone()].concat());
            assert_eq!(letters(&reply), [[Some(vec![0xe9])]], "{mode} {name}");
            for _ in 0..3 {
                // The statement remains.
                let reply = client.ask(&bound);
                assert_eq!(letters(&reply), [[Some(vec![0xe9])]], "{mode} {name}");
            }
        }
        client.ok("SELECT 1");
        client
            .ask(&[bind("", "", &[]), sync()].concat())
            .expect_error("26000");
        let failed = [parse("", "no statement", &[]), not_utf8(""), sync()].concat();
        client.ask(&failed).expect_error("42601");
        client
            .ask(&[bind("", "", &[]), sync()].concat())
            .expect_error("26000");
    }
}

fn letters(reply: &Reply) -> Vec<Vec<Option<Vec<u8>>>> {
    let rows = reply.0.iter().filter(|message| message.tag == b'D');
    rows.map(Message::raw_values).collect()
}

/// Only its own server knows the statement. An unnamed one need not be lost: its client executes it in the same request.
#[test]
fn a_statement_that_is_not_utf8_keeps_no_server_unless_state_pins() {
    for (state, named) in [("track", "1Z"), ("warn", "N1Z"), ("error", "EZ")] {
        let stage = stage(state);
        if stage.target() == Target::Bare {
            return;
        }
        let mut client = stage.client_with(&[("client_encoding", "latin1")]);
        let executed = [bind("", "", &[]), execute("", 0), sync()].concat();
        let reply = client.ask(&[not_utf8(""), executed].concat());
        assert_eq!(letters(&reply), [[Some(vec![0xe9])]]);
        stage.client().ok("SELECT 1");
        let reply = client.ask(&[not_utf8("own"), sync()].concat());
        assert_eq!(reply.tags(), named, "{state}");
        stage.client().ok("SELECT 1");
        client.ok("SELECT 1");
    }
}

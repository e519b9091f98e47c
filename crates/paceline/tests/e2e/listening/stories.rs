//! The commands of a session on its channels, and its notifications: the same through Paceline as from PostgreSQL.

use super::{connections, heard, payloads, read, receive, rest, shared};
use crate::harness::message::{bind, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::reply::Message;
use crate::harness::{Stage, until};

/// One step: the client's own statements, or another's notification.
enum Step {
    /// By the simple protocol.
    Says(&'static str),
    /// By the extended protocol.
    Runs(&'static str),
    /// Another session notifies on `a` and on `b`.
    Other(&'static str),
}

use Step::{Other, Runs, Says};

/// The notifications and the answers that the client gets.
fn play(
    client: &mut RawClient,
    other: &mut RawClient,
    story: &[Step],
) -> (Vec<String>, Vec<Vec<String>>) {
    let (mut all, mut answers) = (Vec::new(), Vec::new());
    for step in story {
        let reply = match step {
            Says(sql) => client.simple(sql),
            Runs(sql) => client.ask(&unit(sql, &[])),
            Other(payload) => {
                other.ok(&format!("NOTIFY a, '{payload}'; NOTIFY b, '{payload}'"));
                continue;
            }
        };
        all.extend(heard(&reply.0));
        let said: Vec<Message> = reply.0.into_iter().filter(|m| read(m).is_none()).collect();
        answers.push(crate::harness::reply::transcript(&said));
    }
    all.extend(heard(&client.simple("ROLLBACK").0));
    all.extend(rest(client));
    let lines = all
        .iter()
        .map(|heard| format!("{}: {}", heard.channel, heard.payload));
    (lines.collect(), answers)
}

const STORIES: &[&[Step]] = &[
    &[Says("LISTEN a"), Other("1"), Other("2")],
    &[
        Says("LISTEN a"),
        Says("LISTEN a"),
        Other("1"),
        Says("UNLISTEN a"),
        Other("2"),
    ],
    &[
        Says("LISTEN a"),
        Says("LISTEN b"),
        Other("1"),
        Says("UNLISTEN *"),
        Other("2"),
    ],
    &[
        Says("LISTEN a; LISTEN b"),
        Other("1"),
        Says("UNLISTEN a; LISTEN a; UNLISTEN b"),
        Other("2"),
    ],
    &[Says("UNLISTEN a"), Says("UNLISTEN *"), Other("1")],
    &[Says("LISTEN a"), Says("DISCARD ALL"), Other("1")],
    &[
        Says("LISTEN a"),
        Says("RESET ALL"),
        Says("RESET SESSION AUTHORIZATION"),
        Other("1"),
    ],
    // A transaction.
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Other("1"),
        Says("COMMIT"),
        Other("2"),
    ],
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Other("1"),
        Says("ROLLBACK"),
        Other("2"),
    ],
    &[
        Says("BEGIN; LISTEN a; COMMIT; BEGIN; LISTEN b; ROLLBACK"),
        Other("1"),
    ],
    &[
        Says("LISTEN a"),
        Says("BEGIN"),
        Says("UNLISTEN a"),
        Other("1"),
        Says("ROLLBACK"),
        Other("2"),
    ],
    &[
        Says("LISTEN a"),
        Says("BEGIN"),
        Says("UNLISTEN *"),
        Says("LISTEN b"),
        Says("COMMIT"),
        Other("1"),
    ],
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Says("SELECT 1/0"),
        Says("LISTEN b"),
        Says("COMMIT"),
        Other("1"),
    ],
    &[
        Says("LISTEN a; SELECT 1/0"),
        Other("1"),
        Says("LISTEN b; SELECT 1"),
        Other("2"),
    ],
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Says("UNLISTEN a"),
        Says("LISTEN a"),
        Says("COMMIT"),
        Other("1"),
    ],
    // Savepoints.
    &[
        Says("BEGIN"),
        Says("SAVEPOINT s"),
        Says("LISTEN a"),
        Says("ROLLBACK TO s"),
        Says("LISTEN b"),
        Says("COMMIT"),
        Other("1"),
    ],
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Says("SAVEPOINT s"),
        Says("UNLISTEN a"),
        Says("SELECT 1/0"),
        Says("ROLLBACK TO s"),
        Says("RELEASE s"),
        Says("COMMIT"),
        Other("1"),
    ],
    // Its own notifications.
    &[Says("LISTEN a"), Says("NOTIFY a, 'own'"), Other("1")],
    &[
        Says("BEGIN"),
        Says("NOTIFY a, 'own'"),
        Says("LISTEN a"),
        Says("COMMIT"),
    ],
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Says("NOTIFY a, 'own'"),
        Says("COMMIT"),
    ],
    &[
        Says("LISTEN a"),
        Says("BEGIN"),
        Says("NOTIFY a, 'own'"),
        Says("UNLISTEN a"),
        Says("COMMIT"),
    ],
    &[
        Says("LISTEN a"),
        Says("BEGIN"),
        Says("NOTIFY a, 'own'"),
        Other("1"),
        Says("ROLLBACK"),
    ],
    &[
        Says("LISTEN a"),
        Says("SELECT pg_notify('a', 'x' || g) FROM generate_series(1, 3) g"),
    ],
    &[
        Says("LISTEN a"),
        Says("DO $$BEGIN PERFORM pg_notify('a', 'do'); END$$"),
        Other("1"),
    ],
    &[
        Says("LISTEN a"),
        Says("INSERT INTO noisy VALUES (1)"),
        Says("UPDATE noisy SET id = 2 WHERE false"),
    ],
    &[Says("LISTEN a"), Says("SELECT * FROM shouting"), Other("1")],
    // By the extended protocol.
    &[
        Runs("LISTEN a"),
        Other("1"),
        Runs("NOTIFY a, 'own'"),
        Runs("UNLISTEN a"),
        Other("2"),
    ],
    &[
        Runs("BEGIN"),
        Runs("LISTEN a"),
        Other("1"),
        Runs("COMMIT"),
        Other("2"),
        Runs("UNLISTEN *"),
        Other("3"),
    ],
    &[
        Runs("BEGIN"),
        Runs("LISTEN a"),
        Runs("ROLLBACK"),
        Other("1"),
    ],
    // The same more than once.
    &[
        Runs("BEGIN"),
        Runs("LISTEN a"),
        Runs("UNLISTEN a"),
        Runs("LISTEN a"),
        Runs("COMMIT"),
        Other("1"),
    ],
    &[
        Runs("LISTEN a"),
        Runs("BEGIN"),
        Runs("UNLISTEN *"),
        Runs("LISTEN a"),
        Runs("UNLISTEN *"),
        Runs("COMMIT"),
        Other("1"),
    ],
    // More than is sent at a time.
    &[
        Says("BEGIN"),
        Says("SELECT count(pg_notify('a', g::text)) FROM generate_series(1, 2000) g"),
        Says("LISTEN a"),
        Says("COMMIT"),
        Other("1"),
    ],
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Says("COMMIT AND CHAIN"),
        Other("1"),
        Says("NOTIFY a, 'own'"),
        Says("COMMIT"),
        Other("2"),
    ],
    // A failed transaction takes no LISTEN.
    &[
        Says("BEGIN"),
        Says("SELECT 1/0"),
        Says("LISTEN a"),
        Runs("LISTEN b"),
        Says("ROLLBACK"),
        Other("1"),
    ],
    // Two phases.
    &[
        Says("BEGIN"),
        Says("LISTEN a"),
        Says("PREPARE TRANSACTION 'p'"),
        Says("ROLLBACK"),
        Other("1"),
    ],
    // Names.
    &[
        Says("LISTEN \"A \"\" ' \\ é\""),
        Says("NOTIFY \"A \"\" ' \\ é\", 'odd'"),
        Says("UNLISTEN \"A \"\" ' \\ é\""),
    ],
    &[
        Says("LISTEN A"),
        Other("1"),
        Says("BEGIN; LISTEN \"b\"; COMMIT"),
        Other("2"),
    ],
];

/// A table whose trigger notifies on `a`, and a view that does.
const LOUD: &str = "CREATE TABLE noisy (id int); \
        CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('a', TG_OP); RETURN NULL; END$$; \
        CREATE TRIGGER shouts AFTER INSERT OR UPDATE ON noisy FOR EACH STATEMENT EXECUTE FUNCTION shout(); \
        CREATE FUNCTION loud() RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('a', 'view'); RETURN 1; END$$; \
        CREATE VIEW shouting AS SELECT loud() AS loud";

#[test]
fn sessions_receive_what_they_would_receive_alone() {
    let stage = shared();
    let (mut direct, mut other) = (stage.direct(), stage.direct());
    direct.ok(LOUD);
    for (number, story) in STORIES.iter().enumerate() {
        println!("story {number}");
        let (mut alone, mut through) = (stage.direct(), stage.client());
        let bare = play(&mut alone, &mut other, story);
        let paceline = play(&mut through, &mut other, story);
        assert_eq!(paceline, bare, "story {number}");
    }
}

/// The only server connection is free as soon as the answer is there.
#[test]
fn listeners_keep_no_server_connection_of_the_pool() {
    let stage = shared();
    let mut listeners = stage.clients(5);
    for listener in &mut listeners {
        listener.ok("LISTEN a");
    }
    let mut notifier = stage.client();
    for number in 0..100 {
        notifier.ok(&format!("NOTIFY a, '{number}'"));
    }
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for listener in &mut listeners {
        assert_eq!(payloads(&receive(listener, 100)), expected);
        assert_eq!(rest(listener), []);
    }
    let mut observer = stage.direct();
    assert_eq!(connections(&mut observer), 1);
    // It ends with the last of those that listen, and is opened again for the next.
    drop(listeners);
    until("no client listens", || connections(&mut observer) == 0);
    notifier.ok("LISTEN a");
    assert_eq!(
        payloads(&heard(&notifier.ok("NOTIFY a, 'again'").0)),
        ["again"]
    );
    assert_eq!(connections(&mut observer), 1);
}

/// If a function or trigger notifies for the client, the client receives the notification before the end of its answer.
#[test]
fn own_notifications_come_before_the_end_of_the_request() {
    let stage = shared();
    stage.direct().ok(LOUD);
    let mut client = stage.client();
    client.ok("LISTEN a");
    for sql in [
        "NOTIFY a, 'x'",
        "BEGIN; NOTIFY a, 'x'; COMMIT",
        "SELECT pg_notify('a', 'x')",
        "SELECT pg_catalog.pg_notify('a', 'x')",
        "DO $$BEGIN PERFORM pg_notify('a', 'x'); END$$",
        "INSERT INTO noisy VALUES (1)",
        "SELECT * FROM shouting",
        "SELECT loud()",
        "COPY noisy FROM PROGRAM 'echo 1'",
    ] {
        for round in 0..20 {
            assert_eq!(heard(&client.ok(sql).0).len(), 1, "{sql}, {round}");
            let reply = client.ask(&unit("SELECT 'no more'", &[]));
            assert_eq!(heard(&reply.0), []);
        }
    }
    client.ok("BEGIN");
    client.ok("INSERT INTO noisy VALUES (1)");
    assert_eq!(heard(&client.ok("SELECT 1").0), []);
    assert_eq!(payloads(&heard(&client.ok("COMMIT").0)), ["INSERT"]);
}

/// PostgreSQL delivers notifications to sessions that are in no transaction.
#[test]
fn a_transaction_is_not_disturbed() {
    let stage = shared();
    let (mut client, mut other) = (stage.client(), stage.direct());
    client.ok("LISTEN a");
    client.ok("BEGIN");
    other.ok("NOTIFY a, 'later'");
    for _ in 0..20 {
        assert_eq!(heard(&client.ok("SELECT count(*) FROM pg_class").0), []);
    }
    // With the next end of a transaction at the latest.
    let replies = [client.ok("COMMIT"), client.ok("NOTIFY a, 'own'")];
    let all = replies.iter().flat_map(|reply| heard(&reply.0));
    let all: Vec<_> = all.map(|heard| heard.payload).collect();
    assert_eq!(all, ["later", "own"]);
}

/// Between the requests of a client that keeps its server for something else.
#[test]
fn a_pinned_client_receives_notifications_too() {
    let stage = Stage::on_shared().set("listen_mode=shared").open();
    let (mut client, mut other) = (stage.client(), stage.direct());
    client.ok("LISTEN a");
    client.ok("CREATE TEMP TABLE mine (id int)");
    other.ok("NOTIFY a, 'kept'");
    assert_eq!(payloads(&receive(&mut client, 1)), ["kept"]);
    client.ok("LISTEN b");
    client.ok("UNLISTEN a");
    other.ok("NOTIFY a, 'no'; NOTIFY b, 'yes'");
    assert_eq!(payloads(&rest(&mut client)), ["yes"]);
    assert_eq!(client.value("SELECT count(*) FROM mine"), "0");
}

/// Several requests of a pipeline, each with its own Sync, and one that lists its messages.
#[test]
fn a_pipeline_receives_notifications_in_order() {
    let stage = shared();
    let mut client = stage.client();
    let mut pipeline = Vec::new();
    for sql in [
        "LISTEN a",
        "NOTIFY a, '1'",
        "NOTIFY a, '2'",
        "SELECT 'last'",
    ] {
        pipeline.extend(unit(sql, &[]));
    }
    client.send(&pipeline);
    let replies: Vec<_> = (0..4).map(|_| client.reply()).collect();
    assert_eq!(payloads(&heard(&replies[1].0)), ["1"]);
    assert_eq!(payloads(&heard(&replies[2].0)), ["2"]);
    assert_eq!(replies[3].value(), "last");
    // A statement with a name.
    let named = [parse("l", "LISTEN b", &[]), sync()].concat();
    client.ask(&named).expect_ok("parse");
    let run = [
        bind("", "l", &[]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]
    .concat();
    let reply = client.ask(&run).expect_ok("listen");
    assert_eq!(reply.tag(), "LISTEN");
    let again = client.ask(&run).expect_ok("listen");
    assert_eq!(again.tags(), reply.tags());
    assert_eq!(
        payloads(&heard(&client.ok("NOTIFY b, 'named'").0)),
        ["named"]
    );
}

#[test]
fn the_channels_of_a_session_can_be_listed() {
    let stage = shared();
    let mut client = stage.client();
    let list = |client: &mut RawClient, sql: &str| {
        let rows = client.ok(sql).rows();
        let names = rows.into_iter().map(|row| row[0].clone().unwrap());
        names.collect::<Vec<_>>()
    };
    assert_eq!(list(&mut client, "SELECT pg_listening_channels()"), [""; 0]);
    client.ok("LISTEN b; LISTEN \"A'\"");
    for sql in [
        "SELECT pg_listening_channels()",
        "select * from pg_catalog.pg_listening_channels();",
    ] {
        assert_eq!(list(&mut client, sql), ["A'", "b"], "{sql}");
        let described = [
            parse("", sql, &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ];
        let reply = client.ask(&described.concat());
        let columns = reply.0.iter().find(|message| message.tag == b'T').unwrap();
        assert_eq!(columns.columns(), ["pg_listening_channels"], "{sql}");
        assert_eq!(reply.rows().len(), 2);
    }
    let counts = "SELECT count(*) FROM pg_listening_channels()";
    client.simple(counts).expect_error("0A000");
    client.ask(&unit(counts, &[])).expect_error("0A000");
    client.ok("UNLISTEN *");
    assert_eq!(client.value(counts), "0");
}

/// The shared connection sends UTF-8: a client that reads something else has a server connection of its own.
#[test]
fn a_client_of_another_encoding_listens_alone() {
    let stage = Stage::on_shared().set("listen_mode=shared").open();
    let mut observer = stage.direct();
    let mut client = stage.client_with(&[("client_encoding", "LATIN1")]);
    client.ok("LISTEN a");
    assert_eq!(connections(&mut observer), 0);
    observer.ok("NOTIFY a, 'é'");
    let message = client.receive();
    assert_eq!(message.body.split_last().unwrap().1.last(), Some(&0xe9));
}

/// A database that has it by its own configuration, and `session_state` where it has not.
#[test]
fn the_mode_is_that_of_the_database() {
    let stage = Stage::on_shared()
        .set("session_state=error")
        .set("pool_mode=transaction")
        .open();
    let mut client = stage.client();
    client.simple("LISTEN a").expect_error("0A000");
    let stage = Stage::on_shared()
        .set("session_state=error")
        .set("listen_mode=shared")
        .open();
    stage.client().ok("LISTEN a");
    stage
        .client()
        .ask(&query("BEGIN; LISTEN a; COMMIT"))
        .expect_ok("listen");
}

//! Time limits of one client never end a server connection under another one. `idle_session_timeout` counts for the client that has
//! it, and for no other: on servers it is off while a connection is idle.

use crate::harness::message::{bind, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::reply::Fields;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage};

/// PostgreSQL's error for a session that was idle for too long.
const IDLE_SESSION: &str = "57P05";

fn stage(servers: usize) -> Stage {
    Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .open()
}

fn process(client: &mut RawClient) -> String {
    client.value("SELECT pg_backend_pid()")
}

fn shown(client: &mut RawClient) -> String {
    client.value("SHOW idle_session_timeout")
}

/// The last error that a silent client gets.
fn last_words(client: &mut RawClient) -> Fields {
    let messages = client.receive_to_end();
    messages.last().unwrap().fields()
}

/// The client is sent away for its silence, as by PostgreSQL.
fn check_sent_away(client: &mut RawClient) {
    let words = last_words(client);
    let bare = (
        "FATAL",
        IDLE_SESSION,
        "terminating connection due to idle-session timeout",
    );
    assert_eq!((words.get('V'), words.sqlstate(), words.text()), bare);
}

#[test]
fn an_idle_client_is_sent_away_and_its_server_connection_stays() {
    let stage = stage(1);
    let mut neighbour = stage.client();
    let before = process(&mut neighbour);
    for set in [
        "SET idle_session_timeout = '1s'",
        "SELECT set_config('idle_session_timeout', '1000', false)",
        "BEGIN; SET idle_session_timeout TO 1000; COMMIT",
        "DO $$ BEGIN SET idle_session_timeout = '1s'; END $$",
    ] {
        println!("{set}");
        let mut client = stage.client();
        client.ok(set);
        let by_text = !set.starts_with("DO");
        if by_text || stage.target() == Target::Bare {
            check_sent_away(&mut client);
        }
        // The connection has been idle for as long by now, and as long again.
        let mut second = stage.client_with(&[("idle_session_timeout", "2s")]);
        second.ok("SELECT 1");
        check_sent_away(&mut second);
        if stage.target() == Target::Paceline {
            assert_eq!(process(&mut neighbour), before, "{set}");
        }
    }
}

/// Everything that shows it, in both protocols.
const SHOWN: [&str; 5] = [
    "SHOW idle_session_timeout",
    "SELECT current_setting('idle_session_timeout')",
    "SELECT setting FROM pg_settings WHERE name = 'idle_session_timeout'",
    "SELECT current_setting(name) FROM (VALUES ('idle_session_timeout')) AS names(name)",
    "SELECT count(*) FROM pg_settings WHERE name LIKE 'idle_session%' AND setting = '70000'",
];

/// The same through Paceline and on PostgreSQL, with a neighbour on the server in between.
fn check_shown(stage: &Stage, client: &mut RawClient, bare: &mut RawClient) {
    let mut neighbour = stage.client();
    for sql in SHOWN {
        for bytes in [query(sql), unit(sql, &[])] {
            let expected = bare.ask(&bytes);
            let reply = client.ask(&bytes);
            assert_eq!(reply.rows(), expected.rows(), "{sql}");
            assert_eq!(reply.sqlstate(), expected.sqlstate(), "{sql}");
            if expected.status() == 'I' {
                assert_eq!(shown(&mut neighbour), "0");
            }
        }
    }
}

#[test]
fn a_client_sees_its_own_limit_though_its_servers_have_none() {
    let stage = stage(2);
    let (mut client, mut bare) = (stage.client(), stage.direct());
    for sql in [
        "SET idle_session_timeout = '1min'",
        "SELECT set_config('idle_session_timeout', '70000', false)",
        "BEGIN",
        "SET idle_session_timeout = '2min'",
        "SAVEPOINT s",
        "SET idle_session_timeout = '3min'",
        "ROLLBACK TO s",
        "ROLLBACK",
        "BEGIN",
        "SET LOCAL idle_session_timeout = '4min'",
        "COMMIT",
        "SET idle_session_timeout = '5min'; SELECT 1/0",
        "BEGIN; SET idle_session_timeout = '71s'; COMMIT",
        "SET idle_session_timeout = nonsense",
        "SET idle_session_timeout = -1",
        "RESET idle_session_timeout",
        "SET idle_session_timeout = 100000",
        "RESET ALL",
        "SET idle_session_timeout = '0.5min'",
        "DISCARD ALL",
    ] {
        println!("{sql}");
        assert_eq!(client.simple(sql).sqlstate(), bare.simple(sql).sqlstate());
        check_shown(&stage, &mut client, &mut bare);
    }
}

#[test]
fn a_client_may_begin_with_a_limit() {
    let stage = stage(1);
    let more = [("options", "-c idle_session_timeout=1min")];
    let parameters = [
        ("user", "postgres"),
        ("database", stage.database.as_str()),
        more[0],
    ];
    let mut bare = RawClient::connect(stage.cluster.port(), &parameters);
    let mut client = stage.client_with(&more);
    for sql in [
        "SELECT 1",
        "SET idle_session_timeout = 0",
        "RESET ALL",
        "DISCARD ALL",
    ] {
        client.ok(sql);
        bare.ok(sql);
        check_shown(&stage, &mut client, &mut bare);
    }
    for wrong in ["nonsense", "-1"] {
        let parameters = [
            ("user", "postgres"),
            ("database", stage.database.as_str()),
            ("idle_session_timeout", wrong),
        ];
        let refusal = |port| {
            RawClient::try_connect(port, &parameters)
                .err()
                .map(|e| e.sqlstate().to_owned())
        };
        assert_eq!(
            refusal(stage.port()),
            refusal(stage.cluster.port()),
            "{wrong}"
        );
    }
}

/// The default of a role or a database is in force for every client, and on no server connection.
#[test]
fn a_default_of_the_database_counts_for_clients() {
    let stage = stage(1);
    let database = &stage.database;
    stage.direct().ok(&format!(
        "ALTER DATABASE {database} SET idle_session_timeout = '1s'"
    ));
    let mut patient = stage.client_with(&[("idle_session_timeout", "0")]);
    let before = process(&mut patient);
    for sql in ["SELECT 1", "RESET ALL", "DISCARD ALL"] {
        let mut client = stage.client();
        client.ok(sql);
        assert_eq!(shown(&mut client), "1s");
        check_sent_away(&mut client);
    }
    assert_eq!(shown(&mut patient), "0");
    assert_eq!(process(&mut patient), before);
}

/// It keeps its server connection, and the time of other clients does not count.
#[test]
fn a_client_that_keeps_its_server_is_sent_away_as_well() {
    let stage = stage(1);
    for units in [
        ["LISTEN idle", "SET idle_session_timeout = '1s'"],
        ["SET idle_session_timeout = '1s'", "LISTEN idle"],
    ] {
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        units.iter().for_each(|sql| drop(client.ok(sql)));
        assert_eq!(shown(&mut client), "1s");
        neighbour.send(&query("SELECT 'served'"));
        check_sent_away(&mut client);
        assert_eq!(neighbour.reply().value(), "served");
    }
}

#[test]
fn in_session_pooling_it_counts_as_well() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("pool_mode=session")
        .open();
    for more in [&[][..], &[("idle_session_timeout", "1s")]] {
        let mut client = stage.client_with(more);
        if more.is_empty() {
            client.ok("SET idle_session_timeout = '1s'");
        }
        assert_eq!(shown(&mut client), "1s");
        check_sent_away(&mut client);
    }
    let mut next = stage.client();
    assert_eq!(shown(&mut next), "0");
}

/// A client that is in a transaction is not idle by this limit, but by another one.
#[test]
fn a_transaction_that_is_idle_ends_as_by_postgresql() {
    let stage = stage(1);
    let (mut client, mut bare) = (stage.client(), stage.direct());
    for client in [&mut bare, &mut client] {
        client
            .ok("SET idle_in_transaction_session_timeout = '1s'; SET idle_session_timeout = '1h'");
        client.ok("BEGIN");
    }
    let words = [&mut bare, &mut client].map(last_words);
    assert_eq!(words[0].sqlstate(), "25P03");
    assert_eq!(words[1].sqlstate(), words[0].sqlstate());
    assert_eq!(words[1].text(), words[0].text());
    let mut next = stage.client();
    assert_eq!(next.value("SHOW idle_in_transaction_session_timeout"), "0");
}

/// None of a client's other limits is in force for the next one, whatever it does.
#[test]
fn limits_of_the_last_client_do_not_count_for_the_next() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for (name, value) in [
        ("statement_timeout", "77s"),
        ("lock_timeout", "77s"),
        ("idle_in_transaction_session_timeout", "77s"),
        ("client_connection_check_interval", "77s"),
        ("tcp_keepalives_idle", "77"),
        ("tcp_keepalives_interval", "77"),
        ("tcp_keepalives_count", "7"),
        ("tcp_user_timeout", "77000"),
        ("deadlock_timeout", "77s"),
    ] {
        let before = neighbour.value(&format!("SHOW {name}"));
        client.ok(&format!("SET {name} = '{value}'"));
        assert_eq!(neighbour.value(&format!("SHOW {name}")), before, "{name}");
        assert_eq!(client.value(&format!("SHOW {name}")), value, "{name}");
    }
    // A statement that was prepared shows it, too.
    client.ok("SET idle_session_timeout = '1min'");
    let named = [parse("s", "SHOW idle_session_timeout", &[]), sync()].concat();
    client.ask(&named).expect_ok("parse");
    assert_eq!(shown(&mut neighbour), "0");
}

/// `transaction_timeout` ends the connection of the client that has it, and counts for no other client.
#[test]
fn a_transaction_timeout_ends_its_own_client() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    if client.number("SELECT current_setting('server_version_num')") < 170_000 {
        return crate::harness::skipped("PostgreSQL has transaction_timeout from 17 on");
    }
    client.ok("SET transaction_timeout = '1s'");
    assert_eq!(neighbour.value("SHOW transaction_timeout"), "0");
    assert_eq!(neighbour.value("SELECT pg_sleep(1.5) IS NOT NULL"), "t");
    client.send(&query("SELECT pg_sleep(60)"));
    assert_eq!(last_words(&mut client).sqlstate(), "25P04");
    assert_eq!(neighbour.value("SHOW transaction_timeout"), "0");
}

/// `transaction_timeout` ends a connection. In a group the time of the others would count, too.
#[test]
fn a_transaction_timeout_counts_for_one_transaction_alone() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true")
        .open();
    let mut direct = stage.direct();
    if direct.number("SELECT current_setting('server_version_num')") < 170_000 {
        return crate::harness::skipped("PostgreSQL has transaction_timeout from 17 on");
    }
    direct.ok("CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL); INSERT INTO stock VALUES (1, 0), (2, 0)");
    let slow = |id: usize| {
        format!(
            "UPDATE stock SET qty = qty + 1 WHERE id = {id} AND length(repeat(repeat('x', 1000) || qty, 3000)) > 0"
        )
    };
    let client = || {
        let mut client = stage.client();
        client.ok("SET transaction_timeout = '400ms'");
        client
    };
    // Settings that no client has any more are forgotten, and what was analyzed under them.
    let mut first = client();
    first.ok(&slow(2));
    stage.await_analysis();
    let before = process(&mut stage.client());
    let mut clients: Vec<RawClient> = (0..250).map(|_| client()).collect();
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &query(&slow(1)));
    }
    gate.open();
    for client in &mut clients {
        client.reply().expect_ok("UPDATE 1");
    }
    assert_eq!(direct.number("SELECT qty FROM stock WHERE id = 1"), 250);
    if stage.target() == Target::Paceline {
        assert_eq!(process(&mut stage.client()), before);
    }
}

/// A transaction that the client has begun by messages contains the query behind them.
#[test]
fn to_show_a_limit_commits_nothing() {
    let stage = stage(1);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE shown (n int)");
    let mut client = stage.client();
    client.ok("SET idle_session_timeout = '70s'");
    let insert = [
        parse("", "INSERT INTO shown VALUES (1)", &[]),
        bind("", "", &[]),
        execute("", 0),
    ];
    let fails = query("SHOW idle_session_timeout; SELECT 1/0");
    let reply = client.ask(&[insert.concat(), fails].concat());
    assert_eq!(reply.error().unwrap().sqlstate(), "22012");
    assert_eq!(reply.rows()[0][0].as_deref(), Some("70s"));
    assert_eq!(direct.number("SELECT count(*) FROM shown"), 0);
}

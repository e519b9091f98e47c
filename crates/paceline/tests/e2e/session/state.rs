//! Session state follows its client from server connection to server connection and never reaches another client. What
//! cannot be carried keeps its server connection.

use crate::harness::raw::RawClient;
use crate::harness::{Stage, until};

fn stage(servers: usize) -> Stage {
    Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .open()
}

fn show(client: &mut RawClient, name: &str) -> String {
    client.value(&format!("SHOW {name}"))
}

/// Settings that every test client looks at.
const NAMES: [&str; 6] = [
    "application_name",
    "search_path",
    "timezone",
    "statement_timeout",
    "datestyle",
    "custom.flag",
];

fn all(client: &mut RawClient) -> Vec<String> {
    let asked: Vec<String> = NAMES
        .iter()
        .map(|name| format!("coalesce(current_setting('{name}', true), '')"))
        .collect();
    let reply = client.ok(&format!("SELECT {}", asked.join(", ")));
    reply.rows()[0]
        .iter()
        .map(|value| value.clone().unwrap())
        .collect()
}

/// The same statements through Paceline, where another client uses the server in between, and on bare PostgreSQL.
/// With one server connection no client may keep it; with two a client may.
fn check_followed(servers: usize, statements: &[&str]) {
    let stage = stage(servers);
    let (mut client, mut neighbour, mut bare) = (stage.client(), stage.client(), stage.direct());
    let mut fresh = stage.direct();
    for sql in statements {
        println!("{sql}");
        assert_eq!(
            client.simple(sql).sqlstate(),
            bare.simple(sql).sqlstate(),
            "{sql}"
        );
        let status = client.simple("").status();
        if status == 'I' {
            assert_eq!(
                all(&mut neighbour),
                all(&mut fresh),
                "the neighbour after {sql}"
            );
        }
        if status != 'E' {
            assert_eq!(all(&mut client), all(&mut bare), "after {sql}");
        }
        assert_eq!(
            client.parameters, bare.parameters,
            "ParameterStatus after {sql}"
        );
    }
    assert_eq!(all(&mut stage.client()), all(&mut fresh), "a new client");
}

#[test]
fn set_and_reset_are_followed() {
    check_followed(
        1,
        &[
            "SET application_name = 'mine'",
            "SET search_path = a, \"B c\", public",
            "SET TIME ZONE 'Asia/Tokyo'",
            "SET statement_timeout TO '7s'",
            "SET SESSION datestyle = 'German, DMY'",
            "SET custom.flag = 'it''s'",
            "RESET search_path",
            "SET TIME ZONE DEFAULT",
            "SET application_name TO DEFAULT",
            "SET TIME ZONE +3",
            "SET statement_timeout = nonsense",
            "SET custom.flag = ''",
            "RESET ALL",
            "SET search_path TO ''",
            "DISCARD ALL",
        ],
    );
}

/// PostgreSQL reads some values relative to others.
#[test]
fn a_value_follows_not_its_text() {
    check_followed(
        1,
        &[
            "SET datestyle TO 'iso, dmy'",
            "SET datestyle TO iso",
            "SET datestyle TO sql",
            "SELECT set_config('datestyle', 'ymd', false)",
            "BEGIN",
            "SET datestyle TO dmy",
            "SAVEPOINT s",
            "SET datestyle TO german",
            "ROLLBACK TO s",
            "SET LOCAL datestyle TO mdy",
            "COMMIT",
            "SET datestyle TO postgres; SET datestyle TO ymd; SELECT 1/0",
            "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE",
            "SET TIME ZONE 'utc'",
            "BEGIN",
            "SET LOCAL search_path = local",
            "SET search_path FROM CURRENT",
            "COMMIT",
            "RESET ALL",
        ],
    );
}

/// The encoding that the last client of a server connection has set must not change the texts of the next one.
#[test]
fn a_value_follows_in_its_own_encoding() {
    let stage = stage(1);
    let mut client = stage.client();
    let mut latin = stage.client_with(&[("client_encoding", "LATIN1")]);
    client.ok("SET custom.flag = 'é'");
    for _ in 0..2 {
        latin.ok("SELECT 1");
        assert_eq!(client.value("SHOW custom.flag"), "é");
        // The same bytes are two characters here.
        latin.ok("SET custom.flag = 'é'");
        assert_eq!(client.value("SHOW custom.flag"), "é");
        let length = latin.value("SELECT length(current_setting('custom.flag'))");
        assert_eq!(length, "2");
    }
    latin.ok("SET client_encoding = 'UTF8'");
    for _ in 0..2 {
        client.ok("SELECT 1");
        assert_eq!(latin.value("SHOW custom.flag"), "Ã©");
    }
}

#[test]
fn set_config_is_followed() {
    check_followed(
        2,
        &[
            "SELECT set_config('application_name', 'by function', false)",
            "SELECT set_config('statement_timeout', '5s', false), set_config('custom.flag', 'x', false)",
            "SELECT set_config('search_path', 'local', true)",
            "SELECT pg_catalog.set_config('timezone', 'UTC', false)",
            "RESET ALL",
        ],
    );
}

#[test]
fn set_inside_transactions_is_followed() {
    check_followed(
        2,
        &[
            "BEGIN",
            "SET application_name = 'committed'",
            "SET LOCAL statement_timeout = '3s'",
            "COMMIT",
            "BEGIN",
            "SET application_name = 'rolled back'",
            "ROLLBACK",
            "BEGIN",
            "SET search_path = before",
            "SAVEPOINT s",
            "SET search_path = undone",
            "ROLLBACK TO s",
            "COMMIT",
            "BEGIN; SET custom.flag = 'one text'; COMMIT",
            "BEGIN; SET custom.flag = 'undone'; ROLLBACK",
            "BEGIN",
            "SET application_name = 'failed'",
            "SELECT 1/0",
            "COMMIT",
            "SET LOCAL application_name = 'no transaction'",
            "SET application_name = 'again'; SET statement_timeout = 99",
            "SET application_name = 'undone'; SELECT 1/0",
        ],
    );
}

#[test]
fn startup_parameters_are_each_clients_own() {
    let stage = stage(1);
    let parameters: [&[(&str, &str)]; 6] = [
        &[("application_name", "first")],
        &[("options", "-c statement_timeout=4s -c custom.flag=a\\ b")],
        &[("TimeZone", "America/New_York"), ("DateStyle", "SQL, DMY")],
        &[
            ("search_path", "mine, public"),
            ("options", "--application-name=second"),
        ],
        &[("client_encoding", "LATIN1")],
        &[("options", "-c temp_tablespaces=pg_default,pg_default")],
    ];
    let mut clients: Vec<RawClient> = parameters
        .iter()
        .map(|more| stage.client_with(more))
        .collect();
    let mut bare: Vec<RawClient> = parameters
        .iter()
        .map(|more| direct_with(&stage, more))
        .collect();
    for _ in 0..3 {
        for (client, bare) in clients.iter_mut().zip(&mut bare) {
            assert_eq!(all(client), all(bare));
            assert_eq!(client.parameters, bare.parameters);
            assert_eq!(
                show(client, "client_encoding"),
                show(bare, "client_encoding")
            );
        }
    }
    // RESET restores what the client set in its startup packet.
    for (client, bare) in clients.iter_mut().zip(&mut bare) {
        for sql in [
            "SET application_name = 'x'; SET timezone = 'UTC'",
            "RESET ALL",
        ] {
            client.ok(sql);
            bare.ok(sql);
        }
    }
    for (client, bare) in clients.iter_mut().zip(&mut bare) {
        assert_eq!(all(client), all(bare));
    }
}

fn direct_with(stage: &Stage, more: &[(&str, &str)]) -> RawClient {
    let mut parameters = vec![("user", "postgres"), ("database", stage.database.as_str())];
    parameters.extend(more);
    RawClient::connect(stage.cluster.port(), &parameters)
}

#[test]
fn a_wrong_startup_parameter_is_refused_as_by_postgresql() {
    let stage = stage(1);
    for more in [
        ("options", "-c nosuchsetting=1"),
        ("TimeZone", "Nowhere/Land"),
        ("nosuchsetting", "1"),
    ] {
        let parameters = [
            ("user", "postgres"),
            ("database", stage.database.as_str()),
            more,
        ];
        let refusal = |port| {
            RawClient::try_connect(port, &parameters)
                .err()
                .map(|error| error.sqlstate().to_owned())
        };
        let bare = refusal(stage.cluster.port());
        assert!(bare.is_some());
        // Paceline may find out only when the client first uses a server.
        let paceline = match RawClient::try_connect(stage.port(), &parameters) {
            Err(error) => Some(error.sqlstate().to_owned()),
            Ok(mut client) => Some(client.simple("SELECT 1").sqlstate()),
        };
        assert_eq!(paceline, bare, "{more:?}");
        assert_eq!(stage.client().value("SELECT 1"), "1");
    }
}

/// State that cannot be carried keeps its server connection, while others use the second one.
#[test]
fn state_of_the_server_connection_stays_with_its_client() {
    let sessions: [(&str, &str, &str); 6] = [
        (
            "CREATE TEMP TABLE mine (id int)",
            "INSERT INTO mine VALUES (1)",
            "DISCARD TEMP",
        ),
        (
            "PREPARE mine AS SELECT 7",
            "EXECUTE mine",
            "DEALLOCATE mine",
        ),
        (
            "SELECT pg_advisory_lock(42)",
            "SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            "SELECT pg_advisory_unlock_all()",
        ),
        (
            "DECLARE mine CURSOR WITH HOLD FOR SELECT generate_series(1, 1000)",
            "FETCH 3 FROM mine",
            "CLOSE mine",
        ),
        (
            "LISTEN mine",
            "SELECT 1 / count(*) FROM pg_listening_channels()",
            "UNLISTEN mine",
        ),
        (
            "CREATE TEMP SEQUENCE mine",
            "SELECT nextval('mine')",
            "DISCARD ALL",
        ),
    ];
    for (begin, go_on, end) in sessions {
        println!("{begin}");
        let stage = stage(2);
        let (mut client, mut neighbours) = (stage.client(), stage.clients(3));
        client.ok(begin);
        for _ in 0..5 {
            client.ok(go_on);
            for neighbour in &mut neighbours {
                neighbour.ok("SELECT 1");
                let alien = neighbour.simple("EXECUTE mine");
                alien.expect_error("26000");
                neighbour.simple("SELECT * FROM mine").expect_error("42P01");
            }
        }
        client.ok(end);
        drop(client);
        // Its server connection is clean or gone: a temporary table or a lock would show.
        for neighbour in &mut neighbours {
            assert_eq!(
                neighbour.value("SELECT to_regclass('pg_temp.mine') IS NULL"),
                "t"
            );
            assert_eq!(neighbour.value("SELECT pg_try_advisory_xact_lock(42)"), "t");
        }
    }
}

/// The state of a client that leaves without cleaning up is removed.
#[test]
fn a_client_that_leaves_takes_its_state_along() {
    let stage = stage(1);
    let states = [
        "CREATE TEMP TABLE left_over (id int)",
        "SELECT pg_advisory_lock(77)",
        "BEGIN; UPDATE pg_temp.nothing SET a = 1",
        "BEGIN; SELECT pg_advisory_xact_lock(77)",
        "PREPARE left_over AS SELECT 1",
        "SET application_name = 'left over'",
        "LISTEN left_over",
        "BEGIN; SET application_name = 'left over'",
    ];
    for state in states {
        let mut client = stage.client();
        client.simple(state);
        drop(client);
        let mut next = stage.client();
        next.simple("EXECUTE left_over").expect_error("26000");
        next.simple("SELECT * FROM left_over").expect_error("42P01");
        // PostgreSQL ends a session some time after its client has gone.
        until(&format!("the lock is free after {state}"), || {
            next.value("SELECT pg_try_advisory_xact_lock(77)") == "t"
        });
        assert_eq!(
            next.value("SELECT count(*) FROM pg_listening_channels()"),
            "0"
        );
        assert_eq!(next.value("SELECT current_setting('application_name')"), "");
    }
}

/// A session lock outlives the error of the statement that took it; its client keeps it, and no other client gets it.
#[test]
fn a_lock_taken_by_a_statement_that_failed_stays_with_its_client() {
    let stage = stage(1);
    let mut client = stage.client();
    client
        .simple("SELECT pg_advisory_lock(78), 1 / count(*) FROM pg_class WHERE false")
        .expect_error("22012");
    drop(client);
    let (mut next, mut outsider) = (stage.client(), stage.direct());
    until("the lock is free", || {
        next.ok("SELECT 1");
        outsider.value("SELECT pg_try_advisory_xact_lock(78)") == "t"
    });
}

/// Paceline asks PostgreSQL about templates under limits of its own.
#[test]
fn a_question_about_a_template_leaves_nothing_set() {
    let stage = Stage::for_groups();
    let mut bare = stage.direct();
    bare.ok("CREATE TABLE t (id int PRIMARY KEY, n int)");
    let mut own = stage.client();
    own.ok("SET jit = on; SET lock_timeout = '7s'");
    own.ok("UPDATE t SET n = 1 WHERE id = 1");
    stage.await_analysis();
    assert_eq!(show(&mut own, "jit"), "on");
    assert_eq!(show(&mut own, "lock_timeout"), "7s");
    own.ok("DELETE FROM t WHERE id = 1");
    stage.await_analysis();
    let mut other = stage.client();
    for name in ["jit", "lock_timeout"] {
        assert_eq!(show(&mut other, name), show(&mut bare, name), "{name}");
    }
}

/// NOTIFY reaches listeners, also if it arrives while a listener is idle.
#[test]
fn notifications_arrive() {
    let stage = stage(2);
    let mut listener = stage.client();
    listener.ok("LISTEN news");
    stage.client().ok("NOTIFY news, 'hot'");
    let message = listener.receive();
    assert_eq!(message.tag, b'A');
    assert!(message.body.ends_with(b"news\0hot\0"));
    listener.ok("UNLISTEN *");
}

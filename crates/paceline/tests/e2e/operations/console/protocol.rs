//! Logging in, both protocols, errors and their texts, psql and a driver.

use tokio_postgres::SimpleQueryMessage;

use super::{console, operator, row, stage, table};
use crate::harness::Stage;
use crate::harness::message::{
    bind, bind_formats, close, describe, execute, flush, parse, query, sync, unit,
};
use crate::harness::programs::{output, program};
use crate::harness::raw::RawClient;
use crate::harness::{driver, until};

#[test]
fn only_users_that_are_named_may_log_in() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    for database in ["pgbouncer", "paceline"] {
        let parameters = [("user", "postgres"), ("database", database)];
        let refused = RawClient::try_connect(stage.port(), &parameters)
            .err()
            .unwrap();
        assert_eq!(
            (refused.sqlstate(), refused.text()),
            ("08P01", "not allowed")
        );
        for user in ["boss", "watch"] {
            let mut operator = console(&stage, database, user);
            assert_eq!(operator.parameters["server_version"], "1.25.0/bouncer");
            let version = operator.value("SHOW VERSION");
            assert!(version.starts_with("PgBouncer 1.25.0"), "{version}");
        }
    }
    let mut watch = console(&stage, "pgbouncer", "watch");
    for command in [
        "PAUSE",
        "SET query_wait_timeout=1",
        "KILL_CLIENT 1",
        "RELOAD",
    ] {
        let error = watch.simple(command).error().unwrap();
        assert_eq!(error.text(), "admin access needed", "{command}");
    }
}

/// If no users are named, every local user may read.
#[test]
fn if_no_users_are_named_every_user_may_read() {
    let mut stage = Stage::on_shared().open();
    if stage.paceline().is_none() {
        return;
    }
    let mut anybody = console(&stage, "pgbouncer", "anybody");
    anybody.ok("SHOW POOLS");
    let error = anybody.simple("SHUTDOWN").error().unwrap();
    assert_eq!(error.text(), "admin access needed");
}

/// Operators must be able to log in when Paceline is full.
#[test]
fn the_console_is_open_when_there_is_no_room_for_clients() {
    let Some(stage) = stage(Stage::on_shared().set("max_client_conn=1")) else {
        return;
    };
    let _only = stage.client();
    let mut operator = operator(&stage);
    assert_eq!(table(&operator.ok("SHOW CLIENTS")).len(), 1);
    let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
    let refused = RawClient::try_connect(stage.port(), &parameters)
        .err()
        .unwrap();
    assert_eq!(
        refused.text(),
        "no more connections allowed (max_client_conn)"
    );
}

/// A session that waits can be cancelled; this one does not wait, so the cancel request does nothing.
#[test]
fn a_cancel_request_for_an_operator_that_waits_for_nothing() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    operator.cancel();
    operator.ok("SHOW POOLS");
}

#[test]
fn wrong_commands_are_errors_and_the_session_continues() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let error = operator
        .simple("show nonsense")
        .expect_error("08P01")
        .error()
        .unwrap();
    assert_eq!(
        error.text(),
        "invalid command 'show nonsense', use SHOW HELP;"
    );
    assert_eq!(operator.simple("-- ping").tags(), "IZ");
    assert_eq!(operator.simple("SET extra_float_digits = 3").tags(), "NCZ");
    let help = operator.ok("SHOW HELP");
    let notice = help.0[0].fields();
    assert_eq!(notice.text(), "Console usage");
    assert!(notice.get('D').contains("WAIT_CLOSE [<db>]"));
    assert_eq!(
        operator.simple("kill_client 0").error().unwrap().text(),
        "client not found"
    );
}

#[test]
fn set_changes_the_configuration() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let set = operator.ok("SET query_wait_timeout = '90'");
    assert_eq!(set.tag(), "SET query_wait_timeout=90");
    let key = row(&mut operator, "SHOW CONFIG", "key", "query_wait_timeout");
    let shown = [&key["value"], &key["default"], &key["changeable"]];
    assert_eq!(shown, ["90s", "2min", "yes"]);
    for (wrong, detail) in [
        ("SET query_wait_timeout = never", "is not a duration"),
        ("SET nothing = 1", "unknown key"),
        (
            "SET worker_threads = 2",
            "cannot be changed while Paceline runs",
        ),
        ("SET disable_pqexec = 1", "simple protocol"),
        (
            "SET listen_port = 7000",
            "listen_port is part of listen here",
        ),
    ] {
        let error = operator
            .simple(wrong)
            .expect_error("08P01")
            .error()
            .unwrap();
        assert_eq!(error.text(), "SET failed");
        assert!(error.get('D').contains(detail), "{wrong}: {error:?}");
    }
    // Keys that only PgBouncer has: what scripts set is accepted.
    let ignored = operator.ok("SET server_round_robin = 1");
    assert_eq!(ignored.tag(), "SET server_round_robin=1");
    let notice = ignored.0[0].fields().text().to_owned();
    assert!(
        notice.starts_with("server_round_robin is ignored: "),
        "{notice}"
    );
    operator.ok("SET disable_pqexec = 0");
    assert_eq!(
        row(&mut operator, "SHOW CONFIG", "key", "listen")["changeable"],
        "no"
    );
}

#[test]
fn the_extended_protocol_is_spoken() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let reply = operator.ask(
        &[
            parse("s", "SHOW LISTS", &[]),
            describe(b'S', "s"),
            bind("", "s", &[]),
            describe(b'P', ""),
            execute("", 3),
            execute("", 0),
            close(b'S', "s"),
            sync(),
        ]
        .concat(),
    );
    let rows = "D".repeat(11);
    assert_eq!(reply.tags(), format!("1tT2TDDDs{rows}C3Z"));
    assert_eq!(reply.rows()[0][0].as_deref(), Some("databases"));
    let binary = [
        parse("", "SHOW LISTS", &[]),
        bind_formats("", "", &[], &[], &[0, 1]),
        execute("", 1),
        sync(),
    ];
    let reply = operator.ask(&binary.concat());
    let first = reply.0.iter().find(|message| message.tag == b'D').unwrap();
    assert_eq!(first.raw_values()[1].as_ref().unwrap().len(), 4);
    assert_eq!(operator.ask(&unit("BEGIN", &[])).tags(), "12CZ");
    operator.send(&[parse("", "SHOW HELP", &[]), flush()].concat());
    assert_eq!(operator.receive().tag, b'1');
    assert_eq!(operator.ask(&sync()).tags(), "Z");
}

/// After an error everything up to the next Sync is skipped.
#[test]
fn errors_of_the_extended_protocol() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let twice = [parse("s", "SHOW POOLS", &[]), parse("s", "SHOW POOLS", &[])].concat();
    for (wrong, sqlstate, tags) in [
        (unit("SHOW nonsense", &[]), "08P01", "EZ"),
        (unit("SHOW POOLS", &[Some("1")]), "08P01", "1EZ"),
        (
            [bind("", "unknown", &[]), execute("", 0), sync()].concat(),
            "26000",
            "EZ",
        ),
        ([execute("gone", 0), sync()].concat(), "34000", "EZ"),
        ([twice, sync()].concat(), "42P05", "1EZ"),
    ] {
        let reply = operator.ask(&wrong);
        assert_eq!(
            (reply.sqlstate().as_str(), reply.tags().as_str()),
            (sqlstate, tags)
        );
    }
    operator.ok("SHOW POOLS");
    operator.send(&crate::harness::message::any(b'F', &[]));
    let last = operator.receive_to_end();
    let text = last.last().unwrap().fields().text().to_owned();
    assert!(text.starts_with("unsupported packet type"), "{text}");
}

#[test]
fn a_message_that_is_too_long_ends_the_session() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    // It may be cut off before all of it is sent.
    let _ = operator.try_send(&query(&"x".repeat(100_000)));
    let last = operator.receive_to_end();
    assert!(last.iter().all(|message| message.tag == b'E'), "{last:?}");
}

#[test]
fn psql_shows_tables() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    stage.client().ok("SELECT 1");
    let port = stage.port().to_string();
    let mut psql = program("psql");
    psql.args([
        "-X",
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "boss",
        "pgbouncer",
    ]);
    psql.args(["-A", "-t", "-c", "SHOW DATABASES", "-c", "SHOW HELP"]);
    let printed = output(&mut psql);
    let line = printed
        .lines()
        .find(|line| line.starts_with(&stage.database));
    assert!(
        line.is_some_and(|line| line.ends_with("|0|0|||||")),
        "{printed}"
    );
}

/// tokio-postgres prepares what it runs, and reads values in binary format.
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_reads_binary_values() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    stage.client().ok("SELECT 1");
    let url = format!("postgres://boss@127.0.0.1:{}/pgbouncer", stage.port());
    let client = driver::connect(&url).await.unwrap();
    let rows = client.query("SHOW POOLS", &[]).await.unwrap();
    let of_it = rows
        .iter()
        .find(|row| row.get::<_, &str>("database") == stage.database);
    let of_it = of_it.unwrap();
    assert_eq!(of_it.get::<_, i32>("maxwait"), 0);
    assert_eq!(of_it.get::<_, i64>("groups"), 0);
    assert_eq!(of_it.get::<_, Option<&str>>("load_balance_hosts"), None);
    let statement = client.prepare("SHOW LISTS").await.unwrap();
    for _ in 0..2 {
        assert_eq!(client.query(&statement, &[]).await.unwrap().len(), 14);
    }
    let simple = client.simple_query("SHOW STATE").await.unwrap();
    let rows = simple
        .iter()
        .filter(|m| matches!(m, SimpleQueryMessage::Row(_)));
    assert_eq!(rows.count(), 3);
}

/// The client is disconnected in any state, with an error unless it is in the middle of an answer; no other client is.
#[test]
fn a_client_is_ended_by_its_id() {
    let Some(stage) = stage(Stage::on_shared().set("default_pool_size=1")) else {
        return;
    };
    let mut operator = operator(&stage);
    let id_of = |operator: &mut RawClient, name: &str| {
        row(operator, "SHOW CLIENTS", "application_name", name)["id"].clone()
    };
    let mut neighbour = stage.client_with(&[("application_name", "neighbour")]);
    let mut idle = stage.client_with(&[("application_name", "idle")]);
    let mut busy = stage.client_with(&[("application_name", "busy")]);
    let mut waiting = stage.client_with(&[("application_name", "waiting")]);
    busy.ok("BEGIN");
    waiting.send(&query("CREATE TABLE never (n int)"));
    until("it waits", || {
        row(&mut operator, "SHOW CLIENTS", "application_name", "waiting")["state"] == "waiting"
    });
    assert_eq!(
        row(&mut operator, "SHOW CLIENTS", "application_name", "busy")["state"],
        "active"
    );
    assert_eq!(
        row(&mut operator, "SHOW CLIENTS", "application_name", "idle")["state"],
        "idle"
    );
    for (name, client) in [
        ("idle", &mut idle),
        ("waiting", &mut waiting),
        ("busy", &mut busy),
    ] {
        let id = id_of(&mut operator, name);
        assert_eq!(
            operator.ok(&format!("KILL_CLIENT {id}")).tag(),
            "KILL_CLIENT"
        );
        let last = client.receive_to_end();
        if name != "busy" {
            assert_eq!(
                last.last().unwrap().fields().text(),
                "admin forced disconnect"
            );
        }
        let error = operator.simple(&format!("KILL_CLIENT {id}")).error();
        assert_eq!(error.unwrap().text(), "client not found");
    }
    assert_eq!(
        neighbour.value("SELECT count(*) FROM pg_tables WHERE tablename = 'never'"),
        "0"
    );
    until("they have left", || {
        table(&operator.ok("SHOW CLIENTS")).len() == 1
    });
}

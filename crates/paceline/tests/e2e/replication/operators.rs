//! Replication connections in the operators' views, and the commands on them.

use super::{LOGICAL, PHYSICAL, replica, stage, stream, walsenders};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, until};
use std::collections::BTreeMap;
use std::thread;

#[track_caller]
fn console(stage: &Stage) -> RawClient {
    let parameters = [("user", "boss"), ("database", "pgbouncer")];
    RawClient::connect(stage.port(), &parameters)
}

/// Rows of the stage's database, as values by column.
#[track_caller]
fn shown(stage: &Stage, show: &str) -> Vec<BTreeMap<String, String>> {
    let reply = console(stage).ok(show);
    let columns = reply.0[0].columns();
    let rows = reply.rows().into_iter().map(|row| {
        let values = row.into_iter().map(Option::unwrap_or_default);
        columns
            .iter()
            .cloned()
            .zip(values)
            .collect::<BTreeMap<_, _>>()
    });
    rows.filter(|row| row["database"] == stage.database)
        .collect()
}

#[test]
fn the_console_shows_them() {
    let stage = stage(&[]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut ordinary = stage.client();
    ordinary.ok("BEGIN");
    let logical = stage.client_with(&[LOGICAL, ("application_name", "it's")]);
    let _physical = stage.client_with(&[PHYSICAL]);
    let mut clients = shown(&stage, "SHOW CLIENTS");
    let mut servers = shown(&stage, "SHOW SERVERS");
    for rows in [&mut clients, &mut servers] {
        rows.sort_by_key(|row| row["replication"].clone());
        let kinds: Vec<&str> = rows.iter().map(|row| &*row["replication"]).collect();
        assert_eq!(kinds, ["logical", "none", "physical"]);
        assert!(rows.iter().all(|row| row["state"] == "active"), "{rows:?}");
        assert_eq!(rows[0]["application_name"], "it's");
    }
    for (client, server) in clients.iter().zip(&servers) {
        assert_eq!(client["link"], server["ptr"]);
        assert_eq!(server["link"], client["ptr"]);
    }
    let pools = shown(&stage, "SHOW POOLS");
    assert_eq!(
        (&*pools[0]["cl_active"], &*pools[0]["sv_active"]),
        ("3", "3")
    );
    drop(logical);
    until("its server connection has gone", || {
        shown(&stage, "SHOW SERVERS").len() == 2
    });
}

#[test]
fn bytes_of_replication_clients_are_counted() {
    let stage = stage(&[]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = replica(&stage);
    let before = shown(&stage, "SHOW STATS").remove(0);
    assert_eq!(before["total_client_login_count"], "1");
    assert_eq!(before["total_server_assignment_count"], "1");
    let text = "x".repeat(10_000);
    client.ok(&format!("SELECT '{text}'"));
    client.ok("BEGIN");
    client.ok("COMMIT");
    let after = shown(&stage, "SHOW STATS").remove(0);
    let more = |name: &str| {
        let number = |row: &BTreeMap<String, String>| row[name].parse::<i64>().unwrap();
        number(&after) - number(&before)
    };
    assert_eq!(
        (more("total_query_count"), more("total_xact_count")),
        (3, 2)
    );
    assert!(more("total_received") > 10_000 && more("total_sent") > 10_000);
}

/// The last message arrives complete, also at a client that streams.
#[track_caller]
fn assert_sent_away(mut client: RawClient, text: &str) {
    let messages = client.receive_to_end();
    let last = messages.last().unwrap_or_else(|| panic!("no word"));
    assert_eq!(last.fields().text(), text);
}

#[test]
fn reconnect_and_kill_end_them() {
    let stage = stage(&[]);
    if stage.target() == Target::Bare {
        return;
    }
    let named = |slot: &str| {
        let mut client = stage.client_with(&[LOGICAL, ("application_name", &stage.database)]);
        stream(&mut client, &format!("{slot}_of_{}", stage.database));
        client
    };
    let mut operator = console(&stage);
    let client = named("reconnect");
    operator.ok(&format!("RECONNECT {}", stage.database));
    assert_sent_away(client, "database configuration changed");
    operator.ok(&format!("WAIT_CLOSE {}", stage.database));
    let client = named("kill");
    operator.ok(&format!("KILL {}", stage.database));
    assert_sent_away(client, "database removed");
    operator.ok(&format!("RESUME {}", stage.database));
    let client = named("kill_client");
    let id = shown(&stage, "SHOW CLIENTS")
        .remove(0)
        .remove("id")
        .unwrap();
    operator.ok(&format!("KILL_CLIENT {id}"));
    assert_sent_away(client, "admin forced disconnect");
    until("no server connection is left", || walsenders(&stage) == 0);
}

/// As clients in session pooling: a pause is complete when they have left, and newcomers wait.
#[test]
fn a_pause_waits_for_them() {
    let stage = stage(&[]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = replica(&stage);
    let mut operator = console(&stage);
    let pause = format!("PAUSE {}", stage.database);
    let paused = thread::spawn(move || {
        operator.ok(&pause);
        operator
    });
    until("the pause has begun", || {
        let databases = shown(&stage, "SHOW DATABASES");
        let mut of_it = databases.iter().filter(|row| row["name"] == stage.database);
        of_it.any(|row| row["paused"] == "1")
    });
    let (port, database) = (stage.port(), stage.database.clone());
    let newcomer = thread::spawn(move || {
        let parameters = [("user", "postgres"), ("database", &database), LOGICAL];
        RawClient::connect(port, &parameters).value("SELECT 8")
    });
    assert_eq!(client.value("SELECT 7"), "7");
    assert!(!paused.is_finished());
    drop(client);
    let mut operator = paused.join().unwrap();
    assert!(!newcomer.is_finished());
    operator.ok(&format!("RESUME {}", stage.database));
    assert_eq!(newcomer.join().unwrap(), "8");
}

/// Their connections are never idle.
#[test]
fn a_suspend_leaves_them_alone() {
    let stage = stage(&[]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = replica(&stage);
    let mut operator = console(&stage);
    operator.ok("SUSPEND");
    assert_eq!(client.value("SELECT 7"), "7");
    operator.ok("RESUME");
    assert_eq!(stage.client().value("SELECT 8"), "8");
}

/// SIGTERM waits for clients, SIGQUIT for none.
#[test]
fn a_shutdown_waits_for_its_timeout() {
    let mut stage = stage(&["shutdown_timeout=1h"]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = replica(&stage);
    let mut paceline = stage.take_paceline().unwrap();
    paceline.signal_and_hear("TERM", "shutting down");
    assert_eq!(client.value("SELECT 7"), "7");
    assert!(paceline.runs());
    drop(client);
    assert_eq!(paceline.ended(), Some(0));
}

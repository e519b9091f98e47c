//! Replication connections count among the server connections of a pool, a database and a user; time limits do not end them.

use super::{LOGICAL, cluster, replica, stage, stream, walsenders};
use crate::harness::cluster::Cluster;
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, until};
use std::thread;

/// A replication client whose server process has a name of its own.
fn named(stage: &Stage) -> RawClient {
    stage.client_with(&[LOGICAL, ("application_name", &stage.database)])
}

#[test]
fn an_idle_connection_of_the_pool_makes_room() {
    let stage = stage(&["default_pool_size=1", "query_wait_timeout=1s"]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut ordinary = stage.client();
    let before = ordinary.value("SELECT pg_backend_pid()");
    let mut client = named(&stage);
    assert_eq!(client.value("SELECT 7"), "7");
    let mut direct = stage.direct();
    let processes = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    until("the idle connection is closed", || {
        direct.number(processes) == 1
    });
    // The pool is full: of a connection that is never free.
    ordinary.send(&query("SELECT 1"));
    let error = ordinary.receive().fields();
    assert_eq!(error.text(), "query_wait_timeout");
    drop(client);
    let mut ordinary = stage.client();
    assert_ne!(ordinary.value("SELECT pg_backend_pid()"), before);
    until("it is closed with its client", || walsenders(&stage) == 0);
}

/// It has its turn when the requests before it have had theirs, and the pool is its own again afterwards.
#[test]
fn a_replication_client_waits_for_its_turn() {
    let stage = stage(&["default_pool_size=1"]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut ordinary = stage.client();
    let mut later = stage.client();
    ordinary.ok("BEGIN");
    let (port, database) = (stage.port(), stage.database.clone());
    let login = thread::spawn(move || {
        let parameters = [("user", "postgres"), ("database", &database), LOGICAL];
        let mut client = RawClient::connect(port, &parameters);
        client.value("SELECT pg_backend_pid()")
    });
    until("it waits", || clients(&stage) == 3);
    later.send(&query("SELECT pg_backend_pid()"));
    ordinary.ok("COMMIT");
    let replicated = login.join().unwrap();
    assert_ne!(later.reply().value(), replicated);
}

/// Clients of the pool, as the console counts them.
#[track_caller]
fn clients(stage: &Stage) -> i64 {
    let parameters = [("user", "boss"), ("database", "pgbouncer")];
    let mut console = RawClient::connect(stage.port(), &parameters);
    let pools = console.ok("SHOW POOLS").rows();
    let of_it = pools
        .iter()
        .filter(|row| row[0].as_deref() == Some(stage.database.as_str()));
    let number = |value: &Option<String>| value.as_deref().unwrap().parse::<i64>().unwrap();
    of_it.map(|row| number(&row[2]) + number(&row[3])).sum()
}

#[test]
fn a_replication_client_waits_no_longer_than_others() {
    let stage = stage(&["default_pool_size=1", "query_wait_timeout=1s"]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = replica(&stage);
    let parameters = [("user", "postgres"), ("database", &stage.database), LOGICAL];
    let error = RawClient::try_connect(stage.port(), &parameters)
        .err()
        .unwrap();
    assert_eq!(
        (error.sqlstate(), error.text()),
        ("08P01", "query_wait_timeout")
    );
    assert_eq!(client.value("SELECT 7"), "7");
}

/// The reserve is for those that have waited.
#[test]
fn the_reserve_is_for_replication_too() {
    let stage = stage(&[
        "default_pool_size=1",
        "reserve_pool_size=1",
        "reserve_pool_timeout=1s",
    ]);
    let mut one = replica(&stage);
    let mut other = replica(&stage);
    assert_eq!(
        (one.value("SELECT 1"), other.value("SELECT 2")),
        ("1".into(), "2".into())
    );
}

#[test]
fn limits_of_the_database_count_replication_connections() {
    let stage = stage(&["max_db_connections=1", "query_wait_timeout=1s"]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut direct = stage.direct();
    direct.ok("DO $$ BEGIN CREATE ROLE neighbour LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
    let as_neighbour = [("user", "neighbour"), ("database", &*stage.database)];
    let mut neighbour = RawClient::connect(stage.port(), &as_neighbour);
    neighbour.ok("SELECT 1");
    // Paceline closes the neighbour's idle connection.
    let mut client = replica(&stage);
    assert_eq!(client.value("SELECT 7"), "7");
    neighbour.send(&query("SELECT 1"));
    assert_eq!(neighbour.receive().fields().text(), "query_wait_timeout");
    drop(client);
    RawClient::connect(stage.port(), &as_neighbour).ok("SELECT 1");
}

/// Ordinary clients that do the same are sent away one after the other.
#[test]
fn no_time_limit_ends_a_stream() {
    let stage = stage(&[
        "client_idle_timeout=1s",
        "query_timeout=1s",
        "transaction_timeout=1s",
        "idle_transaction_timeout=1s",
        "server_lifetime=1s",
        "server_idle_timeout=1s",
    ]);
    if stage.target() == Target::Bare {
        return;
    }
    stage.direct().ok("CREATE TABLE t (n int)");
    let mut streaming = replica(&stage);
    stream(&mut streaming, "patient");
    let mut idle = replica(&stage);
    let mut in_transaction = replica(&stage);
    in_transaction.ok("BEGIN");
    for _ in 0..2 {
        let mut ordinary = stage.client();
        ordinary.send(&query("SELECT pg_sleep(600)"));
        assert!(!ordinary.receive_to_end().is_empty());
        let mut ordinary = stage.client();
        assert!(!ordinary.receive_to_end().is_empty());
    }
    stage.direct().ok("INSERT INTO t VALUES (1)");
    assert!(super::change(&mut streaming).starts_with("BEGIN"));
    assert_eq!(idle.value("SELECT 7"), "7");
    assert_eq!(in_transaction.ok("SELECT 7").status(), 'T');
}

/// A pool that only replicates keeps no ordinary connections in stock.
#[test]
fn replication_clients_need_no_stock() {
    let stage = stage(&["min_pool_size=2"]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = replica(&stage);
    // One round of maintenance, visible in another pool that it fills.
    let database = stage.cluster.database();
    let parameters = [("user", "postgres"), ("database", &*database)];
    let mut other = RawClient::connect(stage.port(), &parameters);
    other.ok("SELECT 1");
    let mut direct = stage.direct();
    let of = |name: &str| {
        format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    };
    until("the other pool has its stock", || {
        direct.number(&of(&database)) == 2
    });
    assert_eq!(direct.number(&of(&stage.database)), 0);
    assert_eq!(client.value("SELECT 7"), "7");
}

/// The server does not run when the client connects.
#[test]
fn a_replication_client_waits_for_the_server() {
    let cluster = Cluster::with(&[("wal_level", "logical")]);
    let stage = Stage::on(cluster.clone())
        .set("server_login_retry=1s")
        .set("admin_users=boss")
        .open();
    if stage.target() == Target::Bare {
        return;
    }
    cluster.kill();
    let (port, database) = (stage.port(), stage.database.clone());
    let login = thread::spawn(move || {
        let parameters = [("user", "postgres"), ("database", &database), LOGICAL];
        RawClient::connect(port, &parameters).value("SELECT 7")
    });
    let mut stage = stage;
    until("it has tried", || {
        stage
            .paceline()
            .is_some_and(|paceline| paceline.logged("no replication connection"))
    });
    cluster.restart();
    assert_eq!(login.join().unwrap(), "7");
}

/// A logical connection is one to its database, so its clients are counted there.
#[test]
fn the_server_is_never_asked_for_more_than_it_has() {
    let stage = stage(&["max_db_client_connections=1"]);
    if stage.target() == Target::Bare {
        return;
    }
    let _client = replica(&stage);
    let parameters = [("user", "postgres"), ("database", &stage.database), LOGICAL];
    let error = RawClient::try_connect(stage.port(), &parameters)
        .err()
        .unwrap();
    assert!(error.text().contains("max_db_client_connections"));
    assert!(cluster().port() > 0);
}

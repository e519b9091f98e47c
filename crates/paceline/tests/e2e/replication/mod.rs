//! Replication connections: PostgreSQL's own programs and raw clients stream through Paceline as from the server itself, each
//! on a server connection of its own.

mod limits;
mod operators;
mod programs;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::harness::caretaker;
use crate::harness::cluster::Cluster;
use crate::harness::message::{copy_data, copy_done, function_call, query, terminate, unit};
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, assert_same, until};

/// A server that can decode its WAL.
fn cluster() -> Arc<Cluster> {
    static CLUSTER: OnceLock<Arc<Cluster>> = OnceLock::new();
    let settings = [
        ("wal_level", "logical"),
        ("max_wal_senders", "40"),
        ("max_replication_slots", "40"),
        ("wal_sender_timeout", "0"),
    ];
    CLUSTER.get_or_init(|| Cluster::with(&settings)).clone()
}

/// A small server, for those that copy all of it.
fn small_cluster() -> Arc<Cluster> {
    static CLUSTER: OnceLock<Arc<Cluster>> = OnceLock::new();
    // A backup's WAL outlives the checkpoints of other tests.
    let settings = [("wal_keep_size", "1GB")];
    CLUSTER.get_or_init(|| Cluster::with(&settings)).clone()
}

fn stage(settings: &[&str]) -> Stage {
    let builder = settings
        .iter()
        .fold(Stage::on(cluster()), |builder, setting| {
            builder.set(setting)
        });
    builder.set("admin_users=boss").open()
}

const LOGICAL: (&str, &str) = ("replication", "database");
const PHYSICAL: (&str, &str) = ("replication", "true");

/// A logical replication client.
#[track_caller]
fn replica(stage: &Stage) -> RawClient {
    stage.client_with(&[LOGICAL])
}

/// Makes a slot that its client's connection keeps, and streams from it.
#[track_caller]
fn stream(client: &mut RawClient, slot: &str) {
    client.ok(&format!(
        "CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL test_decoding"
    ));
    let start = format!("START_REPLICATION SLOT {slot} LOGICAL 0/0");
    client.send(&query(&start));
    assert_eq!(client.receive().tag, b'W');
}

/// The next change that is streamed; keepalives are passed over.
#[track_caller]
fn change(client: &mut RawClient) -> String {
    loop {
        let message = client.receive();
        assert_eq!(message.tag, b'd', "{message:?}");
        if message.body[0] == b'w' {
            return String::from_utf8_lossy(&message.body[25..]).into_owned();
        }
    }
}

/// Ends a stream, and returns the reply.
#[track_caller]
fn end_stream(client: &mut RawClient) {
    client.send(&copy_done());
    client.reply().expect_ok("the end of the stream");
}

/// Server processes that serve replication connections.
#[track_caller]
fn walsenders(stage: &Stage) -> i64 {
    stage.direct().number(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND application_name = current_database()",
    )
}

#[test]
fn each_value_of_the_parameter_asks_for_what_postgresql_takes_it_for() {
    let stage = stage(&[]);
    for value in [
        "true", "on", "yes", "1", "TRUE", "y", "database", "false", "0",
    ] {
        let both = [stage.cluster.port(), stage.port()].map(|port| {
            let database = stage.database.as_str();
            let parameters = [
                ("user", "postgres"),
                ("database", database),
                ("replication", value),
                ("application_name", "a name"),
                ("options", "-c enable_seqscan=off -c extra_float_digits=3"),
                ("DateStyle", "German"),
            ];
            let mut client = RawClient::connect(port, &parameters);
            let reported = client.parameters.clone();
            let mut said = Vec::new();
            for sql in [
                "SHOW application_name",
                "SHOW enable_seqscan",
                "SHOW extra_float_digits",
                "SELECT 1",
                "nonsense",
                "TIMELINE_HISTORY 99",
            ] {
                said.extend(client.simple(sql).0);
            }
            let system = client.simple("IDENTIFY_SYSTEM");
            let described = system.0.iter().find(|message| message.tag == b'T');
            let columns = described.map(|message| message.columns());
            let mut values = system.rows();
            // The position moves.
            values.iter_mut().for_each(|row| row[2] = None);
            (reported, said, system.tags(), columns, values)
        });
        let [bare, here] = both;
        assert_same(value, &bare.1, &here.1);
        if value != "false" && value != "0" {
            assert_eq!(bare.0, here.0, "{value}");
        }
        assert_eq!((bare.2, bare.4), (here.2, here.4), "{value}");
    }
}

/// PostgreSQL's own errors on such a connection; the connection works afterwards.
#[test]
fn forbidden_commands_get_postgresqls_error() {
    let stage = stage(&[]);
    for kind in [LOGICAL, PHYSICAL] {
        let both = [stage.cluster.port(), stage.port()].map(|port| {
            let parameters = [("user", "postgres"), ("database", &stage.database), kind];
            let mut client = RawClient::connect(port, &parameters);
            let mut said = client.ask(&unit("SELECT 1", &[])).0;
            said.extend(client.ask(&function_call(1, &[])).0);
            said.extend(
                client
                    .simple("START_REPLICATION SLOT nowhere LOGICAL 0/0")
                    .0,
            );
            said.extend(client.simple("BASE_BACKUP (NONSENSE)").0);
            client.send(&terminate());
            said.extend(client.receive_to_end());
            said
        });
        let [bare, here] = both;
        assert_same(kind.1, &bare, &here);
    }
}

#[test]
fn a_user_that_may_not_replicate_gets_postgresqls_error() {
    let stage = stage(&[]);
    stage.direct().ok(
        "DO $$ BEGIN CREATE ROLE ordinary LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
    );
    for kind in [LOGICAL, PHYSICAL] {
        let both = [stage.cluster.port(), stage.port()].map(|port| {
            let parameters = [("user", "ordinary"), ("database", &stage.database), kind];
            let error = RawClient::try_connect(port, &parameters).err().unwrap();
            (error.sqlstate().to_owned(), error.text().to_owned())
        });
        assert_eq!(both[0], both[1]);
        assert_eq!(both[1].0, "42501");
    }
}

/// Ordinary SQL, a stream, its end, SQL again; a stream that is cut short; two at once.
#[test]
fn streams_begin_and_end() {
    let stage = stage(&["default_pool_size=3"]);
    stage.direct().ok("CREATE TABLE t (n int)");
    let mut one = replica(&stage);
    let mut other = replica(&stage);
    stream(&mut one, "one");
    stream(&mut other, "other");
    let mut ordinary = stage.client();
    for n in 1..4 {
        ordinary.ok(&format!("INSERT INTO t VALUES ({n})"));
        for client in [&mut one, &mut other] {
            assert!(change(client).starts_with("BEGIN"));
            assert_eq!(
                change(client),
                format!("table public.t: INSERT: n[integer]:{n}")
            );
            assert!(change(client).starts_with("COMMIT"));
            client.send(&copy_data(&status_update()));
        }
    }
    end_stream(&mut one);
    assert_eq!(one.value("SELECT count(*) FROM t"), "3");
    drop(other);
    let mut direct = stage.direct();
    until("the slot of the client that has gone is free", || {
        direct.number("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'other'") == 0
    });
    assert_eq!(one.value("SELECT 7"), "7");
}

/// A standby status update: nothing was written, and no answer is asked for.
fn status_update() -> Vec<u8> {
    let mut body = vec![b'r'];
    body.extend([0; 33]);
    body
}

/// The client's timeout ends after the stream has begun.
#[test]
fn a_cancel_request_reaches_the_stream() {
    let stage = stage(&[]);
    let mut client = replica(&stage);
    client.send(&query("SELECT pg_sleep(600)"));
    let mut direct = stage.direct();
    until("it sleeps", || {
        direct.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
        ) == 1
    });
    client.cancel();
    client.reply().expect_error("57014");
    stream(&mut client, "cancelled");
    client.cancel();
    let mut messages = client.receive_until(b"Z");
    messages.retain(|message| message.tag != b'd');
    assert_eq!(messages[0].fields().sqlstate(), "57014", "{messages:?}");
    assert_eq!(client.value("SELECT 7"), "7");
}

/// A client that reads nothing holds the server up, not Paceline's memory; the same the other way.
#[test]
fn neither_side_floods_the_other() {
    const BYTES: usize = 200 << 20;
    const LINE: usize = 1 << 20;
    let mut stage = stage(&[]);
    let mut client = replica(&stage);
    client.ok("CREATE TABLE lines (line text)");
    client.send(&query(&format!(
        "COPY (SELECT repeat('x', {LINE} - 1) FROM generate_series(1, {})) TO STDOUT",
        BYTES / LINE
    )));
    let mut direct = stage.direct();
    until("the server waits for its client", || {
        direct.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'",
        ) == 1
    });
    let reply = client.reply().expect_ok("a long answer");
    let data = reply.0.iter().filter(|message| message.tag == b'd');
    assert_eq!(data.map(|message| message.body.len()).sum::<usize>(), BYTES);
    // A lock keeps the server from reading what the client sends.
    direct.ok("BEGIN; LOCK TABLE lines");
    client.send(&query("COPY lines FROM STDIN"));
    let mut observer = stage.direct();
    until("the server waits for the lock", || {
        observer.number(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        ) == 1
    });
    let mut line = vec![b'y'; LINE - 1];
    line.push(b'\n');
    let message = copy_data(&line);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let sender = std::thread::spawn(move || {
        for _ in 0..100 {
            client.send(&message);
            count.fetch_add(1, Ordering::SeqCst);
        }
        client.send(&copy_done());
        client.reply().expect_ok("long data");
        client
    });
    until("a part is under way", || sent.load(Ordering::SeqCst) > 1);
    direct.ok("COMMIT");
    let mut client = sender.join().unwrap();
    assert_eq!(client.value("SELECT count(*) FROM lines"), "100");
    if let Some(paceline) = stage.paceline() {
        let peak = paceline.memory_kib("VmHWM");
        assert!(peak < 100 << 10, "{peak} KiB");
    }
}

/// A server that ends while its client does not read delays no other client, and the client reads the server's last messages.
#[test]
fn a_client_that_does_not_read_when_its_server_ends_delays_no_other() {
    let stage = stage(&["default_pool_size=80"]);
    let mut clients = Vec::new();
    // The kernel takes some of it, Paceline the rest: 256 KiB at most, of which the last part is to be left.
    for size in (2_000_000..12_000_000).step_by(200_000) {
        let mut client = replica(&stage);
        let pid = client.value("SELECT pg_backend_pid()");
        client.send(&query(&format!("SELECT repeat('x', {size})")));
        let mut direct = stage.direct();
        let states = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND (state = 'idle' OR wait_event = 'ClientWrite')"
        );
        until("the server has said what it can", || {
            direct.number(&states) == 1
        });
        direct.ok(&format!("SELECT pg_terminate_backend({pid})"));
        until("the server process ends", || {
            direct.number(&format!(
                "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"
            )) == 0
        });
        assert_eq!(stage.client().value("SELECT 1"), "1", "{size} bytes");
        clients.push(client);
    }
    // The clients receive the bytes that Paceline has read from the server.
    for client in &mut clients {
        assert!(client.try_receive().is_ok());
    }
}

/// The rules of a file have a keyword for physical replication.
#[test]
fn rules_decide_which_users_may_replicate() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let cluster = cluster();
    let rules = caretaker::folder("h").join("hba.conf");
    std::fs::write(
        &rules,
        "host all boss all trust\nhost replication postgres all trust\nhost postgres all all reject\n",
    )
    .unwrap();
    let paceline = Paceline::start(&format!("postgres://127.0.0.1:{}", cluster.port()))
        .set("auth_type=hba")
        .set(&format!("auth_hba_file={}", rules.display()))
        .spawn();
    let log_in = |kind| {
        let parameters = [("user", "postgres"), ("database", "postgres"), kind];
        RawClient::try_connect(paceline.port(), &parameters).err()
    };
    assert!(log_in(PHYSICAL).is_none());
    for kind in [LOGICAL, ("replication", "off")] {
        assert_eq!(log_in(kind).unwrap().text(), "login rejected");
    }
}

#[test]
fn the_console_takes_no_replication() {
    let stage = stage(&[]);
    if stage.target() == Target::Bare {
        return;
    }
    let parameters = [("user", "boss"), ("database", "pgbouncer"), PHYSICAL];
    let error = RawClient::try_connect(stage.port(), &parameters)
        .err()
        .unwrap();
    assert_eq!(error.sqlstate(), "0A000");
}

//! Logging in to servers with every kind of password, refusals told as PostgreSQL tells them, Unix sockets, and
//! PostgreSQL's own programs as clients.

use std::process::Command;
use std::sync::{Arc, OnceLock};

use crate::harness::Stage;
use crate::harness::caretaker;
use crate::harness::cluster::Cluster;
use crate::harness::message::startup;
use crate::harness::paceline::Paceline;
use crate::harness::programs::{output, program};
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::reply::transcript;
use crate::harness::stage::Target;

const ROLES: &str = "
    SET password_encryption = 'scram-sha-256';
    CREATE ROLE by_scram LOGIN PASSWORD 'p:/@ %ä';
    CREATE ROLE in_clear LOGIN PASSWORD 'in clear';
    CREATE ROLE trusted LOGIN;
    CREATE ROLE forbidden LOGIN;
    CREATE ROLE sleeper NOLOGIN;
    SET password_encryption = 'md5';
    CREATE ROLE by_md5 LOGIN PASSWORD 'md5 secret';
";
const HBA: &str = "\
local all all trust
host all forbidden all reject
host all by_scram all scram-sha-256
host all in_clear all password
host all by_md5 all md5
host all all all trust
";

/// The server with these roles; `None` when PostgreSQL is the target. Shared by this module's tests, so its tests take
/// part in ending it: each holds it, and the caretaker has the last word.
fn cluster() -> Option<Arc<Cluster>> {
    static CLUSTER: OnceLock<Arc<Cluster>> = OnceLock::new();
    if Target::chosen() == Target::Bare {
        return None;
    }
    let cluster = CLUSTER.get_or_init(|| {
        let cluster = Cluster::private();
        let mut client = cluster.client("postgres");
        client.ok(ROLES);
        std::fs::write(client.value("SHOW hba_file"), HBA).unwrap();
        client.ok("SELECT pg_reload_conf()");
        crate::harness::until("the new pg_hba.conf counts", || {
            refuses(&cluster, "forbidden")
        });
        cluster
    });
    Some(cluster.clone())
}

fn refuses(cluster: &Cluster, user: &str) -> bool {
    RawClient::try_connect(cluster.port(), &[("user", user), ("database", "postgres")]).is_err()
}

fn paceline(cluster: &Cluster, login: &str) -> Paceline {
    Paceline::start(&format!("postgres://{login}127.0.0.1:{}", cluster.port()))
        .set("default_pool_size=2")
        .spawn()
}

fn connect(paceline: &Paceline, user: &str) -> RawClient {
    RawClient::connect(paceline.port(), &[("user", user), ("database", "postgres")])
}

#[test]
fn every_kind_of_password() {
    let Some(cluster) = cluster() else { return };
    let logins = [
        ("by_scram", "by_scram:p%3A%2F%40%20%25%C3%A4@"),
        ("by_md5", "by_md5:md5%20secret@"),
        ("in_clear", "in_clear:in%20clear@"),
        ("trusted", "trusted@"),
    ];
    for (role, login) in logins {
        println!("{role}");
        let paceline = paceline(&cluster, login);
        let mut clients = [
            connect(&paceline, "whoever"),
            connect(&paceline, "postgres"),
        ];
        for client in &mut clients {
            assert_eq!(client.value("SELECT current_user"), role);
            // A second server connection logs in, too.
            client.ok("BEGIN");
        }
    }
}

/// Without a user in the URL each client is itself.
#[test]
fn each_client_is_itself() {
    let Some(cluster) = cluster() else { return };
    let paceline = paceline(&cluster, "");
    for user in ["trusted", "postgres", "trusted"] {
        assert_eq!(connect(&paceline, user).value("SELECT current_user"), user);
    }
}

/// The error that PostgreSQL has for this login, told to the client at once or when it first needs a server.
fn refusal(port: u16, user: &str, database: &str) -> Vec<String> {
    let mut client = RawClient::open(port);
    client.send(&startup(
        PROTOCOL,
        &[("user", user), ("database", database)],
    ));
    let messages = client.receive_until(b"EZ");
    let mut told: Vec<_> = messages
        .into_iter()
        .filter(|message| message.tag == b'E')
        .collect();
    if told.is_empty() {
        client.send(&crate::harness::message::query("SELECT 1"));
        told = client.receive_until(b"E");
    }
    transcript(&told)
}

#[test]
fn refusals_are_postgresqls() {
    let Some(cluster) = cluster() else { return };
    let paceline = paceline(&cluster, "");
    let logins = [
        ("postgres", "no_such_database"),
        ("no_such_role", "postgres"),
        ("sleeper", "postgres"),
        ("forbidden", "postgres"),
    ];
    for (user, database) in logins {
        let bare = refusal(cluster.port(), user, database);
        assert_eq!(
            refusal(paceline.port(), user, database),
            bare,
            "{user} {database}"
        );
        assert_eq!(connect(&paceline, "trusted").value("SELECT 1"), "1");
    }
}

#[test]
fn wrong_passwords_are_told_to_the_client() {
    let Some(cluster) = cluster() else { return };
    for role in ["by_scram", "by_md5", "in_clear"] {
        let wrong = paceline(&cluster, &format!("{role}:wrong@"));
        let told = refusal(wrong.port(), "whoever", "postgres").concat();
        assert!(told.contains("28P01"), "{told}");
        assert!(
            told.contains(&format!(
                "password authentication failed for user \\\"{role}\\\""
            )),
            "{told}"
        );
        assert!(!told.contains("wrong"), "the password is shown: {told}");
        let url = format!(
            "it=postgres://{role}:wrong@127.0.0.1:{}/postgres",
            cluster.port()
        );
        let mut bench = Command::new(env!("CARGO_BIN_EXE_paceline"));
        let bench = bench.args(["bench", "hot-row", "--clients", "1", "--against", &url]);
        let told = String::from_utf8(bench.output().unwrap().stdout).unwrap();
        assert!(
            told.contains("password authentication failed for user"),
            "{told}"
        );
        assert!(!told.contains("wrong"), "the password is shown: {told}");
        // A password is wanted and there is none.
        let none = paceline(&cluster, &format!("{role}@"));
        let told = refusal(none.port(), "whoever", "postgres").concat();
        assert!(told.contains("C=\"28") || told.contains("C=\"08"), "{told}");
    }
}

#[test]
fn unix_socket_to_the_server() {
    let Some(cluster) = cluster() else { return };
    let folder = cluster.socket_dir();
    let url = format!(
        "postgres:///?host={}&port={}",
        folder.display(),
        cluster.port()
    );
    let paceline = Paceline::start(&url).spawn();
    let mut client = connect(&paceline, "postgres");
    assert_eq!(client.value("SELECT inet_server_addr() IS NULL"), "t");
}

#[test]
fn unix_socket_for_clients() {
    let Some(cluster) = cluster() else { return };
    let folder = caretaker::folder("s");
    let mut paceline = Paceline::start(&format!("postgres://127.0.0.1:{}", cluster.port()))
        .set(&format!("unix_socket_dir={}", folder.display()))
        .spawn();
    let port = paceline.port().to_string();
    let mut psql = program("psql");
    psql.args(["-X", "-A", "-t", "-h"]).arg(&folder);
    psql.args([
        "-p",
        &port,
        "-U",
        "trusted",
        "-d",
        "postgres",
        "-c",
        "SELECT 'by socket'",
    ]);
    assert_eq!(output(&mut psql).trim(), "by socket");
    assert_eq!(paceline.stop(), Some(0));
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "the socket is left behind"
    );
}

#[test]
fn paceline_is_ready_for_pg_isready() {
    let stage = Stage::on_shared().open();
    let mut command = program("pg_isready");
    command.args(["-h", "127.0.0.1", "-p", &stage.port().to_string()]);
    assert!(output(&mut command).contains("accepting connections"));
}

fn psql(stage: &Stage) -> Command {
    let mut command = program("psql");
    command.args(["-X", "-A", "-t", "-h", "127.0.0.1", "-U", "postgres"]);
    command.args(["-p", &stage.port().to_string(), "-d", &stage.database]);
    command
}

#[test]
fn psql_works() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let printed = output(psql(&stage).args(["-c", "SELECT 40 + 2", "-c", "SELECT 'two'"]));
    assert_eq!(printed, "42\ntwo\n");
    let script = "CREATE TABLE p (id int PRIMARY KEY, n int);\n\\copy p FROM PROGRAM 'echo 1,2' CSV\n\\d p\nBEGIN;\n\
                  UPDATE p SET n = n + 1 WHERE id = 1;\nCOMMIT;\n\\copy p TO STDOUT\nSELECT count(*) FROM p \\gset\n\\echo :count\n";
    let file = caretaker::folder("p").join("script.sql");
    std::fs::write(&file, script).unwrap();
    let printed = output(
        psql(&stage)
            .args(["-v", "ON_ERROR_STOP=1", "-f"])
            .arg(&file),
    );
    assert!(printed.contains("1\t3\n1\n"), "{printed}");
}

fn pgbench(port: u16, stage: &Stage) -> Command {
    let mut command = program("pgbench");
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    command.args(["-n", &stage.database]);
    command
}

/// The four sums that TPC-B keeps equal.
fn check_sums(stage: &Stage) {
    let mut direct = stage.direct();
    let sums = direct.ok(
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
                (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history)",
    );
    let row = sums.rows().remove(0);
    assert!(row.iter().all(|sum| *sum == row[0]), "{row:?}");
}

#[test]
fn pgbench_works_in_every_mode() {
    let stage = Stage::on_shared()
        .set("default_pool_size=4")
        .set("hotspot_for_autocommit=true")
        .open();
    output(pgbench(stage.cluster.port(), &stage).args(["-i", "-q", "-s", "1"]));
    // Single statements, all on one row: these travel together.
    let hot = caretaker::folder("b").join("hot.sql");
    std::fs::write(
        &hot,
        "\\set amount random(1, 1)\n\\set row 1\nUPDATE hot SET n = n + :amount WHERE id = :row;\n",
    )
    .unwrap();
    stage
        .direct()
        .ok("CREATE TABLE hot (id int PRIMARY KEY, n bigint); INSERT INTO hot VALUES (1, 0)");
    for mode in ["simple", "extended", "prepared"] {
        println!("{mode}");
        output(pgbench(stage.port(), &stage).args(["-M", mode, "-c", "16", "-j", "2", "-t", "20"]));
        output(
            pgbench(stage.port(), &stage)
                .args(["-M", mode, "-c", "4", "-j", "2", "-t", "10", "-C"]),
        );
        output(
            pgbench(stage.port(), &stage)
                .args(["-M", mode, "-S", "-c", "16", "-j", "2", "-t", "50"]),
        );
        output(
            pgbench(stage.port(), &stage)
                .args(["-M", mode, "-c", "32", "-j", "2", "-t", "20", "-f"])
                .arg(&hot),
        );
        check_sums(&stage);
    }
    assert_eq!(stage.direct().number("SELECT n FROM hot"), 3 * 32 * 20);
    stage.assert_grouped(100, 3);
}

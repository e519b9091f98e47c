//! Logins of clients: with every kind of secret and every way to prove it, by PostgreSQL's own program and by a driver; of
//! unknown users, with wrong passwords, and broken off; and the logins at the server, which also requires a password.

mod broken;
mod later;
mod looked_up;
mod methods;
mod rotated;
mod rules;
mod strangers;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use crate::harness::caretaker;
use crate::harness::cluster::Cluster;
use crate::harness::message::{any, startup};
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::programs::{output, program};
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::reply::{Fields, Message};
use crate::harness::stage::Target;

const SCRAM_PASSWORD: &str = "p:/@ %ä";
const MD5_PASSWORD: &str = "md5 secret";
const ROLES: &str = "
    SET password_encryption = 'scram-sha-256';
    CREATE ROLE by_scram LOGIN PASSWORD 'p:/@ %ä';
    CREATE ROLE changing LOGIN PASSWORD 'before';
    CREATE ROLE expired LOGIN PASSWORD 'late' VALID UNTIL '2000-01-01';
    CREATE ROLE sleeper NOLOGIN PASSWORD 'asleep';
    CREATE ROLE asker LOGIN SUPERUSER PASSWORD 'asks';
    CREATE ROLE forbidden LOGIN;
    CREATE ROLE app LOGIN PASSWORD 'of the app';
    SET password_encryption = 'md5';
    CREATE ROLE by_md5 LOGIN PASSWORD 'md5 secret';
";
const HBA: &str = "\
local all all trust
host all forbidden all reject
host all postgres all trust
host all by_md5 all md5
host all all all scram-sha-256
";

/// The server with these roles, all of which need a password except `postgres`; `None` when PostgreSQL is the target.
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
            let forbidden = [("user", "forbidden"), ("database", "postgres")];
            RawClient::try_connect(cluster.port(), &forbidden).is_err()
        });
        cluster
    });
    Some(cluster.clone())
}

/// The secret that PostgreSQL has stored for a role's password.
fn stored(cluster: &Cluster, role: &str) -> String {
    let sql = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'");
    cluster.client("postgres").value(&sql)
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = caretaker::folder("a").join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A file of users, each with its secret.
fn userlist(users: &[(&str, &str)]) -> PathBuf {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let lines = users
        .iter()
        .map(|(user, secret)| format!("{} {}\n", quoted(user), quoted(secret)));
    file("userlist.txt", &lines.collect::<String>())
}

/// A Paceline without passwords for the server.
fn start(cluster: &Cluster) -> Builder {
    Paceline::start(&format!("postgres://127.0.0.1:{}", cluster.port())).set("default_pool_size=2")
}

/// As `start`, with this way to log in and these users.
fn with_users(cluster: &Cluster, auth_type: &str, users: &[(&str, &str)]) -> Paceline {
    start(cluster)
        .set(&format!("auth_type={auth_type}"))
        .set(&format!("auth_file={}", userlist(users).display()))
        .spawn()
}

fn psql(host: &str, port: u16, user: &str, password: &str) -> Command {
    let mut command = program("psql");
    command.args([
        "-X", "-A", "-t", "-w", "-h", host, "-U", user, "-d", "postgres",
    ]);
    command.args(["-p", &port.to_string(), "-c", "SELECT current_user"]);
    command.env("PGPASSWORD", password);
    command
}

/// Logs in by libpq and by a driver; both have the user that they name.
async fn assert_let_in(port: u16, user: &str, password: &str) {
    let printed = output(&mut psql("127.0.0.1", port, user, password));
    assert_eq!(printed.trim(), user);
    let mut config = tokio_postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(port)
        .dbname("postgres")
        .user(user)
        .password(password);
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    let driven = tokio::spawn(connection);
    let row = client
        .query_one("SELECT current_user::text", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, String>(0), user);
    drop(client);
    driven.await.unwrap().unwrap();
}

/// The error that a driver gets when its login is rejected: SQLSTATE and message.
async fn login_error(port: u16, user: &str, password: &str) -> (String, String) {
    let mut config = tokio_postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(port)
        .dbname("postgres")
        .user(user)
        .password(password);
    match config.connect(tokio_postgres::NoTls).await {
        Ok(_) => panic!("{user} is let in"),
        Err(error) => {
            let told = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
            (told.code().code().to_owned(), told.message().to_owned())
        }
    }
}

fn wrong_password(user: &str) -> (String, String) {
    let message = format!("password authentication failed for user \"{user}\"");
    ("28P01".to_owned(), message)
}

/// A client that has sent its startup packet, and the first message that it received.
fn knock(port: u16, user: &str) -> (RawClient, Message) {
    let mut client = RawClient::open(port);
    client.send(&startup(
        PROTOCOL,
        &[("user", user), ("database", "postgres")],
    ));
    let first = client.receive();
    (client, first)
}

/// The error that a client gets at once.
fn refusal(port: u16, user: &str) -> Fields {
    let (_, first) = knock(port, user);
    assert_eq!(first.tag, b'E', "{first:?}");
    first.fields()
}

/// `PasswordMessage`, `SASLInitialResponse` or `SASLResponse`.
fn proof(body: &[u8]) -> Vec<u8> {
    any(b'p', body)
}

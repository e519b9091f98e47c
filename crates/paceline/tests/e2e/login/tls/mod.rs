//! TLS on both sides: clients that want it, may have it or must have it; servers that have it, insist on it or have none.

mod bulk;
mod clients;
mod line;
pub(crate) mod papers;
mod servers;

use std::sync::{Arc, OnceLock};

use papers::{Papers, papers};

use crate::harness::cluster::Cluster;
use crate::harness::message;
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::raw::RawClient;
use crate::harness::until;

/// The login of the tests.
const LOGIN: [(&str, &str); 2] = [("user", "postgres"), ("database", "postgres")];

/// Is the server connection encrypted, as PostgreSQL sees it?
const IS_ENCRYPTED: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

/// The ways in which clients may connect.
const HBA: &str = "
    hostssl   all only_tls   127.0.0.1/32 trust
    host      all only_tls   127.0.0.1/32 reject
    hostnossl all only_plain 127.0.0.1/32 trust
    host      all only_plain 127.0.0.1/32 reject
    hostssl   all certified  127.0.0.1/32 cert
    host      all bound      127.0.0.1/32 scram-sha-256
    local     all all                     trust
    host      all all        127.0.0.1/32 trust
";

const ROLES: &str = "
    CREATE ROLE only_tls LOGIN; CREATE ROLE only_plain LOGIN; CREATE ROLE certified LOGIN;
    SET password_encryption = 'scram-sha-256'; CREATE ROLE bound LOGIN PASSWORD 'secret'";

/// A PostgreSQL with `ssl = on`, that all tests of this theme share.
fn cluster() -> Arc<Cluster> {
    static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
    SHARED.get_or_init(|| encrypted(papers())).clone()
}

fn encrypted(papers: &Papers) -> Arc<Cluster> {
    let cluster = Cluster::private();
    let mut admin = cluster.client("postgres");
    let folder = admin.value("SHOW data_directory");
    papers.give_to_server(folder.as_ref());
    std::fs::write(format!("{folder}/pg_hba.conf"), HBA).unwrap();
    admin.ok(ROLES);
    admin.ok("ALTER SYSTEM SET ssl = on");
    admin.ok("ALTER SYSTEM SET ssl_ca_file = 'root.crt'");
    admin.ok("SELECT pg_reload_conf()");
    until("PostgreSQL speaks TLS", || {
        let mut client = RawClient::open(cluster.port());
        client.send(&message::ssl_request());
        client.receive_byte() == b'S'
    });
    cluster
}

/// Paceline before that server; `login` is the user in the URL, `query` its part after the `?`.
fn before(login: &str, query: &str) -> Builder {
    let port = cluster().port();
    Paceline::start(&format!("postgres://{login}127.0.0.1:{port}/?{query}"))
}

/// It has a certificate for clients, too.
fn for_clients(builder: Builder, mode: &str) -> Builder {
    let papers = papers();
    builder
        .set(&format!("client_tls_sslmode={mode}"))
        .set(&format!("client_tls_key_file={}", papers.key("server")))
        .set(&format!("client_tls_cert_file={}", papers.cert("server")))
        .set(&format!("client_tls_ca_file={}", papers.authority()))
}

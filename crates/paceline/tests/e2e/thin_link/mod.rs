//! Two Pacelines with a compressed connection between them: negotiation, content, faults and secrets.

mod content;
mod faults;
mod negotiation;
mod secrets;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::Wire;

use crate::harness::cluster::{self, Cluster};
use crate::harness::http;
use crate::harness::open_metrics::Scrape;
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::raw::RawClient;

/// Two Pacelines: clients connect to the near one, and the far one connects to PostgreSQL.
struct Link {
    database: String,
    cluster: Arc<Cluster>,
    near: Paceline,
    /// The connection of the near one to the far one.
    wire: Wire,
    far: Paceline,
}

/// A Paceline beside the database.
fn far(cluster: &Cluster) -> Builder {
    Paceline::start(&format!("postgres://127.0.0.1:{}", cluster.port()))
        .set("client_compression=zstd")
        .set("admin_users=boss")
        .set("metrics_listen=127.0.0.1:0")
}

/// A Paceline beside the clients, in front of this port.
fn near(port: u16) -> Builder {
    Paceline::start(&format!("postgres://127.0.0.1:{port}"))
        .set("server_compression=zstd")
        .set("server_tls_sslmode=disable")
        .set("admin_users=boss")
        .set("metrics_listen=127.0.0.1:0")
}

impl Link {
    /// With these settings of the near one.
    #[track_caller]
    fn with(settings: &[&str]) -> Self {
        let cluster = cluster::shared();
        let far = far(&cluster).spawn();
        let wire = Wire::to(far.port());
        let near = settings
            .iter()
            .fold(near(wire.port()), |near, set| near.set(set));
        Self {
            database: cluster.database(),
            near: near.spawn(),
            wire,
            far,
            cluster,
        }
    }

    #[track_caller]
    fn client(&self) -> RawClient {
        client(&self.near, &self.database)
    }

    #[track_caller]
    fn direct(&self) -> RawClient {
        self.cluster.client(&self.database)
    }
}

#[track_caller]
fn client(paceline: &Paceline, database: &str) -> RawClient {
    RawClient::connect(
        paceline.port(),
        &[("user", "postgres"), ("database", database)],
    )
}

/// The compression of the connections of a database in the console: `zstd` if one is compressed.
#[track_caller]
fn listed(paceline: &Paceline, show: &str, database: &str) -> Vec<String> {
    let login = [("user", "boss"), ("database", "pgbouncer")];
    let mut operator = RawClient::connect(paceline.port(), &login);
    let reply = operator.ok(show);
    let described = reply.0.iter().find(|message| message.tag == b'T');
    let columns = described.unwrap().columns();
    let rows = reply.rows().into_iter().map(|row| -> BTreeMap<_, _> {
        let values = row.into_iter().map(Option::unwrap_or_default);
        columns.iter().cloned().zip(values).collect()
    });
    let rows = rows.filter(|row| row["database"] == database);
    rows.map(|row| row["compression"].clone()).collect()
}

/// Bytes before compression, and as they are transmitted.
#[track_caller]
fn bytes(paceline: &Paceline, side: &str, direction: &str) -> [f64; 2] {
    let scrape = Scrape::read(&http::get(&paceline.metrics(), "/metrics").body);
    ["plain", "transmitted"].map(|form| {
        let name = format!("paceline_compression_{form}_bytes_total");
        scrape.sum(&name, &[("side", side), ("direction", direction)])
    })
}

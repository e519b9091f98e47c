//! The actions of an operator on a running process: signals, reloads, restarts, systemd. (Other tests of the console's commands:
//! `crates/admin/src/commands/tests.rs`.)

pub(crate) mod console;
mod faults;
mod metrics;
mod pause;
mod peers;
mod reload;
mod rolling;
mod shutdown;
mod systemd;
mod traces;
mod web;

use std::sync::Arc;

use crate::harness::cluster::{self, Cluster};
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::raw::RawClient;
use crate::harness::stage::{Target, counters};
use crate::harness::until;

/// A database, and a Paceline that has a configuration file.
struct Scene {
    cluster: Arc<Cluster>,
    database: String,
    paceline: Paceline,
}

/// The text of a configuration file: these settings, and the server for every database.
fn file(settings: &str, cluster: &Cluster) -> String {
    format!(
        "[paceline]\n{settings}\n[databases.\"*\"]\nprimary = \"postgres://127.0.0.1:{}\"\n",
        cluster.port()
    )
}

/// `None`: there is no Paceline to send commands to.
fn scene(settings: &str, more: impl FnOnce(Builder) -> Builder) -> Option<Scene> {
    if Target::chosen() == Target::Bare {
        return None;
    }
    let cluster = cluster::shared();
    let builder = Paceline::configured(&file(settings, &cluster));
    Some(Scene {
        database: cluster.database(),
        paceline: more(builder).spawn(),
        cluster,
    })
}

impl Scene {
    fn parameters(&self) -> [(&str, &str); 2] {
        [("user", "postgres"), ("database", &self.database)]
    }

    #[track_caller]
    fn client(&self) -> RawClient {
        RawClient::connect(self.paceline.port(), &self.parameters())
    }

    #[track_caller]
    fn direct(&self) -> RawClient {
        self.cluster.client(&self.database)
    }

    fn url(&self) -> String {
        let (port, database) = (self.paceline.port(), &self.database);
        format!("postgres://postgres@127.0.0.1:{port}/{database}")
    }

    /// Replaces the settings of the file; returns when the new ones are in force.
    #[track_caller]
    fn reload(&self, settings: &str) {
        let text = file(settings, &self.cluster);
        self.paceline.reload(&text, "Reload: done");
    }
}

/// Server connections to this database, seen from a direct connection.
#[track_caller]
fn server_connections(direct: &mut RawClient) -> i64 {
    direct.number(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
}

/// Returns when exactly `count` requests are in the line, according to this client.
#[track_caller]
fn await_line(status: &mut RawClient, count: i64) {
    until(&format!("{count} requests are in the line"), || {
        counters(status).waiting == count
    });
}

/// Tables for [`crate::harness::load`].
fn table(direct: &mut RawClient) {
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
         INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
}

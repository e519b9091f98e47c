//! The behaviour that users of PgBouncer expect: of their `pgbouncer.ini`, of the log, and of a program that is called `pgbouncer`.

mod command_line;
mod logging;
mod readiness;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::harness::caretaker;
use crate::harness::cluster::{self, Cluster};
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;

/// A `pgbouncer.ini` in a folder of its own, and a server.
struct Site {
    cluster: Arc<Cluster>,
    database: String,
    folder: PathBuf,
    ini: PathBuf,
}

impl Site {
    /// `settings` are further lines of `[pgbouncer]`, `parameters` those of the database. `None`: there is no Paceline to test.
    fn new(settings: &str, parameters: &str) -> Option<Self> {
        if Target::chosen() == Target::Bare {
            return None;
        }
        let cluster = cluster::shared();
        let folder = caretaker::folder("pb");
        let site = Self {
            database: cluster.database(),
            ini: folder.join("pgbouncer.ini"),
            folder,
            cluster,
        };
        site.write(settings, parameters);
        Some(site)
    }

    fn write(&self, settings: &str, parameters: &str) {
        let text = format!(
            "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = 0\nauth_type = trust\nunix_socket_dir =\n\
             admin_users = boss\n{settings}\n\
             [databases]\n{} = host=127.0.0.1 port={} {parameters}\n",
            self.database,
            self.cluster.port()
        );
        std::fs::write(&self.ini, text).unwrap();
    }

    fn served(&self) -> Paceline {
        Paceline::with_file(&self.ini).spawn()
    }

    #[track_caller]
    fn client(&self, port: u16) -> RawClient {
        RawClient::connect(port, &self.parameters())
    }

    fn parameters(&self) -> [(&str, &str); 2] {
        [("user", "postgres"), ("database", &self.database)]
    }

    /// A number in the row of its pool in `SHOW POOLS`.
    #[track_caller]
    fn in_pools(&self, boss: &mut RawClient, column: &str) -> Option<String> {
        let reply = boss.ok("SHOW POOLS");
        let place = reply.0[0].columns().iter().position(|name| name == column);
        let mut rows = reply.rows().into_iter();
        let mut row = rows.find(|row| row[0].as_deref() == Some(&self.database))?;
        row.swap_remove(place.unwrap())
    }

    #[track_caller]
    fn direct(&self) -> RawClient {
        self.cluster.client(&self.database)
    }
}

/// An operator's session of the console.
#[track_caller]
fn console(port: u16) -> RawClient {
    RawClient::connect(port, &[("user", "boss"), ("database", "pgbouncer")])
}

fn text_of(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

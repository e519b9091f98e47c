//! A coordinator with `postgres_fdw`, and two shards.

use super::cluster::Cluster;
use super::paceline::{Builder, Paceline};
use super::raw::RawClient;
use super::watchdog::watch;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The server with the rows of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Coordinator,
    Shard(usize),
}

/// A database on a coordinator, and one of the same name on each of two shards, the foreign servers `s0` and `s1`.
pub(crate) struct Sharded {
    pub(crate) coordinator: Arc<Cluster>,
    pub(crate) shards: [Arc<Cluster>; 2],
    pub(crate) database: String,
}

/// The servers that all tests of this process share.
fn servers() -> [Arc<Cluster>; 3] {
    static SHARED: OnceLock<[Arc<Cluster>; 3]> = OnceLock::new();
    let shared = SHARED.get_or_init(|| std::array::from_fn(|_| Cluster::private()));
    watch();
    shared.clone()
}

impl Sharded {
    /// New databases on servers that tests share.
    pub(crate) fn new() -> Self {
        Self::on(servers())
    }

    /// New databases on servers of their own.
    pub(crate) fn alone() -> Self {
        Self::on(std::array::from_fn(|_| Cluster::private()))
    }

    fn on([coordinator, first, second]: [Arc<Cluster>; 3]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let sharded = Self {
            coordinator,
            shards: [first, second],
            database: format!("sharded{number}"),
        };
        let create = format!("CREATE DATABASE {}", sharded.database);
        for server in [&sharded.coordinator].into_iter().chain(&sharded.shards) {
            server.client("postgres").ok(&create);
        }
        let mut coordinator = sharded.on_coordinator();
        coordinator.ok("CREATE EXTENSION postgres_fdw");
        for (number, shard) in sharded.shards.iter().enumerate() {
            let (port, database) = (shard.port(), &sharded.database);
            coordinator.ok(&format!(
                "CREATE SERVER s{number} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname '{database}');
                 CREATE USER MAPPING FOR PUBLIC SERVER s{number} OPTIONS (user 'postgres', password_required 'false')"
            ));
        }
        sharded
    }

    /// A connection straight to the coordinator, as the superuser.
    pub(crate) fn on_coordinator(&self) -> RawClient {
        self.coordinator.client(&self.database)
    }

    /// A connection straight to a shard, as the superuser.
    pub(crate) fn on_shard(&self, number: usize) -> RawClient {
        self.shards[number].client(&self.database)
    }

    /// Creates the table `name` with these columns and constraints, partitioned as `by` says. Partition number `n`, `NAME_n`, has the nth
    /// bounds. `keys` are further constraints of the tables on shards, as the coordinator cannot have unique keys, from the comma on.
    pub(crate) fn table(
        &self,
        name: &str,
        columns: &str,
        keys: &str,
        by: &str,
        partitions: &[(&str, At)],
    ) {
        let mut coordinator = self.on_coordinator();
        coordinator.ok(&format!(
            "CREATE TABLE {name} ({columns}) PARTITION BY {by}"
        ));
        for (number, (bounds, at)) in partitions.iter().enumerate() {
            let partition = format!("{name}_{number}");
            match at {
                At::Coordinator => {
                    coordinator.ok(&format!(
                        "CREATE TABLE {partition} PARTITION OF {name} {bounds}"
                    ));
                }
                At::Shard(shard) => {
                    let create = format!("CREATE TABLE {partition} ({columns}{keys})");
                    self.on_shard(*shard).ok(&create);
                    coordinator.ok(&format!(
                        "CREATE FOREIGN TABLE {partition} PARTITION OF {name} {bounds} SERVER s{shard}"
                    ));
                }
            }
        }
    }

    /// The same with partitions by hash, in turn on both shards.
    pub(crate) fn hash_table(
        &self,
        name: &str,
        columns: &str,
        keys: &str,
        key: &str,
        partitions: usize,
    ) {
        let bounds = (0..partitions).map(|remainder| {
            format!("FOR VALUES WITH (MODULUS {partitions}, REMAINDER {remainder})")
        });
        let bounds: Vec<String> = bounds.collect();
        let places = (0..).map(|number| At::Shard(number % 2));
        let partitions = bounds.iter().map(String::as_str).zip(places);
        let partitions: Vec<_> = partitions.collect();
        self.table(name, columns, keys, &format!("HASH ({key})"), &partitions);
    }

    /// The table of the database in the configuration, behind which more keys may follow.
    pub(crate) fn configured(&self) -> String {
        let (port, database) = (self.coordinator.port(), &self.database);
        format!(
            "[databases.{database}]\nprimary = \"postgres://postgres@127.0.0.1:{port}/{database}\"\nshards = \"auto\"\n"
        )
    }

    /// Paceline with these settings in front of the coordinator.
    pub(crate) fn paceline(&self, settings: &str) -> Builder {
        Paceline::configured(&format!(
            "[paceline]\nadmin_users = \"postgres\"\n{settings}\n{}",
            self.configured()
        ))
    }
}

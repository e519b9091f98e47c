//! Statements on sharded tables: each answer is one that a single server with all partitions would give, to the byte.

mod changes;
mod check;
mod errors;
mod fingerprints;
mod generated;
mod groups;
mod hosts;
mod keys;
mod map;
mod outages;
mod refusals;
mod replicas;
mod statements;

use crate::harness::cluster::Cluster;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::until;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The columns and constraints of `accounts`, everywhere.
const COLUMNS: &str = "id bigint NOT NULL, owner text, balance numeric(12, 2) DEFAULT 0 NOT NULL, \
     note varchar(12), at timestamptz, tags int[], CONSTRAINT covered CHECK (balance >= -100)";

/// Number of partitions by hash; half of them are on each shard.
const PARTITIONS: usize = 4;

/// A coordinator whose table `accounts` has its partitions on two shards, a database with the same table on one server, and Paceline
/// in front of the coordinator.
pub(super) struct ShardedAccounts {
    /// Ends before the servers.
    pub(super) paceline: Paceline,
    pub(super) coordinator: Arc<Cluster>,
    pub(super) shards: [Arc<Cluster>; 2],
    /// The name of the database with all partitions, on the coordinator's server.
    whole: String,
}

impl ShardedAccounts {
    /// With these settings of `[paceline]`.
    pub(super) fn start(settings: &str) -> Self {
        let servers = || Cluster::with(&[("password_encryption", "scram-sha-256")]);
        let (coordinator, shards) = (servers(), [servers(), servers()]);
        let whole = coordinator.database();
        let mut one = coordinator.client(&whole);
        // Other OIDs than on the coordinator.
        one.ok("CREATE TABLE first (id int)");
        let mut of_coordinator = coordinator.client("postgres");
        of_coordinator.ok("CREATE EXTENSION postgres_fdw");
        for (server, more) in [(&mut one, ", PRIMARY KEY (id)"), (&mut of_coordinator, "")] {
            // Other numbers of columns than on the shards.
            server.ok(&format!(
                "CREATE TABLE accounts (gone int, {COLUMNS}{more}) PARTITION BY HASH (id)"
            ));
            server.ok("ALTER TABLE accounts DROP COLUMN gone");
        }
        for (place, shard) in shards.iter().enumerate() {
            let mut of_shard = shard.client("postgres");
            of_shard.ok("CREATE SCHEMA store");
            of_coordinator.ok(&format!(
                "CREATE SERVER shard{place} FOREIGN DATA WRAPPER postgres_fdw \
                   OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres'); \
                 CREATE USER MAPPING FOR PUBLIC SERVER shard{place} OPTIONS (user 'postgres', password 'any')",
                shard.port()
            ));
        }
        for number in 0..PARTITIONS {
            let place = number % shards.len();
            let bound = format!("FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})");
            one.ok(&format!(
                "CREATE TABLE accounts_{number} PARTITION OF accounts {bound}"
            ));
            of_coordinator.ok(&format!(
                "CREATE FOREIGN TABLE accounts_{number} PARTITION OF accounts {bound} \
                 SERVER shard{place} OPTIONS (schema_name 'store', table_name 'a{number}')"
            ));
            let mut of_shard = shards[place].client("postgres");
            of_shard.ok(&format!(
                "CREATE TABLE store.a{number} ({COLUMNS}, PRIMARY KEY (id))"
            ));
        }
        let servers = shards.iter().enumerate().map(|(place, shard)| {
            format!(
                "[[databases.postgres.shard_servers]]\nserver = \"shard{place}\"\nhost = \"127.0.0.1\"\nport = {}\n",
                shard.port()
            )
        });
        let servers: String = servers.collect();
        let text = format!(
            "[paceline]\n{settings}\n[databases.postgres]\n\
             primary = \"postgres://postgres@127.0.0.1:{}/postgres\"\nshards = \"auto\"\n{servers}",
            coordinator.port()
        );
        let paceline = Paceline::configured(&text).spawn();
        Self {
            coordinator,
            shards,
            paceline,
            whole,
        }
    }

    /// With these rows everywhere, when shards answer.
    pub(super) fn serving(settings: &str) -> Self {
        let sharded = Self::start(settings);
        let rows = "INSERT INTO accounts (id, owner, balance, at, tags) \
             SELECT i, 'o' || i % 7, i, '2026-01-01 00:00:00+00'::timestamptz + i * interval '1 hour', ARRAY[i, -i] \
             FROM generate_series(1, 40) i";
        sharded.whole().ok(rows);
        sharded.coordinator.client("postgres").ok(rows);
        sharded.await_shards();
        sharded
    }

    /// Returns when shards answer.
    pub(super) fn await_shards(&self) {
        let mut client = self.client();
        until("a shard answers", || {
            client.ok("SELECT owner FROM accounts WHERE id = 1");
            self.on_shards() > 0
        });
    }

    /// A client of Paceline.
    pub(super) fn client(&self) -> RawClient {
        RawClient::connect(
            self.paceline.port(),
            &[("user", "postgres"), ("database", "postgres")],
        )
    }

    /// A client of the server with all partitions.
    pub(super) fn whole(&self) -> RawClient {
        self.coordinator.client(&self.whole)
    }

    /// Requests that shards have answered.
    pub(super) fn on_shards(&self) -> i64 {
        on_shards(&mut self.client())
    }
}

/// Executes this until a shard does.
pub(super) fn await_shard(client: &mut RawClient, sql: &str) {
    until("a shard answers", || {
        let before = on_shards(client);
        client.ok(sql);
        on_shards(client) > before
    });
}

/// Requests that shards have answered, by a client of Paceline.
pub(super) fn on_shards(client: &mut RawClient) -> i64 {
    let reply = client.ok("SHOW GROUPS");
    let columns = reply.0[0].columns();
    let at = |name: &str| columns.iter().position(|known| known == name).unwrap();
    let (template, wanted) = (at("template"), at("on_shards"));
    // Each template counts once, however many rows it has.
    let mut counts = BTreeMap::new();
    for row in reply.rows() {
        let count: i64 = row[wanted].as_deref().unwrap_or("0").parse().unwrap();
        counts.insert(row[template].clone(), count);
    }
    counts.into_values().sum()
}

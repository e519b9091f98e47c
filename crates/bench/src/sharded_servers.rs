//! A coordinator and two shards of the lab, and the steps of an operator to shard a table: partitions by hash, half of them on each shard.

use crate::connection::{Connection, Result};
use crate::target::Target;
use crate::temporary_server::{DATABASE, TemporaryServer, connections_for};
use anyhow::Context;
use std::thread;

/// Number of shards.
const SHARDS: usize = 2;
/// Number of partitions of a table.
const PARTITIONS: usize = 8;

/// The servers.
#[derive(Debug)]
pub(crate) struct ShardedServers {
    coordinator: TemporaryServer,
    shards: [TemporaryServer; SHARDS],
}

impl ShardedServers {
    /// Starts the servers for this number of clients.
    ///
    /// # Errors
    /// A server does not start. No server is left running.
    pub(crate) async fn start(clients: usize) -> anyhow::Result<Self> {
        let connections = connections_for(clients);
        let start = move || {
            let started = thread::scope(|scope| {
                let start = || scope.spawn(|| TemporaryServer::start(connections));
                [start(), start(), start()].map(thread::ScopedJoinHandle::join)
            });
            let started = started.map(|one| {
                one.ok()
                    .context("a thread that starts a server has ended")?
            });
            let [coordinator, one, other] = started;
            anyhow::Ok(Self {
                coordinator: coordinator?,
                shards: [one?, other?],
            })
        };
        let servers = tokio::task::spawn_blocking(start).await??;
        let mut conn = servers.coordinator.connect().await?;
        conn.execute("CREATE EXTENSION postgres_fdw").await?;
        for (number, shard) in servers.shards.iter().enumerate() {
            let (port, user) = (shard.server.port(), shard.server.superuser());
            conn.execute(&format!(
                "CREATE SERVER shard{number} FOREIGN DATA WRAPPER postgres_fdw \
                   OPTIONS (host '127.0.0.1', port '{port}', dbname '{DATABASE}'); \
                 CREATE USER MAPPING FOR PUBLIC SERVER shard{number} OPTIONS (user '{user}', password 'unused')"
            ))
            .await?;
        }
        Ok(servers)
    }

    /// The coordinator.
    pub(crate) fn coordinator(&self) -> Target {
        self.coordinator
            .target("coordinator", self.coordinator.server.port())
    }

    /// The URL of the coordinator, for Paceline.
    pub(crate) fn url(&self) -> String {
        let server = &self.coordinator.server;
        let (user, port) = (server.superuser(), server.port());
        format!("postgres://{user}@127.0.0.1:{port}/{DATABASE}")
    }

    /// Shards a table of the coordinator by this key, with its rows and indexes.
    pub(crate) async fn shard(&self, schema: &str, table: &str, key: &str) -> Result<()> {
        let mut conn = self.coordinator.connect().await?;
        let columns = text(&mut conn, &columns_sql(schema, table)).await?;
        let indexes = text(&mut conn, &indexes_sql(schema, table)).await?;
        conn.execute(&format!(
            "ALTER TABLE {schema}.{table} RENAME TO {table}_whole; \
             CREATE TABLE {schema}.{table} ({columns}) PARTITION BY HASH ({key})"
        ))
        .await?;
        for number in 0..PARTITIONS {
            let place = number % SHARDS;
            let partition = format!("{schema}.{table}_{number}");
            if let Some(shard) = self.shards.get(place) {
                let mut shard = shard.connect().await?;
                let indexes = indexes.replace("{n}", &number.to_string());
                shard
                    .execute(&format!(
                        "CREATE SCHEMA IF NOT EXISTS {schema}; CREATE TABLE {partition} ({columns}); {indexes}"
                    ))
                    .await?;
            }
            conn.execute(&format!(
                "CREATE FOREIGN TABLE {partition} PARTITION OF {schema}.{table} \
                   FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number}) SERVER shard{place} OPTIONS (batch_size '1000')"
            ))
            .await?;
        }
        conn.execute(&format!(
            "INSERT INTO {schema}.{table} SELECT * FROM {schema}.{table}_whole; DROP TABLE {schema}.{table}_whole"
        ))
        .await?;
        for shard in &self.shards {
            shard.connect().await?.execute("VACUUM ANALYZE").await?;
        }
        Ok(())
    }
}

async fn text(conn: &mut Connection, question: &str) -> Result<String> {
    Ok(conn.value(question).await?.unwrap_or_default())
}

/// The columns of a table, as CREATE TABLE has them.
fn columns_sql(schema: &str, table: &str) -> String {
    format!(
        "SELECT string_agg(format('%I %s%s%s', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' NOT NULL' END, \
           ' DEFAULT ' || pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum) \
         FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum \
         WHERE attrelid = '{schema}.{table}'::regclass AND attnum > 0 AND NOT attisdropped"
    )
}

/// The statements that create the indexes of partition `{{n}}`.
fn indexes_sql(schema: &str, table: &str) -> String {
    format!(
        "SELECT string_agg(regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \\S+ ON \\S+', 'INDEX ON {schema}.{table}_{{n}}'), '; ') \
         FROM pg_index WHERE indrelid = '{schema}.{table}'::regclass"
    )
}

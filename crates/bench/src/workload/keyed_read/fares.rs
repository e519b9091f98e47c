//! The tables: the same rows, laid out in four ways.

use crate::connection::{Connection, Failure};
use crate::workload::tables::{self, SCHEMA};

/// Rows of a key, as in the source.
const ROWS_PER_KEY: u64 = 10_000;
/// Keys of a table that is too small for whole ones.
const KEYS_MIN: u64 = 10;

/// Where the rows of a key are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Side by side: about 100 blocks.
    Clustered,
    /// One in nearly every block.
    Scattered,
    /// Side by side, with room for new versions in each block.
    Spacious,
    /// In one value.
    Jsonb,
}

/// A table of fares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fares {
    pub(super) layout: Layout,
    /// Keys are 1 to this.
    pub(super) keys: i64,
    rows_per_key: i64,
}

impl Fares {
    /// Of about so many rows.
    pub(super) fn of(layout: Layout, rows: u64) -> Self {
        let rows_per_key = (rows / KEYS_MIN).clamp(1, ROWS_PER_KEY);
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self {
            layout,
            keys: count((rows / rows_per_key).max(1)),
            rows_per_key: count(rows_per_key),
        }
    }

    /// Rows of the table; those of a jsonb count.
    pub(super) fn rows(&self) -> i64 {
        self.keys * self.rows_per_key
    }

    /// The rows of a key, by their `id`.
    pub(super) fn ids(&self, key: i64) -> impl Iterator<Item = i64> + use<> {
        let (first, step) = match self.layout {
            // See `generated`: the rest that leaves 0 is that of the last one.
            Layout::Scattered if key == 1 => (self.keys, self.keys),
            Layout::Scattered => (key - 1, self.keys),
            _ => ((key - 1) * self.rows_per_key + 1, 1),
        };
        (0..self.rows_per_key).map(move |place| first + place * step)
    }

    /// Rows that a read brings.
    pub(super) fn rows_of_answer(&self) -> u64 {
        match self.layout {
            Layout::Jsonb => 1,
            _ => self.rows_per_key.unsigned_abs(),
        }
    }

    /// Whether rows change while they are read.
    pub(super) fn changes(&self) -> bool {
        self.layout == Layout::Spacious
    }

    fn table(&self) -> &'static str {
        match self.layout {
            Layout::Clustered => "fares",
            Layout::Scattered => "fares_scattered",
            Layout::Spacious => "fares_spacious",
            Layout::Jsonb => "fares_jsonb",
        }
    }

    /// Reads a key.
    pub(super) fn read(&self) -> String {
        format!("SELECT * FROM {SCHEMA}.{} WHERE typeid = $1", self.table())
    }

    /// Changes a row; `mod_time` counts how often.
    pub(super) fn change(&self) -> String {
        format!(
            "UPDATE {SCHEMA}.{} SET mod_time = mod_time + interval '1 second' WHERE id = $1",
            self.table()
        )
    }

    /// Changes that were ever made; 0 where there are none.
    pub(super) async fn changes_made(&self, conn: &mut Connection) -> Result<i64, Failure> {
        if !self.changes() {
            return Ok(0);
        }
        conn.number(&format!(
            "SELECT sum(extract(epoch FROM mod_time - crt_time))::bigint FROM {SCHEMA}.{}",
            self.table()
        ))
        .await
    }

    /// Makes the table, unless it is there.
    pub(super) async fn fill(&self, conn: &mut Connection) -> Result<(), Failure> {
        let (table, definition) = (self.table(), self.definition());
        let made = tables::exists_as(conn, table, &definition).await?;
        if !made {
            conn.query(&definition).await?;
        }
        if !made || self.changes() {
            // StatsReadings rows as visible to all, takes away what earlier changes left.
            conn.query(&format!("VACUUM ANALYZE {SCHEMA}.{table}"))
                .await?;
        }
        if !made {
            tables::record_definition(conn, table, &definition).await?;
        }
        Ok(())
    }

    fn definition(&self) -> String {
        let (table, rows) = (self.table(), self.generated());
        match self.layout {
            Layout::Jsonb => format!(
                "CREATE TABLE {SCHEMA}.{table} (typeid int PRIMARY KEY, fares jsonb NOT NULL); \
                 INSERT INTO {SCHEMA}.{table} SELECT typeid, jsonb_agg(to_jsonb(fare) ORDER BY id) FROM ({rows}) fare GROUP BY typeid"
            ),
            Layout::Clustered | Layout::Scattered => format!(
                "CREATE TABLE {SCHEMA}.{table} (id int, info text, typeid int, crt_time timestamp, mod_time timestamp); \
                 INSERT INTO {SCHEMA}.{table} {rows}; CREATE INDEX ON {SCHEMA}.{table} (typeid)"
            ),
            Layout::Spacious => format!(
                "CREATE TABLE {SCHEMA}.{table} (id int PRIMARY KEY, info text, typeid int, crt_time timestamp, mod_time timestamp) \
                 WITH (fillfactor = 80); \
                 INSERT INTO {SCHEMA}.{table} {rows}; CREATE INDEX ON {SCHEMA}.{table} (typeid)"
            ),
        }
    }

    /// A query for all rows, in the order in which they are to lie.
    fn generated(&self) -> String {
        let (rows, keys, per_key) = (self.rows(), self.keys, self.rows_per_key);
        let typeid = match self.layout {
            Layout::Scattered => format!("1 + g % {keys}"),
            _ => format!("1 + (g - 1) / {per_key}"),
        };
        format!(
            "SELECT g AS id, 'fare ' || to_hex(g) AS info, {typeid} AS typeid, at AS crt_time, at AS mod_time \
             FROM generate_series(1, {rows}) g, LATERAL (SELECT timestamp '2017-01-01' + g * interval '1 second' AS at) t"
        )
    }
}

//! The tables: the same rows in four layouts.

use crate::connection::{Connection, Result};
use crate::workload::tables::{self, SCHEMA};

/// Rows per key, as in the source.
const ROWS_PER_KEY: u64 = 10_000;
/// Minimum number of keys if the table is small.
const KEYS_MIN: u64 = 10;

/// The layout of the rows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Contiguous, about 100 blocks.
    Clustered,
    /// Distributed over nearly all blocks.
    Scattered,
    /// Contiguous, with free space for new versions in each block.
    Spacious,
    /// In a single value.
    Jsonb,
}

/// A table of fares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fares {
    pub(super) layout: Layout,
    /// Number of keys; they are numbered from 1.
    pub(super) keys: i64,
    rows_per_key: i64,
}

impl Fares {
    /// A table of about `rows` rows.
    pub(super) fn of(layout: Layout, rows: u64) -> Self {
        let rows_per_key = (rows / KEYS_MIN).clamp(1, ROWS_PER_KEY);
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self {
            layout,
            keys: count((rows / rows_per_key).max(1)),
            rows_per_key: count(rows_per_key),
        }
    }

    /// Number of rows; elements of a jsonb count as rows.
    pub(super) fn rows(&self) -> i64 {
        self.keys * self.rows_per_key
    }

    /// The `id`s of the rows of a key.
    pub(super) fn ids(&self, key: i64) -> impl Iterator<Item = i64> + use<> {
        let (first, step) = match self.layout {
            // See `generated`: in this layout key 1 has the ids that the number of keys divides.
            Layout::Scattered if key == 1 => (self.keys, self.keys),
            Layout::Scattered => (key - 1, self.keys),
            _ => (self.first_row(key), 1),
        };
        (0..self.rows_per_key).map(move |place| first + place * step)
    }

    /// Number of rows that a read returns.
    pub(super) fn rows_of_answer(&self) -> u64 {
        match self.layout {
            Layout::Jsonb => 1,
            _ => self.rows_per_key.unsigned_abs(),
        }
    }

    /// Whether clients change rows during the run.
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

    /// The statement that reads a key.
    pub(super) fn read(&self) -> String {
        format!("SELECT * FROM {SCHEMA}.{} WHERE typeid = $1", self.table())
    }

    /// The statement that changes a row; `mod_time` counts the changes.
    pub(super) fn change(&self) -> String {
        format!(
            "UPDATE {SCHEMA}.{} SET mod_time = mod_time + interval '1 second' WHERE id = $1",
            self.table()
        )
    }

    /// The same, and returns `mod_time`.
    pub(super) fn change_returning(&self) -> String {
        format!("{} RETURNING mod_time", self.change())
    }

    /// The `id` of the first row of a key, if its rows are contiguous.
    pub(super) fn first_row(&self, key: i64) -> i64 {
        (key - 1) * self.rows_per_key + 1
    }

    /// Total number of changes in the table; 0 if clients change no rows.
    pub(super) async fn changes_made(&self, conn: &mut Connection) -> Result<i64> {
        if !self.changes() {
            return Ok(0);
        }
        conn.number(&format!(
            "SELECT sum(extract(epoch FROM mod_time - crt_time))::bigint FROM {SCHEMA}.{}",
            self.table()
        ))
        .await
    }

    /// Creates the table unless it exists.
    pub(super) async fn fill(&self, conn: &mut Connection) -> Result<()> {
        let (table, definition) = (self.table(), self.definition());
        let exists = tables::exists_as(conn, table, &definition).await?;
        if exists && !self.changes() {
            return Ok(());
        }
        if !exists {
            conn.execute(&definition).await?;
        }
        // Sets the visibility map and removes the dead rows of earlier changes.
        let vacuum = format!("VACUUM ANALYZE {SCHEMA}.{table}");
        conn.execute(&vacuum).await?;
        tables::record_definition(conn, table, &definition).await
    }

    fn definition(&self) -> String {
        let (table, rows) = (self.table(), self.generated());
        let (key, storage) = match self.layout {
            Layout::Jsonb => {
                return format!(
                    "CREATE TABLE {SCHEMA}.{table} (typeid int PRIMARY KEY, fares jsonb NOT NULL); \
                     INSERT INTO {SCHEMA}.{table} SELECT typeid, jsonb_agg(to_jsonb(fare) ORDER BY id) FROM ({rows}) fare GROUP BY typeid"
                );
            }
            Layout::Clustered | Layout::Scattered => ("", ""),
            Layout::Spacious => (" PRIMARY KEY", " WITH (fillfactor = 80)"),
        };
        format!(
            "CREATE TABLE {SCHEMA}.{table} (id int{key}, info text, typeid int, crt_time timestamp, mod_time timestamp){storage}; \
             INSERT INTO {SCHEMA}.{table} {rows}; CREATE INDEX ON {SCHEMA}.{table} (typeid)"
        )
    }

    /// A query for all rows in the order of insertion.
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

//! The observation of a server. Every type is decoded from the JSON of one query in [`crate::queries`].

use serde::Deserialize;
use std::collections::HashMap;

/// Maximum length of a character in bytes.
const CHARACTER_MAX: usize = 4;

/// Counters at one moment ([`crate::queries::COUNTERS`]).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Counters {
    /// Seconds since the epoch, by the server's clock.
    pub at: f64,
    /// `server_version_num`.
    pub version: u32,
    /// Client connections to all databases.
    pub connections: u32,
    /// `max_connections`.
    pub connections_max: u32,
    /// Sessions of this database that began or ended a statement within the last second.
    pub recent: u32,
    /// Sessions that were opened since the statistics were reset; `None` before version 14.
    pub sessions: Option<i64>,
    /// Transactions that were committed.
    pub commits: i64,
    /// User tables with any activity.
    pub tables: Vec<TableCounters>,
}

/// Counters of a table since the statistics were reset.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct TableCounters {
    /// Its OID.
    pub id: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// `schema.name`, quoted where necessary.
    pub qualified: String,
    /// Rows inserted.
    pub inserted: i64,
    /// Rows updated.
    pub updated: i64,
    /// Rows deleted.
    pub deleted: i64,
    /// Rows updated without a new entry in any index (HOT).
    pub hot_updated: i64,
    /// Live rows, estimated.
    pub live: i64,
    /// Dead rows, estimated.
    pub dead: i64,
    /// Scans of the whole table.
    #[serde(default)]
    pub whole_scans: i64,
    /// Rows read by scans of the whole table.
    #[serde(default)]
    pub whole_rows: i64,
    /// Scans of its indexes.
    pub index_scans: i64,
    /// Rows fetched by scans of its indexes.
    pub index_rows: i64,
    /// Blocks of the table that were read or found in memory.
    pub blocks: i64,
}

/// A session that is not idle, at one moment ([`crate::queries::SESSIONS`]).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Session {
    /// Its process.
    pub pid: i32,
    /// `active`, `idle in transaction`, …; `None` if the role may not see it.
    pub state: Option<String>,
    /// The event that it waits for, as `Lock:tuple`; `None` if it does not wait.
    pub wait: Option<String>,
    /// The time at which its transaction began; identifies the transaction together with `pid`.
    pub transaction: Option<String>,
    /// The present or last statement, as far as the server keeps it.
    pub statement: Option<String>,
    /// Its identifier in `pg_stat_statements`; `None` before version 14, or if the server does not compute it.
    #[serde(default)]
    pub query_id: Option<String>,
}

/// A statement since the statistics were reset ([`crate::queries::statements`]).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct StatementCounters {
    /// Its identifier; `None` if the role may not see it.
    pub id: Option<String>,
    /// Its text, with parameters in place of values.
    pub text: Option<String>,
    /// Executions.
    pub calls: i64,
    /// Time of all executions in milliseconds.
    pub milliseconds: f64,
    /// Rows returned or changed.
    pub rows: i64,
}

impl Session {
    /// Whether it executes a statement.
    pub(crate) fn is_active(&self) -> bool {
        self.state.as_deref() == Some("active")
    }

    /// Its transaction, if it has one.
    pub(crate) fn transaction_id(&self) -> Option<(i32, &str)> {
        Some((self.pid, self.transaction.as_deref()?))
    }

    /// Whether it waits for a row that another transaction has changed or locked.
    pub(crate) fn waits_for_row(&self) -> bool {
        matches!(
            self.wait.as_deref(),
            Some("Lock:tuple" | "Lock:transactionid")
        )
    }

    /// Whether it waits for the server's own lists of locks.
    pub(crate) fn waits_in_lock_manager(&self) -> bool {
        matches!(
            self.wait.as_deref(),
            Some("LWLock:LockManager" | "LWLock:lock_manager")
        )
    }
}

/// Tables, indexes, settings and holders of snapshots ([`crate::queries::facts`]).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Facts {
    /// The tables that were asked for.
    pub tables: Vec<TableFacts>,
    /// The owners of the oldest snapshots, which keep vacuum from removing dead rows.
    pub holders: Vec<Holder>,
    /// Settings of the server, by name.
    pub settings: HashMap<String, String>,
    /// Rows for whose lock sessions wait: table, block, number in the block, waiting sessions.
    pub rows: Vec<(u32, u32, u32, u32)>,
}

/// The properties of a table in the catalog.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct TableFacts {
    /// Its OID.
    pub id: u32,
    /// Rows at the last VACUUM or ANALYZE; below 0: not known.
    pub rows: f64,
    /// Blocks of 8 KiB at the last VACUUM or ANALYZE.
    pub pages: f64,
    /// Number of columns.
    pub columns: u32,
    /// Distinct values by column, quoted where necessary, as in `pg_stats.n_distinct`: a number, or below 0 a part of the rows.
    #[serde(default)]
    pub distinct_values: HashMap<String, f64>,
    /// Storage parameters, such as `fillfactor=80`.
    pub options: Vec<String>,
    /// Its indexes.
    pub indexes: Vec<IndexFacts>,
}

/// The properties of an index in the catalog.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct IndexFacts {
    /// `schema.name`, quoted where necessary.
    pub name: String,
    /// Its columns in order, quoted where necessary; an expression has no name.
    pub columns: Vec<Option<String>>,
    /// Whether it is unique.
    pub unique: bool,
    /// Blocks of 8 KiB.
    pub pages: f64,
    /// Scans since the statistics were reset.
    pub scans: i64,
    /// The correlation between the order of the first column and that of the rows, -1 to 1; `None` if the role may not see it, or the
    /// table was never analyzed.
    pub correlation: Option<f64>,
}

/// Something that keeps vacuum from removing rows that died after it began.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Holder {
    /// `session`, `prepared transaction`, `replication slot` or `standby`.
    pub kind: String,
    /// Its name: process, identifier, slot or application name.
    pub name: String,
    /// More about it.
    pub detail: String,
    /// The present or last statement of a session, as far as the server keeps it.
    pub statement: Option<String>,
    /// For how many seconds; `None` if the server does not know it.
    pub seconds: Option<f64>,
    /// For how many transactions.
    pub transactions: i64,
}

/// Everything that one observation has read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// At the beginning.
    pub before: Counters,
    /// At the end.
    pub after: Counters,
    /// The statements of `pg_stat_statements` at the beginning; empty without the extension.
    pub statements_before: Vec<StatementCounters>,
    /// The same at the end.
    pub statements_after: Vec<StatementCounters>,
    /// The sessions of each sample in between.
    pub samples: Vec<Vec<Session>>,
    /// At the end.
    pub facts: Facts,
    /// For how many seconds a snapshot must have been held to count as pinned.
    pub pinned_after: f64,
}

/// The changes of a table between the two readings.
#[derive(Debug, Clone)]
pub(crate) struct TableChange<'a> {
    pub(crate) now: &'a TableCounters,
    pub(crate) inserted: i64,
    pub(crate) updated: i64,
    pub(crate) deleted: i64,
    pub(crate) hot_updated: i64,
    pub(crate) whole_scans: i64,
    pub(crate) whole_rows: i64,
    pub(crate) index_scans: i64,
    pub(crate) index_rows: i64,
    pub(crate) blocks: i64,
}

impl Observation {
    /// The time between the two readings, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        (self.after.at - self.before.at).max(0.001)
    }

    /// The tables whose counters did not fall: a reset of the statistics in between would show as a fall.
    pub(crate) fn changes(&self) -> Vec<TableChange<'_>> {
        let before: HashMap<u32, &TableCounters> = self
            .before
            .tables
            .iter()
            .map(|table| (table.id, table))
            .collect();
        let none = TableCounters::default();
        let changes = self.after.tables.iter().map(|now| {
            let then = before.get(&now.id).copied().unwrap_or(&none);
            TableChange {
                now,
                inserted: now.inserted - then.inserted,
                updated: now.updated - then.updated,
                deleted: now.deleted - then.deleted,
                hot_updated: now.hot_updated - then.hot_updated,
                whole_scans: now.whole_scans - then.whole_scans,
                whole_rows: now.whole_rows - then.whole_rows,
                index_scans: now.index_scans - then.index_scans,
                index_rows: now.index_rows - then.index_rows,
                blocks: now.blocks - then.blocks,
            }
        });
        let rose = |change: &TableChange<'_>| {
            change.inserted >= 0 && change.updated >= 0 && change.deleted >= 0 && change.blocks >= 0
        };
        changes.filter(rose).collect()
    }

    /// The statement of a session. If the server keeps only its beginning, its text is that of `pg_stat_statements`, if it is there.
    pub(crate) fn statement_of<'a>(&'a self, session: &'a Session) -> &'a str {
        let kept = session.statement.as_deref().unwrap_or_default();
        let whole = || {
            let id = session.query_id.as_deref()?;
            let mut known = self.statements_after.iter();
            let found = known.find(|statement| statement.id.as_deref() == Some(id));
            found?.text.as_deref()
        };
        // The server cuts the text before a character that does not fit.
        match kept.len() + CHARACTER_MAX >= self.statement_len_max() {
            true => whole().unwrap_or(kept),
            false => kept,
        }
    }

    /// Number of bytes of a statement that the server keeps, with the byte that ends it.
    fn statement_len_max(&self) -> usize {
        let setting = self.facts.settings.get("track_activity_query_size");
        let bytes = setting.and_then(|value| value.strip_suffix('B')?.parse().ok());
        bytes.unwrap_or(1024)
    }

    /// The properties of a table in the catalog.
    pub(crate) fn facts_of(&self, id: u32) -> Option<&TableFacts> {
        self.facts.tables.iter().find(|table| table.id == id)
    }
}

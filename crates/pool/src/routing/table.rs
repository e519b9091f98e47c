//! The shards' tables as batches see them. One whose definition is the same in a new map stays the same, with the statement that
//! compares its definition, which servers have prepared.

use paceline_batch::strategy::{ShardTable, TableNames};
use paceline_cluster::TableName;
use paceline_relay::server::PrimaryColumns;
use paceline_relay::template::Templates;
use paceline_shards::{Fingerprint, Leaf, ShardedTable};
use paceline_sql::Compared;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Identifies a table: the sharded table and its partition on the coordinator, the table on the shard, the numbers of its columns in both,
/// and the version of its definition.
type TableKey = (u32, TableName, TableName, u32, Vec<(i16, i16)>, String);

/// Maximum number of tables that are kept for the next map.
const TABLES_MAX: usize = 20_000;

/// The tables that were used.
#[derive(Debug, Default)]
pub(super) struct KnownTables(Mutex<FxHashMap<TableKey, Arc<ShardTable>>>);

impl Clone for KnownTables {
    fn clone(&self) -> Self {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keeps = known.len() < TABLES_MAX;
        Self(Mutex::new(if keeps {
            known.clone()
        } else {
            FxHashMap::default()
        }))
    }
}

impl KnownTables {
    /// The table of a leaf.
    pub(super) fn of(
        &self,
        root: &ShardedTable,
        leaf: &Leaf,
        own: &paceline_shards::ShardTable,
        templates: &Templates,
    ) -> Arc<ShardTable> {
        let Fingerprint { sql, value } = &own.fingerprint;
        let key = (
            root.oid,
            leaf.name.clone(),
            own.name.clone(),
            own.oid,
            own.columns.clone(),
            format!("{sql}\0{value}"),
        );
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let table = known.entry(key).or_insert_with(|| {
            let columns = own.columns.iter();
            let columns =
                columns.map(|(number, of_root)| ((own.oid, *number), (root.oid, *of_root)));
            let version = Compared {
                sql: sql.clone(),
                value: value.clone(),
            };
            Arc::new(ShardTable::new(
                names(&own.name),
                names(&leaf.name),
                Arc::new(PrimaryColumns::new(columns)),
                &version,
                templates,
            ))
        });
        Arc::clone(table)
    }
}

fn names(name: &TableName) -> TableNames {
    TableNames {
        schema: name.schema.clone(),
        table: name.name.clone(),
    }
}

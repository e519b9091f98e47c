//! The table of a shard on which a request runs, and its differences from the coordinator's table.

use crate::policy::Permission;
use crate::strategy::ChainFacts;
use crate::strategy::messages::BatchWriter;
use paceline_relay::server::PrimaryColumns;
use paceline_relay::template::Templates;
use paceline_sql::Compared;
use paceline_sql::chain::same_sql;
use paceline_sql::facts::sharding::fingerprint_in_recovery;
use paceline_sql::keyed::Replaced;
use std::sync::Arc;

/// A table of a shard.
#[derive(Debug)]
pub struct ShardTable {
    /// The table on the shard.
    pub own: TableNames,
    /// The partition on the coordinator.
    pub partition: TableNames,
    /// The places of the columns on the coordinator.
    pub columns: Arc<PrimaryColumns>,
    /// The version of its definition that was compared with the coordinator's.
    version: ChainFacts,
    /// The same as a replica sees it.
    version_on_replica: ChainFacts,
    /// A query for one boolean: whether the definition has this version.
    pub question: String,
}

/// The names of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableNames {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
}

/// The part of a request that concerns its shard.
#[derive(Debug, Clone)]
pub struct ShardPart {
    /// The table.
    pub table: Arc<ShardTable>,
    /// The difference between the text and the client's.
    pub replaced: Replaced,
    /// The decision of operators on the client's statement.
    pub permission: Permission,
}

impl ShardTable {
    /// A table whose definition has this version.
    pub fn new(
        own: TableNames,
        partition: TableNames,
        columns: Arc<PrimaryColumns>,
        version: &Compared,
        templates: &Templates,
    ) -> Self {
        Self {
            own,
            partition,
            columns,
            question: same_sql(version),
            version_on_replica: ChainFacts::new(
                &Compared {
                    value: fingerprint_in_recovery(&version.value),
                    sql: version.sql.clone(),
                },
                templates,
            ),
            version: ChainFacts::new(version, templates),
        }
    }

    /// Writes the statement that raises an error if the definition has changed, or if the server is in recovery and should not
    /// be, or is not and should be.
    pub(super) fn write_check(&self, writer: &mut BatchWriter<'_>, on_replica: bool) {
        match on_replica {
            true => self.version_on_replica.write(writer),
            false => self.version.write(writer),
        }
    }
}

//! The map of sharded tables: which server has the rows with a key, and whether a statement on them may run there.
//!
//! A sharded table is a partitioned table of the coordinator whose partitions are foreign tables (`postgres_fdw`) on other servers,
//! the shards. A map is built from the catalogs of all these servers ([`PartitionMap::build`]), and never changes: its reader replaces
//! it as a whole. This is the only place where Paceline compares values itself, so it does that only for types whose order, equality
//! and hash it knows ([`KeyType`]). Everything else, and every difference between the coordinator and a shard, has a [`Reason`], and
//! the statement runs on the coordinator.
//!
//! A map may be stale. So a statement on a shard compares the [`Fingerprint`] of the shard's table in its own transaction.
//!
//! The crate has no sockets, no clock and no runtime.

mod access;
mod bound;
mod build;
pub mod decode;
mod definition;
mod facts;
mod hash;
mod key;
mod map;
mod partitioning;
mod reason;
mod server;
mod table;

pub use access::{Access, Columns, Command, Privileges};
pub use build::PARTITIONS_MAX;
pub use facts::{
    ColumnFacts, CoordinatorFacts, DatabaseFacts, DefaultFacts, Definition, ForeignFacts,
    KeyPartFacts, PartitionFacts, PartitionKeyFacts, RoleFacts, RootFacts, ServerFacts, ShardFacts,
    ShardTableFacts,
};
pub use hash::{HASH_PROBE, hashes_alike, own_hashes};
pub use key::{KeyType, KeyValue};
pub use map::{PartitionMap, ShardMap};
pub use partitioning::LeafId;
pub use reason::{KeyProblem, LeafProblem, Reason, RoleProblem, ServerProblem, TableProblem};
pub use server::{ShardServer, ShardServerId};
pub use table::{
    Column, ColumnDefault, Fingerprint, KeyColumn, Leaf, Placement, Route, ShardTable,
    ShardedTable, UniqueKey,
};

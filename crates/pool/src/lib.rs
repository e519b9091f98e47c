//! Pools of server connections. [`pool`] has the connections of one database and user, and their line; [`pools`] has all pools of
//! the process.
//!
//! | module | holds |
//! |---|---|
//! | [`address`], [`location`] | where server connections lead |
//! | [`server`] | one connection to PostgreSQL, logged in |
//! | [`credentials`], [`keyring`], [`compression`] | credentials, keys for TLS, and compressors |
//! | [`pool`] | checkout and checkin, growth, eviction, administration |
//! | [`hosts`] | the hosts of a database that has several: the primary, and the probes |
//! | [`replicas`] | the choice of a replica for a read |
//! | [`shards`] | reads the map of a database's shards |
//! | [`sharding`] | the shards of a database, and their pools |
//! | [`routing`] | the shard that executes a statement, and the statement's text there |
//! | `group_run` | a group on a server connection |
//! | [`analysis`] | asks PostgreSQL about templates |
//! | [`stats`], [`counters`] | statistics |
//! | [`traces`] | choice of traced requests; sends spans to a collector |
//! | [`shared`] | the state that all pools share |
//!
//! This crate knows neither clients nor the console.

#![warn(clippy::missing_errors_doc)]

pub mod address;
pub mod analysis;
pub mod clock;
pub mod close_reason;
pub mod compression;
pub mod counters;
pub mod credentials;
mod group_run;
pub mod hosts;
pub mod hot_rows;
mod http;
pub mod keyring;
pub mod labels;
pub mod location;
pub mod messages;
pub mod net_settings;
pub mod pool;
pub mod pools;
pub mod quota;
pub mod replicas;
pub mod replication;
pub mod result_memory;
pub mod routing;
pub mod server;
mod server_loads;
pub mod settings;
pub mod sharding;
pub mod shards;
pub mod shared;
pub mod stats;
mod status;
#[cfg(test)]
mod testing;
pub mod traces;

//! The pools of server connections: [`pool`] holds the connections of one database and user and the line in front of them,
//! [`pools`] all pools of the process.
//!
//! | module | holds |
//! |---|---|
//! | [`address`] | where connections lead |
//! | [`server`] | one connection to PostgreSQL, logged in |
//! | [`credentials`], [`keyring`] | what logins and TLS need |
//! | [`pool`] | checkout and checkin, growth, eviction, an operator's orders |
//! | `group_run` | a group on a server connection |
//! | [`analysis`] | questions to PostgreSQL about a template |
//! | [`stats`], [`counters`] | what is counted |
//! | [`shared`] | what all pools share |
//!
//! Knows neither clients nor the console.

#![warn(clippy::missing_errors_doc)]

pub mod address;
pub mod analysis;
pub mod clock;
pub mod close_reason;
pub mod counters;
pub mod credentials;
mod group_run;
pub mod keyring;
pub mod labels;
pub mod messages;
pub mod net_settings;
pub mod pool;
pub mod pools;
pub mod quota;
pub mod replication;
pub mod result_memory;
pub mod server;
pub mod settings;
pub mod shared;
pub mod stats;
mod status;
#[cfg(test)]
mod testing;

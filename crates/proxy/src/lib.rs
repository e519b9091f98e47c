//! Client connections: login, requests, cancel.
//!
//! | module | holds |
//! |---|---|
//! | [`proxy`] | what all client connections share |
//! | [`client`] | one connection, from login to the end: requests, waits, relay, replication |
//! | [`auth`] | authentication by file, query, certificate and rules |
//! | [`cancel`], [`peers`] | cancel requests, of this process and of others |
//! | `shared_listen` | LISTEN by one connection for all clients of a database |
//! | [`lifecycle`] | the phases of the process |
//!
//! Knows neither the console nor the command line.

#![warn(clippy::missing_errors_doc)]

pub mod auth;
pub mod cancel;
pub mod client;
pub mod client_info;
pub mod connection_guard;
pub mod lifecycle;
pub mod log;
pub mod login_addresses;
mod login_checkout;
pub mod peers;
pub mod proxy;
mod shared_listen;
#[cfg(test)]
mod testing;

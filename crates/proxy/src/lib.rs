//! Client connections: login, requests, cancel.
//!
//! | module | holds |
//! |---|---|
//! | [`proxy`] | the state that all client connections share |
//! | [`client`] | one client connection: login, requests, waits, relay, replication |
//! | [`auth`] | authentication by file, query, certificate and rules |
//! | [`cancel`], [`peers`] | cancel requests for clients of this process and of other processes |
//! | `shared_listen` | one LISTEN connection per database, shared by all its clients |
//! | [`lifecycle`] | the phases of the process |
//!
//! This crate knows neither the console nor the command line.

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
mod login_refusal;
pub mod peers;
pub mod proxy;
mod shared_listen;
#[cfg(test)]
mod testing;

//! Relays one client to one server, without sockets. The crate is pure: no sockets, no clock, no randomness, no runtime.
//! Bytes and the time are arguments, bytes are results. It does not know groups.
//!
//! The modules, in the order in which a request passes them:
//!
//! - [`request`]: requests, and their ends in the client's bytes.
//! - [`template`]: parsed texts and their cache.
//! - [`session`]: the state that follows a client from server to server, and the decision on each request: Paceline answers it, it may join
//!   a group, or it is relayed. [`local_show`] holds the `SHOW` commands that Paceline answers.
//! - [`relay`]: the relay itself, in both directions.
//! - [`server`]: the prepared statements and settings of a server connection, and its reset.
//! - [`parsed`], [`settings`], [`sequences`]: the order in which servers parsed statements; the settings of a session; the owner of
//!   `lastval`.
//! - [`shared_listen`]: one server connection that listens for all clients of a database.
//! - [`commits`]: the count of acknowledged commits that have written.
//! - [`errors`]: errors that relays and groups share.

#![warn(clippy::missing_errors_doc)]

pub mod commits;
pub mod errors;
pub mod local_show;
pub mod parsed;
pub mod relay;
pub mod request;
pub mod sequences;
pub mod server;
pub mod session;
pub mod settings;
pub mod shared_listen;
pub mod template;

#[cfg(test)]
mod testing;

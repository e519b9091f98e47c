//! Relays one client to one server, without sockets. The crate is pure: no sockets, no clock, no randomness, no runtime.
//! Bytes and the time are arguments, bytes are results. It does not know groups.
//!
//! The modules, in the order in which a request passes them:
//!
//! - [`request`]: where a request ends in the client's bytes, and what a request is.
//! - [`template`]: the cache of parsed texts, and where a text is parsed.
//! - [`session`]: what follows a client from server to server, and what becomes of its request: Paceline answers it, it may
//!   join a group, or it is relayed. [`local_show`] holds the `SHOW` commands that Paceline answers.
//! - [`relay`]: the relay itself, in both directions.
//! - [`server`]: what a server connection has prepared and set, and how it is reset.
//! - [`parsed`], [`settings`], [`sequences`]: when a server parsed a statement; the settings of a session; which client may
//!   read `lastval`.
//! - [`shared_listen`]: one server connection that listens for all clients of a database.
//! - [`commits`]: which acknowledged commits have written.
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

//! One client relayed to one server, without sockets: requests, expected replies, session state, pins, prepared statements and the
//! shared `LISTEN`.
//!
//! Pure: no sockets, no clock, no randomness, no runtime. Bytes and the time are arguments, bytes are results. Knows nothing of
//! groups.

#![warn(clippy::missing_errors_doc)]

pub mod analysis;
pub mod errors;
pub mod local_show;
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

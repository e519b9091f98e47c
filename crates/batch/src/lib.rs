//! The line in which requests wait for a server connection, and the groups in which they leave it: one file per strategy, what the
//! catalog analysis says of a template, and what is counted.
//!
//! Pure: no sockets, no clock, no randomness, no runtime. Bytes and the time are arguments, bytes are results.

#![warn(clippy::missing_errors_doc)]

pub mod analysis;
pub mod explain;
pub mod line;
pub mod strategy;
pub mod template_stats;

#[cfg(test)]
mod testing;

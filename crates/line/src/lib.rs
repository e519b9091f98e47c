//! The heart of Paceline: clients' units, the line they wait in, the groups they leave in, one file per strategy,
//! and the relay of units that travel alone.
//!
//! Pure: no sockets, no clock, no randomness, no runtime. Bytes and the time come in as arguments, bytes go out.

pub mod analysis;
pub mod learned;
pub mod line;
pub mod prospect;
pub mod ride;
pub mod sequences;
pub mod server;
pub mod session;
pub mod settings;
pub mod shared_listen;
pub mod show;
pub mod strategy;
pub mod tally;
pub mod template;
pub mod unit;

#[cfg(test)]
mod testing;

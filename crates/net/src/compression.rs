//! Compression of a connection between two Pacelines, above TLS if there is TLS.
//!
//! Both directions are sequences of [blocks](block). A block is compressed on its own, with at most the last 32 KiB of its exchange as a
//! dictionary: so no connection has a compressor of its own, and what one client sends never shortens what another one sends.
//! Nothing here knows the messages of PostgreSQL: the caller passes a function that finds the ends of exchanges.

mod block;
mod codec;
mod compressor;
mod decoder;
mod encoder;
mod history;
mod pace;
mod session;
#[cfg(test)]
mod tests;

pub use compressor::{ByteCounts, CompressionSettings, Compressor};
pub use encoder::FindEnd;
pub(crate) use session::CompressionSession;

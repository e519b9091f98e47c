//! Connections to clients and servers as byte streams: TCP and Unix sockets, TLS, compression, the identity of the peer,
//! listening sockets.
//!
//! This crate knows neither the configuration nor the PostgreSQL protocol nor pools: callers pass the settings that it needs.
//! Sockets are non-blocking and need a tokio runtime. An idle connection owns no buffer.

pub mod busy_poll;
mod compression;
pub mod listen;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "memory")]
mod memory_pipe;
mod optional_timeout;
mod peer;
mod socket;
mod stream;
mod tls;
mod transport;

pub use compression::{ByteCounts, CompressionSettings, Compressor, FindEnd};
pub use optional_timeout::optional_timeout;
pub use peer::Peer;
pub use stream::{READ_BYTES, Stream, TcpSettings};
pub use tls::{Acceptor, Cipher, Connector, SslMode, TlsError, TlsSettings, TlsVersions};

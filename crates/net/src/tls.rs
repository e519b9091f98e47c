//! TLS towards clients and servers, with rustls and the ciphers of ring.
//!
//! There is no session resumption, no early data and no renegotiation, as in PostgreSQL. Private keys never reach a log.

mod certificate;
mod cipher;
mod clients;
mod engine;
mod error;
mod files;
mod provider;
mod servers;
pub(crate) mod session;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod verify;

pub use cipher::Cipher;
pub use clients::Acceptor;
pub use error::TlsError;
pub use servers::Connector;
pub use settings::{SslMode, TlsSettings, TlsVersions};

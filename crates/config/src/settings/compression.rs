//! Compression between two Pacelines.

use super::form::{compression_method, switch};
use super::key::{DATABASES_ONLY, section};
use crate::compression::CompressionMethod;

section! {
    /// Compression between two Pacelines.
    pub struct Compression {
        /// Whether connections of clients that are Pacelines themselves are compressed if they offer it, and up to which level
        client_compression: CompressionMethod = CompressionMethod::Off, compression_method();
        /// Whether connections to servers are compressed if a Paceline answers there, and up to which level
        server_compression: CompressionMethod = CompressionMethod::Off, compression_method(), overridden(DATABASES_ONLY);
        /// Whether what one client sends may shorten what is sent after it on the same connection; it then shows whether they are alike
        compression_shared_window: bool = false, switch();
    }
}

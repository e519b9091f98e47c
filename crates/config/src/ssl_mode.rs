//! `sslmode`, as libpq and PgBouncer have it.

use crate::words::{Words as _, words};

words! {
    /// Whether a connection is encrypted, and which part of the other side's certificate is checked (libpq's `sslmode`).
    #[derive(PartialOrd, Ord, Hash)]
    pub enum SslMode {
        /// Never encrypted.
        Disable = "disable",
        /// Encrypted if the other side insists.
        Allow = "allow",
        /// Encrypted if the other side can.
        Prefer = "prefer",
        /// Always encrypted.
        Require = "require",
        /// Always encrypted, and a known authority has issued the certificate.
        VerifyCa = "verify-ca",
        /// As `VerifyCa`, and the certificate names the host that the connection was opened to.
        VerifyFull = "verify-full",
    }
}

impl SslMode {
    /// The mode of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::of_word(name)
    }
}

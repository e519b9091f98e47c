//! The TLS settings towards one side.

use std::path::PathBuf;

/// Whether a connection is encrypted, and what is checked of the other side's certificate (libpq's `sslmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the other side insists.
    Allow,
    /// Encrypted if the other side offers it.
    Prefer,
    /// Always encrypted.
    Require,
    /// Always encrypted, and a known authority must have issued the certificate.
    VerifyCa,
    /// As [`SslMode::VerifyCa`], and the certificate must name the host that was dialled.
    VerifyFull,
}

impl SslMode {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// The versions of TLS that are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersions {
    /// TLS 1.2 and TLS 1.3.
    Both,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// TLS towards one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether connections are encrypted.
    pub sslmode: SslMode,
    /// Private key of the certificate in `cert_file`, PEM.
    pub key_file: Option<PathBuf>,
    /// Own certificate, followed by those that lead from it to an authority, PEM.
    pub cert_file: Option<PathBuf>,
    /// Authorities that may issue the other side's certificate, PEM.
    pub ca_file: Option<PathBuf>,
    /// Versions that are offered.
    pub versions: TlsVersions,
}

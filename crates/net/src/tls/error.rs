//! The reason why TLS cannot be set up with the settings that were given.

use rustls::server::VerifierBuilderError;
use std::path::PathBuf;

/// The reason why TLS cannot be set up with the settings that were given.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or lacks the expected item.
    #[error("cannot read {what} from {}: {reason}", .path.display())]
    File {
        /// The expected item.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem, without a part of the file.
        reason: String,
    },
    /// A setting needs another one.
    #[error("{setting} needs {missing}; set it to the path of a PEM file")]
    Missing {
        /// The setting that is set.
        setting: String,
        /// The setting that is not set.
        missing: &'static str,
    },
    /// Key and certificate do not match, or rustls cannot use them.
    #[error("{}: {reason}", .cert.display())]
    Unusable {
        /// The certificate.
        cert: PathBuf,
        /// rustls' error.
        reason: rustls::Error,
    },
    /// rustls cannot verify certificates with these authorities.
    #[error("{}: {reason}", .ca.display())]
    Authorities {
        /// The file.
        ca: PathBuf,
        /// rustls' error.
        reason: VerifierBuilderError,
    },
    /// rustls rejects the settings.
    #[error("{0}")]
    Rustls(#[from] rustls::Error),
}

impl TlsError {
    /// Whether the error can end when another setting is set, too: key and certificate are set one after the other.
    pub fn is_incomplete(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Unusable { reason, .. } => matches!(reason, rustls::Error::InconsistentKeys(_)),
            _ => false,
        }
    }
}

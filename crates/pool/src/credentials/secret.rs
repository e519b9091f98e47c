//! Stored secrets of users, in a file or in PostgreSQL.

use paceline_config::Secret as Password;
use paceline_wire::md5;
use paceline_wire::scram::Verifier;

/// The stored secret of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSecret {
    /// The password itself.
    Plain(Password),
    /// `md5…`.
    Md5(Password),
    /// `SCRAM-SHA-256$…`.
    Scram(Verifier),
    /// No secret: the user exists and cannot log in by a password.
    None,
}

impl StoredSecret {
    /// Recognizes the form of a secret, as PostgreSQL does. An empty password matches nothing.
    pub fn read(text: &str) -> Self {
        if text.is_empty() {
            return Self::None;
        }
        if md5::is_stored(text) {
            return Self::Md5(Password::new(text.to_owned()));
        }
        match Verifier::parse(text) {
            Some(verifier) => Self::Scram(verifier),
            None => Self::Plain(Password::new(text.to_owned())),
        }
    }
}

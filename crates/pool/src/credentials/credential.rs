//! The credential for a login to a server if the configuration has no password for it: that of the user itself.

use super::secret::StoredSecret;
use paceline_config::Secret as Password;
use paceline_wire::auth;
use paceline_wire::scram::Keys;
use std::sync::{Mutex, PoisonError};

/// The credential for a login to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// No credential.
    #[default]
    None,
    /// The password.
    Password(Password),
    /// A stored md5 password.
    Md5(Password),
    /// The keys of a password.
    Keys(Keys),
    /// A stored SCRAM secret, which proves nothing to a server.
    Verifier,
}

impl Credential {
    /// The credential in a stored secret. A SCRAM verifier contains none.
    pub fn of(secret: &StoredSecret) -> Self {
        match secret {
            StoredSecret::Plain(password) => Self::Password(password.clone()),
            StoredSecret::Md5(stored) => Self::Md5(stored.clone()),
            StoredSecret::Scram(_) | StoredSecret::None => Self::None,
        }
    }

    /// The credential in the protocol's type.
    pub(crate) fn as_shown(&self) -> auth::Credential<'_> {
        match self {
            Self::None => auth::Credential::None,
            Self::Password(password) => auth::Credential::Password(password.reveal()),
            Self::Md5(stored) => auth::Credential::Md5(stored.reveal()),
            Self::Keys(keys) => auth::Credential::Keys(keys),
            Self::Verifier => auth::Credential::Verifier,
        }
    }
}

/// The credential that a client of the pool has shown last.
#[derive(Debug, Default)]
pub(crate) struct ShownCredential(Mutex<Credential>);

impl ShownCredential {
    /// Sets the credential that a client has shown. A client without one (certificate) changes nothing. Returns whether the
    /// credential is new.
    pub(crate) fn set(&self, shown: &Credential) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *shown != Credential::None && *shown != *last;
        if is_new {
            *last = shown.clone();
        }
        is_new
    }

    /// The credential that was shown last.
    pub(crate) fn get(&self) -> Credential {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

//! What a login towards a server shows, where the configuration has no password for it: the secret of the user itself.

use super::derive::Deriver;
use super::secret::Secret;
use paceline_config::Secret as Password;
use paceline_wire::auth;
use paceline_wire::scram::{Keys, Stretch};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// What proves to a server who logs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Nothing does.
    #[default]
    None,
    /// The password.
    Password(Password),
    /// A stored md5 password.
    Md5(Password),
    /// The keys of a password.
    Keys(Keys),
    /// A stored SCRAM secret, which proves nothing.
    Verifier,
}

impl Credential {
    /// What a stored secret is good for by itself. A SCRAM verifier is good for nothing.
    pub fn of(secret: &Secret) -> Self {
        match secret {
            Secret::Plain(password) => Self::Password(password.clone()),
            Secret::Md5(stored) => Self::Md5(stored.clone()),
            Secret::Scram(_) | Secret::None => Self::None,
        }
    }

    /// As the protocol takes it.
    pub fn as_shown(&self) -> auth::Credential<'_> {
        match self {
            Self::None => auth::Credential::None,
            Self::Password(password) => auth::Credential::Password(password.reveal()),
            Self::Md5(stored) => auth::Credential::Md5(stored.reveal()),
            Self::Keys(keys) => auth::Credential::Keys(keys),
            Self::Verifier => auth::Credential::Verifier,
        }
    }
}

/// What the clients of a pool have shown last, for its own logins.
#[derive(Debug, Default)]
pub struct ShownCredential(Mutex<Credential>);

impl ShownCredential {
    /// A client has shown this. One that could show nothing (a certificate does not pass) leaves what is known. False: it is
    /// what was known.
    pub fn set(&self, shown: &Credential) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *shown != Credential::None && *shown != *known;
        if is_new {
            *known = shown.clone();
        }
        is_new
    }

    /// What was shown last.
    pub fn get(&self) -> Credential {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

/// What a login towards a server needs besides an address.
#[derive(Clone)]
pub struct ServerCredentials {
    /// What it shows.
    pub credential: Credential,
    /// Makes the keys of a password.
    pub deriver: Arc<Deriver>,
}

impl ServerCredentials {
    /// For a login by this password, or by none.
    pub fn by_password(password: Option<&Password>) -> Self {
        Self {
            credential: password
                .cloned()
                .map_or(Credential::None, Credential::Password),
            deriver: Arc::default(),
        }
    }

    /// The keys of the password, if it shows one: nothing else is asked for them.
    pub async fn keys(&self, stretch: &Stretch) -> io::Result<Keys> {
        match &self.credential {
            Credential::Password(password) => {
                let password = password.reveal().as_bytes();
                self.deriver.keys(password, stretch).await
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

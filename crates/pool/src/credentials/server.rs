//! Credentials for logins to one server. A password in a file or of a command is read for each login.

use super::credential::Credential;
use super::derive::Deriver;
use super::password_error::PasswordError;
use super::passwords::Passwords;
use paceline_config::PasswordSource;
use paceline_wire::auth;
use paceline_wire::scram::{Keys, Stretch};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The credential for logins to a server, and the deriver of its keys.
#[derive(Clone)]
pub struct ServerCredentials {
    pub(super) source: CredentialSource,
    pub(super) passwords: Arc<Passwords>,
    pub(super) deriver: Arc<Deriver>,
}

/// The source of a credential.
#[derive(Debug, Clone)]
pub(super) enum CredentialSource {
    /// It is here.
    Fixed(Credential),
    /// A password, which may change while the process runs.
    Read(PasswordSource),
}

impl CredentialSource {
    /// A password, or no credential.
    pub(super) fn of_password(password: Option<&PasswordSource>) -> Self {
        let read = password.cloned().map(Self::Read);
        read.unwrap_or(Self::Fixed(Credential::None))
    }
}

/// The credential for one login.
#[derive(Clone)]
pub(crate) struct LoginCredential {
    credential: Credential,
    deriver: Arc<Deriver>,
}

impl ServerCredentials {
    /// For logins with this password, or without one, outside of pools.
    pub fn by_password(password: Option<&PasswordSource>) -> Self {
        Self {
            source: CredentialSource::of_password(password),
            passwords: Arc::default(),
            deriver: Arc::default(),
        }
    }

    /// The credential for a login. Waits at most `limit` for a password; zero means no limit.
    ///
    /// # Errors
    /// There is no password in the file, or the command has written none.
    pub async fn credential(&self, limit: Duration) -> Result<Credential, PasswordError> {
        match &self.source {
            CredentialSource::Fixed(credential) => Ok(credential.clone()),
            CredentialSource::Read(source) => {
                let password = self.passwords.read(source, None, limit).await?;
                Ok(Credential::Password(password))
            }
        }
    }

    /// [`ServerCredentials::credential`], for one login.
    pub(crate) async fn read(&self, limit: Duration) -> Result<LoginCredential, PasswordError> {
        Ok(self.login(self.credential(limit).await?))
    }

    /// The credential after the server has refused `refused`; `None` if it is still the same.
    ///
    /// # Errors
    /// As for [`ServerCredentials::read`].
    pub(crate) async fn read_again(
        &self,
        refused: &LoginCredential,
        limit: Duration,
    ) -> Result<Option<LoginCredential>, PasswordError> {
        let (CredentialSource::Read(source), Credential::Password(password)) =
            (&self.source, &refused.credential)
        else {
            return Ok(None);
        };
        let now = self.passwords.read(source, Some(password), limit).await?;
        let is_new = now != *password;
        Ok(is_new.then(|| self.login(Credential::Password(now))))
    }

    fn login(&self, credential: Credential) -> LoginCredential {
        LoginCredential {
            credential,
            deriver: Arc::clone(&self.deriver),
        }
    }
}

impl LoginCredential {
    /// The credential in the protocol's type.
    pub(crate) fn as_shown(&self) -> auth::Credential<'_> {
        self.credential.as_shown()
    }

    /// The keys of the password. Other credentials are never asked for keys.
    ///
    /// # Errors
    /// The credential is not a password, or the keys cannot be derived.
    pub(crate) async fn keys(&self, stretch: &Stretch) -> io::Result<Keys> {
        match &self.credential {
            Credential::Password(password) => {
                let password = password.reveal().as_bytes();
                self.deriver.keys(password, stretch).await
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

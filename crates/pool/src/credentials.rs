//! Credentials for logins to servers: the password that the configuration contains or names, the secret in `auth_file`, or the credential that the
//! last client of the pool has shown.

mod command;
mod credential;
mod derive;
mod password_error;
mod passwords;
mod process_key;
mod random;
mod secret;
mod server;

pub use credential::Credential;
pub(crate) use credential::ShownCredential;
pub use derive::Deriver;
pub use password_error::PasswordError;
pub use process_key::ProcessKey;
pub use random::random;
pub use secret::StoredSecret;
pub(crate) use server::LoginCredential;
pub use server::ServerCredentials;

use crate::address::Address;
use arc_swap::ArcSwapOption;
use paceline_config::PasswordSource;
use passwords::Passwords;
use server::CredentialSource;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Secrets of `auth_file`, by user.
pub type Users = HashMap<String, StoredSecret>;

/// The sources of credentials that all pools share.
#[derive(Default)]
pub struct CredentialStore {
    users: ArcSwapOption<Users>,
    passwords: Arc<Passwords>,
    deriver: Arc<Deriver>,
}

impl CredentialStore {
    /// Replaces the users of `auth_file`; `None` without such a file.
    pub fn set_users(&self, users: Option<Arc<Users>>) {
        self.users.store(users);
    }

    /// Limits commands that give passwords to this time (`server_connect_timeout`; zero is none), and forgets what they have given.
    pub(crate) fn reset_commands(&self, limit: Duration) {
        self.passwords.reset(limit);
    }

    /// Derives SCRAM keys from passwords.
    pub fn deriver(&self) -> &Arc<Deriver> {
        &self.deriver
    }

    /// The credentials for logins to this address. The first of these that exists: the configured password, if it is that user's;
    /// the secret of the user in `auth_file`, if a server accepts it; the credential that the last client has shown, if the pool
    /// logs in as its clients.
    ///
    /// The client's credential was compared with the file at its login. If the file has a usable secret now, the file decides.
    pub(crate) fn of(&self, address: &Address, shown: &ShownCredential) -> ServerCredentials {
        let upstream = &address.upstream;
        let user = upstream.user.as_ref();
        let has_password = user.is_none_or(|user| *user == address.user);
        self.from(match &upstream.password {
            Some(password) if has_password => CredentialSource::Read(password.clone()),
            _ => CredentialSource::Fixed(match self.stored(&address.user) {
                Credential::None | Credential::Verifier if user.is_none() => shown.get(),
                stored => stored,
            }),
        })
    }

    /// The credentials for logins with this password, or without one.
    pub(crate) fn of_password(&self, password: Option<&PasswordSource>) -> ServerCredentials {
        self.from(CredentialSource::of_password(password))
    }

    fn from(&self, source: CredentialSource) -> ServerCredentials {
        ServerCredentials {
            source,
            passwords: Arc::clone(&self.passwords),
            deriver: Arc::clone(&self.deriver),
        }
    }

    fn stored(&self, user: &str) -> Credential {
        let users = self.users.load();
        match users.as_ref().and_then(|users| users.get(user)) {
            // So that the login error gives the reason.
            Some(StoredSecret::Scram(_)) => Credential::Verifier,
            secret => secret.map(Credential::of).unwrap_or_default(),
        }
    }
}

//! Credentials for logins to servers: the password in the configuration, the secret in `auth_file`, or the credential that the
//! last client of the pool has shown.

mod credential;
mod derive;
mod process_key;
mod random;
mod secret;

pub(crate) use credential::ShownCredential;
pub use credential::{Credential, ServerCredentials};
pub use derive::Deriver;
pub use process_key::ProcessKey;
pub use random::random;
pub use secret::StoredSecret;

use crate::address::Address;
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::sync::Arc;

/// Secrets of `auth_file`, by user.
pub type Users = HashMap<String, StoredSecret>;

/// The sources of credentials that all pools share.
#[derive(Default)]
pub struct CredentialStore {
    users: ArcSwapOption<Users>,
    deriver: Arc<Deriver>,
}

impl CredentialStore {
    /// Replaces the users of `auth_file`; `None` without such a file.
    pub fn set_users(&self, users: Option<Arc<Users>>) {
        self.users.store(users);
    }

    /// Derives SCRAM keys from passwords.
    pub fn deriver(&self) -> &Arc<Deriver> {
        &self.deriver
    }

    /// The credentials for logins to this address. The first of these that exists: the password in the URL, if it is that user's;
    /// the secret of the user in `auth_file`, if a server accepts it; the credential that the last client has shown, if the pool
    /// logs in as its clients.
    ///
    /// The client's credential was compared with the file at its login. If the file has a usable secret now, the file decides.
    pub(crate) fn of(&self, address: &Address, shown: &ShownCredential) -> ServerCredentials {
        let upstream = &address.upstream;
        let user = upstream.user.as_ref();
        let has_password = user.is_none_or(|user| *user == address.user);
        let credential = match &upstream.password {
            Some(password) if has_password => Credential::Password(password.clone()),
            _ => match self.stored(&address.user) {
                Credential::None | Credential::Verifier if user.is_none() => shown.get(),
                stored => stored,
            },
        };
        ServerCredentials {
            credential,
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

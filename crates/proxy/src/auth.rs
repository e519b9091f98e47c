//! Authentication of clients. `auth_type` or the HBA rules choose the method; the stored secret is read from a file or from
//! PostgreSQL. The pool uses the credential that a client has shown for its own logins, so no password need be configured.
//! `docs/login.md` is the user's view.
//!
//! A rejected login does not show whether the user exists. Passwords are never logged. Passwords are never stretched on a thread
//! that serves sockets.

mod exchange;
mod fields;
mod hba;
mod ident;
mod mock;
mod password;
mod peer;
mod query;
mod target;
#[cfg(test)]
mod tests;
mod user_files;
mod userlist;

use crate::login_refusal::LoginRefusal;
pub use password::{check_password, console_access};
pub(crate) use target::LoginTarget;
pub use user_files::{UserFiles, UserFilesError};

use bytes::BytesMut;
use exchange::{AuthExchange, PrevailingSecret};
use hba::Method;
use mock::Mock;
use paceline_config::{AuthType, Config};
use paceline_net::Stream;
use paceline_pool::credentials::{Credential, StoredSecret};
use paceline_pool::pools::Pools;
use paceline_pool::replication::Replication;
use paceline_pool::shared::Shared;
use paceline_wire::ErrorResponse;
use peer::LoginPeer;
use std::sync::Arc;
use user_files::FilesInForce;

/// State shared by all logins.
pub struct AuthState {
    files: FilesInForce,
    mock: Mock,
    shared: Arc<Shared>,
}

/// An authenticated client.
pub(crate) struct AuthenticatedUser {
    /// The client's own user name, or the forced one.
    pub(crate) user: String,
    /// The credential that the client has shown, for logins of its pool.
    pub(crate) credential: Credential,
}

impl AuthState {
    /// Creates the state for this configuration. No file has been read.
    pub(crate) fn new(config: &Arc<Config>, shared: Arc<Shared>) -> Self {
        Self {
            files: FilesInForce::new(config),
            mock: Mock::default(),
            shared,
        }
    }

    /// Replaces the configuration and the files that logins use.
    pub fn set_files(&self, config: &Arc<Config>, files: &Arc<UserFiles>) {
        self.files.set(config, files);
        let users = files.users.as_ref().map(Arc::clone);
        self.shared.credentials.set_users(users);
    }

    /// The files that logins use.
    pub fn files(&self) -> Arc<UserFiles> {
        Arc::clone(&self.files.now().1)
    }
}

/// Authenticates a client as `user`. Afterwards the stream is ready for a session.
///
/// # Errors
/// The client does not prove its identity, or may not connect to the database.
pub(crate) async fn authenticate(
    auth: &AuthState,
    pools: &Arc<Pools>,
    stream: &Stream,
    input: &mut BytesMut,
    target: LoginTarget<'_>,
    user: &str,
) -> Result<AuthenticatedUser, LoginRefusal> {
    let database = target.database;
    let in_force = auth.files.now();
    let (config, files) = &*in_force;
    let peer = LoginPeer::of(stream);
    let login = Attempt {
        auth,
        pools,
        config,
        files,
        peer: &peer,
        database,
        replication: target.replication,
        user,
    };
    let shown = login.admit(stream, input).await;
    if let Err(refusal @ LoginRefusal::Error(_)) = &shown {
        let why = refusal.field(b'M').unwrap_or_default();
        tracing::info!(user, database, from = %peer.peer, why, "login refused");
    }
    shown
}

/// A login that is being authenticated.
struct Attempt<'a> {
    auth: &'a AuthState,
    pools: &'a Arc<Pools>,
    config: &'a Config,
    files: &'a UserFiles,
    peer: &'a LoginPeer,
    database: &'a str,
    replication: Option<Replication>,
    user: &'a str,
}

impl Attempt<'_> {
    async fn admit(
        &self,
        stream: &Stream,
        input: &mut BytesMut,
    ) -> Result<AuthenticatedUser, LoginRefusal> {
        if self.config.paceline.login.auth_type == AuthType::Any {
            return self.as_forced_user();
        }
        let method = self.method()?;
        if method == Method::Reject {
            return Err(ErrorResponse::fatal("28000", "login rejected").into());
        }
        let secret = stream.unless_closed(input, self.stored()).await;
        let secret = secret.ok_or(LoginRefusal::Left)??;
        let mut exchange = AuthExchange {
            stream,
            input,
            peer: self.peer,
            user: self.user,
            mock: &self.auth.mock,
            deriver: self.auth.shared.credentials.deriver(),
        };
        let credential = match method {
            Method::Plain => {
                exchange
                    .plain(secret.as_ref(), self.prevailing_secret())
                    .await?
            }
            Method::Scram => exchange.scram(secret.as_ref()).await?,
            Method::Md5 if self.takes_scram(secret.as_ref()) => {
                exchange.scram(secret.as_ref()).await?
            }
            Method::Md5 => exchange.md5(secret.as_ref()).await?,
            other => {
                self.check_without_secret(&other, secret.is_some()).await?;
                secret.as_ref().map(Credential::of).unwrap_or_default()
            }
        };
        Ok(AuthenticatedUser {
            user: self.user.to_owned(),
            credential,
        })
    }

    /// Handles `auth_type = any`: the client's user name does not matter.
    fn as_forced_user(&self) -> Result<AuthenticatedUser, LoginRefusal> {
        self.check_trust("any")?;
        // If there is no such database, a later step rejects the login.
        let forced = self.config.database(self.database);
        let forced = forced.and_then(|(entry, _)| entry.primary.user.clone());
        Ok(AuthenticatedUser {
            user: forced.unwrap_or_else(|| self.user.to_owned()),
            credential: Credential::None,
        })
    }

    fn method(&self) -> Result<Method, LoginRefusal> {
        Ok(match self.config.paceline.login.auth_type {
            AuthType::Trust | AuthType::Any => {
                self.check_trust("trust")?;
                Method::Trust
            }
            AuthType::Md5 => Method::Md5,
            AuthType::ScramSha256 => Method::Scram,
            AuthType::Plain => Method::Plain,
            AuthType::Cert => Method::Cert(None),
            AuthType::Peer => Method::Peer(None),
            AuthType::Hba => {
                let target = LoginTarget {
                    database: self.database,
                    replication: self.replication,
                };
                let method = self.files.hba.method(self.peer, target, self.user);
                let none = || ErrorResponse::fatal("28000", "no authentication method is found");
                method.cloned().ok_or_else(none)?
            }
        })
    }

    /// Rejects clients from other machines that would log in without a proof, unless `auth_trust_remote` is on. The configuration
    /// is rejected if it would allow them, but a reload may have changed it after the socket was opened.
    fn check_trust(&self, name: &str) -> Result<(), LoginRefusal> {
        match self.peer.peer.is_local() || self.config.paceline.login.auth_trust_remote {
            true => Ok(()),
            false => Err(self.refused(&format!("\"{name}\""))),
        }
    }

    /// The stored secret of the user; `None` if there is no such user.
    async fn stored(&self) -> Result<Option<StoredSecret>, LoginRefusal> {
        let users = self.files.users.as_ref();
        match users.and_then(|users| users.get(self.user)) {
            Some(secret) => Ok(Some(secret.clone())),
            None => query::look_up(self.pools, self.config, self.database, self.user).await,
        }
    }

    /// Whether a client must use SCRAM although md5 is allowed. That is so if its stored secret is a SCRAM verifier. For an unknown
    /// user the answer must not show that the user does not exist: it is SCRAM if users are looked up in PostgreSQL, or if all users
    /// of the file have SCRAM verifiers.
    fn takes_scram(&self, secret: Option<&StoredSecret>) -> bool {
        let is_scram = |known: &StoredSecret| matches!(known, StoredSecret::Scram(_));
        match secret {
            Some(StoredSecret::Scram(_)) => true,
            Some(StoredSecret::Plain(_) | StoredSecret::Md5(_)) => false,
            Some(StoredSecret::None) | None => {
                let users = self.files.users.as_ref();
                query::has_lookup(self.config, self.database)
                    || users.is_none_or(|users| users.values().all(is_scram))
            }
        }
    }

    /// The form in which most secrets of possible users are stored.
    fn prevailing_secret(&self) -> PrevailingSecret {
        let is_scram = |known: &&StoredSecret| matches!(known, StoredSecret::Scram(_));
        let users = self.files.users.as_ref();
        let in_scram = users.map_or(0, |users| users.values().filter(is_scram).count());
        let mostly = users.is_none_or(|users| 2 * in_scram > users.len());
        match mostly || query::has_lookup(self.config, self.database) {
            true => PrevailingSecret::ForScram,
            false => PrevailingSecret::ForComparison,
        }
    }

    /// Handles methods without a question to the client: trust, certificate, peer. If a list of users exists, the user must be in
    /// it.
    async fn check_without_secret(
        &self,
        method: &Method,
        is_known: bool,
    ) -> Result<(), LoginRefusal> {
        let must_be_known =
            self.files.users.is_some() || query::has_lookup(self.config, self.database);
        let passes = is_known || !must_be_known;
        let names = match (method, self.peer.peer.user()) {
            (Method::Cert(_), _) => self.peer.certified_names.clone(),
            (Method::Peer(_), Some(uid)) => peer::system_user(uid).await.into_iter().collect(),
            _ => Vec::new(),
        };
        let is_named = |map: &Option<ident::Map>| {
            names.iter().any(|name| match map {
                Some(map) => map.allows(name, self.user),
                None => name == self.user,
            })
        };
        match method {
            Method::Trust if passes => Ok(()),
            Method::Trust => Err(self.refused("\"trust\"")),
            Method::Cert(map) if passes && is_named(map) => Ok(()),
            Method::Cert(_) => Err(self.refused("certificate")),
            Method::Peer(map) if passes && is_named(map) => Ok(()),
            _ => Err(ErrorResponse::fatal("28000", "unix socket login rejected").into()),
        }
    }

    fn refused(&self, method: &str) -> LoginRefusal {
        let message = format!("{method} authentication failed for user \"{}\"", self.user);
        ErrorResponse::fatal("28000", message).into()
    }
}

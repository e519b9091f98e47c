//! Login of clients: who is it, and does it prove so? What must be shown is said by `auth_type` or by rules; what was stored of a
//! password comes from a file or from PostgreSQL. What a client has shown is then good for logins of its pool, so that no
//! password need be configured for them. `docs/login.md` is the user's view.
//!
//! Whoever is not let in is not told whether the user exists. No password is ever logged, and none is stretched on a thread
//! that serves sockets.

mod credential;
mod derive;
mod door;
mod fields;
mod hba;
mod ident;
mod mock;
mod pepper;
mod query;
mod records;
mod refusal;
mod secret;
mod target;
#[cfg(test)]
mod tests;
mod userlist;
mod visitor;

pub(crate) use credential::{Credential, Learned, Pass};
use records::Archive;
pub(crate) use records::{Records, RecordsError};
pub(crate) use refusal::Refusal;
use secret::Secret;
pub(crate) use target::LoginTarget;
use visitor::Visitor;

use crate::cancel::{Doing, Whereabouts};
use crate::pool::{Delivery, Pool, Seat, Submitted};
use crate::proxy::Proxy;
use crate::replication::Replication;
use crate::server::Address;
use bytes::BytesMut;
use derive::Deriver;
use door::{Door, Kept};
use hba::Method;
use mock::Mock;
use paceline_batch::line::WaiterId;
use paceline_config::{AuthType, Config};
use paceline_net::Stream;
use paceline_wire::ErrorResponse;
use std::io;
use std::sync::Arc;

/// What all logins share.
pub(crate) struct Gate {
    archive: Archive,
    mock: Mock,
    /// Makes the keys of passwords.
    deriver: Arc<Deriver>,
}

/// Who a client is, and what it has shown.
pub(crate) struct Identity {
    /// The user that it is; its own word for it unless that is ignored.
    pub(crate) user: String,
    /// What lets its pool log in to the server.
    pub(crate) credential: Credential,
}

impl Gate {
    /// For this configuration, none of whose files has been read.
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        Self {
            archive: Archive::new(config),
            mock: Mock::default(),
            deriver: Arc::default(),
        }
    }

    /// From now on logins go by these.
    pub(crate) fn hold(&self, config: &Arc<Config>, records: &Arc<Records>) {
        self.archive.hold(config, records);
    }

    /// What logins go by.
    pub(crate) fn records(&self) -> Arc<Records> {
        Arc::clone(&self.archive.now().1)
    }

    /// What a pool shows its server: the password in the URL if it is that user's, else what the file has stored of the user, as
    /// far as that is of use there, else what its clients have shown, if it logs in as them. What they have shown was compared with
    /// the file of that time, if they are in it: it knows no better than the file of today.
    pub(crate) fn pass(&self, address: &Address, learned: &Learned) -> Pass {
        let upstream = &address.upstream;
        let is_its = upstream
            .user
            .as_ref()
            .is_none_or(|user| *user == address.user);
        let credential = match &upstream.password {
            Some(password) if is_its => Credential::Password(password.clone()),
            _ => match self.stored(&address.user) {
                Credential::None | Credential::Verifier if upstream.user.is_none() => {
                    learned.known()
                }
                stored => stored,
            },
        };
        Pass {
            credential,
            deriver: Arc::clone(&self.deriver),
        }
    }

    /// What the file has stored of a user, as far as a server takes it.
    fn stored(&self, user: &str) -> Credential {
        let records = self.records();
        let users = records.users.as_ref();
        match users.and_then(|users| users.get(user)) {
            // Named, so that an operator reads why the login fails.
            Some(Secret::Scram(_)) => Credential::Verifier,
            secret => secret.map(Credential::of).unwrap_or_default(),
        }
    }
}

/// Lets a client prove that it is `user`, who wants to connect there. The stream is good for a session afterwards.
pub(crate) async fn authenticate(
    proxy: &Arc<Proxy>,
    stream: &Stream,
    input: &mut BytesMut,
    target: LoginTarget<'_>,
    user: &str,
) -> Result<Identity, Refusal> {
    let database = target.database;
    let archive = proxy.gate.archive.now();
    let (config, records) = &*archive;
    let visitor = Visitor::of(stream);
    let login = Attempt {
        proxy,
        config,
        records,
        visitor: &visitor,
        database,
        replication: target.replication,
        user,
    };
    let shown = login.admit(stream, input).await;
    if let Err(refusal @ Refusal::Told(_)) = &shown {
        let why = refusal.field(b'M').unwrap_or_default();
        tracing::info!(user, database, from = %visitor.peer, why, "login refused");
    }
    shown
}

/// A client that wants to log in.
struct Attempt<'a> {
    proxy: &'a Arc<Proxy>,
    config: &'a Config,
    records: &'a Records,
    visitor: &'a Visitor,
    database: &'a str,
    replication: Option<Replication>,
    user: &'a str,
}

impl Attempt<'_> {
    async fn admit(&self, stream: &Stream, input: &mut BytesMut) -> Result<Identity, Refusal> {
        if self.config.paceline.login.auth_type == AuthType::Any {
            return self.as_forced_user();
        }
        let method = self.method()?;
        if method == Method::Reject {
            return Err(ErrorResponse::fatal("28000", "login rejected").into());
        }
        let secret = stream.unless_closed(input, self.stored()).await;
        let secret = secret.ok_or(Refusal::Left)??;
        let mut door = Door {
            stream,
            input,
            visitor: self.visitor,
            user: self.user,
            mock: &self.proxy.gate.mock,
            deriver: &self.proxy.gate.deriver,
        };
        let credential = match method {
            Method::Plain => door.plain(secret.as_ref(), self.others()).await?,
            Method::Scram => door.scram(secret.as_ref()).await?,
            Method::Md5 if self.takes_scram(secret.as_ref()) => door.scram(secret.as_ref()).await?,
            Method::Md5 => door.md5(secret.as_ref()).await?,
            other => {
                self.vouched_for(&other, secret.is_some()).await?;
                secret.as_ref().map(Credential::of).unwrap_or_default()
            }
        };
        Ok(Identity {
            user: self.user.to_owned(),
            credential,
        })
    }

    /// `auth_type = any`: what the client calls itself does not matter.
    fn as_forced_user(&self) -> Result<Identity, Refusal> {
        self.check_trust("any")?;
        // A database that there is not is told of later.
        let forced = self.config.database(self.database);
        let forced = forced.and_then(|(entry, _)| entry.primary.user.clone());
        Ok(Identity {
            user: forced.unwrap_or_else(|| self.user.to_owned()),
            credential: Credential::None,
        })
    }

    fn method(&self) -> Result<Method, Refusal> {
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
                let method = self.records.hba.method(self.visitor, target, self.user);
                let none = || ErrorResponse::fatal("28000", "no authentication method is found");
                method.cloned().ok_or_else(none)?
            }
        })
    }

    /// Who is let in without a proof is on this machine, unless the configuration says otherwise. It is not served otherwise
    /// either: but the configuration may have changed since we began to listen.
    fn check_trust(&self, name: &str) -> Result<(), Refusal> {
        match self.visitor.peer.is_local() || self.config.paceline.login.auth_trust_remote {
            true => Ok(()),
            false => Err(self.refused(&format!("\"{name}\""))),
        }
    }

    /// What was stored of the user's password; `None`: there is no such user.
    async fn stored(&self) -> Result<Option<Secret>, Refusal> {
        let users = self.records.users.as_ref();
        match users.and_then(|users| users.get(self.user)) {
            Some(secret) => Ok(Some(secret.clone())),
            None => query::ask(self.proxy, self.config, self.database, self.user).await,
        }
    }

    /// Whether a client that may use md5 is asked for SCRAM, as it must be where only that can be checked. Whoever cannot get in is
    /// asked for what others are asked for: the users of the file, or of the server, where SCRAM is what there is unless somebody
    /// has chosen otherwise.
    fn takes_scram(&self, secret: Option<&Secret>) -> bool {
        let is_scram = |known: &Secret| matches!(known, Secret::Scram(_));
        match secret {
            Some(Secret::Scram(_)) => true,
            Some(Secret::Plain(_) | Secret::Md5(_)) => false,
            Some(Secret::None) | None => {
                let users = self.records.users.as_ref();
                query::is_asked(self.config, self.database)
                    || users.is_none_or(|users| users.values().all(is_scram))
            }
        }
    }

    /// How the secrets of those are kept who could log in here.
    fn others(&self) -> Kept {
        let is_scram = |known: &&Secret| matches!(known, Secret::Scram(_));
        let users = self.records.users.as_ref();
        let in_scram = users.map_or(0, |users| users.values().filter(is_scram).count());
        let mostly = users.is_none_or(|users| 2 * in_scram > users.len());
        match mostly || query::is_asked(self.config, self.database) {
            true => Kept::ForScram,
            false => Kept::ForComparison,
        }
    }

    /// Methods that ask the client nothing: others vouch for it. A user must be known where users are.
    async fn vouched_for(&self, method: &Method, is_known: bool) -> Result<(), Refusal> {
        let must_be_known =
            self.records.users.is_some() || query::is_asked(self.config, self.database);
        let passes = is_known || !must_be_known;
        let vouched = match (method, self.visitor.peer.user()) {
            (Method::Cert(_), _) => self.visitor.certified_names.clone(),
            (Method::Peer(_), Some(uid)) => visitor::system_user(uid).await.into_iter().collect(),
            _ => Vec::new(),
        };
        let is_named = |map: &Option<ident::Map>| {
            vouched.iter().any(|name| match map {
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

    fn refused(&self, method: &str) -> Refusal {
        let message = format!("{method} authentication failed for user \"{}\"", self.user);
        ErrorResponse::fatal("28000", message).into()
    }
}

/// Stands in a pool's line until this is dropped: a client that leaves before it is welcomed keeps no place there.
struct InLine<'a> {
    pool: &'a Arc<Pool>,
    waiter: WaiterId,
    /// The client whose login this is, if it is its own pool: the console shows that it waits.
    client: Option<&'a Whereabouts>,
}

impl<'a> InLine<'a> {
    fn new(pool: &'a Arc<Pool>, waiter: WaiterId, client: Option<&'a Whereabouts>) -> Self {
        if let Some(client) = client {
            client.now(Doing::Waiting(Arc::clone(pool), waiter));
        }
        Self {
            pool,
            waiter,
            client,
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            client.now(Doing::Nothing);
        }
        // Usually it has departed.
        self.pool.withdraw(self.waiter);
    }
}

/// A connection of a pool, for work of Paceline's own in the course of a login.
pub(crate) async fn seat(pool: &Arc<Pool>) -> Result<Box<Seat>, Refusal> {
    seat_in(pool, None).await
}

/// The same of the client's own pool.
pub(crate) async fn client_seat(client: &Whereabouts) -> Result<Box<Seat>, Refusal> {
    seat_in(&client.presence.pool, Some(client)).await
}

async fn seat_in(pool: &Arc<Pool>, client: Option<&Whereabouts>) -> Result<Box<Seat>, Refusal> {
    let (mut delivery, _in_line) = match pool.submit_login() {
        Submitted::Seat(seat) => (Delivery::Seat(seat), None),
        Submitted::Refused(told) => (Delivery::Fatal(told), None),
        Submitted::Waiting(waiter, waits) => {
            let in_line = InLine::new(pool, waiter, client);
            (Delivery::Queued(waits), Some(in_line))
        }
    };
    // Who is not welcomed yet gets no NOTICE.
    while let Delivery::Queued(waits) = delivery {
        delivery = waits.await.map_err(|_| Refusal::Left)?;
    }
    match delivery {
        Delivery::Seat(seat) => Ok(seat),
        Delivery::Fatal(told) => Err(Refusal::Told(told)),
        Delivery::Answer(_) | Delivery::Queued(_) => Err(Refusal::Left),
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

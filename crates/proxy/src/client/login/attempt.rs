//! The steps of a login, from the first packet to the first ReadyForQuery.

use super::compression::{AcceptedOffer, supported};
use super::console;
use super::encryption::{self, Opening};
use super::startup_settings::settings_of;
use super::welcome::{own_name, read_idle_timeout, welcome, welcome_by};
use crate::auth::{self, AuthenticatedUser, LoginTarget};
use crate::cancel::{CancelKey, ConsoleGrant, Registration};
use crate::client::replication;
use crate::client::slot::ClientSlot;
use crate::client_info::ClientInfo;
use crate::log::{self, ClientNames};
use crate::login_refusal::LoginRefusal;
use crate::peers;
use crate::proxy::Proxy;
use bytes::BytesMut;
use paceline_net::Stream;
use paceline_pool::pool::Pool;
use paceline_pool::replication::Replication;
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SessionSettings;
use paceline_sql::IDLE_SESSION_TIMEOUT;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::{self, Status};
use paceline_wire::startup::Startup;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The result of a login.
pub(super) enum LoggedIn {
    Client(ClientParts),
    Replication(Box<replication::ReplicationLogin>),
    Console {
        grant: ConsoleGrant,
        input: BytesMut,
    },
}

/// The parts of a session.
pub(super) struct ClientParts {
    pub(super) pool: Arc<Pool>,
    pub(super) input: BytesMut,
    pub(super) session: ClientSession,
    pub(super) registration: Registration,
    pub(super) slot: ClientSlot,
}

/// The state of a login.
pub(super) struct LoginAttempt<'a> {
    pub(super) proxy: &'a Arc<Proxy>,
    pub(super) stream: &'a mut Stream,
    /// Bytes that the client has sent and that have not been read.
    pub(super) input: BytesMut,
    pub(super) slot: ClientSlot,
    /// Set while the login waits for a server connection.
    pub(super) awaits_server: &'a AtomicBool,
}

/// The session that an authenticated client requests.
struct SessionRequest<'a> {
    startup: &'a Startup,
    /// The database that the client names.
    database: &'a str,
    user: &'a str,
    pool: Arc<Pool>,
    offer: Option<AcceptedOffer>,
}

impl LoginAttempt<'_> {
    /// Reads the startup packet, authenticates the client, finds its pool, and begins the session.
    pub(super) async fn run(
        mut self,
        names_sent: &OnceLock<(String, String)>,
    ) -> Result<LoggedIn, LoginRefusal> {
        let proxy = self.proxy;
        let startup = match encryption::read_opening(proxy, self.stream, &mut self.input).await? {
            Opening::Startup(startup) => startup,
            Opening::Cancel { process, secret } => {
                drop(self.slot);
                return Err(cancel(proxy, CancelKey { process, secret }).await);
            }
        };
        let kind = Replication::of(&startup)?;
        let offer = AcceptedOffer::new(proxy, &startup, kind);
        let unsupported = startup.unsupported_extensions(supported(offer.as_ref()));
        if startup.minor > 0 || !unsupported.is_empty() {
            let mut out = BytesMut::new();
            backend::write_negotiate_version(&mut out, &unsupported);
            self.stream.write_all(&mut out).await?;
        }
        let (database, user) = names(&startup)?;
        log_attempt(proxy, self.stream, (database, user), kind.is_some());
        let _ = names_sent.set((database.to_owned(), user.to_owned()));
        if proxy.config().is_console(database) {
            return self.begin_console(user, kind).await;
        }
        self.slot.check_max_clients()?;
        let identity = self.authenticate(database, user, kind).await?;
        proxy.pools.admit(database)?;
        let pool = pool_of(proxy, database, &identity)?;
        self.slot.admit(&pool)?;
        // From now on the console shows the client, its wait and its pool.
        pool.set_name(database, &identity.user);
        let request = SessionRequest {
            startup: &startup,
            database,
            user: &identity.user,
            pool,
            offer,
        };
        match kind {
            // Boxed because it is rare: its state would be part of every login.
            Some(kind) => Box::pin(self.begin_replication(request, kind)).await,
            None => self.begin_session(request).await,
        }
    }

    async fn authenticate(
        &mut self,
        database: &str,
        user: &str,
        replication: Option<Replication>,
    ) -> Result<AuthenticatedUser, LoginRefusal> {
        let target = LoginTarget {
            database,
            replication,
        };
        let (auth, pools) = (&self.proxy.auth, &self.proxy.pools);
        auth::authenticate(auth, pools, self.stream, &mut self.input, target, user).await
    }

    async fn begin_console(
        mut self,
        user: &str,
        kind: Option<Replication>,
    ) -> Result<LoggedIn, LoginRefusal> {
        if kind.is_some() {
            let message = "the console takes no replication connections";
            return Err(ErrorResponse::fatal("0A000", message).into());
        }
        let grant = console::log_in(self.proxy, self.stream, &mut self.input, user).await?;
        Ok(LoggedIn::Console {
            grant,
            input: self.input,
        })
    }

    async fn begin_replication(
        mut self,
        request: SessionRequest<'_>,
        kind: Replication,
    ) -> Result<LoggedIn, LoginRefusal> {
        let SessionRequest {
            startup,
            database,
            user,
            pool,
            offer: _,
        } = request;
        self.slot.replicates(&pool);
        self.awaits_server.store(true, Ordering::Relaxed);
        let request = replication::ReplicationRequest {
            kind,
            pool,
            startup,
        };
        let session = request.begin(self.stream, &self.proxy.cancel_keys);
        let session = self.stream.unless_closed(&mut self.input, session);
        let session = session.await.ok_or(LoginRefusal::Left)??;
        self.proxy.login_addresses.add(session.pool.address());
        self.proxy.pools.label(&session.pool, database, user);
        session.pool.stats.logged_in();
        Ok(LoggedIn::Replication(Box::new(
            replication::ReplicationLogin {
                session,
                input: self.input,
                slot: self.slot,
            },
        )))
    }

    /// Registers the client, gets the parameters of its session from a server, and sends them.
    async fn begin_session(
        mut self,
        request: SessionRequest<'_>,
    ) -> Result<LoggedIn, LoginRefusal> {
        let SessionRequest {
            startup,
            database,
            user,
            pool,
            offer,
        } = request;
        let (proxy, stream) = (self.proxy, &*self.stream);
        let mut sets = settings_of(startup, &proxy.config().paceline.state)?;
        let info = ClientInfo::new(&pool, stream.peer(), stream.cipher());
        let info = info.compressed(offer.is_some());
        let registration = proxy
            .cancel_keys
            .register(info)
            .ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?;
        let client = &registration.entry;
        if let Some(sql) = sets.get_mut(IDLE_SESSION_TIMEOUT) {
            // Boxed because it is rare: its state would be part of every login.
            let read = Box::pin(read_idle_timeout(client, sql));
            let read = stream.unless_closed(&mut self.input, read);
            *sql = read.await.ok_or(LoginRefusal::Left)??;
        }
        let settings = proxy.shared.settings_interner.intern(sets.clone());
        client.set_settings(&settings);
        self.awaits_server.store(true, Ordering::Relaxed);
        let welcomed = async {
            match own_name(startup, &sets) {
                None => welcome(client, &settings).await,
                Some(name) => welcome_by(name, client, sets).await,
            }
        };
        let parameters = stream.unless_closed(&mut self.input, welcomed).await;
        let mut parameters = parameters.ok_or(LoginRefusal::Left)??;
        parameters.extend(offer.as_ref().map(AcceptedOffer::confirmation));
        self.awaits_server.store(false, Ordering::Relaxed);
        let mut out = first_messages(proxy, &parameters, &registration);
        pool.stats.logged_in();
        proxy.login_addresses.add(pool.address());
        proxy.pools.label(&pool, database, user);
        stream.write_all(&mut out).await?;
        if let Some(offer) = offer {
            offer.begin(self.stream, &mut self.input);
        }
        let session = new_session(proxy, settings, &parameters, registration.process);
        Ok(LoggedIn::Client(ClientParts {
            pool,
            input: self.input,
            session,
            registration,
            slot: self.slot,
        }))
    }
}

/// The messages from AuthenticationOk to the first ReadyForQuery.
fn first_messages(
    proxy: &Proxy,
    parameters: &[(String, String)],
    registration: &Registration,
) -> BytesMut {
    let mut out = BytesMut::new();
    backend::write_authentication_ok(&mut out);
    for (name, value) in parameters {
        backend::write_parameter_status(&mut out, name, value);
    }
    backend::write_backend_key(&mut out, registration.process, registration.secret);
    let notice = &proxy.config().paceline.login.login_notify_message;
    if !notice.is_empty() {
        ErrorResponse::notice(notice.as_str()).write(&mut out);
    }
    Status::Idle.write(&mut out);
    out
}

/// The state of a new session. `process` is the process id in the client's cancel key.
fn new_session(
    proxy: &Proxy,
    settings: Arc<SessionSettings>,
    parameters: &[(String, String)],
    process: u32,
) -> ClientSession {
    let mut session = ClientSession::new(settings);
    session.listening.process = process;
    session.listening.marker = Arc::clone(&proxy.shared_listens.marker);
    let is_utf8 = |wanted: &str| {
        let mut parameters = parameters.iter();
        parameters.any(|(name, value)| name == wanted && value == "UTF8")
    };
    session.listening.default_is_utf8 = is_utf8("client_encoding");
    session.listening.server_is_utf8 = is_utf8("server_encoding");
    session
}

fn log_attempt(proxy: &Proxy, stream: &Stream, (database, user): (&str, &str), replicates: bool) {
    let (config, peer) = (proxy.config(), stream.peer());
    let client = ClientNames {
        database: Some(database),
        user: Some(user),
        peer: &peer,
    };
    log::login_attempt(
        &config.paceline.logging,
        client,
        stream.cipher(),
        replicates,
    );
}

/// Executes a cancel request, or forwards it to the peer that has the client. The sender gets no answer.
async fn cancel(proxy: &Proxy, key: CancelKey) -> LoginRefusal {
    let limit = proxy.config().paceline.timeouts.cancel_wait_timeout;
    let is_own = proxy.console_keys.cancel(key) || proxy.cancel_keys.cancel(key, limit).await;
    if !is_own {
        peers::forward(&proxy.peers, &proxy.shared, key).await;
    }
    LoginRefusal::Left
}

/// The database and user in the startup packet.
fn names(startup: &Startup) -> Result<(&str, &str), LoginRefusal> {
    let user = startup.get("user").filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| {
        ErrorResponse::fatal(
            "28000",
            "no PostgreSQL user name specified in startup packet",
        )
    })?;
    let database = startup.get("database").filter(|name| !name.is_empty());
    Ok((database.unwrap_or(user), user))
}

/// The pool of an authenticated client. The pool's own logins use the credential that the client has shown.
fn pool_of(
    proxy: &Arc<Proxy>,
    database: &str,
    identity: &AuthenticatedUser,
) -> Result<Arc<Pool>, LoginRefusal> {
    let pool = proxy.pools.pool(database, &identity.user).ok_or_else(|| {
        ErrorResponse::fatal("3D000", format!("no such database: {database}"))
            .with_hint("Add it to [databases] in Paceline's configuration.")
    })?;
    if pool.address().upstream.user.is_none() {
        pool.set_shown(&identity.credential);
    }
    Ok(pool)
}

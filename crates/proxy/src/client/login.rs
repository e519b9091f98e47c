//! Login of a client: encryption, cancel requests, startup packet, authentication, and the parameters of the session.

mod console;
mod encryption;
mod startup_settings;
mod welcome;

use super::Client;
use super::replication::{self, ReplicationClient};
use super::slot::ClientSlot;
use super::work_budget::WorkBudget;
use crate::auth::{self, AuthenticatedUser, LoginRefusal, LoginTarget};
use crate::cancel::{CancelKey, ConsoleGrant, Registration};
use crate::client_info::ClientInfo;
use crate::lifecycle::{self, Phase};
use crate::log::{self, ClientNames};
use crate::peers;
use crate::proxy::Proxy;
use bytes::BytesMut;
use encryption::Opening;
use paceline_net::Stream;
use paceline_pool::pool::{DisconnectSignal, Pool};
use paceline_pool::replication::Replication;
use paceline_pool::stats::first_words;
use paceline_relay::request::Scanner;
use paceline_relay::session::Session;
use paceline_sql::IDLE_SESSION_TIMEOUT;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::{self, Status};
use paceline_wire::startup::Startup;
use startup_settings::settings_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use welcome::{own_name, read_idle_timeout, welcome, welcome_by};

/// A client that has logged in.
#[expect(
    clippy::large_enum_variant,
    reason = "exists once per login, and the client is moved into its task from here"
)]
pub(super) enum LoginResult {
    /// A client of a database.
    Client(Client),
    /// A replication client. It has a server connection of its own.
    Replication(Box<ReplicationClient>),
    /// A user of the console.
    Console(ConsoleLogin),
}

/// A console user that has logged in. The caller runs the session.
pub struct ConsoleLogin {
    /// What the user may do.
    pub grant: ConsoleGrant,
    /// The connection.
    pub stream: Stream,
    /// Bytes that the client sent after its login.
    pub input: BytesMut,
    /// The database and user in the startup packet.
    pub names: Option<(String, String)>,
}

/// Logs a client in. Returns `None` if there is no session; the client has got its error.
pub(super) async fn log_in(proxy: Arc<Proxy>, mut stream: Stream) -> Option<LoginResult> {
    let limit = proxy.config().paceline.login.client_login_timeout;
    let mut phase = proxy.phase.subscribe();
    let awaits_server = AtomicBool::new(false);
    let names_sent = OnceLock::new();
    let (peer, began) = (stream.peer(), proxy.shared.clock.seconds());
    let login = attempt(&proxy, &mut stream, &awaits_server, &names_sent);
    let too_late = async {
        match limit.is_zero() {
            true => std::future::pending().await,
            false => tokio::time::sleep(limit).await,
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = login => outcome,
        () = too_late => Err(too_late_for(awaits_server.load(Ordering::Relaxed))),
        () = lifecycle::reached(&mut phase, Phase::WaitingForServers) => {
            Err(LoginRefusal::Error(DisconnectSignal::ShutDown.message()))
        }
    };
    match outcome {
        Ok(LoggedIn::Console { grant, input }) => Some(LoginResult::Console(ConsoleLogin {
            grant,
            stream,
            input,
            names: names_sent.into_inner(),
        })),
        Ok(LoggedIn::Replication(login)) => {
            let client = ReplicationClient::new(proxy, stream, *login);
            Some(LoginResult::Replication(Box::new(client)))
        }
        Ok(LoggedIn::Client(login)) => Some(LoginResult::Client(Client {
            proxy,
            mode: login.pool.settings().mode,
            budget: WorkBudget::default(),
            idle_timer: None,
            disconnect: login.pool.disconnect_signals(),
            pool_settings: login.pool.settings_cache(),
            pool: login.pool,
            stream,
            input: login.input,
            scanner: Scanner::default(),
            session: login.session,
            listening: None,
            registration: login.registration,
            _slot: login.slot,
        })),
        Err(refusal) => {
            let config = proxy.config();
            let client = ClientNames {
                database: names_sent.get().map(|(database, _)| database.as_str()),
                user: names_sent.get().map(|(_, user)| user.as_str()),
                peer: &peer,
            };
            let age = proxy.shared.clock.seconds().saturating_sub(began);
            let LoginRefusal::Error(message) = refusal else {
                // A connection that sent no startup packet, such as that of a cancel request, is not logged at its end either.
                if names_sent.get().is_some() {
                    let why = "client unexpected eof";
                    log::client_closed(&config.paceline.logging, client, why, age);
                }
                return None;
            };
            if let Some(why) = first_words(&message) {
                log::pooler_error(&config.paceline.logging, client, why);
                log::client_closed(&config.paceline.logging, client, why, age);
            }
            // The connection is closed whether or not this write succeeds; Paceline does not wait for the socket.
            if !stream.has_partial_write() {
                let _ = stream.write_now(&mut BytesMut::from(message));
            }
            None
        }
    }
}

/// The error in PgBouncer's words.
fn too_late_for(awaits_server: bool) -> LoginRefusal {
    let message = match awaits_server {
        true => "client_login_timeout (server down)",
        false => "client_login_timeout",
    };
    ErrorResponse::fatal("08P01", message).into()
}

enum LoggedIn {
    Client(ClientParts),
    Replication(Box<replication::ReplicationLogin>),
    Console {
        grant: ConsoleGrant,
        input: BytesMut,
    },
}

/// The parts of a session.
struct ClientParts {
    pool: Arc<Pool>,
    input: BytesMut,
    session: Session,
    registration: Registration,
    slot: ClientSlot,
}

/// Reads the startup packet, authenticates the client, finds its pool, and sends the parameters of the session.
async fn attempt(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    awaits_server: &AtomicBool,
    names_sent: &OnceLock<(String, String)>,
) -> Result<LoggedIn, LoginRefusal> {
    let mut slot = ClientSlot::new(proxy);
    let mut input = BytesMut::new();
    let startup = match encryption::read_opening(proxy, stream, &mut input).await? {
        Opening::Startup(startup) => startup,
        Opening::Cancel { process, secret } => {
            drop(slot);
            return Err(cancel(proxy, CancelKey { process, secret }).await);
        }
    };
    let kind = Replication::of(&startup)?;
    if startup.must_negotiate() {
        let mut out = BytesMut::new();
        backend::write_negotiate_version(&mut out, &startup.extensions());
        stream.write_all(&mut out).await?;
    }
    let (database, user) = names(&startup)?;
    log_attempt(proxy, stream, (database, user), kind.is_some());
    let _ = names_sent.set((database.to_owned(), user.to_owned()));
    let is_for_console = proxy.config().is_console(database);
    if !is_for_console {
        slot.check_max_clients()?;
    }
    if is_for_console && kind.is_some() {
        let message = "the console takes no replication connections";
        return Err(ErrorResponse::fatal("0A000", message).into());
    }
    if is_for_console {
        let grant = console::log_in(proxy, stream, &mut input, user).await?;
        return Ok(LoggedIn::Console { grant, input });
    }
    let target = LoginTarget {
        database,
        replication: kind,
    };
    let identity =
        auth::authenticate(&proxy.auth, &proxy.pools, stream, &mut input, target, user).await?;
    proxy.pools.admit(database)?;
    let pool = pool_of(proxy, database, &identity)?;
    slot.admit(&pool)?;
    // From now on the console shows the client, its wait and its pool.
    pool.set_name(database, &identity.user);
    if let Some(kind) = kind {
        slot.replicates(&pool);
        awaits_server.store(true, Ordering::Relaxed);
        let request = replication::ReplicationRequest {
            kind,
            pool,
            startup: &startup,
        };
        // Boxed because it is rare: its state would be part of every login.
        let session = stream.unless_closed(
            &mut input,
            Box::pin(request.begin(stream, &proxy.cancel_keys)),
        );
        let session = session.await.ok_or(LoginRefusal::Left)??;
        proxy.login_addresses.add(session.pool.address());
        proxy.pools.label(&session.pool, database, &identity.user);
        session.pool.stats.logged_in();
        return Ok(LoggedIn::Replication(Box::new(
            replication::ReplicationLogin {
                session,
                input,
                slot,
            },
        )));
    }
    let mut sets = settings_of(&startup, &proxy.config().paceline.state)?;
    let info = ClientInfo::new(&pool, stream.peer(), stream.cipher());
    let registration = proxy
        .cancel_keys
        .register(info)
        .ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?;
    let client = &registration.entry;
    if let Some(sql) = sets.get_mut(IDLE_SESSION_TIMEOUT) {
        // Boxed because it is rare: its state would be part of every login.
        let read = stream.unless_closed(&mut input, Box::pin(read_idle_timeout(client, sql)));
        *sql = read.await.ok_or(LoginRefusal::Left)??;
    }
    let settings = proxy.shared.settings_book.intern(sets.clone());
    client.set_settings(&settings);
    awaits_server.store(true, Ordering::Relaxed);
    let welcomed = async {
        match own_name(&startup, &sets) {
            None => welcome(client, &settings).await,
            Some(name) => welcome_by(name, client, sets).await,
        }
    };
    let parameters = stream.unless_closed(&mut input, welcomed).await;
    let parameters = parameters.ok_or(LoginRefusal::Left)??;
    awaits_server.store(false, Ordering::Relaxed);
    let mut out = BytesMut::new();
    backend::write_authentication_ok(&mut out);
    for (name, value) in &parameters {
        backend::write_parameter_status(&mut out, name, value);
    }
    backend::write_backend_key(&mut out, registration.process, registration.secret);
    let notice = &proxy.config().paceline.login.login_notify_message;
    if !notice.is_empty() {
        ErrorResponse::notice(notice.as_str()).write(&mut out);
    }
    Status::Idle.write(&mut out);
    pool.stats.logged_in();
    proxy.login_addresses.add(pool.address());
    proxy.pools.label(&pool, database, &identity.user);
    stream.write_all(&mut out).await?;
    let mut session = Session::new(settings);
    session.listening.process = registration.process;
    session.listening.marker = Arc::clone(&proxy.shared_listens.marker);
    let is_utf8 = |wanted: &str| {
        let mut parameters = parameters.iter();
        parameters.any(|(name, value)| name == wanted && value == "UTF8")
    };
    session.listening.default_is_utf8 = is_utf8("client_encoding");
    session.listening.server_is_utf8 = is_utf8("server_encoding");
    Ok(LoggedIn::Client(ClientParts {
        pool,
        input,
        session,
        registration,
        slot,
    }))
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

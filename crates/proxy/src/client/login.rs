//! A client's first words: encryption, cancel requests, start-up, and the parameters it is welcomed with.

mod encryption;

use super::Client;
use super::replication::{self, ReplicationClient};
use super::turn::Turn;
use crate::auth::{self, Identity, LoginTarget, Refusal};
use crate::cancel::{CancelKey, Cancels, Registration, Whereabouts};
use crate::console;
use crate::control::Phase;
use crate::log::{self, ClientNames};
use crate::peers;
use crate::pool::{Full, Pool, Summons};
use crate::presence::Presence;
use crate::proxy::Proxy;
use crate::replication::Replication;
use crate::server::ServerError;
use crate::stats::first_words;
use bytes::{Bytes, BytesMut};
use encryption::Opening;
use paceline_config::State;
use paceline_net::Stream;
use paceline_relay::request::Scanner;
use paceline_relay::session::Session;
use paceline_relay::settings::{Settings, idle_timeout_sql, read_milliseconds};
use paceline_sql::{IDLE_SESSION_TIMEOUT, quote_ident, quote_literal};
use paceline_wire::ErrorResponse;
use paceline_wire::backend::{self, Status};
use paceline_wire::startup::Startup;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

const APPLICATION_NAME: &str = "application_name";

/// Bytes of a name that PostgreSQL keeps (`NAMEDATALEN` - 1).
const NAME_MAX: usize = 63;

/// Counts a client as long as it lives: among all, and from when it is admitted among those of its database, user and pool.
pub(crate) struct Place {
    proxy: Arc<Proxy>,
    stage: Stage,
}

enum Stage {
    Connected,
    Admitted(Arc<Pool>),
    Replicating(Arc<Pool>),
}

impl Place {
    /// For whoever has connected.
    fn take(proxy: &Arc<Proxy>) -> Self {
        proxy.clients.fetch_add(1, Ordering::Relaxed);
        Self {
            proxy: Arc::clone(proxy),
            stage: Stage::Connected,
        }
    }

    /// Whether there is room for one more client, this one.
    fn check_room(&self) -> Result<(), Refusal> {
        let clients = self.proxy.clients.load(Ordering::Relaxed);
        match clients <= self.proxy.config().paceline.pooling.max_client_conn {
            true => Ok(()),
            false => {
                let message = "no more connections allowed (max_client_conn)";
                Err(ErrorResponse::fatal("08P01", message).into())
            }
        }
    }

    /// Takes a place among the clients of the pool's database and user, if there is one.
    fn admit(&mut self, pool: &Arc<Pool>) -> Result<(), Refusal> {
        let message = match pool.quotas.enter(&pool.settings()) {
            Ok(()) => {
                pool.clients.fetch_add(1, Ordering::Relaxed);
                self.stage = Stage::Admitted(Arc::clone(pool));
                return Ok(());
            }
            Err(Full::Database) => "client connections exceeded (max_db_client_connections)",
            Err(Full::User) => "client connections exceeded (max_user_client_connections)",
        };
        Err(ErrorResponse::fatal("08P01", message).into())
    }

    /// A replication client, from when it may wait for its server connection.
    fn replicates(&mut self, pool: &Arc<Pool>) {
        pool.replication_clients.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Replicating(Arc::clone(pool));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.proxy.clients.fetch_sub(1, Ordering::Relaxed);
        match &self.stage {
            Stage::Connected => {}
            Stage::Admitted(pool) => {
                pool.quotas.leave();
                pool.clients.fetch_sub(1, Ordering::Relaxed);
            }
            Stage::Replicating(pool) => {
                pool.quotas.leave();
                pool.clients.fetch_sub(1, Ordering::Relaxed);
                pool.replication_clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Who has logged in.
pub(super) enum Entered {
    /// A client of a database.
    Client(Client),
    /// A client with a server connection of its own.
    Replication(Box<ReplicationClient>),
    /// An operator.
    /// And the database and user that it named.
    Console(console::Session, Option<(String, String)>),
}

/// Logs a client in; `None`: there is no session, and whoever should be told has been.
pub(super) async fn log_in(proxy: Arc<Proxy>, mut stream: Stream) -> Option<Entered> {
    let limit = proxy.config().paceline.login.client_login_timeout;
    let mut phase = proxy.phase.subscribe();
    let awaits_server = AtomicBool::new(false);
    let said = OnceLock::new();
    let (peer, began) = (stream.peer(), proxy.clock.seconds());
    let login = attempt(&proxy, &mut stream, &awaits_server, &said);
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
        () = crate::serve::reached(&mut phase, Phase::WaitingForServers) => {
            Err(Refusal::Told(Summons::ShutDown.farewell()))
        }
    };
    match outcome {
        Ok(Login::Console { pass, input }) => {
            let session = console::Session::new(&proxy, pass, stream, input);
            Some(Entered::Console(session, said.into_inner()))
        }
        Ok(Login::Replication(guest)) => {
            let client = ReplicationClient::new(proxy, stream, *guest);
            Some(Entered::Replication(Box::new(client)))
        }
        Ok(Login::Client(login)) => Some(Entered::Client(Client {
            proxy,
            mode: login.pool.settings().pooling.pool_mode,
            turn: Turn::default(),
            silence: None,
            summons: login.pool.summons(),
            pool_settings: login.pool.settings_cache(),
            pool: login.pool,
            stream,
            input: login.input,
            scanner: Scanner::default(),
            session: login.session,
            listening: None,
            registration: login.registration,
            _place: login.place,
        })),
        Err(refusal) => {
            let config = proxy.config();
            let client = ClientNames {
                database: said.get().map(|(database, _)| database.as_str()),
                user: said.get().map(|(_, user)| user.as_str()),
                peer: &peer,
            };
            let age = proxy.clock.seconds().saturating_sub(began);
            let Refusal::Told(told) = refusal else {
                // A connection that asked for nothing, such as a cancel request's, has no line of its beginning, either.
                if said.get().is_some() {
                    let why = "client unexpected eof";
                    log::client_closed(&config.paceline.logging, client, why, age);
                }
                return None;
            };
            if let Some(why) = first_words(&told) {
                log::pooler_error(&config.paceline.logging, client, why);
                log::client_closed(&config.paceline.logging, client, why, age);
            }
            // The connection ends, whether or not the client hears why: nobody waits until it listens.
            if !stream.has_partial_write() {
                let _ = stream.write_now(&mut BytesMut::from(told));
            }
            None
        }
    }
}

/// As PgBouncer says it.
fn too_late_for(awaits_server: bool) -> Refusal {
    let message = match awaits_server {
        true => "client_login_timeout (server down)",
        false => "client_login_timeout",
    };
    ErrorResponse::fatal("08P01", message).into()
}

enum Login {
    Client(Guest),
    Replication(Box<replication::Guest>),
    Console {
        pass: console::Pass,
        input: BytesMut,
    },
}

/// What a session is made of.
struct Guest {
    pool: Arc<Pool>,
    input: BytesMut,
    session: Session,
    registration: Registration,
    place: Place,
}

/// Start-up, who it is, which database, welcome.
async fn attempt(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    awaits_server: &AtomicBool,
    said: &OnceLock<(String, String)>,
) -> Result<Login, Refusal> {
    let mut place = Place::take(proxy);
    let mut input = BytesMut::new();
    let startup = match encryption::read_opening(proxy, stream, &mut input).await? {
        Opening::Startup(startup) => startup,
        Opening::Cancel { process, secret } => {
            drop(place);
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
    let _ = said.set((database.to_owned(), user.to_owned()));
    let is_for_console = proxy.config().is_console(database);
    if !is_for_console {
        place.check_room()?;
    }
    if is_for_console && kind.is_some() {
        let message = "the console takes no replication connections";
        return Err(ErrorResponse::fatal("0A000", message).into());
    }
    if is_for_console {
        let pass = console::enter(proxy, stream, &mut input, user).await?;
        stream.write_all(&mut pass.welcome()).await?;
        return Ok(Login::Console { pass, input });
    }
    let target = LoginTarget {
        database,
        replication: kind,
    };
    let identity = auth::authenticate(proxy, stream, &mut input, target, user).await?;
    proxy.admit(database)?;
    let pool = pool_of(proxy, database, &identity)?;
    place.admit(&pool)?;
    // The console shows a client that waits for its login, and its pool.
    pool.is_called(database, &identity.user);
    if let Some(kind) = kind {
        place.replicates(&pool);
        awaits_server.store(true, Ordering::Relaxed);
        let asked = replication::Asked {
            kind,
            pool,
            startup: &startup,
        };
        // Boxed: it is rare, and every login would pay for its state.
        let begun = stream.unless_closed(&mut input, Box::pin(asked.begin(stream)));
        let begun = begun.await.ok_or(Refusal::Left)??;
        proxy.label(&begun.pool, database, &identity.user);
        begun.pool.stats.logged_in();
        return Ok(Login::Replication(Box::new(replication::Guest {
            begun,
            input,
            place,
        })));
    }
    let mut sets = settings_of(&startup, &proxy.config().paceline.state)?;
    let presence = Presence::new(&pool, stream.peer(), stream.cipher());
    let registration = Cancels::register(proxy, presence)
        .ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?;
    let client = &registration.whereabouts;
    if let Some(sql) = sets.get_mut(IDLE_SESSION_TIMEOUT) {
        // Boxed: it is rare, and every login would pay for its state.
        let read = stream.unless_closed(&mut input, Box::pin(read_idle_timeout(client, sql)));
        *sql = read.await.ok_or(Refusal::Left)??;
    }
    let settings = proxy.book.intern(sets.clone());
    client.has_settings(&settings);
    awaits_server.store(true, Ordering::Relaxed);
    let welcomed = async {
        match own_name(&startup, &sets) {
            None => welcome(client, &settings).await,
            Some(name) => welcome_by(name, client, sets).await,
        }
    };
    let parameters = stream.unless_closed(&mut input, welcomed).await;
    let parameters = parameters.ok_or(Refusal::Left)??;
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
    proxy.label(&pool, database, &identity.user);
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
    Ok(Login::Client(Guest {
        pool,
        input,
        session,
        registration,
        place,
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

/// Carries a cancel request out, or passes it on to the peer whose client it is for. Whoever sent it is told nothing.
async fn cancel(proxy: &Proxy, key: CancelKey) -> Refusal {
    let limit = proxy.config().paceline.timeouts.cancel_wait_timeout;
    let is_own = proxy.operators.cancel(key) || proxy.cancels.cancel(key, limit).await;
    if !is_own {
        peers::pass_on(proxy, key).await;
    }
    Refusal::Left
}

/// The database and user that a client names.
fn names(startup: &Startup) -> Result<(&str, &str), Refusal> {
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

/// The pool for a client that is who it says. Its own logins show what the client has shown.
fn pool_of(proxy: &Arc<Proxy>, database: &str, identity: &Identity) -> Result<Arc<Pool>, Refusal> {
    let pool = proxy.pool(database, &identity.user).ok_or_else(|| {
        ErrorResponse::fatal("3D000", format!("no such database: {database}"))
            .with_hint("Add it to [databases] in Paceline's configuration.")
    })?;
    if pool.address().upstream.user.is_none() {
        pool.has_been_shown(&identity.credential);
    }
    Ok(pool)
}

/// Settings in the start-up packet, as the SQL that sets them.
fn settings_of(startup: &Startup, state: &State) -> Result<BTreeMap<String, String>, Refusal> {
    const NOT_SETTINGS: [&str; 4] = ["user", "database", "replication", "options"];
    let mut sets = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        if state.ignores(name) {
            return;
        }
        let sql = match name.split_once('.') {
            Some((class, name)) => format!("{}.{}", quote_ident(class), quote_ident(name)),
            None => quote_ident(name),
        };
        let sql = match name {
            "search_path" | "datestyle" => format!(
                "SELECT pg_catalog.set_config({}, {}, false)",
                quote_literal(name),
                quote_literal(value)
            ),
            _ => format!("SET {sql} TO {}", quote_literal(value)),
        };
        sets.insert(name.to_owned(), sql);
    };
    let words = startup.get("options").unwrap_or_default();
    for option in options(words) {
        match option {
            Ok((name, value)) if !state.ignores_option(&name) => {
                set(&name.to_ascii_lowercase(), &value);
            }
            Err(word) if !state.ignores("options") => return Err(not_understood(&word)),
            Ok(_) | Err(_) => {}
        }
    }
    for (name, value) in &startup.parameters {
        if !NOT_SETTINGS.contains(&name.as_str()) && !name.starts_with("_pq_.") {
            set(&name.to_ascii_lowercase(), value);
        }
    }
    Ok(sets)
}

/// `-c name=value` and `--name=value`, with backslashes before spaces (PostgreSQL documentation, `postgres`); an error is a
/// word that is neither.
fn options(text: &str) -> Vec<Result<(String, String), String>> {
    let mut words = split_words(text).into_iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match word.as_str() {
            "-c" => words.next(),
            other => other
                .strip_prefix("--")
                .or_else(|| other.strip_prefix("-c"))
                .map(str::to_owned),
        };
        let pair = assignment.as_deref().and_then(|a| a.split_once('='));
        found.push(match pair {
            Some((name, value)) => Ok((name.replace('-', "_"), value.to_owned())),
            None => Err(word),
        });
    }
    found
}

fn not_understood(word: &str) -> Refusal {
    let message = format!("unsupported word in startup options: {word}");
    ErrorResponse::fatal("0A000", message)
        .with_hint("Only -c name=value and --name=value are understood.")
        .into()
}

fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut chars) = (Vec::new(), String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            c if c.is_whitespace() => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            }
            c => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// Its `application_name`, if PostgreSQL reports it just as it is: that of a new one need not be asked for.
fn own_name<'a>(startup: &'a Startup, sets: &BTreeMap<String, String>) -> Option<&'a str> {
    let name = startup.get(APPLICATION_NAME)?;
    let plain = name.len() <= NAME_MAX && name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (plain && sets.contains_key(APPLICATION_NAME)).then_some(name)
}

/// As [`welcome`], for a client that has this name beside its other settings.
async fn welcome_by(
    name: &str,
    client: &Whereabouts,
    mut sets: BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, Refusal> {
    sets.remove(APPLICATION_NAME);
    let mut parameters = welcome(client, &client.presence.pool.proxy.book.intern(sets)).await?;
    for (known, value) in &mut parameters {
        if known == APPLICATION_NAME {
            name.clone_into(value);
        }
    }
    Ok(parameters)
}

/// What stands for the `idle_session_timeout` that this SQL sets: the server reads it, and does not keep it.
async fn read_idle_timeout(client: &Whereabouts, sql: &str) -> Result<String, Refusal> {
    let local = sql.replacen("SET", "SET LOCAL", 1);
    // One text is one transaction.
    let question = format!("{local}; SHOW {IDLE_SESSION_TIMEOUT}");
    let mut seat = auth::client_seat(client).await?;
    let Some(conn) = seat.conn() else {
        return Err(Refusal::Left);
    };
    let answer = conn.query(&question).await;
    if let Ok(_) | Err(ServerError::Refused(_)) = answer {
        seat.leave();
    }
    match answer {
        Ok(answers) => {
            let shown = answers.iter().flatten().flatten().flatten().next();
            let value = shown.and_then(|value| read_milliseconds(value));
            Ok(idle_timeout_sql(value.unwrap_or_default()))
        }
        Err(ServerError::Refused(error)) => Err(Refusal::Told(as_fatal(&error))),
        Err(_) => Err(Refusal::Told(crate::trip::lost())),
    }
}

/// The parameters that PostgreSQL reports under these settings; asks a server the first time.
async fn welcome(
    client: &Whereabouts,
    settings: &Arc<Settings>,
) -> Result<Vec<(String, String)>, Refusal> {
    let pool = &client.presence.pool;
    if let Some(known) = pool.welcome(settings.id) {
        return Ok(known);
    }
    loop {
        let mut seat = auth::client_seat(client).await?;
        let Some(conn) = seat.conn() else {
            return Err(Refusal::Left);
        };
        let tainted = conn.side.tainted;
        let adopted = conn.adopt(settings).await;
        let parameters = conn.parameters();
        match adopted {
            Ok(()) => {
                pool.set_welcome(settings, parameters.clone(), conn);
                seat.leave();
                return Ok(parameters);
            }
            // What is left there of somebody else stands in the way, perhaps: the seat is dropped with its connection.
            Err(ServerError::Refused(_)) if tainted => {}
            Err(ServerError::Refused(error)) => {
                seat.leave();
                return Err(Refusal::Told(as_fatal(&error)));
            }
            Err(_) => return Err(Refusal::Told(crate::trip::lost())),
        }
    }
}

/// At start-up PostgreSQL reports a bad setting as the end of the connection.
fn as_fatal(error: &[u8]) -> Bytes {
    let body = error
        .get(paceline_wire::frame::HEADER_LEN..)
        .unwrap_or_default();
    let field = |code| backend::error_field(body, code).map(str::to_owned);
    let mut out = BytesMut::new();
    paceline_wire::frame::write(&mut out, backend::tag::ERROR_RESPONSE, |out| {
        for (code, value) in [
            (b'S', Some("FATAL".to_owned())),
            (b'V', Some("FATAL".to_owned())),
            (b'C', field(b'C')),
            (b'M', field(b'M')),
            (b'D', field(b'D')),
            (b'H', field(b'H')),
        ] {
            if let Some(value) = value {
                out.extend_from_slice(&[code]);
                out.extend_from_slice(value.as_bytes());
                out.extend_from_slice(&[0]);
            }
        }
        out.extend_from_slice(&[0]);
    });
    out.freeze()
}

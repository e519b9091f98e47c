//! `/ready`: would a client that connects now be served? Yes unless the process is shutting down, `max_client_conn` is reached, or
//! no server accepts connections.
//!
//! To check a server, Paceline sends the first packet of a login, as `pg_isready` does. The server is ready if it answers within a
//! second with anything except SQLSTATE 57P03 (it is starting up or shutting down). If the server asks for a password, Paceline
//! closes the connection; PostgreSQL logs nothing about this.

use bytes::BytesMut;
use paceline_config::{ANY_DATABASE, Upstream};
use paceline_net::Stream;
use paceline_pool::address::Address;
use paceline_pool::server;
use paceline_proxy::login_addresses::is_same_server;
use paceline_proxy::proxy::Proxy;
use paceline_wire::backend::{self, tag};
use paceline_wire::startup::{self, Startup};
use paceline_wire::{frame, frontend};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

/// Time limit for the answer of a server.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// The SQLSTATE while PostgreSQL starts up or shuts down.
const CANNOT_CONNECT_NOW: &str = "57P03";

/// A database that nearly every server has.
const USUAL_DATABASE: &str = "postgres";

/// The body of `AuthenticationOk`.
const AUTHENTICATION_OK: [u8; 4] = [0; 4];

/// # Errors
/// The reason why Paceline is not ready, in one line.
pub(super) async fn ready(proxy: &Proxy) -> Result<(), String> {
    if proxy.is_shutting_down() {
        return Err("shutting down".to_owned());
    }
    if proxy.clients.load(Ordering::Relaxed) >= proxy.config().paceline.pooling.max_client_conn {
        return Err("no more connections allowed (max_client_conn)".to_owned());
    }
    any_accepts(servers(proxy)).await
}

/// A server and the login that checks it.
struct CheckedServer {
    upstream: Upstream,
    /// A user who has logged in there, or whom the configuration names. PostgreSQL logs an error for an unknown user, so Paceline
    /// invents none.
    login: Option<Arc<Address>>,
}

/// Each server once, even if several databases are on it.
fn servers(proxy: &Proxy) -> Vec<CheckedServer> {
    let mut servers: Vec<CheckedServer> = Vec::new();
    let config = proxy.config();
    for (name, database) in &config.databases {
        let upstream = proxy.pools.server(name, database);
        let known = |known: &CheckedServer| is_same_server(&known.upstream, &upstream);
        if !servers.iter().any(known) {
            let login = proxy
                .login_addresses
                .on(&upstream)
                .or_else(|| configured_login(proxy, &upstream, name));
            let upstream = Upstream {
                dbname: None,
                ..upstream
            };
            servers.push(CheckedServer { upstream, login });
        }
    }
    servers
}

/// The login that the configuration names for this database.
fn configured_login(proxy: &Proxy, upstream: &Upstream, name: &str) -> Option<Arc<Address>> {
    let name = match name {
        ANY_DATABASE => USUAL_DATABASE,
        name => name,
    };
    Some(Arc::new(Address {
        user: upstream.user.clone()?,
        database: upstream.dbname.clone().unwrap_or(name.to_owned()),
        upstream: upstream.clone(),
        keyring: Arc::clone(&proxy.shared.keyring),
        compression: None,
        location: None,
        startup: Vec::new(),
        connect_query: String::new(),
        tcp: proxy.config().paceline.tcp.clone(),
    }))
}

async fn any_accepts(servers: Vec<CheckedServer>) -> Result<(), String> {
    let mut checks = JoinSet::new();
    for server in servers {
        checks.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_LIMIT, check(&server)).await;
            let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            answer.map_err(|error| format!("{}: {error}", server.upstream))
        });
    }
    let mut failures = Vec::new();
    while let Some(answer) = checks.join_next().await {
        match answer {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failures.push(failure),
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures.sort();
    Err(format!("no server answers: {}", failures.join("; ")))
}

async fn check(server: &CheckedServer) -> io::Result<()> {
    let mut packet = BytesMut::new();
    let Some(login) = &server.login else {
        let stream = server::dial(&server.upstream).await?;
        startup::write_ssl_request(&mut packet);
        stream.write_all(&mut packet).await?;
        return stream.read_some(&mut packet).await;
    };
    let stream = server::connect(login).await?;
    let parameters = [("user", &login.user), ("database", &login.database)];
    let startup = Startup {
        minor: 0,
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .to_vec(),
    };
    startup.write(&mut packet);
    stream.write_all(&mut packet).await?;
    await_login_answer(&stream).await
}

/// Reads until the server asks for a password, accepts the login, or rejects it.
async fn await_login_answer(stream: &Stream) -> io::Result<()> {
    let mut input = BytesMut::new();
    loop {
        let message = frame::split_message(&mut input).map_err(io::Error::other)?;
        let Some((kind, message)) = message else {
            stream.read_some(&mut input).await?;
            continue;
        };
        let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
        match kind {
            tag::AUTHENTICATION if !body.starts_with(&AUTHENTICATION_OK) => return Ok(()),
            tag::ERROR_RESPONSE => return rejection(body),
            tag::READY_FOR_QUERY => {
                let mut terminate = BytesMut::new();
                frontend::write_terminate(&mut terminate);
                return stream.write_all(&mut terminate).await;
            }
            _ => {}
        }
    }
}

/// A rejected login shows that the server accepts connections, unless the SQLSTATE is 57P03.
fn rejection(error: &[u8]) -> io::Result<()> {
    match backend::error_field(error, b'C') {
        Some(CANNOT_CONNECT_NOW) => {
            let message = backend::error_field(error, b'M').unwrap_or("cannot connect now");
            Err(io::Error::other(message.to_owned()))
        }
        _ => Ok(()),
    }
}

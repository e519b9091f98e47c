//! `/ready`: could a client that connects now be served? Yes if there is a place for it and at least one of the servers
//! takes connections. A server is asked as `pg_isready` does it: by the first packet of a login. It answers within a second,
//! by anything but that it cannot take connections now (SQLSTATE 57P03: it is starting up or shutting down). Nobody is
//! logged in with a password: the connection is closed when one is asked for, about which PostgreSQL logs nothing. The
//! process that is shutting down is not ready.

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

/// How long a server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// What PostgreSQL says while it starts up or shuts down.
const CANNOT_CONNECT_NOW: &str = "57P03";

/// The database that there is on nearly every server.
const USUAL_DATABASE: &str = "postgres";

/// `AuthenticationOk`: no password is asked for.
const NO_PASSWORD: [u8; 4] = [0; 4];

/// Why it is not, in a line.
pub(super) async fn ready(proxy: &Proxy) -> Result<(), String> {
    if proxy.is_shutting_down() {
        return Err("shutting down".to_owned());
    }
    if proxy.clients.load(Ordering::Relaxed) >= proxy.config().paceline.pooling.max_client_conn {
        return Err("no more connections allowed (max_client_conn)".to_owned());
    }
    any_answers(servers(proxy)).await
}

/// A server, and as whom it is asked.
struct Server {
    upstream: Upstream,
    /// Someone that it has let in, or that the configuration names. PostgreSQL complains in its log of a user that it does not
    /// know, so nobody is invented.
    login: Option<Arc<Address>>,
}

/// Each server once, whatever database and user lead to it.
fn servers(proxy: &Proxy) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    let config = proxy.config();
    for (name, database) in &config.databases {
        let upstream = &database.primary;
        let known = |known: &Server| is_same_server(&known.upstream, upstream);
        if !servers.iter().any(known) {
            let login = proxy
                .login_addresses
                .on(upstream)
                .or_else(|| configured(proxy, upstream, name));
            let upstream = Upstream {
                dbname: None,
                ..upstream.clone()
            };
            servers.push(Server { upstream, login });
        }
    }
    servers
}

/// As whom the configuration says to log in, to the database that clients know by this name.
fn configured(proxy: &Proxy, upstream: &Upstream, name: &str) -> Option<Arc<Address>> {
    let name = match name {
        ANY_DATABASE => USUAL_DATABASE,
        name => name,
    };
    Some(Arc::new(Address {
        user: upstream.user.clone()?,
        database: upstream.dbname.clone().unwrap_or(name.to_owned()),
        upstream: upstream.clone(),
        keyring: Arc::clone(&proxy.shared.keyring),
        startup: Vec::new(),
        connect_query: String::new(),
        tcp: proxy.config().paceline.tcp.clone(),
    }))
}

async fn any_answers(servers: Vec<Server>) -> Result<(), String> {
    let mut asked = JoinSet::new();
    for server in servers {
        asked.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_LIMIT, ask(&server)).await;
            let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            answer.map_err(|error| format!("{}: {error}", server.upstream))
        });
    }
    let mut failures = Vec::new();
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failures.push(failure),
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures.sort();
    Err(format!("no server answers: {}", failures.join("; ")))
}

async fn ask(server: &Server) -> io::Result<()> {
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
    hear_out(&stream).await
}

/// Reads until the server asks for a password, has let the client in, or has refused it.
async fn hear_out(stream: &Stream) -> io::Result<()> {
    let mut input = BytesMut::new();
    loop {
        let message = frame::split_message(&mut input).map_err(io::Error::other)?;
        let Some((kind, message)) = message else {
            stream.read_some(&mut input).await?;
            continue;
        };
        let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
        match kind {
            tag::AUTHENTICATION if !body.starts_with(&NO_PASSWORD) => return Ok(()),
            tag::ERROR_RESPONSE => return refusal(body),
            tag::READY_FOR_QUERY => {
                let mut goodbye = BytesMut::new();
                frontend::write_terminate(&mut goodbye);
                return stream.write_all(&mut goodbye).await;
            }
            _ => {}
        }
    }
}

/// Whoever is refused has been answered, unless the server takes nobody.
fn refusal(error: &[u8]) -> io::Result<()> {
    match backend::error_field(error, b'C') {
        Some(CANNOT_CONNECT_NOW) => {
            let message = backend::error_field(error, b'M').unwrap_or("cannot connect now");
            Err(io::Error::other(message.to_owned()))
        }
        _ => Ok(()),
    }
}

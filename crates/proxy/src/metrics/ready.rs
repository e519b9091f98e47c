//! `/ready`: could a client that connects now be served? Yes if there is a place for it and at least one of the servers
//! answers. A server answers if it says something, within a second, to the first packet of a connection; whether it would
//! let anybody in is not asked. The process that is shutting down is not ready.

use crate::config::Upstream;
use crate::proxy::Proxy;
use crate::server;
use bytes::BytesMut;
use paceline_wire::startup;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Why it is not, in a line.
pub(super) async fn ready(proxy: &Proxy) -> Result<(), String> {
    if *proxy.closing.borrow() {
        return Err("shutting down".to_owned());
    }
    if proxy.clients.load(Ordering::Relaxed) >= proxy.config.paceline.max_client_conn {
        return Err("no more connections allowed (max_client_conn)".to_owned());
    }
    any_answers(servers(proxy)).await
}

/// Each server once, whatever database and user lead to it.
fn servers(proxy: &Proxy) -> Vec<Upstream> {
    let mut servers: Vec<Upstream> = Vec::new();
    for database in proxy.config.databases.values() {
        let Upstream { host, port, .. } = &database.primary;
        let known = |known: &Upstream| known.host == *host && known.port == *port;
        if !servers.iter().any(known) {
            let server = Upstream {
                dbname: None,
                ..database.primary.clone()
            };
            servers.push(server);
        }
    }
    servers
}

async fn any_answers(servers: Vec<Upstream>) -> Result<(), String> {
    let mut asked = JoinSet::new();
    for server in servers {
        asked.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_LIMIT, ask(&server)).await;
            let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            answer.map_err(|error| format!("{server}: {error}"))
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

async fn ask(server: &Upstream) -> io::Result<()> {
    let stream = server::connect(server).await?;
    let mut packet = BytesMut::new();
    startup::write_ssl_request(&mut packet);
    stream.write_all(&mut packet).await?;
    stream.read_some(&mut packet).await
}

//! The question to Patroni's REST API (`GET /cluster`, Patroni documentation, chapter "Patroni REST API").

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use paceline_cluster::PatroniView;
use std::error::Error;
use std::time::Duration;
use tokio::net::TcpStream;

/// Maximum time of a question to one URL.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// Asks the URLs in their order, until one answers. `None`: none did.
pub(super) async fn ask_any(urls: &[String]) -> Option<PatroniView> {
    for url in urls {
        match tokio::time::timeout(ANSWER_LIMIT, ask(url)).await {
            Ok(Ok(view)) => return Some(view),
            Ok(Err(error)) => tracing::debug!(url, error, "Patroni did not answer"),
            Err(_) => tracing::debug!(url, "Patroni did not answer in time"),
        }
    }
    None
}

async fn ask(url: &str) -> Result<PatroniView, Box<dyn Error + Send + Sync>> {
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    let stream = match has_port(authority) {
        true => TcpStream::connect(authority).await?,
        false => TcpStream::connect(format!("{authority}:{HTTP_PORT}")).await?,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the sender.
    tokio::spawn(connection);
    let request = Request::get("/cluster")
        .header("host", authority)
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let body = Limited::new(answer.into_body(), ANSWER_MAX)
        .collect()
        .await?;
    Ok(PatroniView::parse(&body.to_bytes())?)
}

/// Whether `HOST:PORT` has a port; an IPv6 address is in brackets.
fn has_port(authority: &str) -> bool {
    let after_address = authority.rsplit(']').next();
    after_address.is_some_and(|rest| rest.contains(':'))
}

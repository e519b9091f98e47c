//! A connection for one request over HTTP/1.1 without TLS: to Patroni, or to a collector of traces.

use hyper::body::{Body, Bytes};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::net::TcpStream;

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// An error of a request.
pub(crate) type HttpError = Box<dyn Error + Send + Sync>;

/// Connects to `HOST` or `HOST:PORT`. The connection ends with the sender.
///
/// # Errors
/// The server cannot be reached.
pub(crate) async fn connect<B>(authority: &str) -> Result<SendRequest<B>, HttpError>
where
    B: Body<Data = Bytes, Error: Into<HttpError>> + Send + 'static,
{
    let stream = match has_port(authority) {
        true => TcpStream::connect(authority).await?,
        false => TcpStream::connect(format!("{authority}:{HTTP_PORT}")).await?,
    };
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Whether `HOST:PORT` has a port; an IPv6 address is in brackets.
fn has_port(authority: &str) -> bool {
    let after_address = authority.rsplit(']').next();
    after_address.is_some_and(|rest| rest.contains(':'))
}

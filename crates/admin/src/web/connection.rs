//! One connection of a browser. It carries one request: an event stream occupies its connection, and other requests are rare.

use super::routes::{self, Browser};
use super::shared::WebConsole;
use bytes::BytesMut;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use paceline_net::Stream;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;

/// Time limit for the TLS handshake and for the head of the request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);

/// Time limit of a connection, unless a session has asked for events or for a command that waits.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(20);

/// Maximum length of the head of a request in bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Bytes between the socket and HTTP, in each direction.
const PIPE_BYTES: usize = 16 * 1024;

/// Serves one request.
pub(super) async fn serve(console: Arc<WebConsole>, stream: TcpStream) {
    let mut stream = Stream::tcp(stream);
    let mut input = BytesMut::new();
    let acceptor = console.admin.proxy.shared.keyring.acceptor();
    if let Some(acceptor) = acceptor {
        let acceptor = acceptor.for_http();
        let accepted = acceptor.accept(&mut stream, &mut input, false);
        match tokio::time::timeout(HEAD_TIME_MAX, accepted).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake with a browser failed"),
            Err(_) => return,
        }
    }
    let browser = Arc::new(Browser {
        stream,
        is_long: AtomicBool::new(false),
    });
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let answers = service_fn(|request| {
        let (console, browser) = (Arc::clone(&console), Arc::clone(&browser));
        async move { Ok::<_, Infallible>(routes::answer(&console, &browser, request).await) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(REQUEST_BYTES_MAX)
        .serve_connection(TokioIo::new(near), answers);
    let limit = async {
        tokio::time::sleep(CONNECTION_TIME_MAX).await;
        if browser.is_long.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let exchange = async {
        // HTTP drops its end of the pipe when the answer is complete; then a browser that still reads gets the rest of it.
        let http = async {
            if let Err(error) = served.await {
                tracing::debug!(%error, "a request to the web console failed");
            }
            tokio::time::sleep(CONNECTION_TIME_MAX).await;
        };
        tokio::select! {
            () = http => {}
            _ = pass(&browser.stream, input, far) => {}
        }
    };
    tokio::select! {
        () = exchange => {}
        () = limit => tracing::debug!("a request to the web console timed out"),
    }
}

/// Passes bytes between the socket and HTTP until either ends.
async fn pass(stream: &Stream, mut input: BytesMut, far: DuplexStream) -> io::Result<()> {
    let (mut from_http, mut to_http) = tokio::io::split(far);
    let requests = async {
        loop {
            to_http.write_all_buf(&mut input).await?;
            stream.read_some(&mut input).await?;
        }
    };
    let answers = async {
        let mut output = BytesMut::with_capacity(PIPE_BYTES);
        while from_http.read_buf(&mut output).await? > 0 {
            stream.write_all(&mut output).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
    }
}

//! Metrics and health, for monitoring: `/metrics`, `/health` and `/ready` over HTTP/1.1, on a listener of their own.
//!
//! What a scrape shows is read at that moment from what the pools count, nearly all of it for other ends, too, on a thread that
//! serves no clients. Nobody is asked who they are. `docs/metrics.md` describes every metric; a test compares it.

mod catalog;
mod exposition;
mod ready;
mod scrape;
#[cfg(test)]
mod tests;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use paceline_net::listen::accept_failed;
use paceline_proxy::proxy::Proxy;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};

/// Connections that are served at a time; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 32;

/// A connection ends after this time, however slow its client is.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// A request's head is there after this time, or its connection ends: who says nothing must not keep the place of a probe.
const HEAD_TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes of a request's head.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<Full<Bytes>>;

/// What the requests share.
struct Context {
    proxy: Arc<Proxy>,
    /// One collects at a time: clients of the database come first.
    collecting: Mutex<()>,
}

/// Answers requests as long as the process lives.
pub async fn serve(proxy: Arc<Proxy>, listener: TcpListener) {
    let context = Arc::new(Context {
        proxy,
        collecting: Mutex::new(()),
    });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Places are never taken away, so there is always one to wait for.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let context = Arc::clone(&context);
                tokio::spawn(async move {
                    context.converse(stream).await;
                    drop(place);
                });
            }
            Err(error) => accept_failed(&error).await,
        }
    }
}

impl Context {
    /// One request and its answer.
    async fn converse(self: Arc<Self>, stream: TcpStream) {
        let answer = service_fn(|request| {
            let context = Arc::clone(&self);
            async move { Ok::<_, Infallible>(context.answer(&request).await) }
        });
        let conversation = http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(REQUEST_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), answer);
        match tokio::time::timeout(CONNECTION_TIME_MAX, conversation).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a request for metrics failed"),
            Err(_) => tracing::debug!("a request for metrics took too long"),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Answer {
        let path = request.uri().path();
        if !matches!(path, "/metrics" | "/health" | "/ready") {
            return answer(StatusCode::NOT_FOUND, PLAIN_TEXT, "not found\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "GET or HEAD\n");
            let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match path {
            "/metrics" => self.metrics().await,
            "/ready" => match ready::ready(&self.proxy).await {
                Ok(()) => answer(StatusCode::OK, PLAIN_TEXT, "ready\n"),
                Err(why) => answer(
                    StatusCode::SERVICE_UNAVAILABLE,
                    PLAIN_TEXT,
                    format!("{why}\n"),
                ),
            },
            _ => answer(StatusCode::OK, PLAIN_TEXT, "ok\n"),
        }
    }

    async fn metrics(&self) -> Answer {
        let _turn = self.collecting.lock().await;
        let proxy = Arc::clone(&self.proxy);
        let text = tokio::task::spawn_blocking(move || scrape::text(&proxy)).await;
        match text {
            Ok(Ok(text)) => answer(StatusCode::OK, OPEN_METRICS, text),
            _ => answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                PLAIN_TEXT,
                "metrics could not be collected\n",
            ),
        }
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let content_type = hyper::header::HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

//! Metrics and health checks for monitoring: `/metrics`, `/health` and `/ready` over HTTP/1.1, on a listener of their own and
//! without authentication.
//!
//! A scrape reads the existing counters of the pools, on a thread that serves no clients. `definitions` lists the metrics and says
//! how to add one; `docs/metrics.md` describes them, and a test compares both.

mod definitions;
mod pool_sample;
mod ready;
mod scrape;
mod series;
#[cfg(test)]
mod tests;

pub(crate) use pool_sample::PoolSample;

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

/// Maximum number of connections that are served at a time. Further connections wait to be accepted.
pub const CONNECTIONS_MAX: usize = 32;

/// Time limit of a connection.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// Time limit for the head of a request, so that a silent client does not block health checks.
const HEAD_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum length of the head of a request in bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

type HttpResponse = Response<Full<Bytes>>;

/// The state that all requests share.
struct MetricsServer {
    proxy: Arc<Proxy>,
    /// One scrape at a time, so that scrapes leave the cores to clients of the database.
    scraping: Mutex<()>,
}

/// Answers requests until the process ends.
pub async fn serve(proxy: Arc<Proxy>, listener: TcpListener) {
    let server = Arc::new(MetricsServer {
        proxy,
        scraping: Mutex::new(()),
    });
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // The semaphore is never closed, so this loop does not end.
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    server.serve_connection(stream).await;
                    drop(slot);
                });
            }
            Err(error) => accept_failed(&error).await,
        }
    }
}

impl MetricsServer {
    /// Reads one request, sends its answer, and closes the connection.
    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        let answer = service_fn(|request| {
            let server = Arc::clone(&self);
            async move { Ok::<_, Infallible>(server.answer(&request).await) }
        });
        let served = http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(REQUEST_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), answer);
        match tokio::time::timeout(CONNECTION_TIME_MAX, served).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "HTTP request failed"),
            Err(_) => tracing::debug!("HTTP request timed out"),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> HttpResponse {
        let path = request.uri().path();
        if !matches!(path, "/metrics" | "/health" | "/ready") {
            return answer(StatusCode::NOT_FOUND, PLAIN_TEXT, "not found\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut rejected = answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "GET or HEAD\n");
            let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
            rejected.headers_mut().insert(ALLOW, allowed);
            return rejected;
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

    async fn metrics(&self) -> HttpResponse {
        let _turn = self.scraping.lock().await;
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

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let content_type = hyper::header::HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

//! The question to Patroni's REST API (`GET /cluster`, Patroni documentation, chapter "Patroni REST API").

use crate::http::{self, HttpError};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use paceline_cluster::PatroniView;
use std::time::Duration;

/// Maximum time of a question to one URL.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 1 << 20;

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

async fn ask(url: &str) -> Result<PatroniView, HttpError> {
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    let mut sender = http::connect(authority).await?;
    let request = Request::get("/cluster")
        .header("host", authority)
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let body = Limited::new(answer.into_body(), ANSWER_MAX)
        .collect()
        .await?;
    Ok(PatroniView::parse(&body.to_bytes())?)
}

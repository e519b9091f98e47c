//! A request to a collector (OpenTelemetry Protocol Specification, "OTLP/HTTP"). Each has a connection of its own: it is sent at
//! most once a second or for hundreds of spans, and a connection that is kept may be closed when it is needed.

use crate::http::{self, HttpError};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use serde_json::Value;

/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// Sends a body of JSON to a URL as the configuration has checked it. Returns how many spans the collector has rejected.
///
/// # Errors
/// The collector cannot be reached, or rejects the request.
pub(super) async fn post(url: &str, body: Vec<u8>) -> Result<u64, HttpError> {
    let rest = url.trim_start_matches("http://");
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut sender = http::connect(authority).await?;
    let request = Request::post(path)
        .header("host", authority)
        .header("content-type", "application/json")
        .header("connection", "close")
        .body(Full::new(Bytes::from(body)))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("HTTP status {status}").into());
    }
    let body = Limited::new(answer.into_body(), ANSWER_MAX)
        .collect()
        .await?;
    Ok(rejected(&body.to_bytes()))
}

/// The number of spans that the collector has not accepted, which the answer names if there are any.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    match answer.pointer("/partialSuccess/rejectedSpans") {
        Some(Value::String(number)) => number.parse().unwrap_or_default(),
        Some(number) => number.as_u64().unwrap_or_default(),
        None => 0,
    }
}

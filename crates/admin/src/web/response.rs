//! Answers: complete ones, and streams of events.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY};
use hyper::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

pub(super) type WebResponse = Response<WebBody>;

/// The body of an answer.
pub(super) enum WebBody {
    /// All of it, until it is sent.
    Full(Option<Bytes>),
    /// Events as they come.
    Events(mpsc::Receiver<Bytes>),
}

impl Body for WebBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take()),
            Self::Events(events) => events.poll_recv(context),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// An answer with this body.
fn with_body(status: StatusCode, content_type: &'static str, body: WebBody) -> WebResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        header(&mut answer, name, HeaderValue::from_static(value));
    }
    answer
}

/// Sets a header.
pub(super) fn header(answer: &mut WebResponse, name: HeaderName, value: HeaderValue) {
    answer.headers_mut().insert(name, value);
}

/// A complete answer.
pub(super) fn full(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> WebResponse {
    with_body(status, content_type, WebBody::Full(Some(body.into())))
}

/// A stream of events.
pub(super) fn events(events: mpsc::Receiver<Bytes>) -> WebResponse {
    let body = WebBody::Events(events);
    with_body(StatusCode::OK, "text/event-stream", body)
}

/// A message for people.
pub(super) fn text(status: StatusCode, message: impl Into<String>) -> WebResponse {
    let message = format!("{}\n", message.into());
    full(status, "text/plain; charset=utf-8", message)
}

/// Data for the page.
pub(super) fn json(value: &impl Serialize) -> WebResponse {
    match serde_json::to_vec(value) {
        Ok(body) => full(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

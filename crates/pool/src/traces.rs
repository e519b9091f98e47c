//! Traces: the choice of traced requests, and the queue of their spans. While `otlp_endpoint` is empty, a request costs one look at
//! [`Traces::is_on`].
//!
//! A span that has ended waits in a queue of [`QUEUE_MAX`] spans. If the queue is full, or the collector does not accept the spans,
//! they are dropped and counted. No request waits for them.

mod collector;
mod ended;
mod export;
#[cfg(test)]
mod tests;

pub use ended::EndedSpan;

use crate::address::Address;
use crate::counters::Counters;
use export::Export;
use paceline_config::Host;
use paceline_traces::{ServerName, SpanContext, SpanId, TraceId, Traceparent};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Maximum number of spans that wait to be sent.
pub const QUEUE_MAX: usize = 8_192;

/// 2 to the power of 64.
const RANDOM_NUMBERS: f64 = 18_446_744_073_709_551_616.0;

/// The spans of a process.
#[derive(Debug)]
pub struct Traces {
    is_on: AtomicBool,
    export: Export,
    /// Spans that have ended.
    queue: mpsc::Sender<EndedSpan>,
    /// The other end of the queue, until [`Traces::export`] takes it.
    ended: Mutex<Option<mpsc::Receiver<EndedSpan>>>,
    /// Numbers of this sequence, hashed with a random key, are random.
    next_random: AtomicU64,
    random_key: RandomState,
}

/// The ids of a request that is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// Its span.
    pub context: SpanContext,
    /// The client's span, if the request has a context.
    pub parent: Option<SpanId>,
}

impl Traces {
    pub(crate) fn new(settings: &paceline_config::Traces) -> Self {
        let (queue, ended) = mpsc::channel(QUEUE_MAX);
        Self {
            is_on: AtomicBool::new(!settings.otlp_endpoint.is_empty()),
            export: Export::new(settings),
            queue,
            ended: Mutex::new(Some(ended)),
            next_random: AtomicU64::new(0),
            random_key: RandomState::new(),
        }
    }

    pub(crate) fn set_config(&self, settings: &paceline_config::Traces) {
        self.export.settings.store(Arc::new(settings.clone()));
        let is_on = !settings.otlp_endpoint.is_empty();
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Whether any request may be traced.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Decides whether a request with this text is traced. `None`: it is not. The context that its client sends decides; of requests
    /// without a valid one, `otlp_sample_ratio`.
    pub fn sample(&self, text: Option<&str>) -> Option<Sampled> {
        let comment = text.and_then(paceline_sql::trace_comment);
        let parent = comment.and_then(|comment| Traceparent::parse(&comment.traceparent));
        match parent {
            Some(parent) => parent.sampled.then(|| Sampled {
                context: SpanContext {
                    trace: parent.context.trace,
                    span: SpanId::from_random(self.random()),
                },
                parent: Some(parent.context.span),
            }),
            None => self.is_chosen().then(|| Sampled {
                context: self.new_trace(),
                parent: None,
            }),
        }
    }

    /// The ids of a span that begins a trace.
    pub(crate) fn new_trace(&self) -> SpanContext {
        SpanContext {
            trace: TraceId::from_random(self.random(), self.random()),
            span: SpanId::from_random(self.random()),
        }
    }

    fn is_chosen(&self) -> bool {
        let ratio = self.export.settings.load().otlp_sample_ratio;
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more bits")]
        let chosen = ratio > 0.0 && (self.random() as f64) < ratio * RANDOM_NUMBERS;
        // The largest numbers are rounded to that of 1.0.
        chosen || ratio >= 1.0
    }

    fn random(&self) -> u64 {
        let next = self.next_random.fetch_add(1, Ordering::Relaxed);
        self.random_key.hash_one(next)
    }

    /// The number of spans that the collector has accepted.
    pub fn sent(&self) -> u64 {
        self.export.sent.load(Ordering::Relaxed)
    }

    /// The number of spans that were dropped.
    pub fn dropped(&self) -> u64 {
        self.export.dropped.load(Ordering::Relaxed)
    }

    /// Puts a span that has ended into the queue. If the queue is full, drops it.
    pub fn send(&self, span: EndedSpan) {
        if self.queue.try_send(span).is_err() {
            Counters::count(&self.export.dropped);
        }
    }

    /// Sends the spans to the collector. Runs as long as the process; a second call returns at once.
    pub async fn export(&self) {
        let ended = self
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(ended) = ended {
            self.export.run(ended).await;
        }
    }
}

/// The name in spans of the database at an address.
pub fn server_name(address: &Address) -> ServerName {
    let (host, port) = match &address.upstream.host {
        Host::Tcp(host) => (host.clone(), Some(address.upstream.port)),
        Host::Unix(folder) => (folder.display().to_string(), None),
    };
    ServerName {
        address: host,
        port,
        database: address.database.clone(),
    }
}

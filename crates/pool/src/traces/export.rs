//! The task that sends spans: in batches, one after the other.

use super::collector;
use super::ended::EndedSpan;
use arc_swap::ArcSwap;
use paceline_traces::{Resource, Span, encode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Maximum number of spans in a request to the collector.
const BATCH_MAX: usize = 512;

/// Maximum time that a span waits for others of its batch.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Time limit of a request to the collector.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The sending end of the process.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) settings: ArcSwap<paceline_config::Traces>,
    /// Spans that the collector has accepted.
    pub(super) sent: AtomicU64,
    /// Spans that were dropped.
    pub(super) dropped: AtomicU64,
}

impl Export {
    pub(super) fn new(settings: &paceline_config::Traces) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings.clone()),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Sends spans for as long as spans may follow.
    pub(super) async fn run(&self, mut ended: mpsc::Receiver<EndedSpan>) {
        while let Some(batch) = next_batch(&mut ended).await {
            let spans = batch.len() as u64;
            let dropped = match self.send(batch).await {
                Ok(rejected) => rejected.min(spans),
                Err(error) => {
                    tracing::debug!(error, "the collector did not accept spans");
                    spans
                }
            };
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
            self.sent.fetch_add(spans - dropped, Ordering::Relaxed);
        }
    }

    /// Sends a batch. Returns how many of its spans the collector has rejected.
    async fn send(&self, batch: Vec<EndedSpan>) -> Result<u64, String> {
        let settings = self.settings.load_full();
        if settings.otlp_endpoint.is_empty() {
            return Err("otlp_endpoint is empty".to_owned());
        }
        let resource = Resource {
            service: settings.otlp_service_name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            process: std::process::id(),
        };
        // The text of many spans would delay clients.
        let encoding = tokio::task::spawn_blocking(move || {
            let spans: Vec<Span> = batch.into_iter().map(EndedSpan::into_complete).collect();
            encode(&resource, &spans)
        });
        let body = encoding.await.map_err(|error| error.to_string())?;
        let posting = collector::post(&settings.otlp_endpoint, body);
        match tokio::time::timeout(ANSWER_LIMIT, posting).await {
            Ok(answered) => answered.map_err(|error| error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}

/// The next spans: at most [`BATCH_MAX`], within [`BATCH_TIME`] after the first.
async fn next_batch(ended: &mut mpsc::Receiver<EndedSpan>) -> Option<Vec<EndedSpan>> {
    let mut batch = Vec::new();
    if ended.recv_many(&mut batch, BATCH_MAX).await == 0 {
        return None;
    }
    let end = Instant::now() + BATCH_TIME;
    while batch.len() < BATCH_MAX {
        let left = BATCH_MAX - batch.len();
        match timeout_at(end, ended.recv_many(&mut batch, left)).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    Some(batch)
}

//! Collects the contents of the page, once per second, for all viewers together. The task starts with the first viewer and ends with the
//! last one; without viewers, nothing is collected.

use crate::log;
use crate::snapshot::SnapshotReader;
use bytes::Bytes;
use paceline_proxy::proxy::Proxy;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// A sample as text of JSON.
#[derive(Clone, Default)]
pub(super) struct Sample {
    /// The part that all users of the console may read.
    pub(super) snapshot: Bytes,
    /// The same for administrators: with the values of hot rows.
    pub(super) snapshot_with_values: Bytes,
    /// The last lines of the log, for administrators.
    pub(super) log: Bytes,
}

/// The task, and the sample that it has taken last.
pub(super) struct Sampler {
    proxy: Arc<Proxy>,
    samples: watch::Sender<Sample>,
    runs: Mutex<bool>,
}

impl Sampler {
    pub(super) fn new(proxy: &Arc<Proxy>) -> Arc<Self> {
        Arc::new(Self {
            proxy: Arc::clone(proxy),
            samples: watch::Sender::default(),
            runs: Mutex::new(false),
        })
    }

    fn lock_runs(&self) -> MutexGuard<'_, bool> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Samples from now on, until the viewer drops the receiver. It changes with each sample.
    pub(super) fn watch(self: &Arc<Self>) -> watch::Receiver<Sample> {
        let mut runs = self.lock_runs();
        let viewer = self.samples.subscribe();
        if !*runs {
            *runs = true;
            tokio::spawn(Arc::clone(self).run());
        }
        viewer
    }

    async fn run(self: Arc<Self>) {
        let recording = log::record();
        let mut reader = SnapshotReader::default();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tracing::debug!("the web console collects its data");
        while !self.ends() {
            tokio::select! {
                () = self.samples.closed() => continue,
                _ = ticks.tick() => {}
            }
            // A thread that serves no clients, because there may be many pools.
            let proxy = Arc::clone(&self.proxy);
            let read = tokio::task::spawn_blocking(move || {
                let snapshot = reader.read(&proxy);
                (reader, snapshot)
            });
            let Ok((again, snapshot)) = read.await else {
                *self.lock_runs() = false;
                return;
            };
            reader = again;
            let with_values = serde_json::to_vec(&snapshot).unwrap_or_default();
            let snapshot = serde_json::to_vec(&snapshot.without_values()).unwrap_or_default();
            let log = serde_json::to_vec(&recording.lines()).unwrap_or_default();
            self.samples.send_replace(Sample {
                snapshot: snapshot.into(),
                snapshot_with_values: with_values.into(),
                log: log.into(),
            });
        }
        tracing::debug!("the web console collects nothing any more");
    }

    /// Whether the task must end, because the last viewer has left. Then the next viewer starts another one.
    fn ends(&self) -> bool {
        let mut runs = self.lock_runs();
        *runs = self.samples.receiver_count() > 0;
        if !*runs {
            self.samples.send_replace(Sample::default());
        }
        !*runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::Config;

    fn sampler() -> Arc<Sampler> {
        let config = Config::for_upstream("postgres://db").unwrap();
        Sampler::new(&Arc::new(Proxy::new(config)))
    }

    async fn next(viewer: &mut watch::Receiver<Sample>) -> serde_json::Value {
        viewer.changed().await.unwrap();
        serde_json::from_slice(&viewer.borrow_and_update().snapshot).unwrap()
    }

    async fn until_it_rests(sampler: &Sampler) {
        while *sampler.lock_runs() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn nothing_is_collected_unless_somebody_looks() {
        let sampler = sampler();
        assert!(!*sampler.lock_runs());
        assert_eq!(log::recorders(), 0);
        let mut viewer = sampler.watch();
        let mut second = sampler.watch();
        let seen = next(&mut viewer).await;
        assert_eq!(seen["state"], "active");
        assert_eq!(next(&mut second).await, seen);
        assert_eq!(log::recorders(), 1);
        drop(viewer);
        next(&mut second).await;
        drop(second);
        until_it_rests(&sampler).await;
        while log::recorders() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(sampler.samples.borrow().snapshot.is_empty());
        let mut later = sampler.watch();
        assert_eq!(next(&mut later).await["state"], "active");
    }
}

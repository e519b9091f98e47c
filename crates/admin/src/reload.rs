//! Reloads the configuration (SIGHUP, RELOAD) and sets single keys (SET). If anything is not valid, nothing changes.

use crate::admin::Admin;
use crate::config_snapshot::{ConfigSnapshot, ConfigSnapshotError};
use crate::config_source::changed;
use crate::file_limit;
use crate::systemd;
use paceline_config::Config;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

impl Admin {
    /// Reads the configuration again and replaces the active one.
    ///
    /// # Errors
    /// The configuration or a file cannot be read or is not valid; then nothing has changed.
    pub(super) async fn reload(self: &Arc<Self>) -> Result<(), ErrorResponse> {
        let _turn = self.source.lock().await;
        systemd::reloading();
        let outcome = self.read_again().await;
        systemd::ready();
        outcome.map_err(|error| {
            tracing::error!("RELOAD failed: {error}");
            ErrorResponse::error("F0000", "RELOAD failed, see logs for additional details")
                .with_detail(error.to_string())
        })
    }

    async fn read_again(self: &Arc<Self>) -> Result<(), ConfigSnapshotError> {
        let old = Arc::clone(&self.proxy.config());
        let (admin, before) = (Arc::clone(self), Arc::clone(&old));
        self.read_and_apply(move || admin.source.read_all(&before))
            .await?;
        let new = self.proxy.config();
        let changed = changed(&old.paceline, &new.paceline);
        let databases = old.databases != new.databases;
        file_limit::raise(&new);
        tracing::info!(?changed, databases, "configuration reloaded");
        Ok(())
    }
}

impl Admin {
    /// Sets one key (`key=value`) until the next reload. Returns a notice for the operator, if there is one.
    ///
    /// # Errors
    /// The value, or a file that it names, is not valid; then nothing has changed.
    pub(crate) async fn set(
        self: &Arc<Self>,
        assignment: &str,
    ) -> Result<Option<String>, ConfigSnapshotError> {
        // Without the lock, the result of a concurrent reload would be lost.
        let _turn = self.source.lock().await;
        let before = self.config_snapshot();
        let mut config = Config::clone(&before.config);
        config.set(assignment)?;
        config.check_access("SET")?;
        let (known, now) = (before.config.remarks(), config.remarks());
        let news = now.into_iter().find(|remark| !known.contains(remark));
        let altered = tokio::task::spawn_blocking(move || before.altered(config));
        let (snapshot, notice) = altered.await??;
        let notice = notice.or(news.map(|remark| remark.to_string()));
        self.apply(snapshot);
        Ok(notice)
    }

    /// Reads a configuration on a thread that serves no sockets, and applies it.
    ///
    /// # Errors
    /// Something is not valid; then nothing has changed.
    pub(super) async fn read_and_apply(
        self: &Arc<Self>,
        read: impl FnOnce() -> Result<ConfigSnapshot, ConfigSnapshotError> + Send + 'static,
    ) -> Result<(), ConfigSnapshotError> {
        let snapshot = tokio::task::spawn_blocking(read).await??;
        self.apply(snapshot);
        Ok(())
    }
}

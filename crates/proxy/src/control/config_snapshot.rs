//! A configuration together with the content of the files that it names: users, rules, certificates. Paceline reads all of it
//! and then applies all of it; an error in one of them changes nothing.

#[cfg(test)]
mod tests;

use crate::auth::{Records, RecordsError};
use crate::keyring::Keys;
use crate::log::{LogError, Targets};
use crate::proxy::Proxy;
use paceline_config::{Config, ConfigError};
use paceline_net::TlsError;
use std::sync::Arc;
use thiserror::Error;

/// A configuration and the files that it names, read.
pub(crate) struct ConfigSnapshot {
    /// The configuration itself.
    pub(crate) config: Arc<Config>,
    /// The files about users.
    pub(crate) records: Arc<Records>,
    /// Keys and certificates.
    pub(crate) keys: Arc<Keys>,
    /// The new destination of the log; `None` if it does not change.
    pub(crate) log: Option<Targets>,
}

/// Why a configuration cannot be applied.
#[derive(Debug, Error)]
pub(crate) enum ConfigSnapshotError {
    /// The configuration itself is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file about users is wrong.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A key or certificate is wrong.
    #[error(transparent)]
    Keys(#[from] TlsError),
    /// The file of the log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// No client could log in by a certificate.
    #[error(
        "the method cert needs client_tls_sslmode and client_tls_ca_file: without them no client can show a certificate"
    )]
    NoAuthorities,
    /// It names no database any more, and none is embedded.
    #[error(
        "no database is left in the configuration; an embedded PostgreSQL is only started with paceline itself"
    )]
    NoDatabase,
    /// Reading was cut short.
    #[error("reading was cut short: {0}")]
    CutShort(#[from] tokio::task::JoinError),
}

impl ConfigSnapshot {
    /// Reads all files that a configuration names. Files may be slow: do not call this on a thread that serves sockets.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn read(config: Arc<Config>) -> Result<Self, ConfigSnapshotError> {
        let records = Records::read(&config.paceline.login)?;
        let keys = Keys::read(&config)?;
        if records.ask_for_certificates(&config.paceline.login) && !keys.verify_clients() {
            return Err(ConfigSnapshotError::NoAuthorities);
        }
        Ok(Self {
            records: Arc::new(records),
            keys: Arc::new(keys),
            config,
            log: None,
        })
    }

    /// This one with another value for a key of `[paceline]`. Only the files that the key is about are read again. TLS needs
    /// several keys, which are set one after the other: until they go together what was in force before stays so, and the
    /// notice says what is missing.
    fn altered(&self, config: Config) -> Result<(Self, Option<String>), ConfigSnapshotError> {
        let (old, new) = (&self.config.paceline, &config.paceline);
        let records = match Records::are_those_of(&old.login, &new.login) {
            true => Arc::clone(&self.records),
            false => Arc::new(Records::read(&new.login)?),
        };
        let mut notice = None;
        let keys = match self.keys.are_those_of(&new.encryption) {
            true => Arc::clone(&self.keys),
            false => match Keys::read(&config) {
                Ok(keys) => Arc::new(keys),
                Err(error) if error.is_incomplete() => {
                    notice = Some(format!("TLS stays as it was: {error}"));
                    Arc::clone(&self.keys)
                }
                Err(error) => return Err(error.into()),
            },
        };
        let log = match old.logging.writes_where(&new.logging) {
            true => None,
            false => Some(Targets::open(&new.logging)?),
        };
        let snapshot = Self {
            log,
            config: Arc::new(config),
            records,
            keys,
        };
        Ok((snapshot, notice))
    }
}

impl Proxy {
    /// Sets one key, as `key=value`, until the configuration is read again. Returns what an operator should know.
    ///
    /// # Errors
    /// The value is wrong, or a file that it names is; then nothing has changed.
    pub(crate) async fn set(
        self: &Arc<Self>,
        assignment: &str,
    ) -> Result<Option<String>, ConfigSnapshotError> {
        // Else what a reload has read meanwhile would be lost.
        let _turn = self.origin.turn().await;
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

    /// Reads elsewhere than on a thread that serves sockets, and puts what was read in force if all of it is good.
    ///
    /// # Errors
    /// Something is wrong; then nothing has changed.
    pub(super) async fn put_in_force(
        self: &Arc<Self>,
        read: impl FnOnce() -> Result<ConfigSnapshot, ConfigSnapshotError> + Send + 'static,
    ) -> Result<(), ConfigSnapshotError> {
        let snapshot = tokio::task::spawn_blocking(read).await??;
        self.apply(snapshot);
        Ok(())
    }
}

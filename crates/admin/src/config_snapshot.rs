//! A configuration together with the content of the files that it names: users, rules, certificates. Paceline reads all of it
//! and then applies all of it; an error in one of them changes nothing.

#[cfg(test)]
mod tests;

use crate::log::{LogError, Targets};
use paceline_config::{Config, ConfigError};
use paceline_net::TlsError;
use paceline_pool::keyring::TlsKeys;
use paceline_proxy::auth::{UserFiles, UserFilesError};
use std::sync::Arc;
use thiserror::Error;

/// A configuration and the files that it names, read.
pub struct ConfigSnapshot {
    /// The configuration itself.
    pub config: Arc<Config>,
    /// The files about users.
    pub files: Arc<UserFiles>,
    /// TlsKeys and certificates.
    pub keys: Arc<TlsKeys>,
    /// The new destination of the log; `None` if it does not change.
    pub log: Option<Targets>,
}

/// Why a configuration cannot be applied.
#[derive(Debug, Error)]
pub enum ConfigSnapshotError {
    /// The configuration itself is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file about users is wrong.
    #[error(transparent)]
    UserFiles(#[from] UserFilesError),
    /// A key or certificate is wrong.
    #[error(transparent)]
    TlsKeys(#[from] TlsError),
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
    pub fn read(config: Arc<Config>) -> Result<Self, ConfigSnapshotError> {
        let files = UserFiles::read(&config.paceline.login)?;
        let keys = TlsKeys::read(&config)?;
        if files.ask_for_certificates(&config.paceline.login) && !keys.verify_clients() {
            return Err(ConfigSnapshotError::NoAuthorities);
        }
        Ok(Self {
            files: Arc::new(files),
            keys: Arc::new(keys),
            config,
            log: None,
        })
    }

    /// This one with another value for a key of `[paceline]`. Only the files that the key is about are read again. TLS needs
    /// several keys, which are set one after the other: until they go together what was in force before stays so, and the
    /// notice says what is missing.
    pub(crate) fn altered(
        &self,
        config: Config,
    ) -> Result<(Self, Option<String>), ConfigSnapshotError> {
        let (old, new) = (&self.config.paceline, &config.paceline);
        let files = match UserFiles::are_those_of(&old.login, &new.login) {
            true => Arc::clone(&self.files),
            false => Arc::new(UserFiles::read(&new.login)?),
        };
        let mut notice = None;
        let keys = match self.keys.are_those_of(&new.encryption) {
            true => Arc::clone(&self.keys),
            false => match TlsKeys::read(&config) {
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
            files,
            keys,
        };
        Ok((snapshot, notice))
    }
}

//! A configuration together with the contents of the files that it names: users, rules, certificates. Paceline first reads all of
//! them, then applies all of them; if one has an error, nothing changes.

#[cfg(test)]
mod tests;

use crate::log::{LogError, Targets};
use paceline_config::{Config, ConfigError};
use paceline_net::TlsError;
use paceline_pool::keyring::TlsKeys;
use paceline_proxy::auth::{UserFiles, UserFilesError};
use std::sync::Arc;
use thiserror::Error;

/// A configuration and the contents of the files that it names.
pub struct ConfigSnapshot {
    /// The configuration.
    pub config: Arc<Config>,
    /// Users and rules.
    pub files: Arc<UserFiles>,
    /// Keys and certificates.
    pub keys: Arc<TlsKeys>,
    /// The new destination of the log; `None` if it does not change.
    pub log: Option<Targets>,
}

/// The reason why a configuration cannot be applied.
#[derive(Debug, Error)]
pub enum ConfigSnapshotError {
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file of users or rules is not valid.
    #[error(transparent)]
    UserFiles(#[from] UserFilesError),
    /// A key or certificate is not valid.
    #[error(transparent)]
    Keys(#[from] TlsError),
    /// The log file cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A rule requires client certificates, but TLS does not verify them.
    #[error(
        "the method cert needs client_tls_sslmode and client_tls_ca_file: without them no client can show a certificate"
    )]
    NoAuthorities,
    /// A reloaded configuration names no database, and no embedded PostgreSQL runs.
    #[error(
        "no database is left in the configuration; an embedded PostgreSQL is only started with paceline itself"
    )]
    NoDatabase,
    /// The task that reads the files has failed.
    #[error("reading was cut short: {0}")]
    CutShort(#[from] tokio::task::JoinError),
}

impl ConfigSnapshot {
    /// Reads all files that a configuration names. Do not call this on a thread that serves sockets: it blocks.
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

    /// Returns a snapshot with `config`, which differs in one key of `[paceline]`. Reads only the files that the key concerns. If the
    /// TLS keys are incomplete, because an operator sets them one after the other, the previous TLS settings stay active, and the
    /// notice names what is missing.
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

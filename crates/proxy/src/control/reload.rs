//! Reading the configuration again (SIGHUP, RELOAD): checked as a whole, then swapped in. What is wrong changes nothing.

use super::{ConfigSnapshot, ConfigSnapshotError};
use crate::cli::Source;
use crate::files;
use crate::log::Targets;
use crate::proxy::Proxy;
use crate::serve::systemd;
use paceline_config::{ANY_DATABASE, Config, ConfigError, Database, Key, Settings, keys};
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Where the configuration comes from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    source: Source,
    /// The embedded PostgreSQL that runs.
    embedded: Option<Database>,
    /// One reads at a time: what was read last is in force.
    turn: Mutex<()>,
}

impl Origin {
    /// This command line; `embedded` leads to the PostgreSQL that was started for it.
    pub(crate) fn new(source: Source, embedded: Option<Database>) -> Self {
        Self {
            source,
            embedded,
            turn: Mutex::default(),
        }
    }

    /// Who changes the configuration waits for who changes it already.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// The configuration as it would be after a start now.
    fn read(&self) -> Result<Config, ConfigSnapshotError> {
        let (mut config, remarks) = self.source.read_with_remarks()?;
        remarks.iter().for_each(|remark| tracing::warn!("{remark}"));
        if config.databases.is_empty() {
            let embedded = self
                .embedded
                .clone()
                .ok_or(ConfigSnapshotError::NoDatabase)?;
            config.databases.insert(ANY_DATABASE.to_owned(), embedded);
        }
        Ok(config)
    }
}

impl Proxy {
    /// Carries out RELOAD.
    ///
    /// # Errors
    /// Something could not be read or is wrong; then everything is as it was.
    pub(super) async fn reload(self: &Arc<Self>) -> Result<(), ErrorResponse> {
        let _turn = self.origin.turn().await;
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
        let old = Arc::clone(&self.config());
        let (proxy, before) = (Arc::clone(self), Arc::clone(&old));
        self.put_in_force(move || proxy.origin.read_all(&before))
            .await?;
        let new = self.config();
        let changed = changed(&old.paceline, &new.paceline);
        let databases = old.databases != new.databases;
        files::raise_limit(&new);
        tracing::info!(?changed, databases, "the configuration has been read again");
        Ok(())
    }
}

impl Origin {
    /// The configuration, and the files that it names. The first that is wrong ends it.
    fn read_all(&self, old: &Config) -> Result<ConfigSnapshot, ConfigSnapshotError> {
        let mut config = self.read()?;
        keep_from_start(&old.paceline, &mut config)?;
        config.check_access("RELOAD")?;
        let mut snapshot = ConfigSnapshot::read(Arc::new(config))?;
        snapshot.log = Some(Targets::open(&snapshot.config.paceline.logging)?);
        Ok(snapshot)
    }
}

/// What was made of these keys at the start stays as it is, and so do they.
fn keep_from_start(old: &Settings, config: &mut Config) -> Result<(), ConfigError> {
    for key in keys().filter(|key| key.needs_restart) {
        let value = key.plain(old);
        if value != key.plain(&config.paceline) {
            tracing::warn!(
                "{} has changed: restart paceline to put it in force",
                key.name
            );
            let assignment = format!("{}={value}", key.name);
            config.set(&assignment)?;
        }
    }
    Ok(())
}

/// Keys with another value. (Values may be secret.)
fn changed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let other = |key: &&Key| key.show(old) != key.show(new);
    keys().filter(other).map(|key| key.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_start_are_keys_and_are_kept() {
        let old = Settings::default();
        for key in keys().filter(|key| key.needs_restart) {
            let name = key.name;
            let mut config = Config::default();
            let other = match key.unit() {
                "address:port" => "127.0.0.1:7000",
                "path" => "/tmp/other",
                "octal" => "0700",
                "–" => "true",
                _ => "3",
            };
            config.set(&format!("{name}={other}")).unwrap();
            config.set("max_client_conn=7").unwrap();
            assert_eq!(changed(&old, &config.paceline), changed_order(name));
            keep_from_start(&old, &mut config).unwrap();
            assert_eq!(changed(&old, &config.paceline), ["max_client_conn"]);
        }
    }

    #[test]
    fn a_path_is_kept_to_the_letter() {
        let (mut old, mut config) = (Config::default(), Config::default());
        old.set("pidfile=/tmp/\"a\\b\"").unwrap();
        keep_from_start(&old.paceline, &mut config).unwrap();
        assert_eq!(config, old);
    }

    /// In the order of the documentation.
    fn changed_order(name: &'static str) -> Vec<&'static str> {
        let both = [name, "max_client_conn"];
        keys()
            .map(|key| key.name)
            .filter(|key| both.contains(key))
            .collect()
    }
}

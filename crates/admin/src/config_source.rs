//! Where the configuration comes from, to be read again.

use crate::config_snapshot::{ConfigSnapshot, ConfigSnapshotError};
use crate::log::Targets;
use crate::source::Source;
use paceline_config::{ANY_DATABASE, Config, ConfigError, Database, Key, Settings, keys};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Where the configuration comes from.
#[derive(Debug, Default)]
pub struct ConfigSource {
    source: Source,
    /// The embedded PostgreSQL that runs.
    embedded: Option<Database>,
    /// One reads at a time: what was read last is in force.
    lock: Mutex<()>,
}

impl ConfigSource {
    /// This command line; `embedded` leads to the PostgreSQL that was started for it.
    pub fn new(source: Source, embedded: Option<Database>) -> Self {
        Self {
            source,
            embedded,
            lock: Mutex::default(),
        }
    }

    /// Who changes the configuration waits for who changes it already.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().await
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

impl ConfigSource {
    /// The configuration, and the files that it names. The first that is wrong ends it.
    pub(crate) fn read_all(&self, old: &Config) -> Result<ConfigSnapshot, ConfigSnapshotError> {
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
pub(crate) fn changed(old: &Settings, new: &Settings) -> Vec<&'static str> {
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

//! Reads the configuration again for a reload.

use crate::config_inputs::ConfigInputs;
use crate::config_snapshot::{ConfigSnapshot, ConfigSnapshotError};
use crate::log::Targets;
use paceline_config::{ANY_DATABASE, Config, ConfigError, Database, Key, Settings, keys};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// The source of the configuration: the inputs at the start, and the embedded PostgreSQL.
#[derive(Debug, Default)]
pub struct ConfigSource {
    inputs: ConfigInputs,
    /// The database of the embedded PostgreSQL, if it runs.
    embedded: Option<Database>,
    /// Held while the configuration is read and replaced.
    lock: Mutex<()>,
}

impl ConfigSource {
    /// Creates the source. `embedded` is the database of the embedded PostgreSQL.
    pub fn new(inputs: ConfigInputs, embedded: Option<Database>) -> Self {
        Self {
            inputs,
            embedded,
            lock: Mutex::default(),
        }
    }

    /// Waits until no other task changes the configuration.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().await
    }

    /// Reads the configuration as a start would.
    fn read(&self) -> Result<Config, ConfigSnapshotError> {
        let (mut config, remarks) = self.inputs.read_with_remarks()?;
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
    /// Reads the configuration and the files that it names.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn read_all(&self, old: &Config) -> Result<ConfigSnapshot, ConfigSnapshotError> {
        let mut config = self.read()?;
        keep_from_start(&old.paceline, &mut config)?;
        config.check_access("RELOAD")?;
        let mut snapshot = ConfigSnapshot::read(Arc::new(config))?;
        snapshot.log = Some(Targets::open(&snapshot.config.paceline.logging)?);
        Ok(snapshot)
    }
}

/// Keeps the old values of keys that need a restart, with a warning if they have changed.
fn keep_from_start(old: &Settings, config: &mut Config) -> Result<(), ConfigError> {
    for key in keys().filter(|key| key.needs_restart) {
        let value = key.plain(old);
        if value != key.plain(&config.paceline) {
            tracing::warn!(
                "{} has changed: restart paceline to apply the change",
                key.name
            );
            let assignment = format!("{}={value}", key.name);
            config.set(&assignment)?;
        }
    }
    Ok(())
}

/// The names of keys whose values differ. Values are not returned: they may be secret.
pub(crate) fn changed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let differs = |key: &&Key| key.differs(old, new);
    keys().filter(differs).map(|key| key.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_need_a_restart_keep_their_values() {
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
    fn another_password_is_a_change() {
        let (mut old, mut new) = (Config::default(), Config::default());
        old.set("monitor_password=one").unwrap();
        new.set("monitor_password=two").unwrap();
        let names = changed(&old.paceline, &new.paceline);
        assert_eq!(names, ["monitor_password"]);
    }

    #[test]
    fn a_path_with_quotes_is_kept() {
        let (mut old, mut config) = (Config::default(), Config::default());
        old.set("pidfile=/tmp/\"a\\b\"").unwrap();
        keep_from_start(&old.paceline, &mut config).unwrap();
        assert_eq!(config, old);
    }

    /// `name` and `max_client_conn`, in the order of the keys.
    fn changed_order(name: &'static str) -> Vec<&'static str> {
        let both = [name, "max_client_conn"];
        keys()
            .map(|key| key.name)
            .filter(|key| both.contains(key))
            .collect()
    }
}

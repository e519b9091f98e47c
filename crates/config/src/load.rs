//! The sources of a configuration: a file, its text, the URL of a server, `--set`.

use crate::config::{ANY_DATABASE, Config, Database};
use crate::duration::{self, BareUnit};
use crate::error::{ConfigError, Problem};
use crate::remark::Remark;
use crate::upstream::{Upstream, UpstreamError};
use crate::{file, ini, secret, settings};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The syntax of a configuration file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As its name or its text suggests.
    #[default]
    Guessed,
    /// As a `pgbouncer.ini`.
    Ini,
}

pub(crate) fn read_to_string(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable {
        file: path.display().to_string(),
        reason,
    })
}

/// Reads a duration in the syntax of the configuration; a bare number is in seconds.
pub fn seconds(text: &str) -> Option<Duration> {
    duration::parse(text, BareUnit::Seconds)
}

fn wrong_url(source: &str, wrong: UpstreamError) -> ConfigError {
    ConfigError::one(Problem::at(source.to_owned(), wrong.into()))
}

impl Config {
    /// Reads the text of a configuration file. Messages call it `file`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem, each with its line.
    pub fn from_toml(text: &str, file: &str) -> Result<Config, ConfigError> {
        let (config, _) = file::read(text, &|line| format!("{file}:{line}"))?;
        Ok(config)
    }

    /// Reads the configuration file at `path`, a `paceline.toml` or a `pgbouncer.ini`. Remarks go to the log.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] if the file cannot be read, [`ConfigError::Invalid`] with every problem,
    /// each with its line.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let (config, remarks) = Config::load_with_remarks(path, Format::Guessed)?;
        for remark in remarks.iter().filter(|remark| remark.holds(&config)) {
            tracing::warn!("{remark}");
        }
        Ok(config)
    }

    /// As [`Config::load`], but returns the remarks.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_with_remarks(
        path: &Path,
        format: Format,
    ) -> Result<(Config, Vec<Remark>), ConfigError> {
        let file = path.display().to_string();
        let text = read_to_string(path)?;
        if format == Format::Ini || ini::is_ini(path, &text) {
            return ini::read(&text, &file)?.config();
        }
        file::read(&text, &|line| format!("{file}:{line}"))
    }

    /// The defaults, with every database on the server at `url` (`--upstream`).
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if `url` is not the URL of a server. The message never repeats it: it may contain a password.
    pub fn for_upstream(url: &str) -> Result<Config, ConfigError> {
        Config::passing_on("--upstream", url)
    }

    /// As [`Config::for_upstream`], for the URL in the option or variable called `source`.
    ///
    /// # Errors
    /// As there.
    pub fn passing_on(source: &str, url: &str) -> Result<Config, ConfigError> {
        let (mut primary, hosts) =
            Upstream::with_hosts(url).map_err(|wrong| wrong_url(source, wrong))?;
        primary.dbname = None;
        let database = Database {
            hosts,
            ..Database::at(primary)
        };
        Ok(Config {
            databases: BTreeMap::from([(ANY_DATABASE.to_owned(), database)]),
            ..Config::default()
        })
    }

    /// A remark for the operator about the URL in the option or variable called `source`.
    pub fn remark_of_upstream(source: &str, url: &str) -> Option<Remark> {
        let exposed = secret::exposed(&Upstream::password_file(url)?)?;
        Some(Remark::new(source, exposed))
    }

    /// The server at `url`, which names one host.
    ///
    /// # Errors
    /// As [`Config::for_upstream`], and if there are several hosts.
    pub fn upstream(option: &str, url: &str) -> Result<Upstream, ConfigError> {
        Upstream::from_url(url).map_err(|wrong| wrong_url(option, wrong))
    }

    /// Sets one `[paceline]` key from `key=value` (`--set`). The value has no quotes; spaces around both are ignored.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if there is no `=`, no such key, or the value does not fit it; then nothing changes.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        settings::assign(&mut self.paceline, assignment)
            .map_err(|wrong| ConfigError::one(Problem::at(format!("--set {assignment}"), wrong)))
    }
}

//! The configuration: what an operator can say, its defaults and its limits.
//!
//! A configuration comes from a file, from an upstream URL alone, or from the defaults, and from the environment and `--set`. All end in
//! the same [`Config`]; every value in it has been checked, so nobody downstream checks again. This module reads text and
//! files: it opens no socket and looks up no host name.
//!
//! `docs/configuration.md` describes every key; a test compares it with [`keys`]. A `pgbouncer.ini` is read as it is: see [`ini`].

mod access;
mod declared;
mod duration;
mod environment;
mod error;
mod file;
mod import;
mod ini;
mod peers;
mod remark;
mod schema;
mod secret;
mod settings;
mod suggest;
mod terms;
mod upstream;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use declared::{Declared, Role};
use duration::BareUnit;
pub(crate) use environment::PREFIX;
pub(crate) use error::{ConfigError, Problem};
pub(crate) use import::import;
pub(crate) use ini::known::{Fate, fate_of_pgbouncers};
pub(crate) use peers::Peer;
pub(crate) use remark::Remark;
pub(crate) use schema::schema;
pub(crate) use settings::{
    AuthType, Encryption, Key, ListenLost, Listening, Logging, Login, PoolMode, Settings, Side,
    SslMode, State, Tcp, keys,
};
#[cfg(test)]
pub(crate) use terms::TERM_KEYS;
pub(crate) use terms::{Differences, Terms};
pub(crate) use upstream::{Host, Secret, Upstream, UpstreamTls};

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The name under which `[databases]` holds the entry for every database that has none of its own.
pub(crate) const ANY_DATABASE: &str = "*";

/// Everything that an operator configured, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Config {
    /// The `[paceline]` table.
    pub(crate) paceline: Settings,
    /// The `[databases]` tables by the name that clients ask for; [`ANY_DATABASE`] is any other name. Empty when nothing was
    /// said about databases: then Paceline brings its own PostgreSQL.
    pub(crate) databases: BTreeMap<String, Database>,
    /// The `[users]` tables: what is different for a user in every database, by the name that the client gives.
    pub(crate) users: BTreeMap<String, Differences>,
    /// The `[peers]` tables: other processes, by their `peer_id`.
    pub(crate) peers: BTreeMap<u16, Peer>,
    /// Functions whose calls may travel together, each once.
    pub(crate) declared: Vec<Declared>,
}

/// One entry of `[databases]`: where the database is, and what is different for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Database {
    /// The server that takes writes.
    pub(crate) primary: Upstream,
    /// What is different for its pools.
    pub(crate) differs: Differences,
    /// Settings that its server connections are begun with, by name. A client's own replace them.
    pub(crate) startup: Vec<(String, String)>,
    /// What each server connection runs before it serves; empty is nothing.
    pub(crate) connect_query: String,
    /// Replaces [`Settings::hotspot_for_autocommit`] for this database.
    pub(crate) hotspot_for_autocommit: Option<bool>,
    /// Where users of this database are looked up.
    pub(crate) login: DatabaseLogin,
    /// What is different for one user of this database, by the user name that the client gives.
    pub(crate) users: BTreeMap<String, UserOverride>,
}

/// Where users of one database are looked up that the file of users does not know; each replaces the key of `[paceline]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DatabaseLogin {
    /// Replaces [`Login::auth_user`].
    pub(crate) auth_user: Option<String>,
    /// Replaces [`Login::auth_query`].
    pub(crate) auth_query: Option<String>,
    /// Replaces [`Login::auth_dbname`].
    pub(crate) auth_dbname: Option<String>,
}

/// What is different for one user of one database.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct UserOverride {
    /// Replaces the database's `hotspot_for_autocommit`.
    pub(crate) hotspot_for_autocommit: Option<bool>,
    /// What is different for its pool.
    pub(crate) differs: Differences,
}

impl Database {
    /// A database about which nothing is said except where it is.
    pub(crate) fn at(primary: Upstream) -> Database {
        Database {
            primary,
            differs: Differences::default(),
            startup: Vec::new(),
            connect_query: String::new(),
            hotspot_for_autocommit: None,
            login: DatabaseLogin::default(),
            users: BTreeMap::new(),
        }
    }
}

/// How a configuration file is written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// As its name or its text suggests.
    #[default]
    Guessed,
    /// As a `pgbouncer.ini`.
    Ini,
}

fn read_to_string(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable {
        file: path.display().to_string(),
        reason,
    })
}

/// Reads a time as the configuration has it: a bare number is seconds.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    duration::parse(text, BareUnit::Seconds)
}

impl Config {
    /// Reads the text of a configuration file. `file` only names it in error messages.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem that was found, each with its line.
    #[cfg(test)]
    pub(crate) fn from_toml(text: &str, file: &str) -> Result<Config, ConfigError> {
        let (config, _) = file::read(text, &|line| format!("{file}:{line}"))?;
        Ok(config)
    }

    /// Reads the configuration file at `path`, a `paceline.toml` or a `pgbouncer.ini`. Remarks go to the log.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] when the file cannot be read, [`ConfigError::Invalid`] with
    /// every problem that was found, each with its line.
    pub(crate) fn load(path: &Path) -> Result<Config, ConfigError> {
        let (config, remarks) = Config::load_with_remarks(path, Format::Guessed)?;
        for remark in remarks.iter().filter(|remark| remark.holds(&config)) {
            tracing::warn!("{remark}");
        }
        Ok(config)
    }

    /// Reads as [`Config::load`] does, and returns what an operator should know beside.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(crate) fn load_with_remarks(
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

    /// Defaults, with every database name passed through to the server at `url` (`--upstream`).
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when `url` is not an upstream URL. The message never repeats the URL: it may hold a password.
    #[cfg(test)]
    pub(crate) fn for_upstream(url: &str) -> Result<Config, ConfigError> {
        Config::passing_on("--upstream", url)
    }

    /// As [`Config::for_upstream`], for a URL that comes from the option or variable called `source`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn passing_on(source: &str, url: &str) -> Result<Config, ConfigError> {
        let mut primary = Config::upstream(source, url)?;
        primary.dbname = None;
        Ok(Config {
            databases: BTreeMap::from([(ANY_DATABASE.to_owned(), Database::at(primary))]),
            ..Config::default()
        })
    }

    /// What an operator should know of a URL that comes from the option or variable called `source`.
    pub(crate) fn remark_of_upstream(source: &str, url: &str) -> Option<Remark> {
        let exposed = secret::exposed(&Upstream::password_file(url)?)?;
        Some(Remark::new(source, exposed))
    }

    /// The server at `url` (`--upstream`).
    ///
    /// # Errors
    /// As [`Config::for_upstream`].
    pub(crate) fn upstream(option: &str, url: &str) -> Result<Upstream, ConfigError> {
        Upstream::from_url(url)
            .map_err(|wrong| ConfigError::one(Problem::argument(option, wrong.into())))
    }

    /// Sets one `[paceline]` key from `key=value` (`--set`). The value is written without quotes; spaces around both are ignored.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when there is no `=`, no such key, or the value does not fit it; then nothing is changed.
    pub(crate) fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        settings::assign(&mut self.paceline, assignment).map_err(|wrong| {
            ConfigError::one(Problem::argument(&format!("--set {assignment}"), wrong))
        })
    }

    /// Whether every pool pools sessions, so that nothing travels together.
    fn pools_only_sessions(&self) -> bool {
        let general = self.paceline.pooling.pool_mode;
        let others = self
            .users
            .values()
            .chain(self.databases.values().flat_map(|database| {
                let of_users = database.users.values().map(|user| &user.differs);
                of_users.chain([&database.differs])
            }));
        let said = others.filter_map(|differs| differs.pool_mode);
        said.chain([general]).all(|mode| mode == PoolMode::Session)
    }

    /// What is valid, but cannot be done as it is written.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        let remarks = self.paceline.encryption.remarks();
        remarks.map(|(key, text)| Remark::new(key, text)).collect()
    }

    /// The database that a client means by `name`, and what it is called on the server; `None` when neither `name` nor `"*"`
    /// is configured.
    pub(crate) fn database(&self, name: &str) -> Option<(&Database, String)> {
        if let Some(database) = self.listed(name) {
            let on_server = database.primary.dbname.as_deref().unwrap_or(name);
            return Some((database, on_server.to_owned()));
        }
        let database = self.databases.get(ANY_DATABASE)?;
        Some((database, name.to_owned()))
    }

    /// What it says of a database by its name.
    pub(crate) fn listed(&self, name: &str) -> Option<&Database> {
        // A client that asks for a database literally called `*` is one more "any other name".
        self.databases.get(name).filter(|_| name != ANY_DATABASE)
    }

    /// Whether un-hinted autocommit statements of `user` (as the client names itself) on `database` may travel together.
    pub(crate) fn hotspot_for_autocommit(&self, database: &Database, user: &str) -> bool {
        let of_user = database
            .users
            .get(user)
            .and_then(|user| user.hotspot_for_autocommit);
        of_user
            .or(database.hotspot_for_autocommit)
            .unwrap_or(self.paceline.grouping.hotspot_for_autocommit)
    }
}

//! Problems of a configuration. Every message says what to do, and none repeats a password.

mod ini;

pub(crate) use ini::IniError;

use thiserror::Error;

use super::secret::SecretError;
use super::suggest;
use super::upstream::UpstreamError;
use super::value::ValueError;

/// The reason why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error(
        "cannot read {file}: {reason}; check the path and that the user who runs paceline may read it"
    )]
    Unreadable {
        /// The path as it was given.
        file: String,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// Two configurations in the environment.
    #[error("PACELINE_CONFIG and PACELINE_UPSTREAM are both set; unset one of the two")]
    TwoSources,
    /// The text was read and is wrong; every problem that was found, in the order of the text.
    #[error("{}", one_per_line(.0))]
    Invalid(Vec<Problem>),
}

impl ConfigError {
    /// An error with a single problem.
    pub(super) fn one(problem: Problem) -> ConfigError {
        ConfigError::Invalid(vec![problem])
    }
}

fn one_per_line(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// A problem and its place.
#[derive(Debug, Error, PartialEq)]
#[error("{place}: {problem}")]
pub struct Problem {
    /// `file:line`, or the command-line argument.
    place: String,
    problem: ConfigProblem,
}

impl Problem {
    /// A problem at `place`: a line of a file, an argument, a variable.
    pub(super) fn at(place: String, problem: ConfigProblem) -> Problem {
        Problem { place, problem }
    }
}

/// The kinds of problems.
#[derive(Debug, Error, PartialEq)]
pub(crate) enum ConfigProblem {
    /// Not TOML.
    #[error("{0}; this is not TOML, see docs/configuration.md for an example")]
    Syntax(String),
    /// A key that does not exist in this table.
    #[error("unknown key \"{key}\" in [{table}]; {}", remedy(.nearest.as_deref()))]
    UnknownKey {
        /// The key as it was written.
        key: String,
        /// The table that it was written in.
        table: String,
        /// The key that was most likely meant.
        nearest: Option<String>,
    },
    /// A table at the top level that does not exist.
    #[error("unknown table or key \"{name}\"; {}", top_level_remedy(.nearest.as_deref()))]
    UnknownTable {
        /// The name as it was written.
        name: String,
        /// The table that was most likely meant.
        nearest: Option<String>,
    },
    /// A value where a table belongs.
    #[error("\"{0}\" must be a table; start it with the line [{0}]")]
    NotATable(String),
    /// Something else where a list of tables belongs.
    #[error("\"{0}\" must be a list of tables; start each with the line [[{0}]]")]
    NotAList(String),
    /// A declaration without a function.
    #[error("[{0}] names no function; add function = \"SCHEMA.NAME\"")]
    NoFunction(String),
    /// A table or template that is in `allow_grouping` and in `deny_grouping`.
    #[error("grouping of {0} is both allowed and denied; keep one of the entries")]
    AllowedAndDenied(String),
    /// A function that is declared again, perhaps as something else.
    #[error("function {0} is declared more than once; keep one of its entries")]
    DeclaredTwice(String),
    /// A subscriber of which something is missing.
    #[error("{0} needs host, slot and tables")]
    SubscriberKeys(String),
    /// A subscriber that is named again.
    #[error("subscriber {0} is named more than once; keep one of its entries")]
    SubscriberTwice(String),
    /// A peer with a name that is no `peer_id`.
    #[error("\"{0}\" is not a peer id; write [peers.ID] with a number from 1 to 16383")]
    PeerId(String),
    /// A peer without a host.
    #[error("[{0}] names no host; add host = \"HOST\"")]
    NoHost(String),
    /// A database without a server.
    #[error(
        "[{0}] does not say where the database is; add primary = \"postgres://HOST:PORT/DATABASE\""
    )]
    NoPrimary(String),
    /// A database that no client could reach.
    #[error(
        "\"pgbouncer\" is always the admin console, so that no client could reach this database; give it another name"
    )]
    ConsolesName,
    /// A value that does not fit its key.
    #[error("{key}: {error}")]
    Value {
        /// The key.
        key: String,
        /// The problem of the value.
        error: ValueError,
    },
    /// Every client that reaches this machine could log in as any user.
    #[error(
        "refusing to listen on {listen}: client login is {auth_type}, so every client that can reach it could log in without a password; \
         set auth_type to scram-sha-256 (with auth_file or auth_user) or hba, listen on 127.0.0.1 or [::1], \
         or, if that is what you want, set auth_trust_remote to true"
    )]
    OpenToAll {
        /// The address.
        listen: std::net::SocketAddr,
        /// The kind of login.
        auth_type: &'static str,
    },
    /// The login requires passwords, but no user is defined.
    #[error(
        "auth_type is {0}, but no user is defined, so no client could log in; set auth_file or auth_user"
    )]
    NoUsers(&'static str),
    /// The login requires rules, but there are none.
    #[error(
        "auth_type is hba, but there are no rules, so no client could log in; set auth_hba_file"
    )]
    NoHbaFile,
    /// Users are to be looked up where there are none.
    #[error(
        "cannot use the reserved \"{0}\" database as an auth_dbname: it is the console; name a database of a server"
    )]
    ConsoleAsked(String),
    /// Names of clients are ignored, and there is no other name.
    #[error(
        "auth_type is any, which ignores the client's user name, but database {0} names no other; write its user into its URL"
    )]
    NoForcedUser(String),
    /// Hosts that Paceline could not ask for their state.
    #[error(
        "Paceline monitors the hosts of database {0}, but no user is known with whom it could log in; \
         set monitor_user and monitor_password, or write a user into the URL"
    )]
    NoMonitorUser(String),
    /// A server that cannot be both.
    #[error(
        "subscriber {host} of database {database} is a host of its URL, too; remove one of the two"
    )]
    SubscriberIsHost {
        /// The name of the database.
        database: String,
        /// The server.
        host: String,
    },
    /// A shard without its name, or with a password for no user.
    #[error("{0} needs server, and user if it has a password")]
    ShardServerKeys(String),
    /// A shard that is named twice.
    #[error("foreign server {0} is named more than once; keep one entry")]
    ShardServerTwice(String),
    /// Ports that cannot be those of the hosts.
    #[error("{0} needs one port, or as many ports as hosts")]
    ShardServerPorts(String),
    /// A password in two places.
    #[error("{0} has more than one of password, password_file and password_command; keep one")]
    TwoShardPasswords(String),
    /// No user as whom the map of shards could be read.
    #[error(
        "shards is auto for database {0}, but no user is known with whom Paceline could read the catalog; \
         set monitor_user and monitor_password, or write a user into the URL"
    )]
    NoShardsUser(String),
    /// Two passwords of the monitor.
    #[error(
        "database {0} has monitor_password and monitor_password_file; keep one of the two, and set the other one to \"\""
    )]
    TwoMonitorPasswords(String),
    /// Subscribers of the entry for every name.
    #[error("subscribers need a database with a name: write [[databases.NAME.subscribers]]")]
    SubscribersOfAny,
    /// Hosts without a zone, or zones without a host.
    #[error("zones names {zones} zones, but the URL of database {database} names {hosts} hosts")]
    ZonesOfHosts {
        /// The name of the database.
        database: String,
        /// The number of zones.
        zones: usize,
        /// The number of hosts.
        hosts: usize,
    },
    /// A `--set` without a value.
    #[error("write --set key=value, for example --set default_pool_size=50")]
    NoValue,
    /// Something that is not the URL of a server.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// A file for a password that cannot be used.
    #[error("password_file: {0}")]
    PasswordFile(SecretError),
    /// A command for a password that cannot be used.
    #[error("password_command: {0}")]
    PasswordCommand(SecretError),
    /// A password in the URL and in this key.
    #[error("{0}: the URL has a password, too; keep one of the two")]
    TwoPasswords(String),
    /// A file and a command for one password.
    #[error("there are password_file and password_command; keep one of the two")]
    PasswordFileAndCommand,
    /// Something that only a `pgbouncer.ini` can have wrong.
    #[error(transparent)]
    Ini(#[from] IniError),
}

impl ConfigProblem {
    /// A value that does not fit `key`.
    pub(super) fn value(key: &str, error: ValueError) -> Self {
        let key = key.to_owned();
        Self::Value { key, error }
    }

    /// A key that `table` does not have, beside those that it has.
    pub(super) fn unknown_key<'a>(
        key: &str,
        table: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let nearest = suggest::nearest(key, known).map(str::to_owned);
        let (key, table) = (key.to_owned(), table.to_owned());
        Self::UnknownKey {
            key,
            table,
            nearest,
        }
    }
}

fn remedy(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean \"{nearest}\"?"),
        None => "remove it, or see docs/configuration.md for the keys there are".to_owned(),
    }
}

fn top_level_remedy(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean [{nearest}]?"),
        None => "settings belong in [paceline], servers in [databases.NAME]".to_owned(),
    }
}

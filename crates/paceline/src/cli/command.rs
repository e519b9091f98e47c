//! The commands of `paceline`, with all arguments resolved.

use super::advise::Advise;
#[cfg(feature = "bench")]
use super::lab_command::LabCommand;
use super::top::Top;
use clap_complete::Shell;
use paceline_admin::config_inputs::ConfigInputs;
use paceline_config::{Config, Declared, Remark, Settings, ShardServer, Upstream};
use std::path::PathBuf;

/// A command.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the front end.
    Serve(Box<Serve>),
    /// Check a configuration file: see [`check`](super::check).
    Check {
        /// The file.
        file: PathBuf,
        /// Also connect to every host: see [`check_hosts`](crate::host_check::check_hosts).
        connect: bool,
    },
    /// Print a `pgbouncer.ini` as a `paceline.toml`: see [`paceline_config::import`].
    Import {
        /// The file.
        file: PathBuf,
        /// The folder for the files that passwords are written into.
        password_dir: Option<PathBuf>,
    },
    /// Print the JSON schema of the configuration file: see [`paceline_config::schema`].
    Schema,
    /// Print a help text.
    Help(String),
    /// Print the script of a shell: see [`completions`](super::completions).
    Completions(Shell),
    /// Write the man pages into this folder: see [`write_pages`](super::man::write_pages).
    ManPages(PathBuf),
    /// Explain how Paceline would treat a statement: see [`crate::explain`].
    Explain(Box<Explain>),
    /// Find overload patterns: see [`crate::advise`].
    Advise(Box<Advise>),
    /// Show a running Paceline in the terminal: see [`crate::top`].
    Top(Box<Top>),
    /// Measure, or show earlier results: see [`crate::bench`].
    #[cfg(feature = "bench")]
    Lab(LabCommand),
}

/// The resolved arguments of `explain`.
#[derive(Debug)]
pub(crate) struct Explain {
    /// The statement.
    pub(crate) sql: String,
    /// The server whose catalog is read; `None`: only the text is analyzed.
    pub(crate) upstream: Option<Upstream>,
    /// The configuration of foreign servers of the database.
    pub(crate) shard_servers: Vec<ShardServer>,
    /// The query that connections to the database run first.
    pub(crate) connect_query: String,
    /// The settings that the client's database and user would have.
    pub(crate) settings: Settings,
    /// Functions that the configuration declares.
    pub(crate) declared: Vec<Declared>,
    /// Also show the statements for a group.
    pub(crate) verbose: bool,
}

/// The resolved arguments of `serve`.
#[derive(Debug)]
pub(crate) struct Serve {
    /// The configuration from file or URL, environment, `--set` and `--listen`.
    pub(crate) config: Config,
    /// The inputs of `config`, for reloads.
    pub(crate) inputs: ConfigInputs,
    /// Remarks on the configuration, for the log.
    pub(crate) remarks: Vec<Remark>,
    /// The data folder of the embedded PostgreSQL, an absolute path; `None` if the configuration names databases. The folder need not
    /// exist.
    #[cfg(feature = "embedded")]
    pub(crate) embedded: Option<PathBuf>,
    /// The filter of the log: a level, or directives of `tracing_subscriber`'s `EnvFilter`. `None`: `verbose` sets the level.
    pub(crate) log_filter: Option<String>,
    /// Options of PgBouncer's command line.
    pub(crate) service: Service,
}

/// Options of PgBouncer's command line.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// The program was called as `pgbouncer`.
    pub(crate) is_pgbouncer: bool,
    /// Log nothing to standard error.
    pub(crate) quiet: bool,
    /// Take over from the process that the pidfile names.
    pub(crate) takes_over: bool,
    /// Does the process run in the background?
    pub(crate) daemon: Daemon,
}

/// The role of the process if `-d` is given.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// `-d` is not given: the process runs in the foreground.
    #[default]
    No,
    /// The process starts the background process.
    Start,
    /// The process is the background process.
    Child,
}

impl Daemon {
    /// The option of [`Daemon::Child`], without its dashes.
    pub(crate) const CHILD: &str = "in-background";
}

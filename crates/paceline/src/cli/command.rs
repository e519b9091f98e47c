//! What `paceline` is asked to do, everything resolved.

#[cfg(feature = "bench")]
use super::lab_command::LabCommand;
use paceline_admin::source::Source;
use paceline_config::{Config, Declared, Remark, Settings, Upstream};
use std::path::PathBuf;

/// What `paceline` was asked to do, everything resolved.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the front end.
    Serve(Box<Serve>),
    /// Check a configuration file: see [`check`](super::check).
    Check {
        /// The file.
        file: PathBuf,
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
    /// Say how a statement would be treated: see [`crate::explain`].
    Explain(Box<Explain>),
    /// Measure, or show what was measured: see [`crate::bench`].
    #[cfg(feature = "bench")]
    Lab(LabCommand),
}

/// What to explain.
#[derive(Debug)]
pub(crate) struct Explain {
    /// The statement.
    pub(crate) sql: String,
    /// The server whose catalog is asked; `None`: only the text is looked at.
    pub(crate) upstream: Option<Upstream>,
    /// As the front end would have them for the client's database and user.
    pub(crate) settings: Settings,
    /// Functions that the configuration declares.
    pub(crate) declared: Vec<Declared>,
    /// Show the statements that a group becomes, too.
    pub(crate) verbose: bool,
}

/// How to run the front end.
#[derive(Debug)]
pub(crate) struct Serve {
    /// File or URL, environment, `--set` and `--listen` taken together.
    pub(crate) config: Config,
    /// To read that again.
    pub(crate) source: Source,
    /// What an operator should know of it, for the log.
    pub(crate) remarks: Vec<Remark>,
    /// The data folder of the embedded PostgreSQL; `None` when the configuration says where the databases are. Absolute; it need
    /// not exist. When this is `Some`, `config.databases` is empty.
    #[cfg(feature = "embedded")]
    pub(crate) embedded: Option<PathBuf>,
    /// What to log: a level, or directives of `tracing_subscriber`'s `EnvFilter`. `None`: `verbose` says it.
    pub(crate) log_filter: Option<String>,
    /// How the process runs.
    pub(crate) service: Service,
}

/// How the process runs. All of it is PgBouncer's command line.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// The program is called as PgBouncer.
    pub(crate) is_pgbouncer: bool,
    /// Log nothing to standard error.
    pub(crate) quiet: bool,
    /// Take over from the process that the pidfile names.
    pub(crate) takes_over: bool,
    /// In the background or not.
    pub(crate) daemon: Daemon,
}

/// Whether the process runs in the background.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// It does not.
    #[default]
    No,
    /// It is to start the process that does.
    Asked,
    /// It does.
    Child,
}

impl Daemon {
    /// The option, without its dashes, that tells a process that it is [`Daemon::Child`].
    pub(crate) const CHILD: &str = "in-background";
}

//! The command line: arguments and environment to a resolved [`Command`].
//!
//! Nothing is started here and nothing is printed, except by [`CliError::exit`]. What a command line means depends on the
//! machine (who runs it, where the home folder is), so that is gathered once, in [`Machine`], and passed in.

mod arguments;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "embedded")]
mod home;
#[cfg(feature = "bench")]
mod lab_command;
mod machine;
mod pgbouncer;
mod question;
#[cfg(feature = "bench")]
mod records;
mod source;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};
use thiserror::Error;

use self::arguments::{Arguments, CommandArguments, ServeArguments};
#[cfg(feature = "bench")]
use self::bench::BenchError;
#[cfg(all(test, feature = "embedded"))]
use self::home::Home;
#[cfg(feature = "bench")]
pub(crate) use self::lab_command::{Bench, Compare, LabCommand, Report};
use self::machine::Machine;
pub(crate) use self::source::Source;
use crate::control::{ConfigSnapshot, ConfigSnapshotError};
use paceline_config::{Config, ConfigError, Declared, Format, Remark, Settings, Upstream};

/// What `paceline` was asked to do, everything resolved.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the front end.
    Serve(Box<Serve>),
    /// Check a configuration file: see [`check`].
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

/// Why there is no command to carry out.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// The arguments are not as `--help` says, or they ask for the help or the version.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// The same of PgBouncer's command line.
    #[error(transparent)]
    PgBouncerUsage(clap::Error),
    /// A configuration for PgBouncer without a database.
    #[error("{0} names no database")]
    NoDatabases(String),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that the configuration names is wrong.
    #[error(transparent)]
    Snapshot(#[from] ConfigSnapshotError),
    /// A data folder that would not be used.
    #[cfg(feature = "embedded")]
    #[error(
        "--data-dir is for the embedded PostgreSQL, but {0} names databases; remove one of the two"
    )]
    DataDirUnused(String),
    /// A database of the file must be chosen.
    #[error("{file} names {databases}; add --database NAME to say which one clients ask for")]
    WhichDatabase {
        /// The file.
        file: String,
        /// What it names.
        databases: &'static str,
    },
    /// A database that the file does not lead to.
    #[error("{file} has no database {name}; see its [databases]")]
    NoDatabase {
        /// The file.
        file: String,
        /// The name that was given.
        name: String,
    },
    /// The lab cannot carry out the order.
    #[cfg(feature = "bench")]
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// There is no lab in this build.
    #[cfg(not(feature = "bench"))]
    #[error("this paceline was built without its command bench (cargo feature \"bench\")")]
    NoBench,
    /// Nothing names a server, and there is no embedded PostgreSQL in this build.
    #[cfg(not(feature = "embedded"))]
    #[error(
        "{0} names no database, and this paceline was built without an embedded PostgreSQL (cargo feature \"embedded\"); \
         add --upstream URL, or --config FILE with [databases]"
    )]
    NoServer(String),
    /// Nowhere to keep the embedded PostgreSQL's data.
    #[cfg(feature = "embedded")]
    #[error(
        "no folder for the data of the embedded PostgreSQL: neither XDG_DATA_HOME nor HOME is set; \
         add --data-dir DIR, or --upstream URL to use a PostgreSQL that is running"
    )]
    NoDataFolder,
}

impl CliError {
    /// Prints the error, or the help that was asked for, and ends the process: with 0 after help, 2 after wrong arguments, else 1.
    pub(crate) fn exit(self) -> ! {
        match self {
            CliError::Usage(usage) => usage.exit(),
            CliError::PgBouncerUsage(usage) => {
                let _ = usage.print();
                std::process::exit(usage.exit_code().min(1))
            }
            error => {
                eprintln!("paceline: {error}");
                std::process::exit(1)
            }
        }
    }
}

impl Command {
    /// Reads the command line and the environment of this process.
    ///
    /// # Errors
    /// Any [`CliError`], for the caller to [`exit`](CliError::exit) with.
    pub(crate) fn from_process() -> Result<Command, CliError> {
        Command::resolve(std::env::args_os(), &Machine::this())
    }

    fn resolve(
        arguments: impl IntoIterator<Item = OsString>,
        machine: &Machine,
    ) -> Result<Command, CliError> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        if pgbouncer::is_meant(arguments.first()) {
            return pgbouncer::resolve(arguments, machine);
        }
        #[cfg(feature = "bench")]
        let command = bench::command(&arguments);
        let matches = arguments::described(Arguments::command()).try_get_matches_from(arguments)?;
        let arguments = Arguments::from_arg_matches(&matches)?;
        let serve = match arguments.command {
            Some(CommandArguments::Check { file }) => return Ok(Command::Check { file }),
            Some(CommandArguments::Import { file, password_dir }) => {
                return Ok(Command::Import { file, password_dir });
            }
            Some(CommandArguments::Schema) => return Ok(Command::Schema),
            Some(CommandArguments::Explain(explain)) => {
                return Ok(Command::Explain(Box::new(explain.resolve()?)));
            }
            #[cfg(feature = "bench")]
            Some(CommandArguments::Bench(bench)) => {
                return Ok(Command::Lab(bench.resolve(machine, command)?));
            }
            #[cfg(not(feature = "bench"))]
            Some(CommandArguments::Bench { .. }) => return Err(CliError::NoBench),
            Some(CommandArguments::Serve(serve)) => serve,
            None => arguments.serve,
        };
        serve
            .resolve(machine)
            .map(|serve| Command::Serve(Box::new(serve)))
    }
}

impl ServeArguments {
    fn resolve(self, machine: &Machine) -> Result<Serve, CliError> {
        let source = Source {
            upstream: self.upstream,
            file: self.config,
            format: Format::Guessed,
            environment: machine.environment.clone(),
            set: self.set,
            listen: self.listen,
        };
        let (config, remarks) = source.read_with_remarks()?;
        #[cfg(feature = "embedded")]
        let embedded = embedded_folder(self.data_dir, &config, &source, machine)?;
        #[cfg(not(feature = "embedded"))]
        expect_databases(&config, || source.name())?;
        let log_filter = self.log_level.as_deref().or(machine.said("LOG"));
        Ok(Serve {
            config,
            source,
            remarks,
            #[cfg(feature = "embedded")]
            embedded,
            log_filter: log_filter.map(str::to_owned),
            service: Service::default(),
        })
    }
}

/// The data folder of the embedded PostgreSQL; `None` if the configuration names databases.
#[cfg(feature = "embedded")]
fn embedded_folder(
    given: Option<PathBuf>,
    config: &Config,
    source: &Source,
    machine: &Machine,
) -> Result<Option<PathBuf>, CliError> {
    if !config.databases.is_empty() {
        return match given {
            Some(_) => Err(CliError::DataDirUnused(source.name())),
            None => Ok(None),
        };
    }
    let folder = given.or_else(|| machine.said("DATA_DIR").map(PathBuf::from));
    // PostgreSQL is started from another working folder.
    let folder = folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
    let folder = folder.or_else(|| machine.home.data_folder());
    folder.map(Some).ok_or(CliError::NoDataFolder)
}

/// Without an embedded PostgreSQL there must be a server to connect to.
#[cfg(not(feature = "embedded"))]
fn expect_databases(config: &Config, name: impl FnOnce() -> String) -> Result<(), CliError> {
    match config.databases.is_empty() {
        true => Err(CliError::NoServer(name())),
        false => Ok(()),
    }
}

/// Checks the configuration file (`paceline check FILE`) and says in a few lines what it amounts to.
///
/// # Errors
/// Everything that is wrong with it, or with the files that it names; the process should then end with 1.
pub(crate) fn check(file: &Path) -> Result<String, CliError> {
    let (config, mut remarks) = Config::load_with_remarks(file, Format::Guessed)?;
    remarks.retain(|remark| remark.holds(&config));
    remarks.extend(config.remarks());
    config.check_access(&file.display().to_string())?;
    #[cfg(not(feature = "embedded"))]
    expect_databases(&config, || file.display().to_string())?;
    let snapshot = ConfigSnapshot::read(Arc::new(config))?;
    let config = &snapshot.config;
    let mut summary = format!("{} is valid\n", file.display());
    let settings = &config.paceline;
    // Writing to a String does not fail.
    let _ = write!(
        summary,
        "listens on {}, {} clients at most, {} server connections per pool",
        settings.listening.listen,
        settings.pooling.max_client_conn,
        settings.pooling.default_pool_size
    );
    if config.databases.is_empty() {
        summary.push_str("\nno databases: starts the embedded PostgreSQL");
    }
    for (name, database) in &config.databases {
        let user = database
            .primary
            .user
            .as_deref()
            .unwrap_or("each client's own user");
        let _ = write!(summary, "\ndatabase {name}: {} as {user}", database.primary);
    }
    for remark in remarks {
        let _ = write!(summary, "\n{remark}");
    }
    Ok(summary)
}

//! Why there is no command to carry out.

#[cfg(feature = "bench")]
use super::bench::BenchError;
use paceline_admin::config_snapshot::ConfigSnapshotError;
use paceline_config::ConfigError;
use thiserror::Error;

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

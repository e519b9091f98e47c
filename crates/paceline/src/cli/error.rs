//! Errors of the command line.

#[cfg(feature = "bench")]
use super::bench::error::BenchError;
use paceline_admin::config_snapshot::ConfigSnapshotError;
use paceline_config::ConfigError;
use thiserror::Error;

/// Why a command line has no meaning.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// Wrong arguments; or a request for the help or the version, which clap also returns as an error.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// The same for PgBouncer's command line.
    #[error(transparent)]
    PgBouncerUsage(clap::Error),
    /// `help` of something that does not exist.
    #[error("there is no help for \"{0}\"; try: paceline help, paceline help settings")]
    NoTopic(String),
    /// A `pgbouncer.ini` without a database.
    #[error("{0} names no database")]
    NoDatabases(String),
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that the configuration names is not valid.
    #[error(transparent)]
    Snapshot(#[from] ConfigSnapshotError),
    /// `--data-dir` although no embedded PostgreSQL starts.
    #[cfg(feature = "embedded")]
    #[error(
        "--data-dir is for the embedded PostgreSQL, but {0} names databases; remove one of the two"
    )]
    DataDirUnused(String),
    /// `explain` needs `--database`.
    #[error("{file} names {databases}; add --database NAME to say which one clients ask for")]
    WhichDatabase {
        /// The file.
        file: String,
        /// Its databases.
        databases: &'static str,
    },
    /// The file has no such database.
    #[error("{file} has no database {name}; see its [databases]")]
    NoDatabase {
        /// The file.
        file: String,
        /// The value of `--database`.
        name: String,
    },
    /// An error of the arguments of `bench`.
    #[cfg(feature = "bench")]
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// This build has no lab.
    #[cfg(not(feature = "bench"))]
    #[error("this paceline was built without its command bench (cargo feature \"bench\")")]
    NoBench,
    /// The configuration names no server, and this build has no embedded PostgreSQL.
    #[cfg(not(feature = "embedded"))]
    #[error(
        "{0} names no database, and this paceline was built without an embedded PostgreSQL (cargo feature \"embedded\"); \
         add --upstream URL, or --config FILE with [databases]"
    )]
    NoServer(String),
    /// No folder for the data of the embedded PostgreSQL.
    #[cfg(feature = "embedded")]
    #[error(
        "no folder for the data of the embedded PostgreSQL: neither XDG_DATA_HOME nor HOME is set; \
         add --data-dir DIR, or --upstream URL to use a PostgreSQL that is running"
    )]
    NoDataFolder,
}

impl CliError {
    /// Prints the error or the help, and ends the process: with 0 after help, 2 after wrong arguments, otherwise 1.
    pub(crate) fn exit(self) -> ! {
        match self {
            CliError::Usage(usage) => usage.exit(),
            CliError::PgBouncerUsage(usage) => {
                let _ = usage.print();
                std::process::exit(usage.exit_code().min(1))
            }
            CliError::NoTopic(_) => {
                eprintln!("paceline: {self}");
                std::process::exit(2)
            }
            error => {
                eprintln!("paceline: {error}");
                std::process::exit(1)
            }
        }
    }
}

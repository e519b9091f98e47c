//! The command line: arguments and environment to a resolved [`Command`].
//!
//! This module starts nothing and prints nothing, except in [`CliError::exit`]. The meaning of a command line depends on the process
//! (environment, user, home folder): [`ProcessEnvironment`] reads these once, and tests pass their own.

mod advise;
mod arguments;
#[cfg(feature = "bench")]
mod bench;
mod command;
mod error;
mod explain;
mod help;
#[cfg(feature = "embedded")]
mod home;
#[cfg(feature = "bench")]
mod lab_command;
pub(crate) mod man;
mod pgbouncer;
mod process_environment;
#[cfg(feature = "bench")]
mod records;
mod serve;
#[cfg(test)]
mod tests;
mod top;

pub(crate) use advise::{Advise, AdviseFormat};
pub(crate) use command::{Command, Daemon, Explain, Serve, Service};
pub(crate) use error::CliError;
#[cfg(feature = "bench")]
pub(crate) use lab_command::{Bench, Compare, LabCommand, Report};
pub(crate) use top::Top;

use arguments::{Arguments, CommandArguments, HelpArguments};
use clap::FromArgMatches;
use clap_complete::Shell;
use paceline_admin::config_snapshot::ConfigSnapshot;
use paceline_config::{Config, Database, Format};
use process_environment::ProcessEnvironment;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

impl Command {
    /// Reads the command line and the environment of this process.
    ///
    /// # Errors
    /// Any [`CliError`], for the caller to [`exit`](CliError::exit) with.
    pub(crate) fn from_process() -> Result<Command, CliError> {
        Command::resolve(std::env::args_os(), &ProcessEnvironment::read())
    }

    fn resolve(
        arguments: impl IntoIterator<Item = OsString>,
        process: &ProcessEnvironment,
    ) -> Result<Command, CliError> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        if pgbouncer::is_called_by_name(arguments.first()) {
            return pgbouncer::resolve(arguments, process);
        }
        #[cfg(feature = "bench")]
        let command = bench::command(&arguments);
        let matches = help::command().try_get_matches_from(arguments)?;
        let arguments = Arguments::from_arg_matches(&matches)?;
        let serve = match arguments.command {
            Some(CommandArguments::Check { file, connect }) => {
                return Ok(Command::Check { file, connect });
            }
            Some(CommandArguments::Import { file, password_dir }) => {
                return Ok(Command::Import { file, password_dir });
            }
            Some(CommandArguments::Schema) => return Ok(Command::Schema),
            Some(CommandArguments::Help(HelpArguments { topic })) => {
                return help::text(&topic).map(Command::Help);
            }
            Some(CommandArguments::Completions { shell }) => {
                return Ok(Command::Completions(shell));
            }
            Some(CommandArguments::ManPages { dir }) => return Ok(Command::ManPages(dir)),
            Some(CommandArguments::Explain(explain)) => {
                return Ok(Command::Explain(Box::new(explain.resolve()?)));
            }
            Some(CommandArguments::Advise(advise)) => {
                return Ok(Command::Advise(Box::new(advise.resolve()?)));
            }
            Some(CommandArguments::Top(top)) => {
                return Ok(Command::Top(Box::new(top.resolve()?)));
            }
            #[cfg(feature = "bench")]
            Some(CommandArguments::Bench(bench)) => {
                return Ok(Command::Lab(bench.resolve(process, command)?));
            }
            #[cfg(not(feature = "bench"))]
            Some(CommandArguments::Bench { .. }) => return Err(CliError::NoBench),
            Some(CommandArguments::Serve(serve)) => serve,
            None => arguments.serve,
        };
        serve
            .resolve(process)
            .map(|serve| Command::Serve(Box::new(serve)))
    }
}

/// The script by which a shell completes command lines of `paceline`.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "paceline", &mut script);
    script
}

/// A configuration file without errors.
pub(crate) struct CheckedFile {
    /// Its configuration.
    pub(crate) config: Arc<Config>,
    /// A summary of a few lines.
    pub(crate) summary: String,
}

/// Checks a configuration file (`paceline check FILE`).
///
/// # Errors
/// All problems of the file, or the first problem of the files that it names.
pub(crate) fn check(file: &Path) -> Result<CheckedFile, CliError> {
    let (config, mut remarks) = Config::load_with_remarks(file, Format::Guessed)?;
    remarks.retain(|remark| remark.holds(&config));
    remarks.extend(config.remarks());
    config.check_access(&file.display().to_string())?;
    #[cfg(not(feature = "embedded"))]
    serve::expect_databases(&config, || file.display().to_string())?;
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
        let _ = write!(
            summary,
            "\ndatabase {name}: {} as {user}",
            address(database)
        );
    }
    for remark in remarks {
        let _ = write!(summary, "\n{remark}");
    }
    let config = snapshot.config;
    Ok(CheckedFile { config, summary })
}

/// The address without user and password: `pg1:5432,pg2:5432/app`.
fn address(database: &Database) -> String {
    let hosts: Vec<String> = database.all_hosts().map(|host| host.to_string()).collect();
    let dbname = database.primary.dbname.as_ref();
    let dbname = dbname.map_or_else(String::new, |dbname| format!("/{dbname}"));
    hosts.join(",") + &dbname
}

//! The command line of the front end itself.

use super::arguments::ServeArguments;
use super::command::{Serve, Service};
use super::error::CliError;
use super::machine::Machine;
use paceline_admin::source::Source;
use paceline_config::{Config, Format};
#[cfg(feature = "embedded")]
use std::path::PathBuf;

impl ServeArguments {
    pub(super) fn resolve(self, machine: &Machine) -> Result<Serve, CliError> {
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
pub(super) fn expect_databases(
    config: &Config,
    name: impl FnOnce() -> String,
) -> Result<(), CliError> {
    match config.databases.is_empty() {
        true => Err(CliError::NoServer(name())),
        false => Ok(()),
    }
}

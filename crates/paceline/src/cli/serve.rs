//! Resolves the arguments of `serve`.

use super::arguments::ServeArguments;
use super::command::{Serve, Service};
use super::error::CliError;
use super::process_environment::ProcessEnvironment;
use paceline_admin::config_inputs::ConfigInputs;
use paceline_config::{Config, Format};
#[cfg(feature = "embedded")]
use std::path::PathBuf;

impl ServeArguments {
    pub(super) fn resolve(self, process: &ProcessEnvironment) -> Result<Serve, CliError> {
        let inputs = ConfigInputs {
            upstream: self.upstream,
            file: self.config,
            format: Format::Guessed,
            environment: process.variables.clone(),
            set: self.set,
            listen: self.listen,
        };
        let (config, remarks) = inputs.read_with_remarks()?;
        #[cfg(feature = "embedded")]
        let embedded = embedded_folder(self.data_dir, &config, &inputs, process)?;
        #[cfg(not(feature = "embedded"))]
        expect_databases(&config, || inputs.name())?;
        let log_filter = self.log_level.as_deref().or(process.variable("LOG"));
        Ok(Serve {
            config,
            inputs,
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
    inputs: &ConfigInputs,
    process: &ProcessEnvironment,
) -> Result<Option<PathBuf>, CliError> {
    if !config.databases.is_empty() {
        return match given {
            Some(_) => Err(CliError::DataDirUnused(inputs.name())),
            None => Ok(None),
        };
    }
    let folder = given.or_else(|| process.variable("DATA_DIR").map(PathBuf::from));
    // PostgreSQL is started in another working folder.
    let folder = folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
    let folder = folder.or_else(|| process.home.data_folder());
    folder.map(Some).ok_or(CliError::NoDataFolder)
}

/// Fails if the configuration names no database: this build has no embedded PostgreSQL.
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

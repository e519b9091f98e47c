//! The arguments of `paceline bench sql`, which measures a script of the user.

use super::error::BenchError;
use super::run_arguments::RunArguments;
use crate::cli::error::CliError;
use crate::cli::lab_command::Bench;
use crate::cli::process_environment::ProcessEnvironment;
use clap::Args;
use paceline_bench::{Choice, Script};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of `bench sql`.
#[derive(Debug, Args)]
pub(super) struct SqlArguments {
    /// The script: SQL ended by ";", \set, \sleep, variables as :name, comments after "--"
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A variable of the script, as pgbench's --define; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = definition)]
    define: Vec<(String, String)>,

    /// A script that runs once before, in an empty database of the embedded PostgreSQL
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    setup: Option<PathBuf>,

    #[command(flatten)]
    run: RunArguments,
}

impl SqlArguments {
    pub(super) fn resolve(
        self,
        process: &ProcessEnvironment,
        command: String,
    ) -> Result<Bench, CliError> {
        let script = read(&self.file, &self.define)?;
        let setup = self.setup.map(|file| read(&file, &self.define));
        let choice = Choice::of_script(script, &self.run.clients());
        Ok(Bench {
            setup: setup.transpose()?,
            ..self.run.resolve(vec![choice], process, command)?
        })
    }
}

fn read(file: &Path, definitions: &[(String, String)]) -> Result<Arc<Script>, BenchError> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| BenchError::Unreadable(file.display().to_string(), error))?;
    let name = file.file_name().unwrap_or(file.as_os_str());
    let script = Script::parse(&name.to_string_lossy(), &text, definitions)?;
    Ok(Arc::new(script))
}

fn definition(text: &str) -> Result<(String, String), String> {
    let definition = text.split_once('=').filter(|(name, _)| !name.is_empty());
    definition
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write NAME=VALUE".to_owned())
}

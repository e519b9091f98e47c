//! The arguments of `paceline bench`.

pub(super) mod error;
mod failover;
mod run_arguments;
mod sql;
#[cfg(test)]
mod tests;

use self::error::BenchError;
use self::error::without_password;
use self::failover::FailoverArguments;
use self::run_arguments::RunArguments;
use self::sql::SqlArguments;
use super::error::CliError;
use super::lab_command::LabCommand;
use super::process_environment::ProcessEnvironment;
use super::records::RecordsArguments;
use clap::{Args, Subcommand};
use paceline_bench::{Choice, SCENARIOS, Scenario, Variant};
use std::ffi::OsString;

/// The arguments of `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,

    /// Scenarios: hot-row, queue, edges, storm, keyed-read, or all [default: all]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,

    /// Variants, separated by commas, or all [default: the first of each scenario]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variant: Vec<String>,

    /// Rows of the table [default: by scenario; for hot-row, by variant]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: Option<u64>,

    /// Use the sizes of the scenarios' sources; takes gigabytes and minutes
    #[arg(long, conflicts_with = "rows")]
    full: bool,

    /// Keep the tables (schema paceline_lab)
    #[arg(long)]
    keep_tables: bool,

    /// Measure only the load generator itself, with a server that does no work
    #[arg(long, conflicts_with_all = ["scenarios", "variant", "rows", "full", "keep_tables", "against", "rate", "think", "deadline", "rounds", "json", "html", "data_dir"])]
    calibrate: bool,

    #[command(flatten)]
    run: RunArguments,
}

/// The subcommands of `bench`.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure a script of your own, in the language of pgbench; its results are not checked
    Sql(Box<SqlArguments>),
    /// Kill a primary under load and promote a replica, with Paceline and without; exits with 1 if a check fails
    ///
    /// Each run starts a primary and two replicas of its own in temporary folders, and ends them.
    #[command(verbatim_doc_comment)]
    Failover(Box<FailoverArguments>),
    #[command(flatten)]
    Records(RecordsArguments),
}

impl BenchArguments {
    pub(super) fn resolve(
        self,
        process: &ProcessEnvironment,
        command: String,
    ) -> Result<LabCommand, CliError> {
        match self.command {
            Some(BenchCommand::Records(records)) => return Ok(records.resolve()),
            Some(BenchCommand::Sql(sql)) => {
                return Ok(LabCommand::Bench(Box::new(sql.resolve(process, command)?)));
            }
            Some(BenchCommand::Failover(failover)) => {
                return Ok(LabCommand::Bench(Box::new(failover.resolve(command))));
            }
            None if self.calibrate => return Ok(LabCommand::Calibrate(self.run.calibration())),
            None => {}
        }
        let choices = self.choices()?;
        if let Some(rows) = self.rows {
            self.check_rows(rows, &choices)?;
        }
        let mut bench = self.run.resolve(choices, process, command)?;
        bench.plan.sizes.rows = self.rows;
        bench.plan.sizes.full = self.full;
        bench.plan.keep_tables = self.keep_tables;
        Ok(LabCommand::Bench(Box::new(bench)))
    }

    /// The variants of the scenarios, in the order of [`SCENARIOS`].
    fn choices(&self) -> Result<Vec<Choice>, BenchError> {
        let names = SCENARIOS.map(|scenario| scenario.name);
        let all = self.scenarios.is_empty() || self.scenarios.iter().any(|name| name == "all");
        for name in &self.scenarios {
            if name != "all" && !names.contains(&name.as_str()) {
                return Err(BenchError::unknown("scenario", name, &names));
            }
        }
        let chosen = SCENARIOS
            .iter()
            .filter(|scenario| all || self.scenarios.iter().any(|name| name == scenario.name));
        let chosen: Vec<&Scenario> = chosen.collect();
        let known: Vec<&str> = chosen
            .iter()
            .flat_map(|scenario| scenario.variants)
            .map(|variant| variant.name)
            .collect();
        for name in &self.variant {
            if name != "all" && !known.contains(&name.as_str()) {
                return Err(BenchError::unknown("variant", name, &known));
            }
        }
        let mut choices = Vec::new();
        for scenario in chosen {
            // A scenario that is named must have one of the variants; with `all`, scenarios without one are left out.
            if !all && self.variants(scenario).next().is_none() {
                return Err(no_variant(scenario));
            }
            let clients = match self.run.clients() {
                given if !given.is_empty() => given,
                _ if self.full => scenario.clients_full.to_vec(),
                _ => scenario.clients.to_vec(),
            };
            let has_targets = self.run.has_targets();
            let variants = self.variants(scenario);
            choices.extend(
                variants
                    .map(|variant| Choice::of_variant(scenario, variant, &clients, has_targets)),
            );
        }
        Ok(choices)
    }

    /// Checks that each scenario accepts this number of rows. A scenario with fixed sizes is an error only if it is named.
    fn check_rows(&self, rows: u64, choices: &[Choice]) -> Result<(), BenchError> {
        for Choice { scenario, .. } in choices {
            let name = scenario.name;
            match scenario.rows {
                None if self.scenarios.iter().any(|named| named == name) => {
                    return Err(BenchError::NoRows(name));
                }
                Some((least, most)) if !(least..=most).contains(&rows) => {
                    return Err(BenchError::Rows {
                        rows,
                        scenario: name,
                        least,
                        most,
                    });
                }
                None | Some(_) => {}
            }
        }
        Ok(())
    }

    fn variants(&self, scenario: &'static Scenario) -> impl Iterator<Item = &'static Variant> {
        let all = self.variant.iter().any(|name| name == "all");
        let first = self.variant.is_empty();
        scenario
            .variants
            .iter()
            .enumerate()
            .filter(move |(index, variant)| {
                all || (first && *index == 0)
                    || self.variant.iter().any(|name| name == variant.name)
            })
            .map(|(_, variant)| variant)
    }
}

fn no_variant(scenario: &Scenario) -> BenchError {
    let known: Vec<&str> = scenario.variants.iter().map(|known| known.name).collect();
    BenchError::NoVariant {
        scenario: scenario.name,
        known: known.join(", "),
    }
}

/// The command line without passwords, for reports.
pub(super) fn command(arguments: &[OsString]) -> String {
    let shown = arguments.iter().skip(1).map(|argument| {
        let argument = argument.to_string_lossy();
        let text = without_password(&argument);
        match text.contains(|c: char| c.is_whitespace() || "'\"$&|;<>()*?#\\".contains(c)) {
            true => format!("'{}'", text.replace('\'', "'\\''")),
            false => text,
        }
    });
    std::iter::once("paceline".to_owned())
        .chain(shown)
        .collect::<Vec<_>>()
        .join(" ")
}

//! The command line of `paceline bench`: what to run, against whom, what to keep.

mod error;
mod sql;
#[cfg(test)]
mod tests;

pub(crate) use self::error::BenchError;
use self::error::without_password;
use self::sql::SqlArguments;
use super::CliError;
use super::lab_command::{Bench, LabCommand};
use super::machine::Machine;
use super::records::RecordsArguments;
use clap::{Args, Subcommand, ValueEnum};
use paceline_bench::{
    Calibration, Choice, Plan, Protocol, SCENARIOS, Scenario, Sizes, Target, Variant, Work,
};
use paceline_config::{Config, Host, SslMode, Upstream};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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

    /// Rows of the table [default: by scenario; those of hot-row are given by its variants]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: Option<u64>,

    /// Use the sizes of the scenarios' sources; takes gigabytes and minutes
    #[arg(long, conflicts_with = "rows")]
    full: bool,

    /// Leave the tables (schema paceline_lab) where they are
    #[arg(long)]
    keep_tables: bool,

    /// Measure nothing but the load generator itself, against a server that does no work
    #[arg(long, conflicts_with_all = ["scenarios", "variant", "rows", "full", "keep_tables", "against", "rate", "think", "rounds", "json", "html", "data_dir"])]
    calibrate: bool,

    #[command(flatten)]
    run: RunArguments,
}

/// The subcommands of `bench`.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure a script of your own, in the language of pgbench; there is no check of what it does
    Sql(Box<SqlArguments>),
    #[command(flatten)]
    Records(RecordsArguments),
}

/// How to run, whatever is run.
#[derive(Debug, Args)]
struct RunArguments {
    /// A target under the name that tables show: direct=postgres://USER:PASSWORD@HOST:PORT/DATABASE
    ///
    /// May be repeated; runs alternate between targets, figures are compared with the first. Without this
    /// an embedded PostgreSQL is started, and measured directly and through Paceline.
    #[arg(verbatim_doc_comment, long, value_name = "NAME=URL")]
    against: Vec<String>,

    /// Numbers of clients, separated by commas [default: by scenario]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,

    /// How long each run is measured [default: 3s; with --against 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,

    /// How long each run goes on before it is measured [default: 1s; with --against 2s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    warmup: Option<Duration>,

    /// How often everything is run; medians are shown [default: 1; with --against 3]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,

    /// Units of work per second of all clients together, due at random moments whatever the answers take (open loop)
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    rate: Option<f64>,

    /// Pause of each client between an answer and its next unit
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", conflicts_with = "rate")]
    think: Duration,

    /// How statements are sent, as pgbench's --protocol
    #[arg(long, value_name = "PROTOCOL", value_enum, default_value_t = ProtocolArgument::Prepared)]
    protocol: ProtocolArgument,

    /// Seed of everything that is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Threads of the load generator
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Append every run to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a report to this file: one page, for every browser and for paper; what was there is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Folder for the data of the embedded PostgreSQL [default: paceline-bench beside that of serve]
    #[arg(long, value_name = "DIR", conflicts_with = "against")]
    data_dir: Option<PathBuf>,
}

/// As pgbench's `--protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolArgument {
    /// One Query message, the values in its text
    Simple,
    /// Parsed every time
    Extended,
    /// Parsed once per connection
    Prepared,
}

impl From<ProtocolArgument> for Protocol {
    fn from(argument: ProtocolArgument) -> Self {
        match argument {
            ProtocolArgument::Simple => Self::Simple,
            ProtocolArgument::Extended => Self::Extended,
            ProtocolArgument::Prepared => Self::Prepared,
        }
    }
}

impl BenchArguments {
    pub(super) fn resolve(
        self,
        machine: &Machine,
        command: String,
    ) -> Result<LabCommand, CliError> {
        match self.command {
            Some(BenchCommand::Records(records)) => return Ok(records.resolve()),
            Some(BenchCommand::Sql(sql)) => {
                return Ok(LabCommand::Bench(Box::new(sql.resolve(machine, command)?)));
            }
            None if self.calibrate => return Ok(LabCommand::Calibrate(self.run.calibration())),
            None => {}
        }
        let choices = self.choices()?;
        if let Some(rows) = self.rows {
            self.expect_rows(rows, &choices)?;
        }
        let mut bench = self.run.resolve(choices, machine, command)?;
        bench.order.sizes.rows = self.rows;
        bench.order.sizes.full = self.full;
        bench.order.keep_tables = self.keep_tables;
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
            // Of all scenarios those run that have one; a scenario that was named must have one.
            if !all && self.variants(scenario).next().is_none() {
                return Err(no_variant(scenario));
            }
            choices.extend(self.variants(scenario).map(|variant| Choice {
                scenario: *scenario,
                work: Work::Variant(*variant),
                clients: match self.run.clients.is_empty() {
                    true if self.full => scenario.clients_full.to_vec(),
                    true => scenario.clients.to_vec(),
                    false => self.run.clients(),
                },
            }));
        }
        Ok(choices)
    }

    /// Whether each of `choices` can have so many; who has none to choose must not be asked by name.
    fn expect_rows(&self, rows: u64, choices: &[Choice]) -> Result<(), BenchError> {
        for Choice { scenario, .. } in choices {
            let name = scenario.name;
            match scenario.rows {
                None if self.scenarios.iter().any(|asked| asked == name) => {
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
            .filter(move |(place, variant)| {
                all || (first && *place == 0)
                    || self.variant.iter().any(|name| name == variant.name)
            })
            .map(|(_, variant)| variant)
    }
}

impl RunArguments {
    fn clients(&self) -> Vec<usize> {
        self.clients.iter().map(|count| *count as usize).collect()
    }

    fn calibration(&self) -> Calibration {
        Calibration {
            clients: self.clients(),
            warmup: self.warmup,
            duration: self.duration,
            protocol: self.protocol.into(),
            threads: self.threads.into(),
            seed: self.seed,
        }
    }

    fn resolve(
        self,
        choices: Vec<Choice>,
        machine: &Machine,
        command: String,
    ) -> Result<Bench, CliError> {
        let real = !self.against.is_empty();
        let or = |stand, against| Duration::from_secs(if real { against } else { stand });
        let targets = self.against.iter().map(|text| target(text));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        distinct(&targets)?;
        let stand = match (real, &self.data_dir) {
            (true, _) => None,
            (false, Some(folder)) => {
                Some(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()))
            }
            (false, None) => {
                let folder = machine.home.data_folder().ok_or(CliError::NoDataFolder)?;
                Some(folder.with_file_name("paceline-bench"))
            }
        };
        Ok(Bench {
            stand,
            setup: None,
            json: self.json,
            html: self.html,
            order: Plan {
                targets,
                choices,
                warmup: self.warmup.unwrap_or(or(1, 2)),
                duration: self.duration.unwrap_or(or(3, 10)),
                rounds: self.rounds.unwrap_or(if real { 3 } else { 1 }) as usize,
                rate: self.rate,
                think: self.think,
                sizes: Sizes {
                    rows: None,
                    full: false,
                    protocol: self.protocol.into(),
                    seed: self.seed,
                },
                threads: self.threads.into(),
                keep_tables: false,
                command,
            },
        })
    }
}

fn no_variant(scenario: &Scenario) -> BenchError {
    let known: Vec<&str> = scenario.variants.iter().map(|known| known.name).collect();
    BenchError::NoVariant {
        scenario: scenario.name,
        known: known.join(", "),
    }
}

/// Results are told apart by the target's name.
fn distinct(targets: &[Arc<Target>]) -> Result<(), BenchError> {
    for (place, target) in targets.iter().enumerate() {
        let mut before = targets.iter().take(place);
        if before.any(|other| other.name == target.name) {
            return Err(BenchError::SameName(target.name.clone()));
        }
    }
    Ok(())
}

/// Reads `NAME=URL`.
fn target(text: &str) -> Result<Arc<Target>, CliError> {
    let (name, url) = match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !name.contains("://") => (name, url),
        _ => return Err(BenchError::Unnamed.into()),
    };
    let Upstream {
        host,
        port,
        user,
        password,
        dbname,
        tls,
    } = Config::upstream("--against", url)?;
    if tls.sslmode.is_some_and(|mode| mode >= SslMode::Require) {
        return Err(BenchError::NoTls.into());
    }
    let user = user.ok_or(BenchError::NoUser)?;
    Ok(Arc::new(Target {
        name: name.to_owned(),
        host: match host {
            Host::Tcp(host) => paceline_bench::Host::Tcp(host),
            Host::Unix(folder) => paceline_bench::Host::Unix(folder),
        },
        port,
        password: password.map(|secret| secret.reveal().to_owned()),
        database: dbname.unwrap_or_else(|| user.clone()),
        user,
    }))
}

fn time(text: &str) -> Result<Duration, String> {
    paceline_config::seconds(text)
        .ok_or_else(|| "write seconds, or a number with its unit: 500ms, 10s, 2min".to_owned())
}

/// The most units per second that may fall due: several times what one machine answers.
const RATE_MAX: f64 = 10_000_000.0;

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    rate.filter(|rate| *rate > 0.0 && *rate <= RATE_MAX)
        .ok_or_else(|| format!("write how many per second, more than 0, {RATE_MAX} at most"))
}

/// The command line as it may be shown: without passwords.
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

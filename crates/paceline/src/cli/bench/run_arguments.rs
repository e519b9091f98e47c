//! The arguments that measurements of `paceline bench` share: clients, times, output, targets.

use super::error::BenchError;
use crate::cli::error::CliError;
use crate::cli::lab_command::Bench;
use crate::cli::process_environment::ProcessEnvironment;
use clap::{Args, ValueEnum};
use paceline_bench::{Calibration, Choice, Plan, Protocol, Sizes, Target};
use paceline_config::{Config, Host, SslMode, Upstream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The arguments of measurements that run on named targets or on the demo.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// A target under the name that tables show: direct=postgres://USER:PASSWORD@HOST:PORT/DATABASE
    ///
    /// May be repeated; runs alternate between targets, and results are compared with the first. Without
    /// this option, an embedded PostgreSQL is started, and measured directly and through Paceline; for
    /// variants with replicas, a primary and two replicas for each run.
    #[arg(verbatim_doc_comment, long, value_name = "NAME=URL")]
    against: Vec<String>,

    #[command(flatten)]
    load: LoadArguments,

    /// Folder for the data of the embedded PostgreSQL [default: paceline-bench beside the folder of serve]
    #[arg(long, value_name = "DIR", conflicts_with = "against")]
    data_dir: Option<PathBuf>,
}

/// The arguments that all measurements have.
#[derive(Debug, Args)]
pub(super) struct LoadArguments {
    /// Numbers of clients, separated by commas [default: by scenario]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,

    /// Measured time of each run [default: 3s; with --against 10s; of a failover 12s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,

    /// Warm-up time of each run, which is not measured [default: 1s; with --against 2s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    warmup: Option<Duration>,

    /// Number of rounds; medians are shown [default: 1; with --against 3]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,

    /// Units of work per second of all clients together, at random moments, whether or not answers arrive in time (open loop)
    /// [default: none; of a failover 1000, unless there is --think]
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    rate: Option<f64>,

    /// Pause of each client between an answer and its next unit [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "rate")]
    think: Option<Duration>,

    /// Show the share of requests that are answered without an error within this time [default: none; of a failover 1s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    deadline: Option<Duration>,

    /// How statements are sent, as pgbench's --protocol
    #[arg(long, value_name = "PROTOCOL", value_enum, default_value_t = ProtocolArgument::Prepared)]
    protocol: ProtocolArgument,

    /// Seed of all random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Threads of the load generator
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Append every run to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a report to this file, an HTML page; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The values of arguments that are not given.
pub(super) struct Defaults {
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    pub(super) rounds: u32,
    /// Only without `--think`.
    pub(super) rate: Option<f64>,
    pub(super) deadline: Option<Duration>,
}

/// The values of `--protocol`, as in pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolArgument {
    /// One Query message, with the values in its text
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

impl RunArguments {
    pub(super) fn clients(&self) -> Vec<usize> {
        self.load.clients()
    }

    /// Whether targets are named.
    pub(super) fn has_targets(&self) -> bool {
        !self.against.is_empty()
    }

    pub(super) fn calibration(&self) -> Calibration {
        let load = &self.load;
        Calibration {
            clients: load.clients(),
            warmup: load.warmup,
            duration: load.duration,
            protocol: load.protocol.into(),
            threads: load.threads.into(),
            seed: load.seed,
        }
    }

    pub(super) fn resolve(
        self,
        choices: Vec<Choice>,
        process: &ProcessEnvironment,
        command: String,
    ) -> Result<Bench, CliError> {
        let has_targets = self.has_targets();
        let needs_demo = !has_targets && !choices.iter().all(Choice::starts_servers);
        let targets = self.against.iter().map(|text| target(text));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        check_names(&targets)?;
        let demo_folder = match (needs_demo, &self.data_dir) {
            (false, _) => None,
            (true, Some(folder)) => {
                Some(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()))
            }
            (true, None) => {
                let folder = process.home.data_folder().ok_or(CliError::NoDataFolder)?;
                Some(folder.with_file_name("paceline-bench"))
            }
        };
        let or = |demo, against| if has_targets { against } else { demo };
        let defaults = Defaults {
            warmup: Duration::from_secs(or(1, 2)),
            duration: Duration::from_secs(or(3, 10)),
            rounds: if has_targets { 3 } else { 1 },
            rate: None,
            deadline: None,
        };
        let bench = self.load.resolve(targets, choices, &defaults, command);
        Ok(Bench {
            demo_folder,
            ..bench
        })
    }
}

impl LoadArguments {
    pub(super) fn clients(&self) -> Vec<usize> {
        self.clients.iter().map(|count| *count as usize).collect()
    }

    pub(super) fn resolve(
        self,
        targets: Vec<Arc<Target>>,
        choices: Vec<Choice>,
        defaults: &Defaults,
        command: String,
    ) -> Bench {
        let usual_rate = defaults.rate.filter(|_| self.think.is_none());
        Bench {
            demo_folder: None,
            setup: None,
            json: self.json,
            html: self.html,
            plan: Plan {
                targets,
                choices,
                warmup: self.warmup.unwrap_or(defaults.warmup),
                duration: self.duration.unwrap_or(defaults.duration),
                rounds: self.rounds.unwrap_or(defaults.rounds) as usize,
                rate: self.rate.or(usual_rate),
                think: self.think.unwrap_or_default(),
                deadline: self.deadline.or(defaults.deadline),
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
        }
    }
}

/// Checks that every target has its own name, by which results are distinguished.
fn check_names(targets: &[Arc<Target>]) -> Result<(), BenchError> {
    for (index, target) in targets.iter().enumerate() {
        let mut before = targets.iter().take(index);
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
    let password = password.map(|source| source.read_without_command());
    let password = password.transpose().map_err(BenchError::Password)?;
    let password = password.map(|secret| secret.reveal().to_owned());
    Ok(Arc::new(Target {
        name: name.to_owned(),
        host: match host {
            Host::Tcp(host) => paceline_bench::Host::Tcp(host),
            Host::Unix(folder) => paceline_bench::Host::Unix(folder),
        },
        port,
        other_ports: Vec::new(),
        password,
        database: dbname.unwrap_or_else(|| user.clone()),
        user,
    }))
}

fn time(text: &str) -> Result<Duration, String> {
    paceline_config::seconds(text)
        .ok_or_else(|| "write seconds, or a number with its unit: 500ms, 10s, 2min".to_owned())
}

/// Maximum of `--rate`: several times the throughput of one machine.
const RATE_MAX: f64 = 10_000_000.0;

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    rate.filter(|rate| *rate > 0.0 && *rate <= RATE_MAX)
        .ok_or_else(|| format!("write how many per second, more than 0, {RATE_MAX} at most"))
}

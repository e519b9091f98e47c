//! The arguments of `paceline bench failover`.

use super::run_arguments::{Defaults, LoadArguments};
use crate::cli::lab_command::Bench;
use clap::{Args, ValueEnum};
use paceline_bench::{Choice, Replication};
use std::time::Duration;

/// The arguments of `bench failover`.
#[derive(Debug, Args)]
pub(super) struct FailoverArguments {
    /// How the primary replicates, separated by commas
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',', default_values_t = [ReplicationArgument::Asynchronous, ReplicationArgument::Synchronous])]
    replication: Vec<ReplicationArgument>,

    #[command(flatten)]
    load: LoadArguments,
}

/// The values of `--replication`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReplicationArgument {
    /// Commits do not wait for replicas
    Asynchronous,
    /// A commit waits for one of the two replicas
    Synchronous,
}

impl From<ReplicationArgument> for Replication {
    fn from(argument: ReplicationArgument) -> Self {
        match argument {
            ReplicationArgument::Asynchronous => Self::Asynchronous,
            ReplicationArgument::Synchronous => Self::Synchronous,
        }
    }
}

impl FailoverArguments {
    pub(super) fn resolve(self, command: String) -> Bench {
        let clients = self.load.clients();
        let choice = |one: &ReplicationArgument| Choice::of_failover((*one).into(), &clients);
        let choices = self.replication.iter().map(choice).collect();
        let defaults = Defaults {
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(12),
            rounds: 1,
            rate: Some(1_000.0),
            deadline: Some(Duration::from_secs(1)),
        };
        self.load.resolve(Vec::new(), choices, &defaults, command)
    }
}

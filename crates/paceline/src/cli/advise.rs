//! The arguments of `advise`.

use super::error::CliError;
use clap::{Args, ValueEnum};
use paceline_config::{Config, Upstream, seconds};
use std::time::Duration;

/// The shortest observation.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The arguments of `advise`.
#[derive(Debug, Args)]
pub(super) struct AdviseArguments {
    /// The database: postgres://USER:PASSWORD@HOST:PORT/DATABASE
    ///
    /// Or the admin console of a running Paceline, for its own counts: postgres://USER:PASSWORD@HOST:PORT/pgbouncer
    ///
    /// Any user may be named; one with the rights of pg_read_all_stats sees what all sessions execute.
    #[arg(verbatim_doc_comment, value_name = "URL")]
    url: String,

    /// Time between the two readings of counters; sessions are sampled meanwhile, at least 1s
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    interval: Duration,

    /// What to print
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = AdviseFormat::Text)]
    format: AdviseFormat,

    /// Observe again and again for this time each, until interrupted; prints the findings each time
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["interval", "apply"])]
    watch: Option<Duration>,

    /// Carry out what is safe after a question each, and observe again: settings of a table, indexes CONCURRENTLY
    #[arg(long)]
    apply: bool,

    /// Confirm every question of --apply
    #[arg(long, requires = "apply")]
    yes: bool,

    /// Let --apply also run CLUSTER, which blocks the table while it is rewritten
    #[arg(long, requires = "apply")]
    allow_cluster: bool,

    /// How long a snapshot must have been held to count as a pinned horizon
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1min")]
    pinned_after: Duration,
}

/// What `advise` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdviseFormat {
    /// Lines for a terminal
    Text,
    /// An array of findings; [] if there are none
    Json,
    /// A page
    Html,
    /// A script for psql
    Sql,
}

/// The resolved arguments of `advise`.
#[derive(Debug)]
pub(crate) struct Advise {
    /// The server, with a login and a database.
    pub(crate) upstream: Upstream,
    /// The time of an observation.
    pub(crate) interval: Duration,
    /// The format of the output.
    pub(crate) format: AdviseFormat,
    /// Whether to observe until interrupted.
    pub(crate) watch: bool,
    /// Whether to carry out advice.
    pub(crate) apply: bool,
    /// Whether every question is confirmed.
    pub(crate) yes: bool,
    /// Whether CLUSTER may be run.
    pub(crate) allow_cluster: bool,
    /// The shortest time for which a pinned horizon was held.
    pub(crate) pinned_after: Duration,
}

impl AdviseArguments {
    pub(super) fn resolve(self) -> Result<Advise, CliError> {
        Ok(Advise {
            upstream: Config::upstream("advise", &self.url)?,
            interval: self.watch.unwrap_or(self.interval).max(INTERVAL_MIN),
            format: self.format,
            watch: self.watch.is_some(),
            apply: self.apply,
            yes: self.yes,
            allow_cluster: self.allow_cluster,
            pinned_after: self.pinned_after,
        })
    }
}

fn time(text: &str) -> Result<Duration, String> {
    seconds(text).ok_or_else(|| "write a time, for example 10s or 1min".to_owned())
}

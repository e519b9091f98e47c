//! The arguments of `top`.

use super::error::CliError;
use clap::Args;
use paceline_config::{Config, Upstream, seconds};
use std::time::Duration;

/// The shortest time between two snapshots: the costs of more are not worth it.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// The arguments of `top`.
#[derive(Debug, Args)]
pub(super) struct TopArguments {
    /// The admin console: postgres://USER:PASSWORD@HOST:PORT
    ///
    /// A user in admin_users or stats_users; the values of hot rows are shown to admin_users only.
    #[arg(verbatim_doc_comment, value_name = "URL")]
    url: String,

    /// Time between two snapshots, at least 200ms
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    interval: Duration,
}

/// The resolved arguments of `top`.
#[derive(Debug)]
pub(crate) struct Top {
    /// The admin console.
    pub(crate) console: Upstream,
    /// Time between two snapshots.
    pub(crate) interval: Duration,
}

impl TopArguments {
    pub(super) fn resolve(self) -> Result<Top, CliError> {
        let mut console = Config::upstream("top", &self.url)?;
        console.dbname.get_or_insert_with(|| "pgbouncer".to_owned());
        Ok(Top {
            console,
            interval: self.interval.max(INTERVAL_MIN),
        })
    }
}

fn time(text: &str) -> Result<Duration, String> {
    seconds(text).ok_or_else(|| "write a time, for example 1s or 500ms".to_owned())
}

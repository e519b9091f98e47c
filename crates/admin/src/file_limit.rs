//! The limit of open files: each connection is one.

use crate::metrics;
use paceline_config::Config;
use rustix::process::{Resource, getrlimit, setrlimit};

/// What is open besides connections: listeners, logs, what the runtime needs.
const OTHERS: usize = 64;

/// A server connection has its socket twice: whoever kills it is not the one who uses it.
const PER_SERVER: usize = 2;

/// Thousands of clients need thousands of file descriptors: takes as many as the system allows, and says if these are not
/// enough.
pub fn raise(config: &Config) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files could not be raised");
    }
    let needed = needed(config) as u64;
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < needed
    {
        tracing::warn!(
            limit,
            needed,
            "the limit of open files is too low for all clients: raise it (ulimit -n, LimitNOFILE), or lower max_client_conn"
        );
    }
}

/// Files that are open when as many clients are there as may be, with one pool for each database.
fn needed(config: &Config) -> usize {
    let settings = &config.paceline;
    let databases = config.databases.values();
    let sizes = databases.map(|database| config.pool_size_max(database));
    let metrics = settings
        .listening
        .metrics_listen
        .map_or(0, |_| metrics::CONNECTIONS_MAX);
    let pools = sizes.sum::<usize>().max(settings.pooling.default_pool_size);
    settings.pooling.max_client_conn + PER_SERVER * pools + metrics + OTHERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_pools_and_metrics_are_counted() {
        let file = "[paceline]\nmax_client_conn = 1000\nmetrics_listen = \"127.0.0.1:9127\"\n\
            [databases.a]\nprimary = \"postgres://db\"\n\
            [databases.b]\nprimary = \"postgres://db\"\npool_size = 5\nreserve_pool_size = 2";
        let config = Config::from_toml(file, "").unwrap();
        let expected = 1000 + 2 * (20 + 7) + metrics::CONNECTIONS_MAX + OTHERS;
        assert_eq!(needed(&config), expected);
    }
}

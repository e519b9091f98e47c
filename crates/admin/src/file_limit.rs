//! The limit of open files. Each connection needs at least one.

use crate::{metrics, web};
use paceline_config::Config;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that are open besides connections: listeners, logs, files of the runtime.
const OTHER_FILES: usize = 64;

/// A server connection has two descriptors of its socket: one for its task, one for `KILL`.
const FILES_PER_SERVER: usize = 2;

/// Raises the limit to the maximum that the system allows, and warns if that is not enough for the configuration.
pub fn raise(config: &Config) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "could not raise the limit of open files");
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

/// Number of open files with `max_client_conn` clients and one full pool per database.
fn needed(config: &Config) -> usize {
    let settings = &config.paceline;
    let databases = config.databases.values();
    let sizes = databases.map(|database| config.pool_size_max(database));
    let metrics = settings
        .listening
        .metrics_listen
        .map_or(0, |_| metrics::CONNECTIONS_MAX);
    let web = settings
        .listening
        .web_console_listen
        .map_or(0, |_| web::CONNECTIONS_MAX);
    let pools = sizes.sum::<usize>().max(settings.pooling.default_pool_size);
    settings.pooling.max_client_conn + FILES_PER_SERVER * pools + metrics + web + OTHER_FILES
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
        let expected = 1000 + 2 * (20 + 7) + metrics::CONNECTIONS_MAX + OTHER_FILES;
        assert_eq!(needed(&config), expected);
    }
}

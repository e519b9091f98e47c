//! `SHOW DATABASES` and `SHOW USERS`.

use super::named_pools::{by_database, named_pools};
use crate::console::table::{Columns, Row, Value};
use paceline_config::{ANY_DATABASE, Host, PGBOUNCER};
use paceline_pool::pool::{Pool, PoolState};
use paceline_proxy::proxy::Proxy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const COLUMNS: Columns = Columns {
    kinds: "ssissiiiissiiiiii",
    names: &[
        "name",
        "host",
        "port",
        "database",
        "force_user",
        "pool_size",
        "min_pool_size",
        "reserve_pool_size",
        "server_lifetime",
        "pool_mode",
        "load_balance_hosts",
        "max_connections",
        "current_connections",
        "max_client_connections",
        "current_client_connections",
        "paused",
        "disabled",
    ],
};

pub(super) const USERS_COLUMNS: Columns = Columns {
    kinds: "ssssiiii",
    names: &[
        "name",
        "pool_size",
        "reserve_pool_size",
        "pool_mode",
        "max_user_connections",
        "current_connections",
        "max_user_client_connections",
        "current_client_connections",
    ],
};

/// Connections to servers, and of clients.
#[derive(Debug, Clone, Copy, Default)]
struct Connections {
    servers: u64,
    clients: u64,
}

fn connections(pools: &[Arc<Pool>]) -> Connections {
    let of_pool = |pool: &Arc<Pool>| {
        let (load, _) = pool.load();
        let servers = load.servers_active + load.servers_idle + load.servers_opening;
        let clients = pool.clients.load(Ordering::Relaxed) as u64;
        Connections { servers, clients }
    };
    pools
        .iter()
        .map(of_pool)
        .fold(Connections::default(), |a, b| Connections {
            servers: a.servers + b.servers,
            clients: a.clients + b.clients,
        })
}

/// The databases that are configured, those that clients have used by another name, and the console.
pub(super) fn databases(proxy: &Proxy) -> Vec<Row> {
    let used: BTreeMap<String, Vec<Arc<Pool>>> = by_database(proxy).into_iter().collect();
    let config = Arc::clone(&proxy.config());
    let configured = config.databases.keys().cloned();
    let mut names: BTreeSet<String> = configured.chain(used.keys().cloned()).collect();
    names.remove(ANY_DATABASE);
    let of_pools = names.iter().filter_map(|name| {
        let pools = used.get(name).map(Vec::as_slice).unwrap_or_default();
        database(proxy, name, connections(pools))
    });
    of_pools.chain([console(proxy)]).collect()
}

fn database(proxy: &Proxy, name: &str, connections: Connections) -> Option<Row> {
    let config = proxy.config();
    let (entry, on_server) = config.database(name)?;
    let host = match &entry.primary.host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    };
    // Those of a user of whom nothing is said.
    let settings = config.pool_settings(entry, "");
    let limit = |limit: Option<usize>| limit.unwrap_or_default();
    Some(vec![
        name.into(),
        host.into(),
        u32::from(entry.primary.port).into(),
        on_server.into(),
        entry.primary.user.clone().into(),
        settings.size.into(),
        settings.min_size.into(),
        settings.reserve_size.into(),
        settings.timeouts.server_lifetime.as_secs().into(),
        // PgBouncer's is empty, too, where the database does not say it.
        entry
            .overrides
            .pool_mode()
            .map(|mode| mode.name().to_owned())
            .into(),
        Value::Null,
        limit(settings.database_servers_max).into(),
        connections.servers.into(),
        limit(settings.database_clients_max).into(),
        connections.clients.into(),
        u64::from(proxy.pools.state_of(Some(name)) == PoolState::Paused).into(),
        u64::from(proxy.pools.admit(name).is_err()).into(),
    ])
}

/// The console, as PgBouncer lists its own.
fn console(proxy: &Proxy) -> Row {
    let port = proxy.config().paceline.listening.listen.port();
    let mut row: Row = vec![
        PGBOUNCER.into(),
        Value::Null,
        u32::from(port).into(),
        PGBOUNCER.into(),
        PGBOUNCER.into(),
        2_u64.into(),
    ];
    row.extend([(); 3].map(|()| Value::from(0_u64)));
    row.extend([Value::from("statement"), Value::Null]);
    row.extend([(); 6].map(|()| Value::from(0_u64)));
    row
}

/// Everybody who has logged in, and whom the configuration names.
pub(super) fn users(proxy: &Proxy) -> Vec<Row> {
    let mut users: BTreeMap<String, Vec<Arc<Pool>>> = BTreeMap::new();
    for (name, pool) in named_pools(proxy) {
        users.entry(name.user).or_default().push(pool);
    }
    let config = Arc::clone(&proxy.config());
    let operation = &config.paceline.operation;
    let of_console = operation.admin_users.iter().chain(&operation.stats_users);
    let of_databases = config
        .databases
        .values()
        .flat_map(|database| database.users.keys());
    for name in of_console.chain(of_databases).chain(config.users.keys()) {
        users.entry(name.clone()).or_default();
    }
    let row = |(name, pools): (String, Vec<Arc<Pool>>)| {
        let connections = connections(&pools);
        let settings = config.user_settings(&name);
        let said = config.users.get(&name).cloned().unwrap_or_default();
        let limit = |limit: Option<usize>| limit.unwrap_or_default();
        let size = |size: Option<usize>| size.map_or_else(String::new, |size| size.to_string());
        vec![
            name.into(),
            size(said.pool_size()).into(),
            size(said.reserve_pool_size()).into(),
            said.pool_mode()
                .map_or(Value::Null, |mode| mode.name().into()),
            limit(settings.user_servers_max).into(),
            connections.servers.into(),
            limit(settings.user_clients_max).into(),
            connections.clients.into(),
        ]
    };
    users.into_iter().map(row).collect()
}

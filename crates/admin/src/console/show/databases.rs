//! `SHOW DATABASES` and `SHOW USERS`.

use super::hosts::{ShowsHost, host_columns};
use super::named_pools::{by_database, named_pools};
use crate::console::table::ColumnType::{Int4, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable, null};
use paceline_cluster::{HostRole, HostStatus, Lag};
use paceline_config::{ANY_DATABASE, Config, Host, PGBOUNCER, PoolOverrides};
use paceline_pool::pool::{Pool, PoolState};
use paceline_proxy::proxy::Proxy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) static DATABASES: ConsoleTable<DatabaseRecord> =
    ConsoleTable::new("databases", &[DATABASE_COLUMNS, HOST_COLUMNS], databases);

pub(super) static USERS: ConsoleTable<UserRecord> =
    ConsoleTable::new("users", &[USER_COLUMNS], users);

const DATABASE_COLUMNS: &[ConsoleColumn<DatabaseRecord>] = &[
    ("name", Text, |r| r.name.clone().into()),
    ("host", Text, |r| r.host.clone().into()),
    ("port", Int4, |r| r.port.into()),
    ("database", Text, |r| r.on_server.clone().into()),
    ("force_user", Text, |r| r.force_user.clone().into()),
    ("pool_size", Int4, |r| r.pool_size.into()),
    ("min_pool_size", Int4, |r| r.min_pool_size.into()),
    ("reserve_pool_size", Int4, |r| r.reserve_pool_size.into()),
    ("server_lifetime", Int4, |r| {
        r.server_lifetime_seconds.into()
    }),
    ("pool_mode", Text, |r| r.pool_mode.map(str::to_owned).into()),
    ("load_balance_hosts", Text, null),
    ("max_connections", Int4, |r| r.servers_max.into()),
    ("current_connections", Int4, |r| {
        r.connections.servers.into()
    }),
    ("max_client_connections", Int4, |r| r.clients_max.into()),
    ("current_client_connections", Int4, |r| {
        r.connections.clients.into()
    }),
    ("paused", Int4, |r| r.is_paused.into()),
    ("disabled", Int4, |r| r.is_disabled.into()),
];

/// Not in PgBouncer.
const HOST_COLUMNS: &[ConsoleColumn<DatabaseRecord>] = &host_columns();

const USER_COLUMNS: &[ConsoleColumn<UserRecord>] = &[
    ("name", Text, |r| r.name.clone().into()),
    ("pool_size", Text, |r| or_empty(r.own.pool_size()).into()),
    ("reserve_pool_size", Text, |r| {
        or_empty(r.own.reserve_pool_size()).into()
    }),
    ("pool_mode", Text, |r| {
        r.own.pool_mode().map(|mode| mode.name().to_owned()).into()
    }),
    ("max_user_connections", Int4, |r| r.servers_max.into()),
    ("current_connections", Int4, |r| {
        r.connections.servers.into()
    }),
    ("max_user_client_connections", Int4, |r| {
        r.clients_max.into()
    }),
    ("current_client_connections", Int4, |r| {
        r.connections.clients.into()
    }),
];

pub(super) struct DatabaseRecord {
    name: String,
    /// `None`: the console.
    host: Option<String>,
    port: u16,
    /// The name of the database on its server.
    on_server: String,
    force_user: Option<String>,
    pool_size: usize,
    min_pool_size: usize,
    reserve_pool_size: usize,
    server_lifetime_seconds: u64,
    /// As in PgBouncer, `None` unless the database sets it.
    pool_mode: Option<&'static str>,
    servers_max: usize,
    clients_max: usize,
    connections: ConnectionCounts,
    is_paused: bool,
    is_disabled: bool,
    /// The host to which connections lead, if the database has several.
    server: Option<HostStatus>,
    /// The largest of its replicas in use.
    lag: Lag,
}

impl ShowsHost for DatabaseRecord {
    fn host(&self) -> Option<&HostStatus> {
        self.server.as_ref()
    }

    fn lag(&self) -> Lag {
        self.lag
    }
}

pub(super) struct UserRecord {
    name: String,
    /// The settings in `[users.NAME]`.
    own: PoolOverrides,
    servers_max: usize,
    clients_max: usize,
    connections: ConnectionCounts,
}

/// Numbers of connections.
#[derive(Debug, Clone, Copy, Default)]
struct ConnectionCounts {
    servers: u64,
    clients: u64,
}

impl ConnectionCounts {
    fn of(pools: &[Arc<Pool>]) -> Self {
        let mut counts = Self::default();
        for pool in pools {
            let (load, _) = pool.load();
            counts.servers += load.servers_open();
            counts.clients += pool.clients.load(Ordering::Relaxed) as u64;
        }
        counts
    }
}

/// The configured databases, other databases that clients have used, and the console.
fn databases(proxy: &Proxy) -> Vec<DatabaseRecord> {
    let used: BTreeMap<String, Vec<Arc<Pool>>> = by_database(proxy).into_iter().collect();
    let config = Arc::clone(&proxy.config());
    let configured = config.databases.keys().cloned();
    let mut names: BTreeSet<String> = configured.chain(used.keys().cloned()).collect();
    names.remove(ANY_DATABASE);
    let of_servers = names.into_iter().filter_map(|name| {
        let pools = used.get(&name).map(Vec::as_slice).unwrap_or_default();
        database(proxy, &config, name, ConnectionCounts::of(pools))
    });
    of_servers.chain([console(&config)]).collect()
}

fn database(
    proxy: &Proxy,
    config: &Config,
    name: String,
    connections: ConnectionCounts,
) -> Option<DatabaseRecord> {
    let (entry, on_server) = config.database(&name)?;
    let server = proxy.pools.server(&name, entry);
    let hosts = proxy.pools.hosts_of(&name);
    let host = match &server.host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    };
    // The settings of a user that the configuration does not name.
    let settings = config.pool_settings(entry, "");
    Some(DatabaseRecord {
        host: Some(host),
        port: server.port,
        on_server,
        force_user: entry.primary.user.clone(),
        pool_size: settings.size,
        min_pool_size: settings.min_size,
        reserve_pool_size: settings.reserve_size,
        server_lifetime_seconds: settings.timeouts.server_lifetime.as_secs(),
        pool_mode: entry.overrides.pool_mode().map(|mode| mode.name()),
        servers_max: settings.database_servers_max.unwrap_or_default(),
        clients_max: settings.database_clients_max.unwrap_or_default(),
        connections,
        is_paused: proxy.pools.state_of(Some(&name)) == PoolState::Paused,
        is_disabled: proxy.pools.admit(&name).is_err(),
        server: hosts.as_ref().and_then(|hosts| hosts.status_at(&server)),
        lag: hosts.map_or_else(Lag::default, |hosts| largest_lag(&hosts.statuses())),
        name,
    })
}

/// The largest lag of the replicas in use, in bytes and in time.
fn largest_lag(hosts: &[HostStatus]) -> Lag {
    let is_replica = |host: &&HostStatus| host.role == HostRole::Replica && host.in_use;
    let lags = || hosts.iter().filter(is_replica).map(|host| host.lag);
    Lag {
        bytes: lags().filter_map(|lag| lag.bytes).max(),
        time: lags().filter_map(|lag| lag.time).max(),
    }
}

/// The console, with the values that PgBouncer shows for its own.
fn console(config: &Config) -> DatabaseRecord {
    DatabaseRecord {
        name: PGBOUNCER.to_owned(),
        host: None,
        port: config.paceline.listening.listen.port(),
        on_server: PGBOUNCER.to_owned(),
        force_user: Some(PGBOUNCER.to_owned()),
        pool_size: 2,
        min_pool_size: 0,
        reserve_pool_size: 0,
        server_lifetime_seconds: 0,
        pool_mode: Some("statement"),
        servers_max: 0,
        clients_max: 0,
        connections: ConnectionCounts::default(),
        is_paused: false,
        is_disabled: false,
        server: None,
        lag: Lag::default(),
    }
}

/// Users who have logged in, and users whom the configuration names.
fn users(proxy: &Proxy) -> Vec<UserRecord> {
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
    let record = |(name, pools): (String, Vec<Arc<Pool>>)| {
        let settings = config.user_settings(&name);
        UserRecord {
            own: config.users.get(&name).cloned().unwrap_or_default(),
            servers_max: settings.user_servers_max.unwrap_or_default(),
            clients_max: settings.user_clients_max.unwrap_or_default(),
            connections: ConnectionCounts::of(&pools),
            name,
        }
    };
    users.into_iter().map(record).collect()
}

fn or_empty(size: Option<usize>) -> String {
    size.map_or_else(String::new, |size| size.to_string())
}

//! A configuration: its checked values, and the values for a database or a user.

use crate::function::Declared;
use crate::grouping::GroupingDecisions;
use crate::hosts::{HostList, ServerHost};
use crate::overrides::PoolOverrides;
use crate::peer::Peer;
use crate::pool_settings::PoolSettings;
use crate::settings::{PoolMode, Settings};
use crate::shard_server::ShardServer;
use crate::subscriber::Subscriber;
use crate::upstream::Upstream;
use std::collections::BTreeMap;

/// The database name that users and tools of PgBouncer know for the admin console.
pub const PGBOUNCER: &str = "pgbouncer";

/// Paceline's own name for it, unless a database has this name.
pub const PACELINE: &str = "paceline";

/// The name under which `[databases]` holds the entry for every database that has none of its own.
pub const ANY_DATABASE: &str = "*";

/// Everything that an operator configured, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The `[paceline]` table.
    pub paceline: Settings,
    /// The `[databases]` tables by the name that clients ask for; [`ANY_DATABASE`] is any other name. If empty,
    /// Paceline starts the embedded PostgreSQL.
    pub databases: BTreeMap<String, Database>,
    /// The `[users]` tables: overrides for a user in every database, by the name that the client gives.
    pub users: BTreeMap<String, PoolOverrides>,
    /// The `[peers]` tables: other processes, by their `peer_id`.
    pub peers: BTreeMap<u16, Peer>,
    /// Functions whose calls Paceline may group, each once.
    pub declared: Vec<Declared>,
}

/// One entry of `[databases]`: where the database is, and its overrides.
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    /// The server that takes writes; of several hosts, the first one, whatever its role.
    pub primary: Upstream,
    /// The other hosts.
    pub hosts: HostList,
    /// The overrides for its pools.
    pub overrides: PoolOverrides,
    /// Startup parameters of its server connections, by name. Those of a client replace them.
    pub startup: Vec<(String, String)>,
    /// The query that each server connection runs before it serves; empty for none.
    pub connect_query: String,
    /// The lookup of users of this database.
    pub login: DatabaseLogin,
    /// The overrides for users of this database, by the name that the client gives.
    pub users: BTreeMap<String, PoolOverrides>,
    /// Servers to which tables of it are replicated logically.
    pub subscribers: Vec<Subscriber>,
    /// Foreign servers for which the configuration has values besides those of the catalog.
    pub shard_servers: Vec<ShardServer>,
    /// Tables and templates that may or must not be grouped.
    pub grouping: GroupingDecisions,
}

/// The lookup of users of one database that the file of users does not contain. Each key replaces that of `[paceline]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DatabaseLogin {
    /// Replaces [`Login::auth_user`].
    pub auth_user: Option<String>,
    /// Replaces [`Login::auth_query`].
    pub auth_query: Option<String>,
    /// Replaces [`Login::auth_dbname`].
    pub auth_dbname: Option<String>,
}

impl Database {
    /// A database without overrides.
    pub fn at(primary: Upstream) -> Database {
        Database {
            primary,
            hosts: HostList::default(),
            overrides: PoolOverrides::default(),
            startup: Vec::new(),
            connect_query: String::new(),
            login: DatabaseLogin::default(),
            users: BTreeMap::new(),
            subscribers: Vec::new(),
            shard_servers: Vec::new(),
            grouping: GroupingDecisions::new(),
        }
    }

    /// All hosts, in the order of the URL.
    pub fn all_hosts(&self) -> impl Iterator<Item = ServerHost> + '_ {
        let first = ServerHost {
            host: self.primary.host.clone(),
            port: self.primary.port,
        };
        [first].into_iter().chain(self.hosts.others.iter().cloned())
    }

    /// The server at one of the hosts, with the login and the TLS settings of the URL.
    #[must_use]
    pub fn upstream_at(&self, at: &ServerHost) -> Upstream {
        Upstream {
            host: at.host.clone(),
            port: at.port,
            ..self.primary.clone()
        }
    }
}

impl Config {
    /// Whether every pool is in session mode, so that Paceline groups no requests.
    pub(crate) fn pools_only_sessions(&self) -> bool {
        let of_databases = self.databases.values().flat_map(|database| {
            let users = database.users.values();
            users.chain([&database.overrides])
        });
        let overrides = self.users.values().chain(of_databases);
        let mut modes = overrides.filter_map(PoolOverrides::pool_mode);
        self.paceline.pooling.pool_mode == PoolMode::Session
            && modes.all(|mode| mode == PoolMode::Session)
    }

    /// The database that a client requests by `name`, and its name on the server; `None` if neither `name` nor `"*"` is
    /// configured.
    pub fn database(&self, name: &str) -> Option<(&Database, String)> {
        if let Some(database) = self.listed(name) {
            let on_server = database.primary.dbname.as_deref().unwrap_or(name);
            return Some((database, on_server.to_owned()));
        }
        let database = self.databases.get(ANY_DATABASE)?;
        Some((database, name.to_owned()))
    }

    /// The key in `databases` of the entry that a client's database name leads to: the name itself, or [`ANY_DATABASE`]; `None`
    /// if there is neither.
    #[must_use]
    pub fn entry_name(&self, name: &str) -> Option<&str> {
        let listed = self.databases.get_key_value(name);
        let found = listed.or_else(|| self.databases.get_key_value(ANY_DATABASE));
        found.map(|(name, _)| name.as_str())
    }

    /// Whether this database name is that of the admin console. A database may be called `paceline`.
    #[must_use]
    pub fn is_console(&self, database: &str) -> bool {
        database == PGBOUNCER || (database == PACELINE && !self.databases.contains_key(PACELINE))
    }

    /// The entry with this name.
    pub fn listed(&self, name: &str) -> Option<&Database> {
        // A client that asks for a database literally called `*` is one more "any other name".
        self.databases.get(name).filter(|_| name != ANY_DATABASE)
    }

    /// The settings of the pool of `user` (as the client names itself) on `database`. Overrides for the user in this database
    /// come first, then those for the user, then those for the database, then `[paceline]`.
    #[must_use]
    pub fn pool_settings(&self, database: &Database, user: &str) -> PoolSettings {
        let mut settings = self.paceline.clone();
        let everywhere = self.users.get(user);
        let there = database.users.get(user);
        let tables = [Some(&database.overrides), everywhere, there];
        for table in tables.into_iter().flatten() {
            table.apply(&mut settings);
        }
        // The limit counts connections by the user that logs in to the server.
        if let Some(on_server) = &database.primary.user {
            settings.pooling.max_user_connections = self.paceline.pooling.max_user_connections;
            if let Some(on_server) = self.users.get(on_server) {
                on_server.apply_key(&mut settings, "max_user_connections");
            }
        }
        PoolSettings::from(settings)
    }

    /// The settings of a user in every database.
    #[must_use]
    pub fn user_settings(&self, user: &str) -> PoolSettings {
        let mut settings = self.paceline.clone();
        if let Some(everywhere) = self.users.get(user) {
            everywhere.apply(&mut settings);
        }
        PoolSettings::from(settings)
    }

    /// The settings of a database, without those of any user.
    #[must_use]
    pub fn database_settings(&self, database: &Database) -> PoolSettings {
        let mut settings = self.paceline.clone();
        database.overrides.apply(&mut settings);
        PoolSettings::from(settings)
    }

    /// Maximum server connections, with the reserve, of a pool of this database whose user has no table.
    #[must_use]
    pub fn pool_size_max(&self, database: &Database) -> usize {
        self.database_settings(database).open_max()
    }
}

//! Terms: what holds for one pool, put together from what is said of its database, of its user, and of all.

use super::Config;
use super::Database;
use super::error::Wrong;
use super::settings::{self, CONNECTIONS, POOL_PART, POOL_SIZE, PoolMode, Settings, TIMEOUT_MAX};
use super::value::{self, ValueError, Written};
use crate::config::duration::BareUnit;
use paceline_line::relay::{Keeping, ListenMode, StatePolicy};
use std::ops::RangeInclusive;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// What holds for one pool. Times: zero is no limit, unless the key says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Terms {
    /// How long a client keeps its server connection.
    pub(crate) mode: PoolMode,
    /// Most server connections, without the reserve.
    pub(crate) size: usize,
    /// Connections that are kept open; at most `size`.
    pub(crate) min_size: usize,
    /// Further connections for those who wait too long; none when `reserve_timeout` is zero.
    pub(crate) reserve_size: usize,
    /// How long that is.
    pub(crate) reserve_timeout: Duration,
    /// Most server connections of its database.
    pub(crate) database_servers_max: Option<usize>,
    /// Most server connections of its user on the server.
    pub(crate) user_servers_max: Option<usize>,
    /// Most clients of its database.
    pub(crate) database_clients_max: Option<usize>,
    /// Most clients of its user.
    pub(crate) user_clients_max: Option<usize>,
    /// Longest wait for a server connection.
    pub(crate) query_wait_timeout: Duration,
    /// Who waits longer than this is told so.
    pub(crate) query_wait_notify: Duration,
    /// Longest query.
    pub(crate) query_timeout: Duration,
    /// Longest transaction.
    pub(crate) transaction_timeout: Duration,
    /// Longest silence inside a transaction.
    pub(crate) idle_transaction_timeout: Duration,
    /// Longest silence outside a transaction.
    pub(crate) client_idle_timeout: Duration,
    /// Age at which a connection is closed; zero: after it was used once.
    pub(crate) server_lifetime: Duration,
    /// An unused connection is closed after this time.
    pub(crate) server_idle_timeout: Duration,
    /// Longest time in which a failed login is not tried again.
    pub(crate) server_login_retry: Duration,
    /// What becomes of session state that cannot follow its client.
    pub(crate) state: StatePolicy,
}

impl Terms {
    /// Most server connections, the reserve included.
    pub(crate) fn open_max(&self) -> usize {
        self.size + self.reserve_size
    }
}

/// What one table of the configuration says of a database or user. What it does not say holds as said elsewhere.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Differences {
    /// How long a client keeps its server connection.
    pub(crate) pool_mode: Option<PoolMode>,
    /// Most server connections of a pool, without the reserve.
    pub(crate) pool_size: Option<usize>,
    min_pool_size: Option<usize>,
    /// Further ones.
    pub(crate) reserve_pool_size: Option<usize>,
    max_db_connections: Option<usize>,
    max_db_client_connections: Option<usize>,
    max_user_connections: Option<usize>,
    max_user_client_connections: Option<usize>,
    query_wait_timeout: Option<Duration>,
    query_timeout: Option<Duration>,
    transaction_timeout: Option<Duration>,
    idle_transaction_timeout: Option<Duration>,
    client_idle_timeout: Option<Duration>,
    server_lifetime: Option<Duration>,
    session_state: Option<Keeping>,
    listen_mode: Option<ListenMode>,
}

/// Where something may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// `[databases.NAME]`
    Database,
    /// `[databases.NAME.users.USER]`
    UserOfDatabase,
    /// `[users.USER]`
    User,
}

/// A key that a table of a database or user may have.
#[derive(Debug)]
pub(crate) struct TermKey {
    /// PgBouncer's name.
    pub(crate) name: &'static str,
    /// Another name for it.
    pub(crate) alias: Option<&'static str>,
    /// The tables that may have it.
    pub(crate) places: &'static [Table],
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Mode,
    State,
    Listen,
    Count(
        RangeInclusive<usize>,
        fn(&mut Differences) -> &mut Option<usize>,
    ),
    Time(fn(&mut Differences) -> &mut Option<Duration>),
}

const EVERYWHERE: &[Table] = &[Table::Database, Table::UserOfDatabase, Table::User];
const OF_DATABASES: &[Table] = &[Table::Database];
const OF_USERS: &[Table] = &[Table::User];
const OF_ALL_USERS: &[Table] = &[Table::UserOfDatabase, Table::User];

/// Every such key, in the order of the documentation.
pub(crate) static TERM_KEYS: &[TermKey] = &[
    TermKey {
        name: "pool_mode",
        alias: None,
        places: EVERYWHERE,
        kind: Kind::Mode,
    },
    TermKey {
        name: "session_state",
        alias: None,
        places: EVERYWHERE,
        kind: Kind::State,
    },
    TermKey {
        name: "listen_mode",
        alias: None,
        places: EVERYWHERE,
        kind: Kind::Listen,
    },
    TermKey {
        name: "pool_size",
        alias: Some("default_pool_size"),
        places: EVERYWHERE,
        kind: Kind::Count(POOL_SIZE, |differs| &mut differs.pool_size),
    },
    TermKey {
        name: "min_pool_size",
        alias: None,
        places: &[Table::Database, Table::UserOfDatabase],
        kind: Kind::Count(POOL_PART, |differs| &mut differs.min_pool_size),
    },
    TermKey {
        name: "reserve_pool_size",
        alias: Some("reserve_pool"),
        places: EVERYWHERE,
        kind: Kind::Count(POOL_PART, |differs| &mut differs.reserve_pool_size),
    },
    TermKey {
        name: "max_db_connections",
        alias: None,
        places: OF_DATABASES,
        kind: Kind::Count(CONNECTIONS, |differs| &mut differs.max_db_connections),
    },
    TermKey {
        name: "max_db_client_connections",
        alias: None,
        places: OF_DATABASES,
        kind: Kind::Count(CONNECTIONS, |differs| {
            &mut differs.max_db_client_connections
        }),
    },
    TermKey {
        name: "max_user_connections",
        alias: None,
        places: OF_USERS,
        kind: Kind::Count(CONNECTIONS, |differs| &mut differs.max_user_connections),
    },
    TermKey {
        name: "max_user_client_connections",
        alias: None,
        places: OF_USERS,
        kind: Kind::Count(CONNECTIONS, |differs| {
            &mut differs.max_user_client_connections
        }),
    },
    TermKey {
        name: "query_wait_timeout",
        alias: None,
        places: EVERYWHERE,
        kind: Kind::Time(|differs| &mut differs.query_wait_timeout),
    },
    TermKey {
        name: "query_timeout",
        alias: None,
        places: OF_ALL_USERS,
        kind: Kind::Time(|differs| &mut differs.query_timeout),
    },
    TermKey {
        name: "transaction_timeout",
        alias: None,
        places: OF_ALL_USERS,
        kind: Kind::Time(|differs| &mut differs.transaction_timeout),
    },
    TermKey {
        name: "idle_transaction_timeout",
        alias: None,
        places: OF_ALL_USERS,
        kind: Kind::Time(|differs| &mut differs.idle_transaction_timeout),
    },
    TermKey {
        name: "client_idle_timeout",
        alias: None,
        places: OF_ALL_USERS,
        kind: Kind::Time(|differs| &mut differs.client_idle_timeout),
    },
    TermKey {
        name: "server_lifetime",
        alias: None,
        places: OF_DATABASES,
        kind: Kind::Time(|differs| &mut differs.server_lifetime),
    },
];

impl TermKey {
    /// The key of that name, if a table there may have it.
    pub(super) fn named(name: &str, place: Table) -> Option<&'static TermKey> {
        let mut there = TERM_KEYS.iter().filter(|key| key.places.contains(&place));
        there.find(|key| key.name == name || key.alias == Some(name))
    }

    /// All that a table there may have.
    pub(super) fn names(place: Table) -> impl Iterator<Item = &'static str> {
        let there = TERM_KEYS
            .iter()
            .filter(move |key| key.places.contains(&place));
        there.flat_map(|key| [Some(key.name), key.alias]).flatten()
    }

    /// Checks `written` and notes it; on an error nothing is changed.
    pub(super) fn apply(
        &self,
        differs: &mut Differences,
        written: Written<'_>,
    ) -> Result<(), Wrong> {
        self.read(differs, written).map_err(|error| Wrong::Value {
            key: self.name.to_owned(),
            error,
        })
    }

    fn read(&self, differs: &mut Differences, written: Written<'_>) -> Result<(), ValueError> {
        match &self.kind {
            Kind::Mode => {
                let name = value::choice(written, PoolMode::NAMES)?;
                differs.pool_mode = Some(PoolMode::named(name));
            }
            Kind::State => differs.session_state = Some(settings::session_state(written)?),
            Kind::Listen => differs.listen_mode = Some(settings::listen_mode(written)?),
            Kind::Count(limits, field) => *field(differs) = Some(value::count(written, limits)?),
            Kind::Time(field) => {
                *field(differs) = Some(value::time(written, BareUnit::Seconds, TIMEOUT_MAX)?);
            }
        }
        Ok(())
    }
}

impl Differences {
    /// What is said here, and where nothing is, what is said there.
    fn or(self, there: &Self) -> Self {
        Self {
            pool_mode: self.pool_mode.or(there.pool_mode),
            pool_size: self.pool_size.or(there.pool_size),
            min_pool_size: self.min_pool_size.or(there.min_pool_size),
            reserve_pool_size: self.reserve_pool_size.or(there.reserve_pool_size),
            max_db_connections: self.max_db_connections.or(there.max_db_connections),
            max_db_client_connections: self
                .max_db_client_connections
                .or(there.max_db_client_connections),
            max_user_connections: self.max_user_connections.or(there.max_user_connections),
            max_user_client_connections: self
                .max_user_client_connections
                .or(there.max_user_client_connections),
            query_wait_timeout: self.query_wait_timeout.or(there.query_wait_timeout),
            query_timeout: self.query_timeout.or(there.query_timeout),
            transaction_timeout: self.transaction_timeout.or(there.transaction_timeout),
            idle_transaction_timeout: self
                .idle_transaction_timeout
                .or(there.idle_transaction_timeout),
            client_idle_timeout: self.client_idle_timeout.or(there.client_idle_timeout),
            server_lifetime: self.server_lifetime.or(there.server_lifetime),
            session_state: self.session_state.or(there.session_state),
            listen_mode: self.listen_mode.or(there.listen_mode),
        }
    }

    fn terms(&self, settings: &Settings) -> Terms {
        let Settings {
            pooling,
            timeouts,
            state,
            ..
        } = settings;
        let size = self.pool_size.unwrap_or(pooling.default_pool_size);
        let limit =
            |own: Option<usize>, of_all: usize| Some(own.unwrap_or(of_all)).filter(|n| *n > 0);
        let reserve_size = match pooling.reserve_pool_timeout.is_zero() {
            true => 0,
            false => self.reserve_pool_size.unwrap_or(pooling.reserve_pool_size),
        };
        let or = |own: Option<Duration>, of_all| own.unwrap_or(of_all);
        Terms {
            mode: self.pool_mode.unwrap_or(pooling.pool_mode),
            size,
            min_size: self
                .min_pool_size
                .unwrap_or(pooling.min_pool_size)
                .min(size),
            reserve_size,
            reserve_timeout: pooling.reserve_pool_timeout,
            database_servers_max: limit(self.max_db_connections, pooling.max_db_connections),
            user_servers_max: limit(self.max_user_connections, pooling.max_user_connections),
            database_clients_max: limit(
                self.max_db_client_connections,
                pooling.max_db_client_connections,
            ),
            user_clients_max: limit(
                self.max_user_client_connections,
                pooling.max_user_client_connections,
            ),
            query_wait_timeout: or(self.query_wait_timeout, timeouts.query_wait_timeout),
            query_wait_notify: timeouts.query_wait_notify,
            query_timeout: or(self.query_timeout, timeouts.query_timeout),
            transaction_timeout: or(self.transaction_timeout, timeouts.transaction_timeout),
            idle_transaction_timeout: or(
                self.idle_transaction_timeout,
                timeouts.idle_transaction_timeout,
            ),
            client_idle_timeout: or(self.client_idle_timeout, timeouts.client_idle_timeout),
            server_lifetime: or(self.server_lifetime, timeouts.server_lifetime),
            server_idle_timeout: timeouts.server_idle_timeout,
            server_login_retry: timeouts.server_login_retry,
            state: StatePolicy {
                keeping: self.session_state.unwrap_or(state.session_state),
                extra: state.asked_parameters(),
                listen_mode: self.listen_mode.unwrap_or(state.listen_mode),
            },
        }
    }
}

impl Config {
    /// What holds for the pool of `user` (as the client names itself) on `database`. What is said of the user there counts
    /// before what is said of the user everywhere, that before what is said of the database, and that before `[paceline]`.
    pub(crate) fn terms(&self, database: &Database, user: &str) -> Terms {
        let there = database.users.get(user).map(|user| user.differs.clone());
        let everywhere = self.users.get(user).cloned().unwrap_or_default();
        let differs = there.unwrap_or_default().or(&everywhere);
        let mut differs = differs.or(&database.differs);
        // Connections to servers are counted by the user that logs in there.
        if let Some(on_server) = &database.primary.user {
            let on_server = self.users.get(on_server);
            differs.max_user_connections = on_server.and_then(|user| user.max_user_connections);
        }
        differs.terms(&self.paceline)
    }

    /// What is said of a user in every database.
    pub(crate) fn terms_of_user(&self, user: &str) -> Terms {
        let differs = self.users.get(user).cloned().unwrap_or_default();
        differs.terms(&self.paceline)
    }

    /// Most server connections that a pool of this database opens whose user has no table, its reserve included.
    pub(crate) fn pool_size_max(&self, database: &Database) -> usize {
        let terms = database.differs.terms(&self.paceline);
        terms.open_max()
    }
}

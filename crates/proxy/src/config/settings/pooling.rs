//! How many connections there may be, and how they are shared.

use super::Settings;
use super::key::{Key, Kind, timeout};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The limits of a pool's size; also those of the overrides per database and user.
pub(in crate::config) const POOL_SIZE: RangeInclusive<usize> = 1..=10_000;

/// The limits of what a pool has besides: what it keeps, and its reserve. 0 is none.
pub(in crate::config) const POOL_PART: RangeInclusive<usize> = 0..=10_000;

/// The limits of connections of a database or user; 0 is no limit.
pub(in crate::config) const CONNECTIONS: RangeInclusive<usize> = 0..=1_000_000;

/// PgBouncer's word for a query without a statement, as the value of `server_check_query`.
const EMPTY_QUERY: &str = "<empty>";

/// How long a client keeps its server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PoolMode {
    /// Until it leaves.
    Session,
    /// Until its transaction ends.
    #[default]
    Transaction,
    /// Until its statement ends: there are no transactions of several.
    Statement,
}

impl PoolMode {
    /// Their names, as PgBouncer has them.
    pub(in crate::config) const NAMES: &[&str] = &["session", "transaction", "statement"];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        }
    }

    /// The one of that name, which is one of [`PoolMode::NAMES`].
    pub(in crate::config) fn named(name: &str) -> Self {
        match name {
            "session" => Self::Session,
            "statement" => Self::Statement,
            _ => Self::Transaction,
        }
    }
}

/// How many connections there may be, and how they are shared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pooling {
    /// How long a client keeps its server connection.
    pub(crate) pool_mode: PoolMode,
    /// What a server connection runs when its client's session is over; empty is nothing.
    pub(crate) server_reset_query: String,
    /// What an idle server connection must answer before it serves; empty is no check, [`EMPTY_QUERY`] a query without a statement.
    pub(crate) server_check_query: String,
    /// A connection that has been idle for less than this is not checked; zero checks each time.
    pub(crate) server_check_delay: Duration,
    /// Most server connections of one pool, 1 to 10,000.
    pub(crate) default_pool_size: usize,
    /// Server connections that a pool with clients keeps open; at most as many as its size.
    pub(crate) min_pool_size: usize,
    /// Further server connections for clients that wait too long.
    pub(crate) reserve_pool_size: usize,
    /// How long that is; zero: the reserve is never used.
    pub(crate) reserve_pool_timeout: Duration,
    /// Most client connections in all, 1 to 1,000,000.
    pub(crate) max_client_conn: usize,
    /// Most server connections of one database; 0 is no limit.
    pub(crate) max_db_connections: usize,
    /// Most server connections of one user of the servers; 0 is no limit.
    pub(crate) max_user_connections: usize,
    /// Most clients of one database; 0 is no limit.
    pub(crate) max_db_client_connections: usize,
    /// Most clients of one user; 0 is no limit.
    pub(crate) max_user_client_connections: usize,
}

impl Pooling {
    /// The query that checks a server connection; `None`: there is none.
    pub(crate) fn check_query(&self) -> Option<&str> {
        match self.server_check_query.as_str() {
            "" => None,
            EMPTY_QUERY => Some(""),
            query => Some(query),
        }
    }
}

impl Default for Pooling {
    fn default() -> Self {
        Self {
            pool_mode: PoolMode::Transaction,
            server_reset_query: "DISCARD ALL".to_owned(),
            server_check_query: EMPTY_QUERY.to_owned(),
            server_check_delay: Duration::from_secs(30),
            default_pool_size: 20,
            min_pool_size: 0,
            reserve_pool_size: 0,
            reserve_pool_timeout: Duration::from_secs(5),
            max_client_conn: 10_000,
            max_db_connections: 0,
            max_user_connections: 0,
            max_db_client_connections: 0,
            max_user_client_connections: 0,
        }
    }
}

/// A number of connections.
const fn connections(
    limits: RangeInclusive<usize>,
    field: fn(&mut Settings) -> &mut usize,
) -> Kind {
    Kind::Count {
        unit: "connections",
        limits,
        field,
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "pool_mode",
        meaning: "How long a client keeps its server connection: until it leaves, its transaction ends, or its statement ends",
        kind: Kind::Choice {
            among: PoolMode::NAMES,
            show: |settings| settings.pooling.pool_mode.name(),
            choose: |settings, name| settings.pooling.pool_mode = PoolMode::named(name),
        },
    },
    Key {
        name: "server_reset_query",
        meaning: "What a server connection runs after a client's session (pool_mode session) before another client gets it; \"\" runs nothing",
        kind: Kind::Text(|settings| &mut settings.pooling.server_reset_query),
    },
    Key {
        name: "server_check_query",
        meaning: "Query that an idle server connection must answer before it serves again; \"\" for none, <empty> for a query without a statement",
        kind: Kind::Text(|settings| &mut settings.pooling.server_check_query),
    },
    Key {
        name: "server_check_delay",
        meaning: "Time for which a server connection may be idle and then serve without a check (server_check_query); 0 is a check before each use. A connection that was opened or checked within the last second is not checked",
        kind: timeout(|settings| &mut settings.pooling.server_check_delay),
    },
    Key {
        name: "default_pool_size",
        meaning: "Most server connections that one pool (a database and a user) opens",
        kind: connections(POOL_SIZE, |settings| {
            &mut settings.pooling.default_pool_size
        }),
    },
    Key {
        name: "min_pool_size",
        meaning: "Server connections that a pool keeps open while it has clients; never more than its size",
        kind: connections(POOL_PART, |settings| &mut settings.pooling.min_pool_size),
    },
    Key {
        name: "reserve_pool_size",
        meaning: "Further server connections that a pool opens for clients that wait longer than reserve_pool_timeout; 0 is none",
        kind: connections(POOL_PART, |settings| {
            &mut settings.pooling.reserve_pool_size
        }),
    },
    Key {
        name: "reserve_pool_timeout",
        meaning: "How long a client waits before its pool takes a connection from the reserve; 0 never does",
        kind: timeout(|settings| &mut settings.pooling.reserve_pool_timeout),
    },
    Key {
        name: "max_client_conn",
        meaning: "Most client connections at a time, all databases together",
        kind: connections(1..=1_000_000, |settings| {
            &mut settings.pooling.max_client_conn
        }),
    },
    Key {
        name: "max_db_connections",
        meaning: "Most server connections of one database, all its pools together; 0 is no limit",
        kind: connections(CONNECTIONS, |settings| {
            &mut settings.pooling.max_db_connections
        }),
    },
    Key {
        name: "max_user_connections",
        meaning: "Most server connections of one user on the server, all its pools together; 0 is no limit",
        kind: connections(CONNECTIONS, |settings| {
            &mut settings.pooling.max_user_connections
        }),
    },
    Key {
        name: "max_db_client_connections",
        meaning: "Most clients of one database; 0 is no limit",
        kind: connections(CONNECTIONS, |settings| {
            &mut settings.pooling.max_db_client_connections
        }),
    },
    Key {
        name: "max_user_client_connections",
        meaning: "Most clients of one user, all databases together; 0 is no limit",
        kind: connections(CONNECTIONS, |settings| {
            &mut settings.pooling.max_user_client_connections
        }),
    },
];

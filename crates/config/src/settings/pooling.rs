//! The number of connections, and how clients share them.

use super::form::{Form, choice, count, text, timeout};
use super::key::{
    ALL_TABLES, DATABASES_AND_THEIR_USERS, DATABASES_ONLY, GLOBAL_USERS_ONLY, section,
};
use crate::words::words;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The limits of a pool's size; also those of the overrides per database and user.
pub(crate) const POOL_SIZE: RangeInclusive<usize> = 1..=10_000;

/// The limits of the connections that a pool keeps open, and of its reserve. 0 is none.
const POOL_PART: RangeInclusive<usize> = 0..=10_000;

/// The limits of connections of a database or user; 0 is no limit.
const CONNECTIONS: RangeInclusive<usize> = 0..=1_000_000;

/// The limits of requests that wait; 0 is no limit.
const QUEUED: RangeInclusive<usize> = 0..=1_000_000;

/// The limits of requests in a second; 0 is no limit.
const PER_SECOND: RangeInclusive<usize> = 0..=1_000_000;

/// PgBouncer's word for a query without a statement, as the value of `server_check_query`.
const EMPTY_QUERY: &str = "<empty>";

words! {
    /// How long a client keeps its server connection.
    #[derive(Default)]
    pub enum PoolMode {
        /// Until the client disconnects.
        Session = "session",
        /// Until its transaction ends.
        #[default]
        Transaction = "transaction",
        /// Until its statement ends: a transaction has one statement.
        Statement = "statement",
    }
}

section! {
    /// The number of connections, and how clients share them.
    pub struct Pooling {
        /// How long a client keeps its server connection: until it disconnects, its transaction ends, or its statement
        /// ends
        pool_mode: PoolMode = PoolMode::Transaction, choice::<PoolMode>(), overridden(ALL_TABLES), pgbouncer("session");
        /// Query that a server connection runs after a client's session (pool_mode session), before another client gets
        /// it; "" runs nothing
        server_reset_query: String = "DISCARD ALL".to_owned(), text(), pgbouncer("DISCARD ALL");
        /// Query that checks an idle server connection before it serves a client; "" for none, <empty> for a query
        /// without a statement
        server_check_query: String = EMPTY_QUERY.to_owned(), text(), pgbouncer("<empty>");
        /// Idle time after which a server connection is checked (server_check_query) before it serves a client; 0 checks
        /// it before each use. A connection that was opened or checked within the last second is not checked
        server_check_delay: Duration = Duration::from_secs(30), timeout(), pgbouncer("30");
        /// Maximum number of server connections of one pool (a database and a user)
        default_pool_size: usize = 20, connections(POOL_SIZE),
            overridden(ALL_TABLES), overridden_as("pool_size", "default_pool_size"), pgbouncer("20");
        /// Server connections that a pool keeps open while it has clients; at most its size
        min_pool_size: usize = 0, connections(POOL_PART), overridden(DATABASES_AND_THEIR_USERS), pgbouncer("0");
        /// Additional server connections that a pool may open if clients wait longer than reserve_pool_timeout; 0 is
        /// none
        reserve_pool_size: usize = 0, connections(POOL_PART),
            overridden(ALL_TABLES), overridden_as("reserve_pool_size", "reserve_pool"), pgbouncer("0");
        /// How long a client waits before its pool opens a connection of the reserve; 0 never does
        reserve_pool_timeout: Duration = Duration::from_secs(5), timeout(), pgbouncer("5");
        /// Maximum number of client connections, over all databases
        max_client_conn: usize = 10_000, connections(1..=1_000_000), pgbouncer("100");
        /// Maximum number of server connections of one database, over all its pools; 0 is no limit
        max_db_connections: usize = 0, connections(CONNECTIONS), overridden(DATABASES_ONLY), pgbouncer("0");
        /// Maximum number of server connections of one server user, over all its pools; 0 is no limit
        max_user_connections: usize = 0, connections(CONNECTIONS), overridden(GLOBAL_USERS_ONLY), pgbouncer("0");
        /// Maximum number of clients of one database; 0 is no limit
        max_db_client_connections: usize = 0, connections(CONNECTIONS), overridden(DATABASES_ONLY), pgbouncer("0");
        /// Maximum number of requests of one pool (a database and a user) that wait; a further one that would have to wait is
        /// refused (53400); 0 is no limit
        max_queued: usize = 0, requests(QUEUED), overridden(ALL_TABLES);
        /// Maximum number of requests of one pool (a database and a user) that begin in a second; others wait for their turn;
        /// a transaction is one request; 0 is no limit
        max_requests_per_second: usize = 0, requests(PER_SECOND), overridden(ALL_TABLES);
        /// Maximum number of clients of one user, over all databases; 0 is no limit
        max_user_client_connections: usize = 0, connections(CONNECTIONS), overridden(GLOBAL_USERS_ONLY), pgbouncer("0");
    }
}

impl Pooling {
    /// The query that checks a server connection; `None`: there is none.
    pub fn check_query(&self) -> Option<&str> {
        match self.server_check_query.as_str() {
            "" => None,
            EMPTY_QUERY => Some(""),
            query => Some(query),
        }
    }
}

/// A number of requests.
fn requests(limits: RangeInclusive<usize>) -> Form<usize> {
    count("requests", limits)
}

/// A number of connections.
fn connections(limits: RangeInclusive<usize>) -> Form<usize> {
    count("connections", limits)
}

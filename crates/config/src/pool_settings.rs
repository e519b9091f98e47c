//! The settings of one pool: `[paceline]`, with the overrides for its database and its user.

use crate::settings::{ListenMode, PoolMode, SessionState, Settings};
use std::time::Duration;

/// The settings of one pool. Times: zero is no limit, unless the key says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSettings {
    /// How long a client keeps its server connection.
    pub mode: PoolMode,
    /// Most server connections, without the reserve.
    pub size: usize,
    /// Server connections that the pool keeps open; at most `size`.
    pub min_size: usize,
    /// Further server connections for clients that wait too long; zero if `reserve_timeout` is zero.
    pub reserve_size: usize,
    /// How long a client waits before the pool uses the reserve.
    pub reserve_timeout: Duration,
    /// Most server connections of its database.
    pub database_servers_max: Option<usize>,
    /// Most server connections of its user on the server.
    pub user_servers_max: Option<usize>,
    /// Most clients of its database.
    pub database_clients_max: Option<usize>,
    /// Most clients of its user.
    pub user_clients_max: Option<usize>,
    /// Longest wait for a server connection.
    pub query_wait_timeout: Duration,
    /// A client that waits longer than this gets a NOTICE.
    pub query_wait_notify: Duration,
    /// Longest query.
    pub query_timeout: Duration,
    /// Longest transaction.
    pub transaction_timeout: Duration,
    /// Longest silence inside a transaction.
    pub idle_transaction_timeout: Duration,
    /// Longest silence outside a transaction.
    pub client_idle_timeout: Duration,
    /// Age at which a connection is closed; zero: after its first use.
    pub server_lifetime: Duration,
    /// An unused connection is closed after this time.
    pub server_idle_timeout: Duration,
    /// Longest time for which a failed login is not tried again.
    pub server_login_retry: Duration,
    /// What becomes of session state that cannot follow its client.
    pub session_state: SessionState,
    /// Settings, in lower case, that the pool asks a server for because PostgreSQL does not report them.
    pub asked_parameters: Vec<String>,
    /// How clients listen.
    pub listen_mode: ListenMode,
    /// Whether autocommit statements without a hint may travel together.
    pub hotspot_for_autocommit: bool,
}

impl PoolSettings {
    /// Most server connections, the reserve included.
    #[must_use]
    pub fn open_max(&self) -> usize {
        self.size + self.reserve_size
    }
}

/// The settings of a pool, of settings in which all overrides are applied.
impl From<&Settings> for PoolSettings {
    fn from(settings: &Settings) -> PoolSettings {
        let Settings {
            pooling,
            timeouts,
            state,
            grouping,
            ..
        } = settings;
        let limit = |limit: usize| Some(limit).filter(|limit| *limit > 0);
        let reserve_size = match pooling.reserve_pool_timeout.is_zero() {
            true => 0,
            false => pooling.reserve_pool_size,
        };
        PoolSettings {
            mode: pooling.pool_mode,
            size: pooling.default_pool_size,
            min_size: pooling.min_pool_size.min(pooling.default_pool_size),
            reserve_size,
            reserve_timeout: pooling.reserve_pool_timeout,
            database_servers_max: limit(pooling.max_db_connections),
            user_servers_max: limit(pooling.max_user_connections),
            database_clients_max: limit(pooling.max_db_client_connections),
            user_clients_max: limit(pooling.max_user_client_connections),
            query_wait_timeout: timeouts.query_wait_timeout,
            query_wait_notify: timeouts.query_wait_notify,
            query_timeout: timeouts.query_timeout,
            transaction_timeout: timeouts.transaction_timeout,
            idle_transaction_timeout: timeouts.idle_transaction_timeout,
            client_idle_timeout: timeouts.client_idle_timeout,
            server_lifetime: timeouts.server_lifetime,
            server_idle_timeout: timeouts.server_idle_timeout,
            server_login_retry: timeouts.server_login_retry,
            session_state: state.session_state,
            asked_parameters: state.asked_parameters(),
            listen_mode: state.listen_mode,
            hotspot_for_autocommit: grouping.hotspot_for_autocommit,
        }
    }
}

//! The settings of one pool: `[paceline]`, with the overrides for its database and its user.

use crate::settings::Settings;
use std::ops::Deref;

/// The settings of one pool. Dereference it to read a key of `[paceline]`, with the overrides applied. Its own fields are values
/// that are computed from keys; `None` means that there is no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSettings {
    settings: Settings,
    /// Maximum server connections, without the reserve.
    pub size: usize,
    /// Server connections that the pool keeps open; at most `size`.
    pub min_size: usize,
    /// Further server connections for clients that wait too long; zero if `reserve_pool_timeout` is zero.
    pub reserve_size: usize,
    /// Maximum server connections of its database.
    pub database_servers_max: Option<usize>,
    /// Maximum server connections of its user on the server.
    pub user_servers_max: Option<usize>,
    /// Maximum clients of its database.
    pub database_clients_max: Option<usize>,
    /// Maximum clients of its user.
    pub user_clients_max: Option<usize>,
    /// Settings, in lower case, that the pool asks a server for because PostgreSQL does not report them.
    pub asked_parameters: Vec<String>,
}

impl PoolSettings {
    /// Maximum server connections, the reserve included.
    #[must_use]
    pub fn open_max(&self) -> usize {
        self.size + self.reserve_size
    }
}

impl Deref for PoolSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// Expects settings with all overrides applied.
impl From<Settings> for PoolSettings {
    fn from(settings: Settings) -> PoolSettings {
        let pooling = &settings.pooling;
        let limit = |limit: usize| Some(limit).filter(|limit| *limit > 0);
        let reserve_size = match pooling.reserve_pool_timeout.is_zero() {
            true => 0,
            false => pooling.reserve_pool_size,
        };
        PoolSettings {
            size: pooling.default_pool_size,
            min_size: pooling.min_pool_size.min(pooling.default_pool_size),
            reserve_size,
            database_servers_max: limit(pooling.max_db_connections),
            user_servers_max: limit(pooling.max_user_connections),
            database_clients_max: limit(pooling.max_db_client_connections),
            user_clients_max: limit(pooling.max_user_client_connections),
            asked_parameters: settings.state.asked_parameters(),
            settings,
        }
    }
}

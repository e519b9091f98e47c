//! The limits of client connections.

use crate::auth::Refusal;
use crate::proxy::Proxy;
use paceline_pool::pool::Pool;
use paceline_pool::quota::Full;
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts a client as long as it lives: among all, and from when it is admitted among those of its database, user and pool.
pub(super) struct ClientSlot {
    proxy: Arc<Proxy>,
    stage: Stage,
}

enum Stage {
    Connected,
    Admitted(Arc<Pool>),
    Replicating(Arc<Pool>),
}

impl ClientSlot {
    /// For whoever has connected.
    pub(super) fn take(proxy: &Arc<Proxy>) -> Self {
        proxy.clients.fetch_add(1, Ordering::Relaxed);
        Self {
            proxy: Arc::clone(proxy),
            stage: Stage::Connected,
        }
    }

    /// Whether there is room for one more client, this one.
    pub(super) fn check_room(&self) -> Result<(), Refusal> {
        let clients = self.proxy.clients.load(Ordering::Relaxed);
        match clients <= self.proxy.config().paceline.pooling.max_client_conn {
            true => Ok(()),
            false => {
                let message = "no more connections allowed (max_client_conn)";
                Err(ErrorResponse::fatal("08P01", message).into())
            }
        }
    }

    /// Takes a place among the clients of the pool's database and user, if there is one.
    pub(super) fn admit(&mut self, pool: &Arc<Pool>) -> Result<(), Refusal> {
        let message = match pool.quotas.enter(&pool.settings()) {
            Ok(()) => {
                pool.clients.fetch_add(1, Ordering::Relaxed);
                self.stage = Stage::Admitted(Arc::clone(pool));
                return Ok(());
            }
            Err(Full::Database) => "client connections exceeded (max_db_client_connections)",
            Err(Full::User) => "client connections exceeded (max_user_client_connections)",
        };
        Err(ErrorResponse::fatal("08P01", message).into())
    }

    /// A replication client, from when it may wait for its server connection.
    pub(super) fn replicates(&mut self, pool: &Arc<Pool>) {
        pool.replication_clients.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Replicating(Arc::clone(pool));
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.proxy.clients.fetch_sub(1, Ordering::Relaxed);
        match &self.stage {
            Stage::Connected => {}
            Stage::Admitted(pool) => {
                pool.quotas.leave();
                pool.clients.fetch_sub(1, Ordering::Relaxed);
            }
            Stage::Replicating(pool) => {
                pool.quotas.leave();
                pool.clients.fetch_sub(1, Ordering::Relaxed);
                pool.replication_clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

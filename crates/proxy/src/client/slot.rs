//! Limits of the number of clients.

use crate::login_refusal::LoginRefusal;
use crate::proxy::Proxy;
use paceline_pool::pool::Pool;
use paceline_pool::quota::Full;
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts a client: in the whole process, and after [`ClientSlot::admit`] in its database, user and pool.
pub(super) struct ClientSlot {
    proxy: Arc<Proxy>,
    admission: Admission,
}

enum Admission {
    Connected,
    Admitted(Arc<Pool>),
    Replicating(Arc<Pool>),
}

impl ClientSlot {
    /// Counts a client that has connected.
    pub(super) fn new(proxy: &Arc<Proxy>) -> Self {
        proxy.clients.fetch_add(1, Ordering::Relaxed);
        Self {
            proxy: Arc::clone(proxy),
            admission: Admission::Connected,
        }
    }

    /// Checks `max_client_conn`; this client is already counted.
    pub(super) fn check_max_clients(&self) -> Result<(), LoginRefusal> {
        let clients = self.proxy.clients.load(Ordering::Relaxed);
        match clients <= self.proxy.config().paceline.pooling.max_client_conn {
            true => Ok(()),
            false => {
                let message = "no more connections allowed (max_client_conn)";
                Err(ErrorResponse::fatal("08P01", message).into())
            }
        }
    }

    /// Counts the client in the pool's database and user, unless their limit is reached.
    pub(super) fn admit(&mut self, pool: &Arc<Pool>) -> Result<(), LoginRefusal> {
        let message = match pool.quotas.enter(&pool.settings()) {
            Ok(()) => {
                pool.clients.fetch_add(1, Ordering::Relaxed);
                self.admission = Admission::Admitted(Arc::clone(pool));
                return Ok(());
            }
            Err(Full::Database) => "client connections exceeded (max_db_client_connections)",
            Err(Full::User) => "client connections exceeded (max_user_client_connections)",
        };
        Err(ErrorResponse::fatal("08P01", message).into())
    }

    /// Counts the client as a replication client of the pool.
    pub(super) fn replicates(&mut self, pool: &Arc<Pool>) {
        pool.replication_clients.fetch_add(1, Ordering::Relaxed);
        self.admission = Admission::Replicating(Arc::clone(pool));
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.proxy.clients.fetch_sub(1, Ordering::Relaxed);
        match &self.admission {
            Admission::Connected => {}
            Admission::Admitted(pool) => {
                pool.quotas.leave();
                pool.clients.fetch_sub(1, Ordering::Relaxed);
            }
            Admission::Replicating(pool) => {
                pool.quotas.leave();
                pool.clients.fetch_sub(1, Ordering::Relaxed);
                pool.replication_clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

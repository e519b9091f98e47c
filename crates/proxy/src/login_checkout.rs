//! Server connections for queries of Paceline's own during a login.

use crate::auth::Refusal;
use crate::cancel::{ClientEntry, ClientState};
use paceline_batch::line::WaiterId;
use paceline_pool::pool::{CheckoutResult, Pool, PooledServer, WaitResult};
use std::sync::Arc;

/// A place in the line of a pool until this is dropped: a client that leaves during its login keeps none.
struct InLine<'a> {
    pool: &'a Arc<Pool>,
    waiter: WaiterId,
    /// The client, if the pool is its own: the console shows that it waits.
    client: Option<&'a ClientEntry>,
}

impl<'a> InLine<'a> {
    fn new(pool: &'a Arc<Pool>, waiter: WaiterId, client: Option<&'a ClientEntry>) -> Self {
        if let Some(client) = client {
            client.now(ClientState::Waiting(Arc::clone(pool), waiter));
        }
        Self {
            pool,
            waiter,
            client,
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            client.now(ClientState::Nothing);
        }
        // Usually it has left the line already.
        self.pool.withdraw(self.waiter);
    }
}

/// A connection of a pool for `auth_query`.
///
/// # Errors
/// The messages with which the client's connection ends.
pub(crate) async fn checkout(pool: &Arc<Pool>) -> Result<Box<PooledServer>, Refusal> {
    checkout_for(pool, None).await
}

/// A connection of the client's own pool.
///
/// # Errors
/// The messages with which the client's connection ends.
pub(crate) async fn client_checkout(client: &ClientEntry) -> Result<Box<PooledServer>, Refusal> {
    checkout_for(&client.info.pool, Some(client)).await
}

async fn checkout_for(
    pool: &Arc<Pool>,
    client: Option<&ClientEntry>,
) -> Result<Box<PooledServer>, Refusal> {
    let (mut result, _in_line) = match pool.check_out_for_login() {
        CheckoutResult::Server(server) => (WaitResult::Server(server), None),
        CheckoutResult::Refused(message) => (WaitResult::Fatal(message), None),
        CheckoutResult::Waiting(waiter, result) => {
            let in_line = InLine::new(pool, waiter, client);
            (WaitResult::Queued(result), Some(in_line))
        }
    };
    // A client gets no NOTICE during its login.
    while let WaitResult::Queued(further) = result {
        result = further.await.map_err(|_| Refusal::Left)?;
    }
    match result {
        WaitResult::Server(server) => Ok(server),
        WaitResult::Fatal(message) => Err(Refusal::Told(message)),
        WaitResult::Answer(_) | WaitResult::Queued(_) => Err(Refusal::Left),
    }
}

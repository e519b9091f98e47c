//! Checks out server connections for Paceline's own queries during a login.

use crate::cancel::{ClientEntry, ClientState};
use crate::login_refusal::LoginRefusal;
use paceline_batch::line::WaiterId;
use paceline_pool::pool::{CheckoutResult, Pool, PooledServer, WaitResult};
use std::sync::Arc;

/// A request in the line of a pool until this is dropped. So a client that leaves during its login leaves the line, too.
struct InLine<'a> {
    pool: &'a Arc<Pool>,
    waiter: WaiterId,
    /// The client, if the pool is the client's own. Then the console shows that the client waits.
    client: Option<&'a ClientEntry>,
}

impl<'a> InLine<'a> {
    fn new(pool: &'a Arc<Pool>, waiter: WaiterId, client: Option<&'a ClientEntry>) -> Self {
        if let Some(client) = client {
            client.set_state(ClientState::Waiting(Arc::clone(pool), waiter));
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
            client.set_state(ClientState::Nothing);
        }
        // In most cases the request has already left the line.
        self.pool.withdraw(self.waiter);
    }
}

/// Checks out a connection for `auth_query`.
///
/// # Errors
/// The messages with which the client's connection ends.
pub(crate) async fn checkout(pool: &Arc<Pool>) -> Result<Box<PooledServer>, LoginRefusal> {
    checkout_for(pool, None).await
}

/// Checks out a connection of the client's own pool.
///
/// # Errors
/// The messages with which the client's connection ends.
pub(crate) async fn client_checkout(
    client: &ClientEntry,
) -> Result<Box<PooledServer>, LoginRefusal> {
    checkout_for(&client.info.pool, Some(client)).await
}

async fn checkout_for(
    pool: &Arc<Pool>,
    client: Option<&ClientEntry>,
) -> Result<Box<PooledServer>, LoginRefusal> {
    let (mut result, _in_line) = match pool.check_out_for_login() {
        CheckoutResult::Server(server) => (WaitResult::Server(server), None),
        CheckoutResult::Refused(message) | CheckoutResult::Full(message) => {
            (WaitResult::Fatal(message), None)
        }
        CheckoutResult::Waiting(waiter, result) => {
            let in_line = InLine::new(pool, waiter, client);
            (WaitResult::Queued(result), Some(in_line))
        }
    };
    // During its login a client gets no NOTICE.
    while let WaitResult::Queued(further) = result {
        result = further.await.map_err(|_| LoginRefusal::Left)?;
    }
    match result {
        WaitResult::Server(server) => Ok(server),
        WaitResult::Fatal(message) | WaitResult::QueryTimeout(message) => {
            Err(LoginRefusal::Error(message))
        }
        WaitResult::Answer(_)
        | WaitResult::Queued(_)
        | WaitResult::PlainRead(_)
        | WaitResult::OfReplica(..)
        | WaitResult::Elsewhere => Err(LoginRefusal::Left),
    }
}

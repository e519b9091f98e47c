//! Waits of a client for a server connection or for an answer.

use super::taken::Taken;
use super::{Client, ClientEnd, shut_down};
use crate::cancel::ClientState;
use bytes::BytesMut;
use paceline_batch::line::WaiterId;
use paceline_pool::pool::{CheckoutResult, Pool, WaitResult};
use paceline_wire::ErrorResponse;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Maximum number of bytes read ahead while a request is in the line; more stay in the socket.
pub(super) const READ_AHEAD_MAX: usize = 64 * 1024;

impl Client {
    /// Checks out a server connection for this client, waiting if necessary.
    pub(super) async fn check_out(&mut self) -> Result<WaitResult, ClientEnd> {
        let own = self.session.sequences;
        Ok(match self.pool.check_out_alone(self.admission, own) {
            CheckoutResult::Server(server) => WaitResult::Server(server),
            CheckoutResult::Refused(message) => WaitResult::Fatal(message),
            CheckoutResult::Full(answer) => WaitResult::Answer(answer),
            CheckoutResult::Waiting(waiter, receiver) => self.wait(waiter, receiver, false).await?,
        })
    }

    /// Handles the result of a wait that needs no relay.
    pub(super) async fn handle_wait_result(&mut self, result: WaitResult) -> Result<(), ClientEnd> {
        match result {
            // A request of a deferred transaction, or one in parts, joins no group, so this answer is an error.
            WaitResult::Answer(answer) if self.deferred.is_some() || self.taken != Taken::All => {
                self.send_answer(answer.into(), true).await
            }
            WaitResult::Answer(mut answer) => {
                self.primary_served();
                self.send(&mut answer).await
            }
            WaitResult::Fatal(message) | WaitResult::QueryTimeout(message) => {
                Err(ClientEnd::Error(message))
            }
            WaitResult::Server(server) => {
                server.give_back();
                Ok(())
            }
            // `wait_in` handles the first two, and `handle_single` the last. Only replicas send the other one.
            WaitResult::Queued(_)
            | WaitResult::PlainRead(_)
            | WaitResult::OfReplica(..)
            | WaitResult::Elsewhere => Ok(()),
        }
    }

    /// Waits in the line. If the client disconnects or cancels before dispatch, the request leaves the line. A request that only
    /// `reads` can be given up at any time: it changes nothing, and its group runs without it.
    pub(super) async fn wait(
        &mut self,
        waiter: WaiterId,
        receiver: oneshot::Receiver<WaitResult>,
        reads: bool,
    ) -> Result<WaitResult, ClientEnd> {
        let pool = Arc::clone(&self.pool);
        let result = self.wait_in(&pool, waiter, receiver, reads).await?;
        result.ok_or_else(shut_down)
    }

    /// The same in the line of another pool. `None`: the pool gives no answer any more.
    pub(super) async fn wait_in(
        &mut self,
        pool: &Arc<Pool>,
        waiter: WaiterId,
        mut receiver: oneshot::Receiver<WaitResult>,
        mut reads: bool,
    ) -> Result<Option<WaitResult>, ClientEnd> {
        let entry = Arc::clone(&self.registration.entry);
        let mut cancelled = std::pin::pin!(entry.cancelled_in_flight());
        entry.set_state(ClientState::Waiting(Arc::clone(pool), waiter));
        if let Some(trace) = &mut self.trace {
            trace.enters_line();
        }
        let mut left = None;
        let result = loop {
            let watch = left.is_none() && self.input.len() < READ_AHEAD_MAX;
            tokio::select! {
                biased;
                result = &mut receiver => match result {
                    Ok(WaitResult::Queued(further)) => {
                        receiver = further;
                        if left.is_none() {
                            // Boxed because it is rare: its state would be part of every client.
                            left = Box::pin(self.send_queued_notice()).await.err();
                        }
                    }
                    Ok(WaitResult::PlainRead(further)) => {
                        (receiver, reads) = (further, true);
                    }
                    result => break result,
                },
                () = &mut cancelled, if reads => break Ok(WaitResult::cancelled()),
                ready = self.stream.readable(), if watch => {
                    let read = ready.and_then(|()| self.stream.read_now(&mut self.input));
                    if let Err(error) = read {
                        if pool.withdraw(waiter) || reads {
                            entry.set_state(ClientState::Nothing);
                            return Err(error.into());
                        }
                        // The request is in flight; its group runs to the end.
                        pool.client_left(waiter);
                        left = Some(error);
                    }
                }
            }
        };
        if let (Some(trace), Ok(result)) = (&mut self.trace, &result) {
            trace.leaves_line(result);
        }
        let next = match &result {
            Ok(WaitResult::Server(_)) => ClientState::Starting,
            _ => ClientState::Nothing,
        };
        let cancelled = entry.wait_ended(next);
        if cancelled || left.is_some() {
            pool.forget(waiter);
        }
        match (result, left) {
            // The cancel request arrived between dispatch and relay.
            (Ok(WaitResult::Server(server)), None) if cancelled && server.is_fresh() => {
                entry.set_state(ClientState::Nothing);
                server.give_back();
                Ok(Some(WaitResult::cancelled()))
            }
            (Ok(WaitResult::Elsewhere), None) if cancelled => Ok(Some(WaitResult::cancelled())),
            (Ok(result), None) => Ok(Some(result)),
            (_, Some(error)) => Err(error.into()),
            (Err(_), None) => Ok(None),
        }
    }

    /// The NOTICE of `query_wait_notify`, in PgBouncer's words. It is sent between two requests.
    async fn send_queued_notice(&self) -> io::Result<()> {
        const WORDS: &str =
            "No server connection available in postgres backend, client being queued";
        let mut out = BytesMut::new();
        ErrorResponse::notice(WORDS).write(&mut out);
        self.stream.write_all(&mut out).await
    }
}

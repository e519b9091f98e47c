//! Waits of a client for a server connection or for an answer.

use super::{Client, End, shut_down};
use crate::cancel::ClientState;
use bytes::BytesMut;
use paceline_batch::line::{WaitSpec, WaiterId};
use paceline_pool::pool::{CheckoutResult, WaitResult};
use paceline_wire::ErrorResponse;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Maximum number of bytes read ahead while a request is in the line; more stay in the socket.
const READ_AHEAD_MAX: usize = 64 * 1024;

impl Client {
    /// Checks out a server connection for this client, waiting if necessary.
    pub(super) async fn check_out(&mut self) -> Result<WaitResult, End> {
        Ok(
            match self.pool.check_out(WaitSpec::default(), false, || None) {
                CheckoutResult::Server(server) => WaitResult::Server(server),
                CheckoutResult::Refused(told) => WaitResult::Fatal(told),
                CheckoutResult::Waiting(waiter, waits) => self.wait(waiter, waits, false).await?,
            },
        )
    }

    /// Handles the result of a wait that needs no relay.
    pub(super) async fn take(&mut self, delivery: WaitResult) -> Result<(), End> {
        match delivery {
            WaitResult::Answer(mut answer) => Ok(self.stream.write_all(&mut answer).await?),
            WaitResult::Fatal(told) => Err(End::Told(told)),
            WaitResult::Server(server) => {
                server.give_back();
                Ok(())
            }
            // Handled during the wait.
            WaitResult::Queued(_) => Ok(()),
        }
    }

    /// Waits in the line. If the client disconnects or cancels before dispatch, the request leaves the line. A request that only
    /// `reads` can be given up at any time: it changes nothing, and its group goes on without it.
    pub(super) async fn wait(
        &mut self,
        waiter: WaiterId,
        mut waits: oneshot::Receiver<WaitResult>,
        reads: bool,
    ) -> Result<WaitResult, End> {
        let entry = Arc::clone(&self.registration.entry);
        let mut cancelled = std::pin::pin!(entry.cancelled_too_late());
        entry.now(ClientState::Waiting(Arc::clone(&self.pool), waiter));
        let mut gone = None;
        let delivery = loop {
            let watch = gone.is_none() && self.input.len() < READ_AHEAD_MAX;
            tokio::select! {
                biased;
                delivery = &mut waits => match delivery {
                    Ok(WaitResult::Queued(further)) => {
                        waits = further;
                        if gone.is_none() {
                            // Boxed because it is rare: its state would be part of every client.
                            gone = Box::pin(self.tell_queued()).await.err();
                        }
                    }
                    delivery => break delivery,
                },
                () = &mut cancelled, if reads => break Ok(WaitResult::cancelled()),
                ready = self.stream.readable(), if watch => {
                    let read = ready.and_then(|()| self.stream.read_now(&mut self.input));
                    if let Err(error) = read {
                        if self.pool.withdraw(waiter) || reads {
                            entry.now(ClientState::Nothing);
                            return Err(error.into());
                        }
                        // The request is in flight; its group runs to the end.
                        gone = Some(error);
                    }
                }
            }
        };
        let next = match &delivery {
            Ok(WaitResult::Server(_)) => ClientState::Starting,
            _ => ClientState::Nothing,
        };
        let cancelled = entry.has_waited(next);
        if cancelled || gone.is_some() {
            self.pool.forget(waiter);
        }
        match (delivery, gone) {
            // The cancel request arrived between dispatch and relay.
            (Ok(WaitResult::Server(server)), None) if cancelled && server.is_fresh() => {
                entry.now(ClientState::Nothing);
                server.give_back();
                Ok(WaitResult::cancelled())
            }
            (Ok(delivery), None) => Ok(delivery),
            (Ok(_), Some(error)) => Err(error.into()),
            (Err(_), _) => Err(shut_down()),
        }
    }

    /// The NOTICE of `query_wait_notify`, in PgBouncer's words. It is sent between two requests.
    async fn tell_queued(&self) -> io::Result<()> {
        const WORDS: &str =
            "No server connection available in postgres backend, client being queued";
        let mut out = BytesMut::new();
        ErrorResponse::notice(WORDS).write(&mut out);
        self.stream.write_all(&mut out).await
    }
}

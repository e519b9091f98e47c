//! Limits of a pool's requests, before a request is handled: it may have to wait for its turn (`max_requests_per_second`), and is refused
//! if too many wait (`max_queued`). A transaction counts as one request, and none of its requests waits or is refused.

use super::wait::READ_AHEAD_MAX;
use super::{Client, ClientEnd, disconnected};
use paceline_net::optional_timeout;
use paceline_pool::messages;
use paceline_pool::pool::{Admission, DisconnectSignal, Turn, WaitResult};
use std::pin::pin;
use std::sync::Arc;

/// Whether a request is in the hands of the client's task as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// It is complete.
    All,
    /// Others follow: an answer now would not be the end of the request.
    First,
}

impl Client {
    /// Begins a request under the limits of the pool. False: it has been answered with an error.
    pub(super) async fn begin_request(&mut self, parts: Parts) -> Result<bool, ClientEnd> {
        if self.deferred.is_some() {
            self.admission = Admission::Always;
            return Ok(true);
        }
        self.admission = match parts {
            Parts::All => Admission::Limited,
            Parts::First => Admission::Always,
        };
        let per_second = self.pool_settings.load().pooling.max_requests_per_second;
        if self.pool.begins_now(per_second) {
            return Ok(true);
        }
        // Boxed because it is rare: its state would be part of every client.
        Box::pin(self.wait_for_turn(parts)).await
    }

    async fn wait_for_turn(&mut self, parts: Parts) -> Result<bool, ClientEnd> {
        let turn = match self.pool.await_turn(self.admission) {
            Ok(turn) => turn,
            Err(refusal) => {
                self.send_answer(refusal.into(), true).await?;
                return Ok(false);
            }
        };
        self.admission = Admission::Always;
        let limit = self.pool_settings.load().timeouts.query_wait_timeout;
        let waited = optional_timeout(limit, self.turn_comes(turn, parts)).await;
        match waited {
            Some(Ok(Some(()))) => Ok(true),
            Some(Ok(None)) => {
                self.handle_wait_result(WaitResult::cancelled()).await?;
                Ok(false)
            }
            Some(Err(end)) => Err(end),
            None => Err(ClientEnd::Error(messages::turn_is_late(limit))),
        }
    }

    /// Returns when the request may begin; `None`: the client has cancelled it. A request in parts cannot be cancelled yet.
    async fn turn_comes(&mut self, turn: Turn, parts: Parts) -> Result<Option<()>, ClientEnd> {
        let entry = Arc::clone(&self.registration.entry);
        let mut turn = pin!(entry.unless_cancelled(turn.begins()));
        loop {
            let watch = self.input.len() < READ_AHEAD_MAX;
            tokio::select! {
                biased;
                begins = &mut turn => match (begins, parts) {
                    (None, Parts::First) => return Ok(Some(())),
                    (begins, _) => return Ok(begins),
                },
                ready = self.stream.readable(), if watch => {
                    ready?;
                    self.stream.read_now(&mut self.input)?;
                }
                end = disconnected(&mut self.disconnect, DisconnectSignal::ShutDown) => return Err(end),
            }
        }
    }
}

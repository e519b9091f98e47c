//! Limits of a pool's requests, before a request is handled: it may have to wait for its turn (`max_requests_per_second`), and is refused
//! if too many wait (`max_queued`). A transaction counts as one request, and none of its requests waits or is refused.

use super::deferred_transaction::is_sync;
use super::taken::Taken;
use super::wait::READ_AHEAD_MAX;
use super::{Client, ClientEnd, disconnected};
use crate::cancel::ClientState;
use bytes::Bytes;
use paceline_net::optional_timeout;
use paceline_pool::clock;
use paceline_pool::messages;
use paceline_pool::pool::{Admission, DisconnectSignal, Turn, WaitResult};
use std::pin::pin;
use std::sync::Arc;

impl Client {
    /// Begins a request under the limits of the pool; these messages of it have been taken. False: it has been answered with an error.
    pub(super) async fn begin_request(
        &mut self,
        messages: &Bytes,
        taken: Taken,
    ) -> Result<bool, ClientEnd> {
        self.taken = taken;
        // PostgreSQL answers a Sync alone at once, and never with an error.
        if is_sync(messages) {
            return Ok(true);
        }
        let deferred = self.deferred.as_mut();
        let is_counted = deferred.map(|deferred| std::mem::replace(&mut deferred.is_counted, true));
        self.admission = match (taken, is_counted) {
            (Taken::All, None) => Admission::Limited,
            _ => Admission::Always,
        };
        if is_counted == Some(true) {
            return Ok(true);
        }
        let per_second = self.pool_settings.load().pooling.max_requests_per_second;
        if self.pool.begins_now(per_second) {
            return Ok(true);
        }
        // Boxed because it is rare: its state would be part of every client.
        Box::pin(self.wait_for_turn()).await
    }

    async fn wait_for_turn(&mut self) -> Result<bool, ClientEnd> {
        let turn = match self.pool.await_turn(self.admission) {
            Ok(turn) => turn,
            Err(refusal) => {
                self.send_answer(refusal.into(), true).await?;
                return Ok(false);
            }
        };
        self.admission = Admission::Always;
        let limit = self.pool_settings.load().timeouts.query_wait_timeout;
        let waited = optional_timeout(limit, self.turn_comes(turn)).await;
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

    /// Returns when the request may begin; `None`: the client has cancelled it.
    async fn turn_comes(&mut self, turn: Turn) -> Result<Option<()>, ClientEnd> {
        let entry = Arc::clone(&self.registration.entry);
        let state = ClientState::Throttled(clock::now());
        let mut turn = pin!(entry.unless_cancelled(state, turn.begins()));
        loop {
            let watch = self.input.len() < READ_AHEAD_MAX;
            tokio::select! {
                biased;
                begins = &mut turn => return Ok(begins),
                ready = self.stream.readable(), if watch => {
                    ready?;
                    self.stream.read_now(&mut self.input)?;
                }
                end = disconnected(&mut self.disconnect, DisconnectSignal::ShutDown) => return Err(end),
            }
        }
    }
}

//! The use of the shared LISTEN connection by a relay.

use super::{AwaitedEnd, BACKLOG_MAX, RelayTask, ServerDisposal};
use crate::client::Client;
use crate::client::end::ClientEnd;
use crate::shared_listen::{ListeningClient, is_silent, notification_ready};
use bytes::BytesMut;
use paceline_config::PoolMode;
use paceline_net::Stream;
use paceline_relay::relay::ListenNeed;
use std::pin::pin;
use std::time::Duration;
use tokio::io::Interest;

/// Maximum time that a server connection of the pool waits for the shared connection. After it, other clients may use the server
/// connection.
const SERVER_WAITS_MAX: Duration = Duration::from_secs(5);

/// The end of a wait for the shared connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The shared connection has received everything that was committed before.
    Over,
    /// The client disconnected.
    Left,
    /// The time is over.
    TooLong,
}

impl RelayTask<'_> {
    /// Waits until the shared connection has done what the client's next message needs.
    pub(super) async fn use_shared_listen(&mut self, need: ListenNeed) {
        let side = &mut self.conn.side;
        let address = self.conn.key.address();
        self.client.join_listening();
        let Client {
            listening,
            stream,
            input,
            ..
        } = &mut *self.client;
        let Some(client) = listening.as_deref() else {
            return;
        };
        if need.changes && !client.is_of(address) {
            // The configuration has changed: this server connection leads to another database than the shared connection.
            return self.relay.listen_done(need, Err(client.lost()));
        }
        let work = async {
            if side.notified {
                // Notifications that other clients sent through this server connection are not this client's own.
                client.catch_up().await;
                side.notified = false;
            }
            match need.changes {
                true => client.reserve(side.process, &need.channels).await,
                false => {
                    client.is_served(side.process);
                    Ok(())
                }
            }
        };
        let limited = async {
            let done = tokio::time::timeout(SERVER_WAITS_MAX, work).await;
            done.unwrap_or_else(|_| Err(is_silent()))
        };
        let outcome = match stream.unless_closed(input, limited).await {
            Some(outcome) => outcome,
            None => {
                self.client_end = Some(ClientEnd::Left);
                // The request is executed, but the client no longer listens.
                match need.changes {
                    true => Err(client.lost()),
                    false => Ok(()),
                }
            }
        };
        if outcome.is_err() && !self.relay.is_registered_for_listen() {
            client.settle();
            self.client.note_channels();
        }
        self.relay.listen_done(need, outcome);
    }

    /// Delivers, at the end of the client's transaction, its own notifications and those committed before, and then the server's
    /// ReadyForQuery. If the shared connection does not receive them in time, returns the rest of the answer, so that the client
    /// can wait for it without the server connection.
    pub(super) async fn catch_up(&mut self) -> Option<AwaitedEnd> {
        let is_free = self.client.mode != PoolMode::Session
            && self.relay.is_quiet()
            && self.relay.pinned_for().is_empty()
            && self.input.pending.is_empty()
            && self.to_server.is_empty()
            && self.input.body.left == 0;
        let limit = is_free.then_some(SERVER_WAITS_MAX);
        let waited = match self.client_end {
            Some(_) => Wait::Left,
            None => self.client.receive_own(&mut self.output.bytes, limit).await,
        };
        match waited {
            Wait::Over => self.conn.side.notified = false,
            Wait::Left => drop(self.client_end.get_or_insert(ClientEnd::Left)),
            Wait::TooLong => {
                let unlistens_all = self.relay.take_unlistens_all();
                let ready = self.relay.take_held_ready()?;
                // Notifications that the shared connection has not received yet would count as another client's own.
                self.conn.side.must_close = true;
                return Some(AwaitedEnd {
                    ready,
                    unlistens_all,
                });
            }
        }
        let unlistens_all = self.relay.take_unlistens_all();
        self.client
            .has_received(unlistens_all, &mut self.output.bytes);
        self.relay.notifications_received(&mut self.output.bytes);
        None
    }

    /// Delivers notifications to a client that keeps its server connection.
    pub(super) fn deliver(&mut self) -> Result<(), (ServerDisposal, ClientEnd)> {
        match self
            .client
            .listening
            .as_ref()
            .map(|client| client.take(&mut self.output.bytes))
        {
            Some(Err(why)) => Err((
                self.disposal_after_session(),
                self.client.end_of_notifications(why),
            )),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

impl Client {
    /// Waits until the shared connection has received everything that was committed before. Meanwhile sends the client its
    /// notifications.
    async fn receive_own(&mut self, to_client: &mut BytesMut, limit: Option<Duration>) -> Wait {
        let Self {
            listening,
            stream,
            input,
            ..
        } = self;
        let Some(client) = listening.as_deref() else {
            return Wait::Over;
        };
        let limited = async {
            let delivering = deliver_until_caught_up(client, stream, to_client);
            match limit {
                None => delivering.await,
                Some(limit) => {
                    let done = tokio::time::timeout(limit, delivering).await;
                    done.unwrap_or(Wait::TooLong)
                }
            }
        };
        let waited = stream.unless_closed(input, limited).await;
        waited.unwrap_or(Wait::Left)
    }

    /// Appends the notifications of the client's transaction.
    fn has_received(&mut self, unlistens_all: bool, to_client: &mut BytesMut) {
        if let Some(client) = &self.listening {
            client.settle();
            // If the client may get no more notifications, its next delivery ends the connection.
            let _ = client.take_all(to_client);
            if unlistens_all {
                client.unlisten_all();
            }
        }
        self.note_channels();
    }

    /// Waits for the rest of an answer after the server connection was returned to the pool.
    pub(super) async fn await_end(
        &mut self,
        awaited: AwaitedEnd,
        to_client: &mut BytesMut,
    ) -> Result<(), ClientEnd> {
        if self.receive_own(to_client, None).await == Wait::Left {
            return Err(ClientEnd::Left);
        }
        self.has_received(awaited.unlistens_all, to_client);
        to_client.extend_from_slice(&awaited.ready);
        Ok(())
    }
}

async fn deliver_until_caught_up(
    client: &ListeningClient,
    stream: &Stream,
    to_client: &mut BytesMut,
) -> Wait {
    let mut caught_up = pin!(client.catch_up());
    loop {
        tokio::select! {
            biased;
            () = &mut caught_up => return Wait::Over,
            ready = stream.ready(Interest::WRITABLE), if !to_client.is_empty() => {
                if ready.is_err() || stream.write_part(to_client).is_err() {
                    return Wait::Left;
                }
            }
            () = notification_ready(Some(client)), if to_client.len() < BACKLOG_MAX => {
                if client.take(to_client).is_err() {
                    // The client gets no more notifications; its connection ends with an error after the answer is complete.
                    caught_up.await;
                    return Wait::Over;
                }
            }
        }
    }
}

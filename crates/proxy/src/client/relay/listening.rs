//! What the shared LISTEN has to do with a client's relay.

use super::{AwaitedEnd, BACKLOG_MAX, Fate, RelayTask};
use crate::client::Client;
use crate::client::end::End;
use crate::shared_listen::{ListeningClient, is_silent, mail};
use bytes::BytesMut;
use paceline_config::PoolMode;
use paceline_net::Stream;
use paceline_relay::relay::ListenNeed;
use std::pin::pin;
use std::time::Duration;
use tokio::io::Interest;

/// How long a server connection of the pool waits for the shared connection. Then others may have its place.
const SERVER_WAITS_MAX: Duration = Duration::from_secs(5);

/// How a wait for the shared connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// It has received what was committed.
    Over,
    /// The client has left.
    Left,
    /// It took too long.
    TooLong,
}

impl RelayTask<'_> {
    /// The shared connection does what the client's next message needs.
    pub(super) async fn have_listened(&mut self, need: ListenNeed) {
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
            // The configuration has changed: what this server is told does not reach the shared connection.
            return self.relay.listen_done(need, Err(client.lost()));
        }
        let work = async {
            if side.notified {
                // What others have notified by this server is not the client's own.
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
                self.client_end = Some(End::Left);
                // Its request is carried out; but it listens no longer.
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

    /// The client's transaction is over: it gets what it has notified, and what was committed before, and then the server's
    /// ReadyForQuery. Returns what is left to be waited for without the server connection, which others wait for.
    pub(super) async fn catch_up(&mut self) -> Option<AwaitedEnd> {
        let is_free = self.client.mode != PoolMode::Session
            && self.relay.is_quiet()
            && self.relay.pinned_for().is_empty()
            && self.pending.is_empty()
            && self.to_server.is_empty()
            && self.body_left == 0;
        let limit = is_free.then_some(SERVER_WAITS_MAX);
        let waited = match self.client_end {
            Some(_) => Wait::Left,
            None => self.client.receive_own(&mut self.to_client, limit).await,
        };
        match waited {
            Wait::Over => self.conn.side.notified = false,
            Wait::Left => drop(self.client_end.get_or_insert(End::Left)),
            Wait::TooLong => {
                let unlistens_all = self.relay.take_unlistens_all();
                let ready = self.relay.take_held_ready()?;
                // What it has notified and the shared connection has not received would be another client's.
                self.conn.side.must_close = true;
                return Some(AwaitedEnd {
                    ready,
                    unlistens_all,
                });
            }
        }
        let unlistens_all = self.relay.take_unlistens_all();
        self.client.has_received(unlistens_all, &mut self.to_client);
        self.relay.notifications_received(&mut self.to_client);
        None
    }

    /// Notifications for a client that keeps its server.
    pub(super) fn deliver(&mut self) -> Result<(), (Fate, End)> {
        match self
            .client
            .listening
            .as_ref()
            .map(|client| client.take(&mut self.to_client))
        {
            Some(Err(why)) => Err((self.fate_after_session(), self.client.end_of_mail(why))),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

impl Client {
    /// Waits until the shared connection has received what was committed before. Meanwhile the client is sent what waits for it.
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

    /// The notifications of the client's transaction are there.
    fn has_received(&mut self, unlistens_all: bool, to_client: &mut BytesMut) {
        if let Some(client) = &self.listening {
            client.settle();
            // What ends its connection is found when the next delivery is due.
            let _ = client.take_all(to_client);
            if unlistens_all {
                client.unlisten_all();
            }
        }
        self.note_channels();
    }

    /// Waits for the rest of an answer whose server connection others have.
    pub(super) async fn await_end(
        &mut self,
        awaited: AwaitedEnd,
        to_client: &mut BytesMut,
    ) -> Result<(), End> {
        if self.receive_own(to_client, None).await == Wait::Left {
            return Err(End::Left);
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
            () = mail(Some(client)), if to_client.len() < BACKLOG_MAX => {
                if client.take(to_client).is_err() {
                    // It gets no more, and learns why when its answer is complete.
                    caught_up.await;
                    return Wait::Over;
                }
            }
        }
    }
}

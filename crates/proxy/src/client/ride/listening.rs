//! What the shared LISTEN has to do with a client's ride.

use super::{Fate, Relay};
use crate::client::End;
use paceline_line::ride::ListenNeed;

impl Relay<'_> {
    /// The shared connection does what the client's next message needs.
    pub(super) async fn have_listened(&mut self, need: ListenNeed) {
        let server = self.conn.side.process;
        let client = self.client.join_listening();
        if self.conn.side.notified {
            // What others have notified by this server is not the client's own.
            client.catch_up().await;
            self.conn.side.notified = false;
        }
        let outcome = match need.changes {
            true => client.reserve(server, &need.channels).await,
            false => {
                client.is_served(server);
                Ok(())
            }
        };
        if outcome.is_err() && !self.ride.is_listened_for() {
            client.settle();
            self.client.note_channels();
        }
        self.ride.listens(need, outcome);
    }

    /// The client's transaction is over: it gets what it has notified, and what was committed before, and then the server's
    /// ReadyForQuery.
    pub(super) async fn catch_up(&mut self) {
        if let Some(client) = &self.client.listening {
            client.catch_up().await;
            client.settle();
            self.conn.side.notified = false;
            // What ends its connection is found when the next delivery is due.
            let _ = client.take_all(&mut self.to_client);
            if self.ride.take_unlistens_all() {
                client.unlisten_all();
            }
        }
        self.client.note_channels();
        self.ride.has_notifications(&mut self.to_client);
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

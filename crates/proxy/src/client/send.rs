//! Answers that a client receives outside relays. A client that does not read delays nothing but itself, and ends when its database is killed.

use super::end::not_read;
use super::{Client, ClientEnd, disconnected};
use bytes::{Buf, BytesMut};
use paceline_pool::pool::DisconnectSignal;
use std::time::Duration;

/// Maximum time for which the connection of a client that ends stays open for its last messages, if the client does not read them.
const LAST_MESSAGES_MAX: Duration = Duration::from_secs(1);

impl Client {
    /// Sends messages.
    pub(super) async fn send(&mut self, messages: &mut impl Buf) -> Result<(), ClientEnd> {
        self.stream.write_part(messages)?;
        match messages.has_remaining() {
            // Boxed because it is rare: its state would be part of every client.
            true => Box::pin(self.send_slowly(messages)).await,
            false => Ok(()),
        }
    }

    /// Waits until the client has received the messages. If the database of the client is killed meanwhile, the connection ends without
    /// an error message, which cannot follow a part of another message. A shutdown waits for the client as for a busy one.
    async fn send_slowly(&mut self, messages: &mut impl Buf) -> Result<(), ClientEnd> {
        tokio::select! {
            biased;
            sent = self.stream.write_all(messages) => Ok(sent?),
            _ = disconnected(&mut self.disconnect, DisconnectSignal::Killed) => {
                Err(not_read())
            }
        }
    }

    /// Sends the last messages of a connection, which ends whether or not the client receives them.
    pub(super) async fn send_last(&mut self, mut messages: BytesMut) {
        let sent = self.stream.write_all(&mut messages);
        let _ = tokio::time::timeout(LAST_MESSAGES_MAX, sent).await;
    }
}

//! A client that listens through the shared connection: LISTEN and UNLISTEN outside a transaction, and the delivery of
//! notifications between two requests.

use super::Client;
use super::end::{ClientEnd, disconnected};
use crate::shared_listen::{ListeningClient, NotificationEnd, notification_ready};
use bytes::BytesMut;
use paceline_config::PoolMode;
use paceline_pool::pool::DisconnectSignal;
use paceline_relay::relay::ListenMode;
use paceline_relay::request::Request;
use paceline_sql::Listening;
use paceline_wire::backend::Status;
use tokio::io::Interest;

impl Client {
    /// Whether the client's LISTEN uses the shared connection.
    pub(super) fn shares_listen(&self) -> bool {
        if self.listening.is_some() {
            return true;
        }
        let session = &self.session;
        self.mode != PoolMode::Session
            && self.pool.settings().state.listen_mode == ListenMode::Shared
            && session.listening.fits(&session.settings)
    }

    /// Joins the shared connection, unless the client already uses it.
    pub(super) fn join_listening(&mut self) -> &ListeningClient {
        let Self {
            listening,
            proxy,
            pool,
            registration,
            ..
        } = self;
        listening.get_or_insert_with(|| {
            ListeningClient::join(&proxy.shared_listens, pool, registration.process)
        })
    }

    /// Updates the channels in the session. A client without channels leaves the shared connection.
    pub(super) fn note_channels(&mut self) {
        match &mut self.listening {
            Some(client) => {
                if let Some((channels, version)) = client.channels_since(client.version) {
                    self.session.listening.channels = channels;
                    client.version = version;
                }
            }
            None => self.session.listening.channels = Vec::new(),
        }
        if let Some(client) = &self.listening
            && !self.session.listening.is_listening()
            && client.ended().is_none()
            && client.out.is_empty()
        {
            self.listening = None;
        }
    }

    /// Handles LISTEN or UNLISTEN outside a transaction, without a server connection of the pool.
    pub(super) async fn listen_alone(
        &mut self,
        change: Listening,
        request: &Request,
    ) -> Result<(), ClientEnd> {
        if let Listening::Listen(_) = &change {
            self.join_listening();
        }
        let Self {
            listening,
            stream,
            input,
            ..
        } = self;
        let work = async {
            match (&change, listening.as_deref()) {
                (_, None) => Ok(()),
                (Listening::Listen(channel), Some(client)) => client.listen(channel).await,
                (Listening::Unlisten(_) | Listening::UnlistenAll, Some(client)) => {
                    client.catch_up().await;
                    Ok(())
                }
            }
        };
        let outcome = stream.unless_closed(input, work).await;
        let outcome = outcome.ok_or(ClientEnd::Left)?;
        let mut out = match outcome {
            Ok(()) => self.session.answer_listening(&change, request),
            Err(error) => BytesMut::from(error),
        };
        if let Some(client) = &self.listening {
            // If the client may get no more notifications, its next delivery ends the connection.
            let _ = client.take_all(&mut out);
            match &change {
                Listening::Listen(_) => {}
                Listening::Unlisten(channel) => client.unlisten(channel),
                Listening::UnlistenAll => client.unlisten_all(),
            }
        }
        self.note_channels();
        // The client may read at once everything that was committed before the answer.
        self.primary_served();
        Status::Idle.write(&mut out);
        self.count_answered(&request.bytes, out.len());
        self.send(&mut out).await
    }

    /// Appends the notifications of everything that was committed before, as PostgreSQL sends them at the end of a transaction.
    pub(super) async fn append_notifications(
        &mut self,
        out: &mut BytesMut,
    ) -> Result<(), ClientEnd> {
        let Self {
            listening,
            stream,
            input,
            disconnect,
            ..
        } = self;
        let Some(client) = listening else {
            return Ok(());
        };
        tokio::select! {
            biased;
            caught_up = stream.unless_closed(input, client.catch_up()) => caught_up.ok_or(ClientEnd::Left)?,
            end = disconnected(disconnect, DisconnectSignal::Closing) => return Err(end),
        }
        let before = out.len();
        // If the client may get no more notifications, its next delivery ends the connection.
        let _ = client.take_all(out);
        if out.len() > before {
            // The client may read at once what the notification is about.
            self.primary_served();
        }
        Ok(())
    }

    /// Writes notifications as far as the socket takes them. Returns the socket events to wait for.
    pub(super) fn deliver(&mut self) -> Result<Interest, ClientEnd> {
        let Some(client) = &mut self.listening else {
            return Ok(Interest::READABLE);
        };
        if let Err(end) = client.refill() {
            return Err(self.end_of_notifications(end));
        }
        let delivers = !client.out.is_empty();
        if delivers {
            self.stream.write_part(&mut client.out)?;
        }
        let more = !client.out.is_empty();
        if delivers {
            // The client may read at once what the notification is about.
            self.primary_served();
        }
        Ok(match more {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        })
    }

    /// Completes a notification that was written in part.
    pub(super) async fn finish_delivery(&mut self) -> Result<(), ClientEnd> {
        while let Some(client) = &mut self.listening
            && !client.out.is_empty()
        {
            self.stream.write_part(&mut client.out)?;
            if client.out.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                ready = self.stream.ready(Interest::WRITABLE) => drop(ready?),
                () = notification_ready(self.listening.as_deref()) => drop(self.deliver()?),
            }
        }
        Ok(())
    }

    /// Ends the connection of a client that can get no more notifications.
    pub(super) fn end_of_notifications(&self, why: NotificationEnd) -> ClientEnd {
        let mut out = BytesMut::new();
        why.error().write(&mut out);
        if why == NotificationEnd::Lost && !self.stream.has_partial_write() {
            return ClientEnd::Error(out.freeze());
        }
        let client = self.stream.peer();
        tracing::warn!(%client, "client disconnected: it does not read its notifications");
        if !self.stream.has_partial_write() {
            // The client does not read; its connection is closed whether or not this write succeeds.
            let _ = self.stream.write_now(&mut out);
        }
        ClientEnd::Left
    }
}

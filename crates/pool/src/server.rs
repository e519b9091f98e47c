//! A connection to PostgreSQL. This file holds its state, how it takes over a client's settings, and how it is reset. `open` and `dial`
//! open a connection, `statements` runs statements of Paceline's own.

mod backend_key;
mod buffers;
mod credential;
mod defaults;
mod dial;
mod error;
mod generation;
mod info;
mod list;
mod log;
mod open;
mod readiness;
mod replication;
mod statements;

pub use backend_key::{BackendKey, abandon, deliver};
pub use buffers::RelayBuffers;
pub use defaults::{DefaultIsolation, TransactionDefaults};
pub use dial::{connect, dial};
pub use error::ServerError;
pub(crate) use generation::{Generation, GenerationGuard};
pub use info::ServerInfo;
pub(crate) use list::ServerList;
pub use list::ServerSnapshot;
pub(crate) use log::ServerLog;
pub use statements::{Description, ResultRows};

use crate::address::Address;
use crate::clock;
use crate::close_reason;
use crate::quota::ServerSlot;
use bytes::{Bytes, BytesMut};
use paceline_cluster::Lsn;
use paceline_net::Stream;
use paceline_relay::sequences::{SequenceState, SequenceToken};
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SessionSettings;
use paceline_wire::backend::tag;
use paceline_wire::{frame, frontend};
use std::sync::Arc;
use std::time::Instant;

/// A connection to PostgreSQL that is logged in.
#[derive(Debug)]
pub struct ServerConn {
    /// The socket.
    pub stream: Stream,
    /// The session state of the connection, as far as it is known.
    pub side: ServerSide,
    /// Bytes that were received and not read.
    pub input: BytesMut,
    /// For the relay on this connection.
    pub buffers: RelayBuffers,
    /// Identifies the backend in cancel requests.
    pub key: BackendKey,
    /// The generation of the pool's connection; `None` outside of pools.
    pub(crate) generation: Option<GenerationGuard>,
    /// The time at which the connection last served a request.
    pub(crate) idle_since: Instant,
    /// The time at which the connection last answered `server_check_query`.
    pub(crate) checked: Option<Instant>,
    /// The time at which the connection was opened.
    pub(crate) opened: Instant,
    /// The slot in the limits of its database and user.
    pub(crate) slot: Option<ServerSlot>,
    /// The properties of the connection for the console.
    pub info: Arc<ServerInfo>,
    /// Logs the end of a pool's connection.
    pub(crate) log: Option<ServerLog>,
    /// The position that the replica had replayed when this connection last asked.
    pub(crate) replayed: Lsn,
    /// The server's defaults, if the database has several hosts and the server is the primary.
    pub(crate) transaction_defaults: Option<TransactionDefaults>,
}

impl ServerConn {
    /// Wraps a stream on which no login has begun.
    pub fn new(
        stream: Stream,
        address: &Arc<Address>,
        none: &Arc<SessionSettings>,
        prepared_max: usize,
    ) -> Self {
        let now = clock::now();
        Self {
            info: ServerInfo::new(&stream, 0, None),
            key: BackendKey::new(address, stream.peer().remote()),
            stream,
            side: ServerSide::new(Arc::clone(none), prepared_max),
            input: BytesMut::new(),
            buffers: RelayBuffers::default(),
            generation: None,
            idle_since: now,
            checked: None,
            opened: now,
            slot: None,
            log: None,
            replayed: Lsn::ZERO,
            transaction_defaults: None,
        }
    }

    /// Reads the next message; remembers ParameterStatus messages on the way.
    async fn message(&mut self) -> Result<(u8, Bytes), ServerError> {
        loop {
            if let Some((kind, message)) = frame::split_message(&mut self.input)? {
                if kind == tag::PARAMETER_STATUS {
                    self.note_parameter(&message);
                }
                return Ok((kind, message));
            }
            self.stream.read_some(&mut self.input).await?;
        }
    }

    fn note_parameter(&mut self, message: &[u8]) {
        let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
        self.side.note_reported(body);
    }

    /// The parameters that the server reports at each login.
    pub fn parameters(&self) -> Vec<(String, String)> {
        self.side.reported.clone().into_iter().collect()
    }

    /// Activates a client's settings. [`ServerError::Refused`]: the server rejects them.
    ///
    /// # Errors
    /// The server rejects the settings, or the connection is lost.
    pub async fn adopt(&mut self, settings: &Arc<SessionSettings>) -> Result<(), ServerError> {
        let any_reader = self.side.sequences.token();
        self.adopt_for(settings, any_reader).await
    }

    /// The same for a client with this sequence token: it must not read sequence values of other clients.
    ///
    /// # Errors
    /// As for [`ServerConn::adopt`].
    pub async fn adopt_for(
        &mut self,
        settings: &Arc<SessionSettings>,
        reader: SequenceToken,
    ) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        let mut queries = self.side.adopt(settings, reader, &mut out);
        if queries == 0 {
            return Ok(());
        }
        self.stream.write_all(&mut out).await?;
        let mut refused = None;
        while queries > 0 {
            match self.message().await? {
                (tag::READY_FOR_QUERY, _) => queries -= 1,
                (tag::ERROR_RESPONSE, message) => refused = Some(message),
                _ => {}
            }
        }
        match refused {
            None => Ok(()),
            Some(error) => {
                self.side.needs_reset = true;
                self.side.sequences = SequenceState::Mixed;
                Err(ServerError::Refused(error))
            }
        }
    }

    /// Resets the session by `server_reset_query`; an empty query does nothing.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn reset(
        &mut self,
        sql: &str,
        none: Arc<SessionSettings>,
    ) -> Result<(), ServerError> {
        if !sql.is_empty() {
            self.query(sql).await?;
        }
        match is_discard_all(sql) {
            true => self.side.discarded(none),
            false => self.side.mark_unknown(),
        }
        Ok(())
    }

    /// Ends an idle session with Terminate. (A connection that is dropped sends none: it may be in the middle of a message.)
    pub fn terminate(mut self) {
        if let Some(log) = &mut self.log {
            log.closes_unless_replaced(close_reason::NOT_NEEDED);
        }
        let mut out = BytesMut::new();
        frontend::write_terminate(&mut out);
        // If the server does not get the message, it notices that the connection is closed.
        let _ = self.stream.write_now(&mut out);
    }
}

/// Whether this query resets the whole session.
pub fn is_discard_all(sql: &str) -> bool {
    let mut words = sql.trim_end().trim_end_matches(';').split_whitespace();
    let mut next_is = |word: &str| {
        words
            .next()
            .is_some_and(|next| next.eq_ignore_ascii_case(word))
    };
    next_is("DISCARD") && next_is("ALL") && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_discard_all_leaves_nothing() {
        for sql in ["DISCARD ALL", " discard\n all ;", "Discard All;;"] {
            assert!(is_discard_all(sql), "{sql}");
        }
        for sql in [
            "",
            ";",
            "DISCARD",
            "DISCARD TEMP",
            "DISCARD ALL; SET x TO 1",
            "DISCARDALL",
        ] {
            assert!(!is_discard_all(sql), "{sql}");
        }
    }
}

//! A replication client: after its login, all bytes are relayed unchanged between client and server until one of them closes the
//! connection. The server connection is the client's own (`pool/replication.rs`).
//!
//! No message is changed or held back until it is complete. Each direction buffers a bounded number of bytes; while the receiver
//! does not take them, the sender is not read. No time limit of the configuration ends such a connection: streaming lasts as long
//! as both sides want.

mod messages;

use super::end::{End, disconnected};
use super::slot::ClientSlot;
use super::turn::Turn;
use crate::auth::Refusal;
use crate::cancel::{CancelKeys, ClientEntry, ClientState, Registration};
use crate::client_info::ClientInfo;
use crate::log::{self, ClientNames};
use crate::proxy::Proxy;
use bytes::{Bytes, BytesMut};
use messages::Messages;
use paceline_net::Stream;
use paceline_pool::pool::{DisconnectSignal, Pool, ReplicationServer};
use paceline_pool::replication::Replication;
use paceline_pool::stats::first_words;
use paceline_sql::quote_literal;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::{self, Status};
use paceline_wire::startup::Startup;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::Interest;
use tokio::sync::watch;

/// Maximum number of bytes buffered for a peer that does not read; while they are buffered, the other peer is not read.
const BACKLOG_MAX: usize = 256 * 1024;

/// An authenticated client that asks for a replication connection.
pub(super) struct Asked<'a> {
    pub(super) kind: Replication,
    pub(super) pool: Arc<Pool>,
    pub(super) startup: &'a Startup,
}

/// A replication client that has its server connection and the server's parameters.
pub(super) struct Begun {
    pub(super) pool: Arc<Pool>,
    server: ReplicationServer,
    registration: Registration,
    disconnect: watch::Receiver<DisconnectSignal>,
}

/// The same, with the other parts of the login.
pub(super) struct Guest {
    pub(super) begun: Begun,
    /// Bytes that the client sent after its login.
    pub(super) input: BytesMut,
    pub(super) slot: ClientSlot,
}

/// A replication client that has logged in.
pub(super) struct ReplicationClient {
    stream: Stream,
    /// `None` after the server closed the connection; the client still gets what the server sent before.
    server: Option<ReplicationServer>,
    pool: Arc<Pool>,
    registration: Registration,
    disconnect: watch::Receiver<DisconnectSignal>,
    turn: Turn,
    to_server: BytesMut,
    to_client: BytesMut,
    /// Message boundaries in the bytes of the server.
    answers: Messages,
    /// Start of the query that the server has not answered completely.
    asked: Option<Instant>,
    /// Start of the transaction.
    transaction: Option<Instant>,
    /// Writing to the server failed. The server may still have sent a last message.
    is_deaf: bool,
    _proxy: Arc<Proxy>,
    _slot: ClientSlot,
}

impl Asked<'_> {
    /// Gets the client a server connection and sends the parameters that the server reported.
    pub(super) async fn begin(
        self,
        stream: &Stream,
        cancel_keys: &Arc<CancelKeys>,
    ) -> Result<Begun, Refusal> {
        let Self {
            kind,
            pool,
            startup,
        } = self;
        let shared = Arc::clone(&pool.shared);
        let parameters = kind.parameters(startup, &shared.config().paceline.state);
        let disconnect = pool.disconnect_signals();
        let server = pool.replication_server(kind, &parameters).await;
        let server = server.map_err(Refusal::Told)?;
        let info = ClientInfo::new(&pool, stream.peer(), stream.cipher()).replicating(kind);
        let registration = cancel_keys
            .register(info)
            .ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?;
        let entry = &registration.entry;
        entry.now(ClientState::Relaying(server.conn.key.clone()));
        entry.has_settings(&shared.settings_book.intern(name_of(startup)));
        let mut out = BytesMut::new();
        backend::write_authentication_ok(&mut out);
        for (name, value) in server.conn.parameters() {
            backend::write_parameter_status(&mut out, &name, &value);
        }
        backend::write_backend_key(&mut out, registration.process, registration.secret);
        Status::Idle.write(&mut out);
        stream.write_all(&mut out).await?;
        Ok(Begun {
            pool,
            server,
            registration,
            disconnect,
        })
    }
}

/// The settings of the client that `SHOW CLIENTS` shows.
fn name_of(startup: &Startup) -> BTreeMap<String, String> {
    const NAME: &str = "application_name";
    let value = startup.get(NAME);
    let sql = value.map(|value| format!("SET {NAME} TO {}", quote_literal(value)));
    sql.map(|sql| (NAME.to_owned(), sql)).into_iter().collect()
}

impl ReplicationClient {
    pub(super) fn new(proxy: Arc<Proxy>, stream: Stream, guest: Guest) -> Self {
        let Guest { begun, input, slot } = guest;
        let mut server = begun.server;
        let to_client = std::mem::take(&mut server.conn.input);
        let mut answers = Messages::default();
        answers.pass(&to_client, |_| {});
        Self {
            stream,
            server: Some(server),
            pool: begun.pool,
            registration: begun.registration,
            disconnect: begun.disconnect,
            turn: Turn::default(),
            to_server: input,
            to_client,
            answers,
            asked: None,
            transaction: None,
            is_deaf: false,
            _proxy: proxy,
            _slot: slot,
        }
    }

    pub(super) fn entry(&self) -> Arc<ClientEntry> {
        Arc::clone(&self.registration.entry)
    }

    /// Relays until one side ends the connection.
    pub(super) async fn run(&mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
            if self.turn.is_over() {
                self.turn.pass().await;
            }
        };
        self.log_end(&end);
        self.registration.entry.now(ClientState::Nothing);
        if let End::Told(told) = end {
            self.tell(&told);
        }
    }

    fn log_end(&self, end: &End) {
        tracing::debug!(%end, "replication connection ends");
        let (config, peer) = (self.pool.shared.config(), self.stream.peer());
        let name = self.pool.name.get();
        let names = || ClientNames {
            database: name.map(|name| name.database.as_str()),
            user: name.map(|name| name.user.as_str()),
            peer: &peer,
        };
        let why = match end {
            End::Io(_) => "client unexpected eof",
            End::Told(told) => {
                let why = first_words(told).unwrap_or_default();
                log::pooler_error(&config.paceline.logging, names(), why);
                why
            }
            End::Left | End::Wire(_) | End::Lost(_) => "client close request",
        };
        let since = self.registration.entry.info.since;
        let age = self.pool.shared.clock.seconds().saturating_sub(since);
        log::client_closed(&config.paceline.logging, names(), why, age);
    }

    /// Sends a last message, unless the client is in the middle of another one. The connection ends either way.
    fn tell(&mut self, told: &[u8]) {
        if self.answers.are_whole() {
            self.to_client.extend_from_slice(told);
            let _ = self.stream.write_now(&mut self.to_client);
        }
    }

    /// Moves bytes in both directions; waits if there are none.
    async fn step(&mut self) -> Result<(), End> {
        let heard = self.hear_client()?;
        let answered = self.hear_server()?;
        match heard + answered {
            0 => {
                // Counts as work, because readiness costs the runtime nothing: a mistake in the events waited for would starve
                // all other tasks.
                self.turn.bytes(0);
                self.wait().await
            }
            bytes => {
                self.turn.bytes(bytes);
                self.pool.stats.moved(heard as u64, answered as u64);
                Ok(())
            }
        }
    }

    /// Reads from the client and writes to the server. Returns the number of bytes read.
    fn hear_client(&mut self) -> Result<usize, End> {
        let before = self.to_server.len();
        let mut ended = None;
        if before < BACKLOG_MAX {
            ended = self.stream.read_now(&mut self.to_server).err();
        }
        let heard = self.to_server.len() - before;
        if heard > 0 {
            let now = Instant::now();
            self.registration.entry.info.request_begins();
            self.asked.get_or_insert(now);
            self.transaction.get_or_insert(now);
        }
        self.write_to_server();
        match ended {
            // Bytes that the server does not take at once are dropped.
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(End::Left),
            Some(error) => Err(error.into()),
            None => Ok(heard),
        }
    }

    fn write_to_server(&mut self) {
        match &self.server {
            Some(server) if !self.is_deaf => {
                if !self.to_server.is_empty() {
                    let written = server.conn.stream.write_part(&mut self.to_server);
                    self.is_deaf = written.is_err();
                }
            }
            _ => self.to_server.clear(),
        }
    }

    /// Reads from the server and writes to the client. Returns the number of bytes read.
    fn hear_server(&mut self) -> Result<usize, End> {
        let before = self.to_client.len();
        let mut ended = false;
        if before < BACKLOG_MAX
            && let Some(server) = &self.server
        {
            ended = server.conn.stream.read_now(&mut self.to_client).is_err();
        }
        let answered = self.to_client.len() - before;
        if answered > 0 {
            self.count_answers(before);
        }
        if !self.to_client.is_empty() {
            self.stream.write_part(&mut self.to_client)?;
        }
        if ended {
            // The slot becomes free for another connection.
            self.server = None;
            self.registration.entry.now(ClientState::Nothing);
        }
        match self.server {
            // KILL sends clients an error before it closes their connections.
            None if self.to_client.is_empty() => Err(match *self.disconnect.borrow() {
                DisconnectSignal::Killed => End::Told(DisconnectSignal::Killed.message()),
                _ => End::Left,
            }),
            _ => Ok(answered),
        }
    }

    /// Counts the queries and transactions that are complete in the bytes behind the first `before` ones for the client.
    fn count_answers(&mut self, before: usize) {
        let said = self.to_client.get(before..).unwrap_or_default();
        let (stats, asked, transaction) =
            (&self.pool.stats, &mut self.asked, &mut self.transaction);
        self.answers.pass(said, |status| {
            if let Some(since) = asked.take() {
                stats.served_queries(1, since.elapsed());
            }
            if let Ok(Status::Idle) = Status::read(&[status])
                && let Some(since) = transaction.take()
            {
                stats.served_transactions(1, since.elapsed());
            }
        });
    }

    /// Waits until bytes can be moved, or the connection must end.
    async fn wait(&mut self) -> Result<(), End> {
        let of_client = interest(&self.to_server, &self.to_client);
        let of_server = interest(&self.to_client, &self.to_server);
        let (replaced, server) = match &mut self.server {
            Some(server) => (Some(&mut server.replaced), Some(&server.conn.stream)),
            None => (None, None),
        };
        tokio::select! {
            biased;
            end = disconnected(&mut self.disconnect, DisconnectSignal::ShutDown) => Err(end),
            () = changed(replaced) => Err(replaced_by_another()),
            ready = ready(Some(&self.stream), of_client) => Ok(ready?),
            // The next read reports the state of the connection.
            _ = ready(server, of_server) => Ok(()),
        }
    }
}

impl Drop for ReplicationClient {
    fn drop(&mut self) {
        if self.registration.entry.info.is_killed() {
            let mut out = BytesMut::new();
            ErrorResponse::fatal("08P01", "admin forced disconnect").write(&mut out);
            self.tell(&out);
        }
    }
}

/// The events to wait for on one side; `None` if there is nothing to do.
fn interest(from_it: &BytesMut, to_it: &BytesMut) -> Option<Interest> {
    let reads = (from_it.len() < BACKLOG_MAX).then_some(Interest::READABLE);
    let writes = (!to_it.is_empty()).then_some(Interest::WRITABLE);
    match (reads, writes) {
        (Some(reads), Some(writes)) => Some(reads | writes),
        (one, other) => one.or(other),
    }
}

async fn ready(stream: Option<&Stream>, interest: Option<Interest>) -> io::Result<()> {
    match (stream, interest) {
        (Some(stream), Some(interest)) => stream.ready(interest).await.map(|_| ()),
        _ => std::future::pending().await,
    }
}

/// Returns when the pool asks for the connection to be closed.
async fn changed(replaced: Option<&mut watch::Receiver<()>>) {
    if let Some(replaced) = replaced
        && replaced.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The error in PgBouncer's words.
fn replaced_by_another() -> End {
    let mut out = BytesMut::new();
    ErrorResponse::fatal("08P01", "database configuration changed").write(&mut out);
    let told: Bytes = out.freeze();
    End::Told(told)
}

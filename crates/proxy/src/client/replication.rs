//! A replication client: after its login, all bytes are relayed unchanged between client and server until one of them closes the
//! connection. The server connection is the client's own (`pool/replication.rs`).
//!
//! No message is changed or held back until it is complete. Each direction buffers a bounded number of bytes; while the receiver
//! does not take them, the sender is not read. No time limit of the configuration ends such a connection: streaming lasts as long
//! as both sides want.

mod messages;

use super::end::{ClientEnd, disconnected};
use super::slot::ClientSlot;
use super::work_budget::WorkBudget;
use crate::cancel::{CancelKeys, ClientEntry, ClientState, Registration};
use crate::client_info::ClientInfo;
use crate::log::{self, ClientNames};
use crate::login_refusal::LoginRefusal;
use crate::proxy::Proxy;
use bytes::{Bytes, BytesMut};
use messages::Messages;
use paceline_net::Stream;
use paceline_pool::clock;
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
pub(super) struct ReplicationRequest<'a> {
    pub(super) kind: Replication,
    pub(super) pool: Arc<Pool>,
    pub(super) startup: &'a Startup,
}

/// A replication client that has its server connection and the server's parameters.
pub(super) struct ReplicationSession {
    pub(super) pool: Arc<Pool>,
    server: ReplicationServer,
    registration: Registration,
    disconnect: watch::Receiver<DisconnectSignal>,
}

/// The same, with the other parts of the login.
pub(super) struct ReplicationLogin {
    pub(super) session: ReplicationSession,
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
    budget: WorkBudget,
    to_server: BytesMut,
    to_client: BytesMut,
    /// Message boundaries in the bytes of the server.
    answers: Messages,
    /// Start of the query that the server has not answered completely.
    query_since: Option<Instant>,
    /// Start of the transaction.
    transaction_since: Option<Instant>,
    /// Writing to the server failed. The server may still have sent a last message.
    write_failed: bool,
    _proxy: Arc<Proxy>,
    _slot: ClientSlot,
}

impl ReplicationRequest<'_> {
    /// Gets the client a server connection and sends the parameters that the server reported.
    pub(super) async fn begin(
        self,
        stream: &Stream,
        cancel_keys: &Arc<CancelKeys>,
    ) -> Result<ReplicationSession, LoginRefusal> {
        let Self {
            kind,
            pool,
            startup,
        } = self;
        let shared = Arc::clone(&pool.shared);
        let parameters = kind.parameters(startup, &shared.config().paceline.state);
        let disconnect = pool.disconnect_signals();
        let server = pool.replication_server(kind, &parameters).await;
        let server = server.map_err(LoginRefusal::Error)?;
        let info = ClientInfo::new(&pool, stream.peer(), stream.cipher()).replicating(kind);
        let registration = cancel_keys
            .register(info)
            .ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?;
        let entry = &registration.entry;
        entry.set_state(ClientState::Relaying(server.conn.key.clone()));
        entry.set_settings(&shared.settings_interner.intern(name_of(startup)));
        let mut out = BytesMut::new();
        backend::write_authentication_ok(&mut out);
        for (name, value) in server.conn.parameters() {
            backend::write_parameter_status(&mut out, &name, &value);
        }
        backend::write_backend_key(&mut out, registration.process, registration.secret);
        Status::Idle.write(&mut out);
        stream.write_all(&mut out).await?;
        Ok(ReplicationSession {
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
    pub(super) fn new(proxy: Arc<Proxy>, stream: Stream, login: ReplicationLogin) -> Self {
        let ReplicationLogin {
            session,
            input,
            slot,
        } = login;
        let mut server = session.server;
        let to_client = std::mem::take(&mut server.conn.input);
        let mut answers = Messages::default();
        answers.pass(&to_client, |_| {});
        Self {
            stream,
            server: Some(server),
            pool: session.pool,
            registration: session.registration,
            disconnect: session.disconnect,
            budget: WorkBudget::default(),
            to_server: input,
            to_client,
            answers,
            query_since: None,
            transaction_since: None,
            write_failed: false,
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
            if self.budget.is_exhausted() {
                self.budget.yield_now().await;
            }
        };
        self.log_end(&end);
        self.registration.entry.set_state(ClientState::Nothing);
        if let ClientEnd::Error(message) = end {
            self.send_last(&message);
        }
    }

    fn log_end(&self, end: &ClientEnd) {
        tracing::debug!(%end, "replication connection ends");
        let (config, peer) = (self.pool.shared.config(), self.stream.peer());
        let name = self.pool.name.get();
        let names = || ClientNames {
            database: name.map(|name| name.database.as_str()),
            user: name.map(|name| name.user.as_str()),
            peer: &peer,
        };
        let why = match end {
            ClientEnd::Io(_) => "client unexpected eof",
            ClientEnd::Error(message) => {
                let why = first_words(message).unwrap_or_default();
                log::pooler_error(&config.paceline.logging, names(), why);
                why
            }
            ClientEnd::Left | ClientEnd::Wire(_) | ClientEnd::ServerLost(_) => {
                "client close request"
            }
        };
        let since = self.registration.entry.info.since;
        let age = self.pool.shared.clock.seconds().saturating_sub(since);
        log::client_closed(&config.paceline.logging, names(), why, age);
    }

    /// Sends a last message, unless the client is in the middle of another one. The connection ends either way.
    fn send_last(&mut self, message: &[u8]) {
        if self.answers.are_whole() {
            self.to_client.extend_from_slice(message);
            let _ = self.stream.write_now(&mut self.to_client);
        }
    }

    /// Moves bytes in both directions; waits if there are none.
    async fn step(&mut self) -> Result<(), ClientEnd> {
        let received = self.read_client()?;
        let sent = self.read_server()?;
        match received + sent {
            0 => {
                // Counts as work, because readiness costs the runtime nothing: a mistake in the events waited for would starve
                // all other tasks.
                self.budget.bytes(0);
                self.wait().await
            }
            bytes => {
                self.budget.bytes(bytes);
                self.pool.stats.moved(received as u64, sent as u64);
                Ok(())
            }
        }
    }

    /// Reads from the client and writes to the server. Returns the number of bytes read.
    fn read_client(&mut self) -> Result<usize, ClientEnd> {
        let before = self.to_server.len();
        let mut ended = None;
        if before < BACKLOG_MAX {
            ended = self.stream.read_now(&mut self.to_server).err();
        }
        let received = self.to_server.len() - before;
        if received > 0 {
            let now = clock::now();
            self.registration.entry.info.request_begins();
            self.query_since.get_or_insert(now);
            self.transaction_since.get_or_insert(now);
        }
        self.write_to_server();
        match ended {
            // Bytes that the server does not take at once are dropped.
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ClientEnd::Left),
            Some(error) => Err(error.into()),
            None => Ok(received),
        }
    }

    fn write_to_server(&mut self) {
        match &self.server {
            Some(server) if !self.write_failed => {
                if !self.to_server.is_empty() {
                    let written = server.conn.stream.write_part(&mut self.to_server);
                    self.write_failed = written.is_err();
                }
            }
            _ => self.to_server.clear(),
        }
    }

    /// Reads from the server and writes to the client. Returns the number of bytes read.
    fn read_server(&mut self) -> Result<usize, ClientEnd> {
        let before = self.to_client.len();
        let mut ended = false;
        if before < BACKLOG_MAX
            && let Some(server) = &self.server
        {
            ended = server.conn.stream.read_now(&mut self.to_client).is_err();
        }
        let sent = self.to_client.len() - before;
        if sent > 0 {
            self.count_answers(before);
        }
        if !self.to_client.is_empty() {
            self.stream.write_part(&mut self.to_client)?;
        }
        if ended {
            // The slot becomes free for another connection.
            self.server = None;
            self.registration.entry.set_state(ClientState::Nothing);
        }
        match self.server {
            // KILL sends clients an error before it closes their connections.
            None if self.to_client.is_empty() => Err(match *self.disconnect.borrow() {
                DisconnectSignal::Killed => ClientEnd::Error(DisconnectSignal::Killed.message()),
                _ => ClientEnd::Left,
            }),
            _ => Ok(sent),
        }
    }

    /// Counts the queries and transactions that are complete in the bytes behind the first `before` ones for the client.
    fn count_answers(&mut self, before: usize) {
        let bytes = self.to_client.get(before..).unwrap_or_default();
        let (stats, query_since, transaction_since) = (
            &self.pool.stats,
            &mut self.query_since,
            &mut self.transaction_since,
        );
        self.answers.pass(bytes, |status| {
            if let Some(since) = query_since.take() {
                stats.served_queries(1, clock::elapsed(since));
            }
            if let Ok(Status::Idle) = Status::read(&[status])
                && let Some(since) = transaction_since.take()
            {
                stats.served_transactions(1, clock::elapsed(since));
            }
        });
    }

    /// Waits until bytes can be moved, or the connection must end.
    async fn wait(&mut self) -> Result<(), ClientEnd> {
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
            self.send_last(&out);
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
fn replaced_by_another() -> ClientEnd {
    let mut out = BytesMut::new();
    ErrorResponse::fatal("08P01", "database configuration changed").write(&mut out);
    let message: Bytes = out.freeze();
    ClientEnd::Error(message)
}

//! The connection of a shared LISTEN: opens it, serves it, and opens it again.

use super::errors::{lost, to_bytes};
use super::state::{DatabaseListen, ListenState};
use bytes::{Bytes, BytesMut};
use paceline_config::ListenLost;
use paceline_pool::address::Address;
use paceline_pool::pool::Pool;
use paceline_pool::server::{ServerConn, ServerError};
use paceline_relay::shared_listen::RoundStep;
use paceline_wire::backend::{self, tag};
use paceline_wire::{ErrorResponse, WireError, frame, frontend};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::time::Instant;

/// If the server owes an answer and sends nothing for this long, the connection counts as lost.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of users tried in turn to open a connection.
const USERS_MAX: usize = 16;

/// Minimum time between two attempts to open a connection.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// The reason why a connection was lost.
#[derive(Debug, thiserror::Error)]
enum ConnectionLost {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("{0}")]
    ServerError(String),
    #[error("no answer for {ANSWER_TIME_MAX:?}")]
    Silent,
}

/// Keeps a connection open while clients listen.
pub(super) async fn run(shared: Arc<DatabaseListen>, marker: Arc<str>) {
    while let Some(pools) = shared.next_pools() {
        let (mut conn, pool) = match open_as_any(&marker, &pools).await {
            Ok(opened) => opened,
            Err((error, pool)) => {
                let retry = match shared.cannot_connect(&error, reconnects(&pool)) {
                    true => pool.settings().timeouts.server_login_retry.max(RETRY_MIN),
                    false => RETRY_MIN,
                };
                tokio::time::sleep(retry).await;
                continue;
            }
        };
        match serve(&shared, &mut conn).await {
            Ok(()) => conn.terminate(),
            Err(why) => {
                let database = pool.address().database.clone();
                tracing::warn!(database, %why, "the connection that listens for clients is lost: notifications may have been missed");
                shared.is_lost(reconnects(&pool));
            }
        }
    }
}

/// Opens a connection as the user of the first pool. If the server refuses that user, tries the others.
async fn open_as_any(
    marker: &str,
    pools: &CandidatePools,
) -> Result<(Box<ServerConn>, Arc<Pool>), (ServerError, Arc<Pool>)> {
    let mut pool = &pools.first;
    let mut others = pools.others.iter();
    loop {
        let address = pool.address();
        let error = match open(marker, pool, &address).await {
            Ok(conn) => return Ok((conn, Arc::clone(pool))),
            Err(error) => error,
        };
        let database = address.database.as_str();
        tracing::warn!(database, user = address.user, %error, "no connection to listen for clients");
        pool = match (&error, others.next()) {
            (ServerError::Refused(_), Some(other)) => other,
            _ => return Err((error, Arc::clone(pool))),
        };
    }
}

/// Pools of clients that listen, one per user.
struct CandidatePools {
    first: Arc<Pool>,
    others: Vec<Arc<Pool>>,
}

/// `listen_lost = "log"`
fn reconnects(pool: &Pool) -> bool {
    pool.shared.config().paceline.state.listen_lost == ListenLost::Log
}

async fn open(
    marker: &str,
    pool: &Arc<Pool>,
    address: &Arc<Address>,
) -> Result<Box<ServerConn>, ServerError> {
    /// The connection prepares no statements.
    const PREPARED_MAX: usize = 1;
    let limit = pool
        .shared
        .config()
        .paceline
        .timeouts
        .server_connect_timeout;
    let credentials = pool.credentials(address);
    let none = pool.shared.settings_interner.none();
    let mut conn =
        ServerConn::open_within(limit, address, &credentials, none, PREPARED_MAX).await?;
    let begin = format!(
        "SET client_encoding TO 'UTF8'; SET application_name TO 'paceline: LISTEN'; LISTEN {}",
        marker
    );
    conn.query(&begin).await?;
    Ok(Box::new(conn))
}

/// Serves clients until none is left.
async fn serve(shared: &DatabaseListen, conn: &mut ServerConn) -> Result<(), ConnectionLost> {
    let mut out = BytesMut::new();
    let mut deadline = None;
    shared.lock().core.connected();
    loop {
        match shared.next_steps(&mut out) {
            NextStep::End => return Ok(()),
            NextStep::Sent => deadline = Some(Instant::now() + ANSWER_TIME_MAX),
            NextStep::Awaited => {}
            NextStep::Nothing => deadline = None,
        }
        conn.stream.write_now(&mut out)?;
        let interest = match out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        tokio::select! {
            biased;
            ready = conn.stream.ready(interest) => drop(ready?),
            () = shared.work.notified() => continue,
            () = until(deadline) => return Err(ConnectionLost::Silent),
        }
        // Yields after each read, so that a server that sends without end does not block other tasks.
        if conn.stream.read_now(&mut conn.input)? {
            // The server sends something, so it is alive.
            deadline = deadline.map(|_| Instant::now() + ANSWER_TIME_MAX);
            take_messages(shared, conn)?;
            tokio::task::yield_now().await;
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn take_messages(shared: &DatabaseListen, conn: &mut ServerConn) -> Result<(), ConnectionLost> {
    let mut state = shared.lock();
    while let Some((kind, message)) = frame::split_message(&mut conn.input)? {
        take_message(&mut state, kind, &message)?;
    }
    state.wake();
    Ok(())
}

fn take_message(state: &mut ListenState, kind: u8, message: &Bytes) -> Result<(), ConnectionLost> {
    match kind {
        // A copy: the message may wait for long, and must not keep the whole read buffer.
        tag::NOTIFICATION_RESPONSE => {
            state.core.notification(Bytes::copy_from_slice(message))?;
        }
        tag::READY_FOR_QUERY => {
            let answers = state.core.ready();
            state.answer(answers);
        }
        tag::ERROR_RESPONSE => {
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            let severity = backend::error_field(body, b'V').unwrap_or_default();
            if matches!(severity, "FATAL" | "PANIC") {
                let why = backend::error_field(body, b'M').unwrap_or_default();
                return Err(ConnectionLost::ServerError(why.to_owned()));
            }
            state.core.refused(message.clone());
        }
        _ => {}
    }
    Ok(())
}

/// The next step of a connection.
enum NextStep {
    /// No client is left.
    End,
    /// A round of requests was written.
    Sent,
    /// A round is being answered.
    Awaited,
    /// No client has a request.
    Nothing,
}

impl DatabaseListen {
    /// Pools of clients that listen. `None`: no client is left, and the next one starts a new task.
    fn next_pools(&self) -> Option<CandidatePools> {
        let mut state = self.lock();
        let mut users = HashSet::new();
        let clients = state.clients.values().filter(|client| !client.lost);
        let mut pools = clients
            .filter(|client| users.insert(client.pool.address().user.clone()))
            .map(|client| Arc::clone(&client.pool))
            .take(USERS_MAX);
        let first = pools.next();
        let others = pools.collect();
        state.has_task = first.is_some();
        first.map(|first| CandidatePools { first, others })
    }

    fn next_steps(&self, out: &mut BytesMut) -> NextStep {
        let mut state = self.lock();
        if state.core.is_empty() {
            let answers = state.core.disconnected();
            state.answer(answers);
            return NextStep::End;
        }
        let Some(steps) = state.core.next_round() else {
            return match state.core.awaits_answer() {
                true => NextStep::Awaited,
                false => NextStep::Nothing,
            };
        };
        for step in steps {
            match step {
                RoundStep::Query(sql) => frontend::write_query(out, &sql),
                RoundStep::Sync => frontend::write_sync(out),
            }
        }
        NextStep::Sent
    }

    fn is_lost(&self, reconnects: bool) {
        let mut state = self.lock();
        match reconnects {
            true => {
                let answers = state.core.disconnected();
                state.answer(answers);
            }
            false => state.lose_all(&to_bytes(&lost(ErrorResponse::error))),
        }
    }

    /// Sends the error to waiting clients. Returns true if clients were already listening, for which another attempt is made.
    fn cannot_connect(&self, error: &ServerError, reconnects: bool) -> bool {
        let message = format!("cannot connect to the server to LISTEN: {error}");
        let message = to_bytes(&ErrorResponse::error("08006", message));
        let mut state = self.lock();
        let ListenState { core, clients, .. } = &*state;
        let listened = clients.keys().any(|id| core.is_listening(*id));
        match listened && !reconnects {
            true => state.lose_all(&message),
            false => {
                let answers = state.core.fail(&message);
                state.answer(answers);
            }
        }
        listened && reconnects
    }
}

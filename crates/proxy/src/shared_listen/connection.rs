//! The connection of a shared LISTEN: opened, written and read, and opened again.

use super::errors::{lost, to_bytes};
use super::state::{Shared, State};
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

/// A server that has a round to answer and sends nothing for this long is lost.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of users as which a connection is tried in turn.
const USERS_MAX: usize = 16;

/// Minimum time between two attempts to open a connection.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// Why a connection is not used any more.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("{0}")]
    Told(String),
    #[error("no answer for {ANSWER_TIME_MAX:?}")]
    Silent,
}

/// Keeps a connection open while clients listen.
pub(super) async fn run(shared: Arc<Shared>, marker: Arc<str>) {
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

/// Opens a connection as the user of one of the pools: as another if the server refuses one.
async fn open_as_any(
    marker: &str,
    pools: &Pools,
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

/// Pools whose clients listen, each of another user.
struct Pools {
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
    /// It prepares no statements.
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

/// Serves until no client is left.
async fn serve(shared: &Shared, conn: &mut ServerConn) -> Result<(), Lost> {
    let mut out = BytesMut::new();
    let mut deadline = None;
    shared.lock().core.connected();
    loop {
        match shared.next_steps(&mut out) {
            Next::End => return Ok(()),
            Next::Sent => deadline = Some(Instant::now() + ANSWER_TIME_MAX),
            Next::Awaited => {}
            Next::Nothing => deadline = None,
        }
        conn.stream.write_now(&mut out)?;
        let interest = match out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        tokio::select! {
            ready = conn.stream.ready(interest) => drop(ready?),
            () = shared.work.notified() => continue,
            () = until(deadline) => return Err(Lost::Silent),
        }
        // What a server has to say without an end must not keep others waiting.
        if conn.stream.read_now(&mut conn.input)? {
            // Whatever it sends, it is at work.
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

fn take_messages(shared: &Shared, conn: &mut ServerConn) -> Result<(), Lost> {
    let mut state = shared.lock();
    while let Some((kind, message)) = frame::split_message(&mut conn.input)? {
        take_message(&mut state, kind, &message)?;
    }
    state.wake();
    Ok(())
}

fn take_message(state: &mut State, kind: u8, message: &Bytes) -> Result<(), Lost> {
    match kind {
        // A copy: a message may wait for long, and must not keep all that was read together with it.
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
                return Err(Lost::Told(why.to_owned()));
            }
            state.core.refused(message.clone());
        }
        _ => {}
    }
    Ok(())
}

/// What a connection has to do next.
enum Next {
    /// No client is left.
    End,
    /// A round was written.
    Sent,
    /// A round is under way.
    Awaited,
    /// No client has a request.
    Nothing,
}

impl Shared {
    /// Pools whose clients listen. `None`: there is none, and the next client begins a new task.
    fn next_pools(&self) -> Option<Pools> {
        let mut state = self.lock();
        let mut users = HashSet::new();
        let clients = state.clients.values().filter(|client| !client.lost);
        let mut pools = clients
            .filter(|client| users.insert(client.pool.address().user.clone()))
            .map(|client| Arc::clone(&client.pool))
            .take(USERS_MAX);
        let first = pools.next();
        let others = pools.collect();
        state.runs = first.is_some();
        first.map(|first| Pools { first, others })
    }

    fn next_steps(&self, out: &mut BytesMut) -> Next {
        let mut state = self.lock();
        if state.core.is_empty() {
            let answers = state.core.disconnected();
            state.answer(answers);
            return Next::End;
        }
        let Some(steps) = state.core.next_round() else {
            return match state.core.awaits_answer() {
                true => Next::Awaited,
                false => Next::Nothing,
            };
        };
        for step in steps {
            match step {
                RoundStep::Query(sql) => frontend::write_query(out, &sql),
                RoundStep::Sync => frontend::write_sync(out),
            }
        }
        Next::Sent
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

    /// Clients that wait are told why. True: others have listened before, for which another connection is opened.
    fn cannot_connect(&self, error: &ServerError, reconnects: bool) -> bool {
        let message = format!("cannot connect to the server to LISTEN: {error}");
        let told = to_bytes(&ErrorResponse::error("08006", message));
        let mut state = self.lock();
        let State { core, clients, .. } = &*state;
        let listened = clients.keys().any(|id| core.is_listening(*id));
        match listened && !reconnects {
            true => state.lose_all(&told),
            false => {
                let answers = state.core.fail(&told);
                state.answer(answers);
            }
        }
        listened && reconnects
    }
}

//! The connection of a shared LISTEN: opened, written and read, and opened again.

use super::client::{lost, to_bytes};
use super::{DatabaseKey, Shared, State};
use crate::pool::Pool;
use crate::proxy::Proxy;
use crate::server::{Address, ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use paceline_config::ListenLost;
use paceline_line::shared_listen::{CHANNEL, Step};
use paceline_wire::backend::{self, tag};
use paceline_wire::{ErrorResponse, WireError, frame, frontend};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::Interest;
use tokio::time::Instant;

/// A server that does not answer a round for this long is lost.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

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
    #[error("the configuration names another server")]
    Moved,
}

/// Keeps a connection open while clients listen.
pub(super) async fn run(shared: Arc<Shared>, proxy: Arc<Proxy>) {
    while let Some(pool) = shared.next_pool() {
        let address = pool.address();
        let database = address.database.as_str();
        match open(&proxy, &pool, &address).await {
            Ok(mut conn) => match serve(&shared, &mut conn, &address).await {
                Ok(()) => conn.say_goodbye(),
                Err(why) => {
                    tracing::warn!(database, %why, "the connection that listens for clients is lost: notifications may have been missed");
                    shared.is_lost(reconnects(&proxy));
                }
            },
            Err(error) => {
                tracing::warn!(database, user = address.user, %error, "no connection to listen for clients");
                let retry = match shared.cannot_connect(&error, reconnects(&proxy)) {
                    true => pool.settings().server_login_retry.max(RETRY_MIN),
                    false => RETRY_MIN,
                };
                tokio::time::sleep(retry).await;
            }
        }
    }
}

/// `listen_lost = "log"`
fn reconnects(proxy: &Proxy) -> bool {
    proxy.config().paceline.state.listen_lost == ListenLost::Log
}

async fn open(
    proxy: &Arc<Proxy>,
    pool: &Arc<Pool>,
    address: &Arc<Address>,
) -> Result<Box<ServerConn>, ServerError> {
    /// It prepares no statements.
    const PREPARED_MAX: usize = 1;
    let limit = proxy.config().paceline.timeouts.server_connect_timeout;
    let pass = proxy.gate.pass(address, &pool.learned);
    let none = proxy.book.none();
    let mut conn = ServerConn::open_within(limit, address, &pass, none, PREPARED_MAX).await?;
    let begin = format!(
        "SET client_encoding TO 'UTF8'; SET application_name TO 'paceline: LISTEN'; LISTEN {CHANNEL}"
    );
    conn.query(&begin).await?;
    Ok(Box::new(conn))
}

/// Serves until no client is left.
async fn serve(shared: &Shared, conn: &mut ServerConn, address: &Address) -> Result<(), Lost> {
    let mut out = BytesMut::new();
    let mut deadline = None;
    loop {
        if shared.reconfigured.swap(false, Ordering::AcqRel) && shared.has_moved(address) {
            return Err(Lost::Moved);
        }
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
    /// A pool whose clients listen. `None`: there is none, and the next client begins a new task.
    fn next_pool(&self) -> Option<Arc<Pool>> {
        let mut state = self.lock();
        let mut clients = state.clients.values().filter(|client| !client.lost);
        let pool = clients.next().map(|client| Arc::clone(&client.pool));
        state.runs = pool.is_some();
        pool
    }

    /// Do clients have to listen elsewhere now?
    fn has_moved(&self, address: &Address) -> bool {
        let here = DatabaseKey::of(address);
        let state = self.lock();
        let mut pools = state.clients.values().map(|client| &client.pool);
        pools.any(|pool| DatabaseKey::of(&pool.address()) != here)
    }

    fn next_steps(&self, out: &mut BytesMut) -> Next {
        let mut state = self.lock();
        if state.core.is_empty() {
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
                Step::Query(sql) => frontend::write_query(out, &sql),
                Step::Sync => frontend::write_sync(out),
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

//! Steps that all uses of a server connection have in common: adopting settings, writing and reading, cancelling.

use crate::pool::Pool;
use crate::replicas::LOCK_TIMEOUT;
use crate::server::{ServerConn, ServerError};
use bytes::{Buf, BytesMut};
use paceline_net::{READ_BYTES, optional_timeout};
use paceline_relay::request::Request;
use paceline_relay::server::ServerSide;
use paceline_wire::backend::tag;
use paceline_wire::{Frame, Frames};
use tokio::io::Interest;

/// Puts the settings of a request in force, except the limit for locks on a replica. Returns false if the server refuses them.
pub(super) async fn adopt(
    request: &Request,
    pool: &Pool,
    conn: &mut ServerConn,
) -> Result<bool, ServerError> {
    if conn.side.has(&request.settings) {
        return Ok(true);
    }
    let limit = pool.settings().timeouts.query_timeout;
    // Boxed: it is rare, and every run would pay for its state.
    let adopting = Box::pin(async {
        conn.adopt(&request.settings).await?;
        if pool.is_of_replica() && request.settings.sql_of(LOCK_TIMEOUT).is_some() {
            conn.query(&format!("RESET {LOCK_TIMEOUT}")).await?;
        }
        Ok(())
    });
    match optional_timeout(limit, adopting).await {
        Some(Err(ServerError::Refused(_))) => Ok(false),
        other => other
            .unwrap_or(Err(ServerError::QueryTimeout))
            .map(|()| true),
    }
}

/// Passes whole messages to `receive` until it returns true. Returns whether it did. Notes the settings that the server reports: it reports
/// each value once, in any answer.
pub(super) fn feed(
    conn: &mut ServerConn,
    mut receive: impl FnMut(Frame<'_>, &mut ServerSide) -> bool,
) -> Result<bool, ServerError> {
    let mut frames = Frames::new(&conn.input);
    let mut done = false;
    while !done && let Some(frame) = frames.next_frame()? {
        if frame.tag == tag::PARAMETER_STATUS {
            conn.side.note_reported(frame.body());
        }
        done = receive(frame, &mut conn.side);
    }
    let taken = conn.input.len() - frames.rest().len();
    conn.input.advance(taken);
    Ok(done)
}

/// Writes what is left, and waits until there is more to read.
pub(super) async fn exchange(conn: &mut ServerConn, out: &mut BytesMut) -> Result<(), ServerError> {
    loop {
        conn.stream.write_now(out)?;
        let before = conn.input.len();
        if conn.stream.read_now(&mut conn.input)? {
            if conn.input.len() - before >= READ_BYTES {
                // There may be more to read at once, again and again: other tasks run in between.
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        let interest = match out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        conn.stream.ready(interest).await?;
    }
}

/// Sends a cancel request for this connection. The server's answer is still to be read.
pub(super) async fn cancel(pool: &Pool, conn: &ServerConn) -> Result<(), ServerError> {
    let limit = pool.shared.config().paceline.timeouts.cancel_wait_timeout;
    match optional_timeout(limit, conn.key.cancel()).await {
        Some(sent) => Ok(sent?),
        // A cancel request that arrives later could hit another client's statement on this connection.
        None => Err(ServerError::Timeout(limit)),
    }
}

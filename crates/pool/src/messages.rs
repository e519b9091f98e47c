//! Paceline's own errors, as messages for clients.

use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;
use paceline_wire::backend::Status;
use std::time::Duration;

/// An error that ends the connection.
pub fn fatal(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    out.freeze()
}

/// An error that answers one request outside a transaction.
pub(crate) fn answer(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    Status::Idle.write(&mut out);
    out.freeze()
}

/// The error if the server connection was lost during the client's request.
pub fn connection_lost() -> Bytes {
    fatal(
        &ErrorResponse::fatal("08006", "server closed the connection unexpectedly")
            .with_detail("Whether the transaction was committed is not known."),
    )
}

/// The error if one of Paceline's time limits is exceeded. As in PgBouncer, the connection ends.
pub fn timed_out(why: &str) -> Bytes {
    fatal(&ErrorResponse::fatal("08P01", why))
}

/// The error if the client's request has waited for `query_wait_timeout`.
pub(crate) fn query_wait_timeout(detail: String) -> Bytes {
    fatal(&ErrorResponse::fatal("08P01", "query_wait_timeout").with_detail(detail))
}

/// The answer to a request that would have to wait, if `max` others already do (`max_queued`).
pub(crate) fn queue_is_full(max: usize) -> Bytes {
    const MESSAGE: &str = "too many requests wait for a server connection (max_queued)";
    answer(
        &ErrorResponse::error("53400", MESSAGE)
            .with_detail(format!("The limit is {max}. The request was not executed.")),
    )
}

/// The error if the client's request has waited for its turn for `query_wait_timeout`.
pub fn turn_is_late(limit: Duration) -> Bytes {
    query_wait_timeout(format!(
        "max_requests_per_second has held the request back for {limit:?}."
    ))
}

/// The error if the process shuts down.
pub(crate) fn shutting_down() -> Bytes {
    fatal(&ErrorResponse::fatal("08P01", "server shutting down"))
}

/// The DETAIL of an error: how long there has been no primary.
pub(crate) fn without_primary(time: Duration) -> String {
    format!("No host has been the primary for {} s.", time.as_secs())
}

/// The error if a database with several hosts has had no primary for `failover_timeout`.
pub(crate) fn no_primary(since: Duration) -> Bytes {
    let detail = without_primary(since);
    fatal(
        &ErrorResponse::fatal("57P03", "the database has no primary (failover_timeout)")
            .with_detail(detail)
            .with_hint("SHOW HOSTS in the admin console shows the state of each host."),
    )
}

/// The answer to a read if no replica may serve it (`replicas_gone = error`).
pub fn no_replica() -> BytesMut {
    let error = ErrorResponse::error("57P03", "no replica may serve reads (replicas_gone)")
        .with_hint("SHOW HOSTS in the admin console shows the state of each host.");
    answer(&error).into()
}

/// The answer to a statement whose shard cannot be reached, while others like it wait on the coordinator. The SQLSTATE is that of
/// `postgres_fdw`.
pub fn no_shard() -> BytesMut {
    let error = ErrorResponse::error("08001", "could not connect to the shard of the statement")
        .with_hint("SHOW GROUPS, and paceline check --connect, name the shard and the reason.");
    answer(&error).into()
}

/// The answer to `SHOW paceline.position` if the primary does not answer, or its timeline is not known.
pub fn no_position() -> BytesMut {
    let error = ErrorResponse::error("57P03", "the position of the primary is not known")
        .with_hint("SHOW HOSTS in the admin console shows the state of each host.");
    answer(&error).into()
}

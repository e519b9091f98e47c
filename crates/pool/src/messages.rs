//! Errors of Paceline's own, as bytes for clients.

use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;
use paceline_wire::backend::Status;

/// An error after which the connection ends.
pub fn fatal(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    out.freeze()
}

/// An error that answers one request outside of transactions.
pub(crate) fn answer(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    Status::Idle.write(&mut out);
    out.freeze()
}

/// The server connection was lost under the client's request.
pub fn connection_lost() -> Bytes {
    fatal(
        &ErrorResponse::fatal("08006", "server closed the connection unexpectedly")
            .with_detail("Whether the transaction was committed is not known."),
    )
}

/// A time-out of Paceline's own has expired. As in PgBouncer the connection ends.
pub fn timed_out(why: &str) -> Bytes {
    fatal(&ErrorResponse::fatal("08P01", why))
}

/// The client's request has waited for `query_wait_timeout`.
pub(crate) fn query_wait_timeout(detail: String) -> Bytes {
    fatal(&ErrorResponse::fatal("08P01", "query_wait_timeout").with_detail(detail))
}

/// The process ends.
pub(crate) fn shutting_down() -> Bytes {
    fatal(&ErrorResponse::fatal("08P01", "server shutting down"))
}

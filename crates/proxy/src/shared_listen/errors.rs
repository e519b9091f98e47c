//! Errors of the shared LISTEN for clients.

use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;

/// The error if the shared connection is lost.
pub(super) fn lost(of: fn(&'static str, String) -> ErrorResponse) -> ErrorResponse {
    let message = "the server connection that listens for this client was lost";
    of("08006", message.to_owned())
        .with_detail("Notifications may have been missed.")
        .with_hint("Connect and LISTEN again.")
}

/// The bytes of an error.
pub(super) fn to_bytes(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    out.freeze()
}

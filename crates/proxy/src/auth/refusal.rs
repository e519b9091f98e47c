//! Why a client gets no session.

use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;
use std::io;

/// Why there is no session.
pub(crate) enum Refusal {
    /// The client is gone, or wanted none.
    Left,
    /// It is told this.
    Told(Bytes),
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Left
    }
}

impl From<ErrorResponse> for Refusal {
    fn from(error: ErrorResponse) -> Self {
        let mut out = BytesMut::new();
        error.write(&mut out);
        Self::Told(out.freeze())
    }
}

//! Why a client gets no session.

use bytes::{Bytes, BytesMut};
use paceline_wire::frame::HEADER_LEN;
use paceline_wire::{ErrorResponse, backend};
use std::io;

/// Why there is no session.
pub(crate) enum Refusal {
    /// The client has disconnected, or wants no session.
    Left,
    /// The client gets this error.
    Told(Bytes),
}

impl Refusal {
    /// A field of the error.
    pub(super) fn field(&self, code: u8) -> Option<&str> {
        match self {
            Self::Left => None,
            Self::Told(told) => backend::error_field(told.get(HEADER_LEN..)?, code),
        }
    }
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

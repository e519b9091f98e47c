//! The reasons why a client gets no session.

use bytes::{Bytes, BytesMut};
use paceline_wire::frame::HEADER_LEN;
use paceline_wire::{ErrorResponse, backend};
use std::io;

/// The reason why there is no session.
pub(crate) enum LoginRefusal {
    /// The client has disconnected, or wants no session.
    Left,
    /// The client gets this error.
    Error(Bytes),
}

impl LoginRefusal {
    /// A field of the error.
    pub(crate) fn field(&self, code: u8) -> Option<&str> {
        match self {
            Self::Left => None,
            Self::Error(error) => backend::error_field(error.get(HEADER_LEN..)?, code),
        }
    }
}

impl From<io::Error> for LoginRefusal {
    fn from(_: io::Error) -> Self {
        Self::Left
    }
}

impl From<ErrorResponse> for LoginRefusal {
    fn from(error: ErrorResponse) -> Self {
        let mut out = BytesMut::new();
        error.write(&mut out);
        Self::Error(out.freeze())
    }
}

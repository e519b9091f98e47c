//! Why a server could not be used, and what clients are told of it.

use bytes::{Bytes, BytesMut};
use paceline_wire::{ErrorResponse, WireError, backend, frame};
use std::io;
use std::time::Duration;

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server broke the protocol, or asks for what Paceline cannot give.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The server refused, with this `ErrorResponse`.
    #[error("{}", backend::error_field(.0.get(frame::HEADER_LEN..).unwrap_or_default(), b'M').unwrap_or("refused"))]
    Refused(Bytes),
    /// It took too long.
    #[error("time-out after {0:?} (server_connect_timeout)")]
    Timeout(Duration),
    /// A query took too long (`query_timeout`).
    #[error("query timeout")]
    QueryTimeout,
}

/// What PostgreSQL says of a user whom no line of `pg_hba.conf` lets in this way.
const INVALID_AUTHORIZATION: &str = "28000";

/// What it says of a password that is not the user's.
const INVALID_PASSWORD: &str = "28P01";

impl ServerError {
    /// What the server refused with.
    pub(super) fn sqlstate(&self) -> Option<&str> {
        let Self::Refused(error) = self else {
            return None;
        };
        let body = error.get(frame::HEADER_LEN..).unwrap_or_default();
        backend::error_field(body, b'C')
    }

    pub(super) fn is_of_authorization(&self) -> bool {
        self.sqlstate() == Some(INVALID_AUTHORIZATION)
    }

    /// The server does not take the password of its user.
    pub fn is_wrong_password(&self) -> bool {
        self.sqlstate() == Some(INVALID_PASSWORD)
    }

    /// Another attempt is of no use before somebody has changed something: the server does not let this user in, has no such
    /// database, has no TLS or another certificate than is required, or does not speak PostgreSQL's protocol.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused(_) => {
                let sqlstate = self.sqlstate().unwrap_or_default();
                sqlstate.starts_with("28") || sqlstate == "3D000"
            }
            Self::Wire(_) => true,
            Self::Io(error) => error.kind() == io::ErrorKind::InvalidData,
            Self::Timeout(_) | Self::QueryTimeout => false,
        }
    }

    /// What a client is told that needed this server; its connection ends.
    pub fn write_fatal(&self, out: &mut BytesMut) {
        if let Self::Refused(error) = self {
            out.extend_from_slice(error);
            return;
        }
        ErrorResponse::fatal("08006", format!("cannot connect to the server: {self}"))
            .with_hint("Check that PostgreSQL runs at the address in Paceline's configuration.")
            .write(out);
    }
}

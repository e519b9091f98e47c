//! The reasons why a server could not be used, and the error that clients get.

use crate::credentials::PasswordError;
use bytes::{Bytes, BytesMut};
use paceline_wire::{ErrorResponse, WireError, backend, frame};
use std::io;
use std::time::Duration;

/// The reason why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server violated the protocol, or wants an authentication method that Paceline does not support.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// There is no password for the login. The server was not asked.
    #[error("{0}")]
    Password(#[from] PasswordError),
    /// The server refused, with this `ErrorResponse`.
    #[error("{}", backend::error_field(.0.get(frame::HEADER_LEN..).unwrap_or_default(), b'M').unwrap_or("refused"))]
    Refused(Bytes),
    /// The login took too long.
    #[error("time-out after {0:?} (server_connect_timeout)")]
    Timeout(Duration),
    /// A query took too long (`query_timeout`).
    #[error("query timeout")]
    QueryTimeout,
    /// The server of a database with several hosts is not its primary.
    #[error("the server is a standby")]
    Standby,
    /// The server of a replica has other data than the primary.
    #[error("the server belongs to another cluster")]
    OtherSystem,
    /// The attempt ended because its pool replaces all connections.
    #[error("the pool replaces its connections")]
    Replaced,
}

/// SQLSTATE if no line of `pg_hba.conf` accepts the user.
const INVALID_AUTHORIZATION: &str = "28000";

/// SQLSTATE of a wrong password.
const INVALID_PASSWORD: &str = "28P01";

impl ServerError {
    /// The SQLSTATE of a refusal.
    pub(crate) fn sqlstate(&self) -> Option<&str> {
        let Self::Refused(error) = self else {
            return None;
        };
        let body = error.get(frame::HEADER_LEN..).unwrap_or_default();
        backend::error_field(body, b'C')
    }

    pub(super) fn is_of_authorization(&self) -> bool {
        self.sqlstate() == Some(INVALID_AUTHORIZATION)
    }

    /// Whether a protocol option in the startup packet may be the reason: something in front of the server may close the connection, or
    /// answer with an error that has no other known reason.
    pub(super) fn may_be_of_an_option(&self) -> bool {
        match self {
            Self::Refused(_) => {
                // Authorization, no such database, no resources, and an operator's order.
                let others = ["28", "3D", "53", "57"];
                let sqlstate = self.sqlstate().unwrap_or_default();
                !others.iter().any(|class| sqlstate.starts_with(class))
            }
            Self::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            ),
            Self::Wire(_)
            | Self::Password(_)
            | Self::Timeout(_)
            | Self::QueryTimeout
            | Self::Standby
            | Self::OtherSystem
            | Self::Replaced => false,
        }
    }

    /// Whether another credential may be accepted: a wrong password, or another reason that has to do with the user.
    pub(super) fn is_of_credential(&self) -> bool {
        self.is_wrong_password() || self.is_of_authorization()
    }

    /// Whether the server rejected the password.
    pub(crate) fn is_wrong_password(&self) -> bool {
        self.sqlstate() == Some(INVALID_PASSWORD)
    }

    /// Whether another attempt would fail, too, until an operator changes something: the server rejects this user, has no such
    /// database, has no TLS or not the required certificate, or does not use PostgreSQL's protocol.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Refused(_) => {
                let sqlstate = self.sqlstate().unwrap_or_default();
                sqlstate.starts_with("28") || sqlstate == "3D000"
            }
            Self::Wire(_) => true,
            Self::Io(error) => error.kind() == io::ErrorKind::InvalidData,
            // A file may be written anew at this moment.
            Self::Password(_)
            | Self::Timeout(_)
            | Self::QueryTimeout
            | Self::Standby
            | Self::OtherSystem
            | Self::Replaced => false,
        }
    }

    /// Appends the error for a client that needed this server. The client's connection ends.
    pub(crate) fn write_fatal(&self, out: &mut BytesMut) {
        if let Self::Refused(error) = self {
            out.extend_from_slice(error);
            return;
        }
        let hint = match self {
            Self::Password(_) => "Check the file or the command in Paceline's configuration.",
            _ => "Check that PostgreSQL runs at the address in Paceline's configuration.",
        };
        ErrorResponse::fatal("08006", format!("cannot connect to the server: {self}"))
            .with_hint(hint)
            .write(out);
    }
}

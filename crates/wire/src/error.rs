//! What can be wrong with a peer's bytes, and the one error shape that reaches clients.

use crate::frame;
use bytes::{BufMut, BytesMut};
use std::borrow::Cow;

/// A peer broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length word of a message is below 4 or above the limit of its kind.
    #[error("invalid message length")]
    Length,
    /// The length word of a frontend message or start-up packet is one that PostgreSQL does not take. It closes the connection
    /// without a word: whoever sent this does not speak the protocol.
    #[error("invalid length of a frontend message")]
    FrontendLength,
    /// A start-up packet does not end with its terminator.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    StartupLayout,
    /// A name or value in a start-up packet is not UTF-8.
    #[error("startup parameters must be valid UTF-8")]
    StartupEncoding,
    /// A message ended before its last field.
    #[error("message ends too early")]
    Truncated,
    /// A string is not terminated.
    #[error("invalid string in message")]
    String,
    /// A message type that has no place here.
    #[error("invalid frontend message type {0}")]
    Tag(u8),
    /// A protocol version other than 3.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0")]
    Version {
        /// The major number asked for.
        major: u16,
        /// The minor number asked for.
        minor: u16,
    },
    /// The server asks for a way to log in that is not supported.
    #[error("the server asks for an authentication method that is not supported: {0}")]
    Authentication(Cow<'static, str>),
    /// The server wants a proof that cannot be made from the secret that is there.
    #[error("server login failed: wrong password type ({0})")]
    Credential(&'static str),
    /// A message of a SCRAM exchange that is not one, or not the one that is due.
    #[error("malformed SCRAM message ({0})")]
    Scram(&'static str),
    /// Whoever sent it does not know the password.
    #[error("the proof of the password is wrong")]
    Proof,
}

/// An `ErrorResponse` (or `NoticeResponse`) with the fields that Paceline itself sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// `ERROR`, or `FATAL` when the connection ends with it; `NOTICE` when it is none.
    pub severity: &'static str,
    /// Five characters, PostgreSQL documentation, appendix A.
    pub sqlstate: &'static str,
    /// Lower case, no full stop.
    pub message: String,
    /// A whole sentence.
    pub detail: Option<String>,
    /// A whole sentence that says what to do.
    pub hint: Option<String>,
    /// The routine of PostgreSQL's that raises this error: drivers go by the names of some.
    pub routine: Option<&'static str>,
}

impl ErrorResponse {
    /// An error after which the connection goes on.
    pub fn error(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "ERROR",
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            routine: None,
        }
    }

    /// An error that ends the connection.
    pub fn fatal(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "FATAL",
            ..Self::error(sqlstate, message)
        }
    }

    /// A message that is no error.
    pub fn notice(message: impl Into<String>) -> Self {
        Self {
            severity: "NOTICE",
            ..Self::error("00000", message)
        }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says which routine of PostgreSQL's raises this error.
    #[must_use]
    pub fn of_routine(mut self, routine: &'static str) -> Self {
        self.routine = Some(routine);
        self
    }

    /// Adds the detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Something that its client should know of; nothing has failed.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "WARNING",
            ..Self::error(sqlstate, message)
        }
    }

    /// Appends the message as protocols before 3.0 had it.
    pub fn write_before_3(&self, out: &mut BytesMut) {
        out.put_u8(b'E');
        out.put_slice(format!("{}:  {}\n\0", self.severity, self.message).as_bytes());
    }

    /// Appends the message: a `NoticeResponse` where nothing has failed.
    pub fn write(&self, out: &mut BytesMut) {
        let tag = match self.severity {
            "NOTICE" | "WARNING" => b'N',
            _ => b'E',
        };
        frame::write(out, tag, |out| {
            let mut field = |code: u8, value: &str| {
                out.put_u8(code);
                out.put_slice(value.as_bytes());
                out.put_u8(0);
            };
            field(b'S', self.severity);
            field(b'V', self.severity);
            field(b'C', self.sqlstate);
            field(b'M', &self.message);
            if let Some(detail) = &self.detail {
                field(b'D', detail);
            }
            if let Some(hint) = &self.hint {
                field(b'H', hint);
            }
            if let Some(routine) = self.routine {
                field(b'R', routine);
            }
            out.put_u8(0);
        });
    }
}

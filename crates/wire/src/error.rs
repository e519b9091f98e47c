//! Faults in a peer's bytes.

use std::borrow::Cow;

/// A violation of the protocol by a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length word of a message is below 4 or exceeds the limit of its type.
    #[error("invalid message length")]
    Length,
    /// PostgreSQL does not accept the length word of a frontend message or start-up packet. It closes the connection
    /// without an error message, because the peer does not speak the protocol.
    #[error("invalid length of a frontend message")]
    FrontendLength,
    /// A start-up packet does not end with a terminator.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    StartupLayout,
    /// A name or value in a start-up packet is not UTF-8.
    #[error("startup parameters must be valid UTF-8")]
    StartupEncoding,
    /// A message ends before its last field.
    #[error("message ends too early")]
    Truncated,
    /// A string is not terminated.
    #[error("invalid string in message")]
    String,
    /// The message type is not valid in this state.
    #[error("invalid frontend message type {0}")]
    Tag(u8),
    /// A protocol version other than 3.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0")]
    Version {
        /// Requested major number.
        major: u16,
        /// Requested minor number.
        minor: u16,
    },
    /// The server requests an authentication method that is not supported.
    #[error("the server asks for an authentication method that is not supported: {0}")]
    Authentication(Cow<'static, str>),
    /// The configured secret cannot produce the proof that the server requests.
    #[error("server login failed: wrong password type ({0})")]
    Credential(&'static str),
    /// A malformed message of a SCRAM exchange, or one out of order.
    #[error("malformed SCRAM message ({0})")]
    Scram(&'static str),
    /// The peer does not know the password.
    #[error("the proof of the password is wrong")]
    Proof,
}

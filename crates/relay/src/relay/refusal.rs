//! The errors by which Paceline rejects requests that PostgreSQL would execute.

use crate::session::CLIENT_STATEMENTS_MAX;
use bytes::{Bytes, BytesMut};
use paceline_sql::PinReason;
use paceline_wire::ErrorResponse;

/// The reason why Paceline rejects a statement or message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RelayRefusal {
    /// Its state could not follow the client.
    Unmovable(PinReason),
    /// The client has too many prepared statements.
    Full,
    /// The columns differ from those that were described to the client.
    OtherColumns,
    /// The portal with this name has been executed.
    PortalDone(Box<[u8]>),
    /// The shared connection cannot listen on a channel.
    Listen(Bytes),
    /// `pg_listening_channels()` on the server would return other channels than the client's.
    ListsChannels,
    /// `EXECUTE` of a LISTEN.
    ExecutesListen,
    /// A text that is too large to be parsed, of a client that listens.
    ListensUnread,
    /// The client listens by the shared connection and by its own server.
    ListensTwice,
}

impl RelayRefusal {
    /// The `ErrorResponse` that the client receives.
    pub(super) fn message(&self) -> Bytes {
        let error = match self {
            Self::Listen(error) => return error.clone(),
            Self::Unmovable(reason) => ErrorResponse::error(
                "0A000",
                format!("{reason} cannot follow its client to other server connections"),
            )
            .with_hint("Set session_state = \"pin\" for this database or user, or connect to PostgreSQL directly."),
            Self::Full => ErrorResponse::error("53400", "too many prepared statements")
                .with_detail(format!(
                    "A client may have at most {CLIENT_STATEMENTS_MAX} prepared statements."
                ))
                .with_hint("Close or DEALLOCATE statements that are no longer used."),
            // PostgreSQL's own message.
            Self::OtherColumns => {
                ErrorResponse::error("0A000", "cached plan must not change result type")
                    .of_routine("RevalidateCachedQuery")
            }
            Self::ListsChannels => ErrorResponse::error(
                "0A000",
                "pg_listening_channels() is not supported within a statement if listen_mode is \"shared\"",
            )
            .with_hint("Send SELECT pg_listening_channels() or SELECT * FROM pg_listening_channels() as a separate statement."),
            Self::ExecutesListen => ErrorResponse::error(
                "0A000",
                "EXECUTE of a prepared LISTEN or UNLISTEN is not supported if listen_mode is \"shared\"",
            )
            .with_hint("Execute the prepared statement by Bind and Execute messages, or send LISTEN as a separate statement."),
            Self::ListensUnread => ErrorResponse::error(
                "0A000",
                "LISTEN, UNLISTEN and DISCARD are not supported in a text that is too large to be parsed if the client listens and listen_mode is \"shared\"",
            )
            .with_hint("Send them as separate statements."),
            Self::ListensTwice => ErrorResponse::error(
                "0A000",
                "LISTEN and UNLISTEN are not supported while a client listens by the shared connection and by its own server connection",
            )
            .with_detail("A LISTEN that DO, CALL or a function executes belongs to the client's own server connection.")
            .with_hint("DISCARD ALL removes both."),
            Self::PortalDone(name) => {
                let name = String::from_utf8_lossy(name);
                ErrorResponse::error("55000", format!("portal \"{name}\" cannot be run"))
                    .of_routine("MarkPortalActive")
            }
        };
        let mut out = BytesMut::new();
        error.write(&mut out);
        out.freeze()
    }
}

//! The BEGIN, and further statements of Paceline's own, before the request with which a deferred transaction really begins.

use crate::client::deferred_transaction::DeferredTransaction;
use bytes::{Bytes, BytesMut};
use paceline_relay::session::Undo;
use paceline_wire::Frames;
use paceline_wire::backend::{self, tag};

/// The statements before the client's request.
pub(super) struct Preliminary {
    pub(super) transaction: Box<DeferredTransaction>,
    /// The client's request, or its beginning.
    pub(super) request: Bytes,
    /// Restores the client's unnamed statement.
    pub(super) unnamed: Undo,
    /// A statement was sent that fails.
    pub(super) fails: bool,
    /// Messages for the client before the answer to its request.
    pub(super) shown: BytesMut,
}

impl Preliminary {
    /// Whether this message is Paceline's own.
    pub(super) fn adds(&self, message: &Bytes) -> bool {
        *message != self.transaction.begin
    }
}

/// Moves the server's notices, and errors of which the client does not know, from `output` to `shown`. The other answers are dropped.
pub(super) fn hide(output: &mut BytesMut, fails: bool, shown: &mut BytesMut) {
    for frame in Frames::new(output) {
        let is_hidden = match frame.tag {
            tag::ROW_DESCRIPTION | tag::COMMAND_COMPLETE | tag::READY_FOR_QUERY => true,
            tag::ERROR_RESPONSE => {
                fails && backend::error_field(frame.body(), b'V') == Some("ERROR")
            }
            _ => false,
        };
        if !is_hidden {
            shown.extend_from_slice(frame.bytes);
        }
    }
    output.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_wire::ErrorResponse;
    use paceline_wire::backend::{Status, write_command_complete};

    fn hidden(error: &ErrorResponse, fails: bool) -> Vec<u8> {
        let mut output = BytesMut::new();
        ErrorResponse::notice("a notice").write(&mut output);
        write_command_complete(&mut output, "BEGIN");
        error.write(&mut output);
        Status::Transaction.write(&mut output);
        let mut shown = BytesMut::new();
        hide(&mut output, fails, &mut shown);
        assert!(output.is_empty());
        Frames::new(&shown).map(|frame| frame.tag).collect()
    }

    #[test]
    fn the_client_gets_only_what_it_does_not_know() {
        let error = ErrorResponse::error("57014", "canceling statement due to user request");
        assert_eq!(hidden(&error, false), b"NE");
        assert_eq!(hidden(&error, true), b"N");
        let fatal = ErrorResponse::fatal("57P01", "terminating connection");
        assert_eq!(hidden(&fatal, true), b"NE");
    }
}

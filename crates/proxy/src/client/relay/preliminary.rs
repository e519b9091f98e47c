//! The BEGIN, and further statements of Paceline's own, before the request with which a deferred transaction really begins.

use crate::client::deferred_transaction::DeferredTransaction;
use bytes::{Bytes, BytesMut};
use paceline_wire::Frames;
use paceline_wire::backend::{self, tag};

/// The statements before the client's request.
pub(super) struct Preliminary {
    pub(super) transaction: Box<DeferredTransaction>,
    /// The client's request, or its beginning.
    pub(super) request: Bytes,
    /// A statement was sent that fails.
    pub(super) fails: bool,
}

impl Preliminary {
    /// Whether this message is Paceline's own.
    pub(super) fn adds(&self, message: &Bytes) -> bool {
        *message != self.transaction.begin
    }
}

/// Removes the server's answers. Its notices, and errors of which the client does not know, remain.
pub(super) fn hide(output: &mut BytesMut, fails: bool) {
    if output.is_empty() {
        return;
    }
    let mut shown = BytesMut::new();
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
    *output = shown;
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
        hide(&mut output, fails);
        Frames::new(&output).map(|frame| frame.tag).collect()
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

//! A relay that begins with the BEGIN of a deferred transaction. The client has the answer, so it gets none of the server's.
//!
//! The server answers BEGIN before it gets the client's request: if BEGIN fails, the request must not run on its own. The client has
//! waited for one answer less, so this costs no more than a transaction that begins at once.

use super::start::is_complete;
use super::{RelayTask, ServerDisposal};
use crate::client::deferred::DeferredTransaction;
use crate::client::end::ClientEnd;
use bytes::{Bytes, BytesMut};
use paceline_wire::Frames;
use paceline_wire::backend::{self, Status, tag};
use paceline_wire::frontend::write_query;

/// There is no such savepoint. The error puts the transaction into the failed state.
const FAIL: &str = "ROLLBACK TO SAVEPOINT \"paceline: the deferred transaction has failed\"";

/// Takes a snapshot, as the reads did that replicas have answered: some settings of a transaction cannot be changed after that.
const SNAPSHOT: &str = "SELECT WHERE false";

/// What precedes the client's request.
pub(super) struct Preliminary {
    transaction: Box<DeferredTransaction>,
    /// The client's request, or its beginning.
    request: Bytes,
    /// [`FAIL`] was sent.
    pub(super) fails: bool,
}

impl Preliminary {
    /// Whether this message is Paceline's own.
    pub(super) fn adds(&self, message: &Bytes) -> bool {
        *message != self.transaction.begin
    }
}

impl RelayTask<'_> {
    /// Begins the relay with the BEGIN of this transaction. The request follows.
    pub(super) fn begin_with(&mut self, transaction: Box<DeferredTransaction>, request: &Bytes) {
        let mut first = BytesMut::from(&*transaction.begin);
        if transaction.has_read {
            write_query(&mut first, SNAPSHOT);
        }
        self.input.set_first(first.freeze());
        self.preliminary = Some(Box::new(Preliminary {
            transaction,
            request: request.clone(),
            fails: false,
        }));
    }

    /// Continues with the client's request when the transaction has begun, and has failed if the client knows that.
    pub(super) fn continue_preliminary(&mut self) -> Result<(), (ServerDisposal, ClientEnd)> {
        self.hide_preliminary();
        let Some(preliminary) = &mut self.preliminary else {
            return Ok(());
        };
        if self.input.is_incomplete() || !self.relay.is_quiet() {
            return Ok(());
        }
        let wanted = preliminary.transaction.status();
        match self.relay.status() {
            Status::Idle => self.begin_failed(),
            status if status == wanted => {
                if let Some(preliminary) = self.preliminary.take() {
                    self.input.awaits_long = preliminary.request.is_empty();
                    self.input.set_message(preliminary.request);
                }
                Ok(())
            }
            _ => {
                preliminary.fails = true;
                let mut message = BytesMut::new();
                write_query(&mut message, FAIL);
                self.input.set_message(message.freeze());
                Ok(())
            }
        }
    }

    /// Removes the server's answers to what precedes the client's request.
    pub(super) fn hide_preliminary(&mut self) {
        if let Some(preliminary) = &self.preliminary {
            hide(&mut self.output.bytes, preliminary.fails);
        }
    }

    /// The client has got the error of BEGIN as that of its request. It is in a transaction, which has failed.
    fn begin_failed(&mut self) -> Result<(), (ServerDisposal, ClientEnd)> {
        let Some(preliminary) = self.preliminary.take() else {
            return Ok(());
        };
        if !is_complete(&preliminary.request) {
            // The rest of the request cannot be told from the next one.
            let last = std::mem::take(&mut self.output.bytes);
            return Err((ServerDisposal::Close, ClientEnd::Error(last.freeze())));
        }
        Status::Failed.write(&mut self.output.bytes);
        let mut transaction = preliminary.transaction;
        transaction.failed = true;
        self.client.deferred = Some(transaction);
        Ok(())
    }
}

/// Removes the server's answers. Its notices, and errors of which the client does not know, remain.
fn hide(output: &mut BytesMut, fails: bool) {
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
    use paceline_wire::backend::write_command_complete;

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

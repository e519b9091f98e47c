//! A relay that begins with the BEGIN of a deferred transaction. The client has the answer, so it gets none of the server's.
//!
//! The server answers BEGIN before it gets the client's request: if BEGIN fails, the request must not run on its own. The client has
//! waited for one answer less, so this costs no more than a transaction that begins at once.

use super::preliminary::{Preliminary, hide};
use super::start::is_complete;
use super::{RelayTask, ServerDisposal};
use crate::client::deferred_transaction::DeferredTransaction;
use crate::client::end::ClientEnd;
use bytes::{Bytes, BytesMut};
use paceline_wire::backend::Status;
use paceline_wire::frontend::write_query;

/// There is no such savepoint. The error puts the transaction into the failed state.
const FAIL: &str = "ROLLBACK TO SAVEPOINT \"paceline: the deferred transaction has failed\"";

/// Takes a snapshot, as the reads did that replicas have answered: some settings of a transaction cannot be changed after that.
const SNAPSHOT: &str = "SELECT WHERE false";

impl RelayTask<'_> {
    /// Begins the relay with the BEGIN of this transaction. The request follows.
    pub(super) fn begin_with(
        &mut self,
        mut transaction: Box<DeferredTransaction>,
        request: &Bytes,
    ) {
        let mut first = BytesMut::from(&*transaction.begin);
        if transaction.has_read {
            write_query(&mut first, SNAPSHOT);
        }
        self.input.set_first(first.freeze());
        let statements = &mut self.client.session.statements;
        self.preliminary = Some(Box::new(Preliminary {
            shown: std::mem::take(&mut transaction.begun),
            transaction,
            request: request.clone(),
            unnamed: statements.close(b""),
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
        match (self.relay.status(), preliminary.transaction.status()) {
            (Status::Idle, _) => self.request_failed(true),
            (Status::Failed, Status::Transaction) => self.request_failed(false),
            (Status::Transaction, Status::Failed) => {
                preliminary.fails = true;
                let mut message = BytesMut::new();
                write_query(&mut message, FAIL);
                self.input.set_message(message.freeze());
                Ok(())
            }
            _ => {
                if let Some((_, request)) = self.end_preliminary() {
                    self.input.awaits_long = request.is_empty();
                    self.input.set_message(request);
                }
                Ok(())
            }
        }
    }

    /// Removes the server's answers to the statements before the client's request.
    fn hide_preliminary(&mut self) {
        if let Some(preliminary) = &mut self.preliminary {
            let output = &mut self.output.bytes;
            hide(output, preliminary.fails, &mut preliminary.shown);
        }
    }

    /// The server has answered the statements before the client's request, or is lost. They were simple queries, which drop the unnamed
    /// statement of the server, but the client's has remained.
    pub(super) fn end_preliminary(&mut self) -> Option<(Box<DeferredTransaction>, Bytes)> {
        self.hide_preliminary();
        let preliminary = *self.preliminary.take()?;
        let statements = &mut self.client.session.statements;
        statements.undo(preliminary.unnamed);
        self.output.bytes.extend_from_slice(&preliminary.shown);
        Some((preliminary.transaction, preliminary.request))
    }

    /// The client has got the error of BEGIN, or of [`SNAPSHOT`], as that of its request. It is in a transaction, which has failed;
    /// `deferred`: not on the server.
    fn request_failed(&mut self, deferred: bool) -> Result<(), (ServerDisposal, ClientEnd)> {
        let Some((mut transaction, request)) = self.end_preliminary() else {
            return Ok(());
        };
        if !is_complete(&request) {
            // The rest of the request would be taken for the next one.
            let last = std::mem::take(&mut self.output.bytes);
            return Err((ServerDisposal::Close, ClientEnd::Error(last.freeze())));
        }
        Status::Failed.write(&mut self.output.bytes);
        if deferred {
            transaction.failed = true;
            self.client.deferred = Some(transaction);
        }
        Ok(())
    }
}

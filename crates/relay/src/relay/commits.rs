//! The committed transactions of the client, and whether they have written.

use crate::commits::{CommitCounts, Writes};
use paceline_wire::backend::Status;

/// The writes of the client's transactions.
#[derive(Debug, Default)]
pub(super) struct CommitProgress {
    /// The open transaction.
    open: Writes,
    /// The last command of the open transaction was ROLLBACK, perhaps to a savepoint.
    rolled_back: bool,
    /// A statement was sent that may write although its command tag is SELECT.
    may_write: bool,
    committed: CommitCounts,
}

impl CommitProgress {
    /// A statement is about to be sent. `only_reads`: it is known to write nothing.
    pub(super) fn sent(&mut self, only_reads: bool) {
        self.may_write |= !only_reads;
    }

    /// A command has completed; `command` is the body of its `CommandComplete`.
    pub(super) fn executed(&mut self, command: &[u8]) {
        if std::mem::take(&mut self.rolled_back) {
            self.open = self.open.min(Writes::Possible);
        }
        match command.strip_suffix(b"\0").unwrap_or(command) {
            b"ROLLBACK" => self.rolled_back = true,
            b"COMMIT" => self.committed += std::mem::take(&mut self.open),
            _ => {
                let writes = Writes::of_command(command, !self.may_write);
                self.open = self.open.max(writes);
            }
        }
    }

    /// A function has been called by the message `FunctionCall`.
    pub(super) fn called(&mut self) {
        self.open = self.open.max(Writes::Possible);
    }

    /// The server has reported this transaction status. `failed`: it has sent an error since the last report. `owes`: it has received
    /// further statements.
    pub(super) fn ready(&mut self, status: Status, failed: bool, owes: bool) {
        let rolled_back = std::mem::take(&mut self.rolled_back) || failed;
        if status != Status::Idle {
            // Rows that were written before a savepoint remain.
            if rolled_back {
                self.open = self.open.min(Writes::Possible);
            }
            return;
        }
        self.may_write &= owes;
        let writes = std::mem::take(&mut self.open);
        if !rolled_back {
            self.committed += writes;
        }
    }

    /// The commits since the last call.
    pub(super) fn take(&mut self) -> CommitCounts {
        std::mem::take(&mut self.committed)
    }
}

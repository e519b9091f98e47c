//! COPY FROM STDIN (chapter "COPY Operations"). Until it ends, the server skips every Sync that it reads.

use super::expect::Expect;
use super::state::{Extended, RelayContext, RelayState};

impl RelayState {
    /// The server reads CopyData now. It skips each Sync up to the end of the copy.
    pub(super) fn start_copy_in(&mut self) {
        let begun = self.expect.copy_begins();
        self.copy_in = !begun.has_ended;
        self.sync_in_copy |= begun.skips_sync;
        if let Some(Expect::Execute(_)) = self.expect.front() {
            // Unless a later Sync is in the queue, the client has yet to end the request.
            self.extended = match (self.expect.owe_sync(), self.extended) {
                (_, before @ (Extended::Describing | Extended::Skipping)) => before,
                (true, _) => Extended::No,
                (false, _) => Extended::Open,
            };
        }
    }

    /// An error ends a copy.
    pub(super) fn end_failed_copy(&mut self, context: &mut RelayContext<'_>) {
        self.copy_in = false;
        // The server may answer the Sync, or not. No other client may receive that answer.
        context.server.must_close |= std::mem::take(&mut self.sync_in_copy);
    }

    /// The server sent ReadyForQuery for a Sync that it should have skipped in a copy. It no longer skips messages.
    pub(super) fn answered_unasked(&mut self, context: &mut RelayContext<'_>) {
        self.extended = Extended::No;
        // No other client may receive further unexpected answers.
        context.server.must_close = true;
    }
}

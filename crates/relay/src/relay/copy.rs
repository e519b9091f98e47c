//! COPY FROM STDIN (chapter "COPY Operations"): while it lasts the server skips every Sync that it reads.

use super::expect::Expect;
use super::state::{Extended, RelayContext, RelayState};

impl RelayState {
    /// The server reads CopyData now: it has skipped or will skip Syncs up to the end of the copy.
    pub(super) fn start_copy_in(&mut self) {
        let begun = self.expect.copy_begins();
        self.copy_in = !begun.has_ended;
        self.sync_in_copy |= begun.skips_sync;
        if let Some(Expect::Execute { .. }) = self.expect.front() {
            // The Sync that ends the request is still to come.
            self.extended = match (self.expect.owe_sync(), self.extended) {
                (_, before @ (Extended::Describing | Extended::Skipping)) => before,
                (true, _) => Extended::No,
                (false, _) => Extended::Open,
            };
        }
    }

    /// An error ends the copy, if there is one.
    pub(super) fn end_failed_copy(&mut self, context: &mut RelayContext<'_>) {
        self.copy_in = false;
        // An answer that nobody expects may follow: it is for no other client.
        context.server.must_close |= std::mem::take(&mut self.sync_in_copy);
    }

    /// The server became ready without having been asked: by a Sync that a copy was to skip. It listens again.
    pub(super) fn answered_unasked(&mut self, context: &mut RelayContext<'_>) {
        self.extended = Extended::No;
        // What else it may say that nobody expects is for no other client.
        context.server.must_close = true;
    }
}

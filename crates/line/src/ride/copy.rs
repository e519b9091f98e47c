//! COPY FROM STDIN (chapter "COPY Operations"): while it lasts the server skips every Sync that it reads.

use super::{Desk, Expect, Ride};

impl Ride {
    /// The server reads CopyData now: it has skipped or will skip Syncs up to the end of the copy.
    pub(super) fn start_copy_in(&mut self) {
        let is_end = |expect: &Expect| matches!(expect, Expect::CopyEnd);
        let end = self.expect.iter().position(is_end);
        self.copy_in = end.is_none();
        let until = end.map_or(self.expect.len(), |at| at + 1);
        let mut place = 0;
        self.expect.retain(|e| {
            let inside = place < until;
            place += 1;
            self.sync_in_copy |= inside && matches!(e, Expect::Sync);
            !(inside && matches!(e, Expect::Sync | Expect::CopyEnd))
        });
        if let Some(Expect::Execute { .. }) = self.expect.front() {
            // The Sync that ends the unit is still to come.
            self.mid_unit = !self.expect.iter().any(|e| matches!(e, Expect::Sync));
        }
    }

    /// An error ends the copy, if there is one.
    pub(super) fn end_failed_copy(&mut self, desk: &mut Desk<'_>) {
        self.copy_in = false;
        // An answer that nobody expects may follow: it is for no other client.
        desk.server.spent |= std::mem::take(&mut self.sync_in_copy);
    }

    /// The server became ready without having been asked: by a Sync that a copy was to skip. It listens again.
    pub(super) fn answered_unasked(&mut self, desk: &mut Desk<'_>) {
        (self.skipping, self.mid_unit) = (false, false);
        // What else it may say that nobody expects is for no other client.
        desk.server.spent = true;
    }
}

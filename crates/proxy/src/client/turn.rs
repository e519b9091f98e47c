//! How much is done for one client before others have their turn. Tasks take turns only where they wait, and a client whose next
//! messages are there already waits for nothing.

use paceline_wire::frontend::tag;

/// Others have their turn after this much, in units of about a nanosecond: a fraction of a millisecond.
const WORK_MAX: usize = 256 * 1024;

/// To look at a message …
const MESSAGE: usize = 512;
/// … that holds a text, which is looked up.
const TEXT: usize = 4 * 1024;
/// Bytes that are copied for one unit of work.
const BYTES: usize = 4;

/// One client's turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    work: usize,
}

impl Turn {
    /// A message of the client was taken.
    pub(super) fn message(&mut self, kind: u8, len: usize) {
        let cost = match kind {
            tag::QUERY | tag::PARSE => TEXT + len,
            _ => MESSAGE + len / BYTES,
        };
        self.work = self.work.saturating_add(cost);
    }

    /// As many bytes went by.
    pub(super) fn bytes(&mut self, len: usize) {
        self.work = self.work.saturating_add(MESSAGE + len / BYTES);
    }

    /// Something was done that takes a turn by itself.
    pub(super) fn all(&mut self) {
        self.work = WORK_MAX;
    }

    /// Others are to have their turn.
    pub(super) fn is_over(&self) -> bool {
        self.work >= WORK_MAX
    }

    /// Lets others have their turn.
    pub(super) async fn pass(&mut self) {
        self.work = 0;
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_is_over_after_some_hundred_messages_or_some_texts() {
        for (kind, len, about) in [
            (tag::BIND, 60, 500),
            (tag::QUERY, 60, 60),
            (tag::QUERY, WORK_MAX, 1),
            (tag::COPY_DATA, 64 * 1024, 16),
        ] {
            let mut turn = Turn::default();
            let mut count = 0;
            while !turn.is_over() {
                turn.message(kind, len);
                count += 1;
            }
            assert!(count >= about / 2 && count <= about * 2, "{count}");
            turn.pass().await;
            assert!(!turn.is_over());
        }
    }
}

//! Memory for shared answers: how many bytes of them the process keeps at a time, for all pools and clients together.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of shared answers that are kept at a time, until the last client has taken its copy.
pub const SHARED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What the process keeps.
#[derive(Debug, Default)]
pub struct ResultMemory {
    taken: AtomicUsize,
}

/// What one answer takes of it; comes back when this is dropped.
#[derive(Debug)]
pub struct ResultReservation {
    rooms: Arc<ResultMemory>,
    taken: usize,
}

impl ResultMemory {
    /// Bytes that are taken now.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl ResultReservation {
    /// None yet.
    pub fn new(rooms: &Arc<ResultMemory>) -> Self {
        Self {
            rooms: Arc::clone(rooms),
            taken: 0,
        }
    }

    /// Takes what is missing to `bytes`. False: there is not as much left, and nothing more was taken.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.taken);
        let grown = |taken: usize| {
            let taken = taken.checked_add(more)?;
            (taken <= SHARED_BYTES_MAX).then_some(taken)
        };
        let all = &self.rooms.taken;
        let fits = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        if fits.is_ok() {
            self.taken += more;
        }
        fits.is_ok()
    }

    /// These bytes take this room until their last copy is dropped.
    pub fn keep(self, answer: Bytes) -> Bytes {
        Bytes::from_owner(Kept {
            answer,
            _room: self,
        })
    }
}

impl Drop for ResultReservation {
    fn drop(&mut self) {
        self.rooms.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

struct Kept {
    answer: Bytes,
    _room: ResultReservation,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back_with_the_last_copy() {
        let rooms = Arc::new(ResultMemory::default());
        let mut first = ResultReservation::new(&rooms);
        assert!(first.grow_to(SHARED_BYTES_MAX - 1));
        assert!(first.grow_to(10), "it has that already");
        let mut second = ResultReservation::new(&rooms);
        assert!(second.grow_to(1));
        assert!(!second.grow_to(2));
        let kept = first.keep(Bytes::from_static(b"answer"));
        let copy = kept.clone();
        drop(kept);
        assert!(!second.grow_to(2));
        assert_eq!(copy, "answer");
        drop(copy);
        assert!(second.grow_to(SHARED_BYTES_MAX));
        drop(second);
        assert_eq!(rooms.taken.load(Ordering::Relaxed), 0);
    }
}

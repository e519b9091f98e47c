//! Memory for shared answers, limited for the whole process.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of bytes of shared answers, each counted until its last client has it.
pub(crate) const SHARED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Counts the bytes of all shared answers.
#[derive(Debug, Default)]
pub struct ResultMemory {
    taken: AtomicUsize,
}

/// The bytes reserved for one answer. Dropping this releases them.
#[derive(Debug)]
pub struct ResultReservation {
    memory: Arc<ResultMemory>,
    taken: usize,
}

impl ResultMemory {
    /// Number of reserved bytes.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl ResultReservation {
    /// A reservation of no bytes.
    pub fn new(memory: &Arc<ResultMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            taken: 0,
        }
    }

    /// Enlarges the reservation to `bytes`. Returns false, and changes nothing, if not enough memory is left.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.taken);
        let grown = |taken: usize| {
            let taken = taken.checked_add(more)?;
            (taken <= SHARED_BYTES_MAX).then_some(taken)
        };
        let all = &self.memory.taken;
        let fits = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        if fits.is_ok() {
            self.taken += more;
        }
        fits.is_ok()
    }

    /// Returns the answer with its reservation, which ends when the last copy is dropped.
    pub fn attach(self, answer: Bytes) -> Bytes {
        Bytes::from_owner(ReservedAnswer {
            answer,
            _reservation: self,
        })
    }
}

impl Drop for ResultReservation {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

struct ReservedAnswer {
    answer: Bytes,
    _reservation: ResultReservation,
}

impl AsRef<[u8]> for ReservedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_released_with_the_last_copy() {
        let memory = Arc::new(ResultMemory::default());
        let mut first = ResultReservation::new(&memory);
        assert!(first.grow_to(SHARED_BYTES_MAX - 1));
        assert!(first.grow_to(10), "the bytes are already reserved");
        let mut second = ResultReservation::new(&memory);
        assert!(second.grow_to(1));
        assert!(!second.grow_to(2));
        let kept = first.attach(Bytes::from_static(b"answer"));
        let copy = kept.clone();
        drop(kept);
        assert!(!second.grow_to(2));
        assert_eq!(copy, "answer");
        drop(copy);
        assert!(second.grow_to(SHARED_BYTES_MAX));
        drop(second);
        assert_eq!(memory.taken.load(Ordering::Relaxed), 0);
    }
}

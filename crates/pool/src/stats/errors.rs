//! Counts errors by SQLSTATE, in a table of fixed size without a lock. If the table is full, further SQLSTATEs are counted
//! together.

use super::counter::load;
use paceline_wire::backend::{self, tag};
use paceline_wire::{Frames, frame};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of SQLSTATEs that one pool counts separately.
pub const CODES_MAX: usize = 32;

/// Label of all further SQLSTATEs.
pub(super) const OTHER_CODES: &str = "other";

/// Five characters (PostgreSQL documentation, appendix A).
pub type SqlState = [u8; 5];

/// A SQLSTATE and its count. Once set, the SQLSTATE of an entry does not change.
#[derive(Debug, Default)]
struct CodeEntry {
    /// The SQLSTATE as a number; 0 if the entry is free.
    code: AtomicU64,
    count: AtomicU64,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct ErrorCounts {
    entries: [CodeEntry; CODES_MAX],
    others: AtomicU64,
}

impl ErrorCounts {
    pub(super) fn count(&self, state: SqlState) {
        let code = number(state);
        let entry = self.entries.iter().find(|entry| entry.is_for(code));
        let count = entry.map_or(&self.others, |entry| &entry.count);
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Vec<(String, u64)> {
        let entries = self.entries.iter().map(|entry| {
            let code = load(&entry.code).to_be_bytes();
            let text = code.get(3..).unwrap_or_default();
            let name = String::from_utf8_lossy(text).into_owned();
            (name, load(&entry.count))
        });
        let others = (OTHER_CODES.to_owned(), load(&self.others));
        let all = entries.chain([others]);
        all.filter(|(_, count)| *count > 0).collect()
    }
}

impl CodeEntry {
    /// Whether the entry counts this SQLSTATE. A free entry is taken for it.
    fn is_for(&self, code: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        match load(&self.code) {
            0 => match self.code.compare_exchange(0, code, relaxed, relaxed) {
                Ok(_) => true,
                Err(taken) => taken == code,
            },
            taken => taken == code,
        }
    }
}

fn number(state: SqlState) -> u64 {
    let bytes = state.iter();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The SQLSTATE in the body of an `ErrorResponse`; `None` if it is invalid.
fn in_body(body: &[u8]) -> Option<SqlState> {
    let state: SqlState = backend::error_field(body, b'C')?
        .as_bytes()
        .try_into()
        .ok()?;
    state.iter().all(u8::is_ascii_alphanumeric).then_some(state)
}

/// The SQLSTATE of the first error in whole messages.
pub fn first_state(messages: &[u8]) -> Option<SqlState> {
    let mut frames = Frames::new(messages);
    let error = frames.find(|frame| frame.tag == tag::ERROR_RESPONSE)?;
    in_body(error.body())
}

/// The message of the first error in whole messages.
pub fn first_words(messages: &[u8]) -> Option<&str> {
    let mut frames = Frames::new(messages);
    let error = frames.find(|frame| frame.tag == tag::ERROR_RESPONSE)?;
    backend::error_field(error.body(), b'M')
}

/// The SQLSTATE of an answer that ends with an error. Rows are not read: if the bytes before ReadyForQuery are those of an error,
/// they end with the zero of its last field and one more.
pub fn state_of(answer: &[u8]) -> Option<SqlState> {
    let ready_len = frame::HEADER_LEN + 1;
    let before = answer.get(..answer.len().checked_sub(ready_len)?)?;
    match before.ends_with(&[0, 0]) || answer.first() == Some(&tag::ERROR_RESPONSE) {
        true => first_state(answer),
        false => None,
    }
}

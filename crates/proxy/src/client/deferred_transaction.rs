//! The state of a deferred transaction, and the rules for deferring one.

#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::settings::SessionSettings;
use paceline_sql::Begin;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};
use std::sync::Arc;
use std::time::Duration;

/// A transaction that has not begun on a server.
pub(super) struct DeferredTransaction {
    /// The client's BEGIN, as a `Query`.
    pub(super) begin: Bytes,
    /// The answer to BEGIN, if the client gets it with the answer to its next request.
    pub(super) begun: BytesMut,
    /// Whether the limits of the pool count the transaction. A BEGIN that has not been a request of its own is counted with the next request.
    pub(super) is_counted: bool,
    /// Whether a request of the transaction has failed, for example because the client cancelled it.
    pub(super) failed: bool,
    /// Whether a replica has answered a read of the transaction.
    pub(super) has_read: bool,
    /// The primary's default of `idle_in_transaction_session_timeout`; zero means none.
    pub(super) idle_max: Duration,
    /// The single statement for which the transaction really begins. After the transaction, its template is analyzed unless another
    /// client has done that.
    pub(super) read: Option<Arc<PlannedRequest>>,
}

impl DeferredTransaction {
    /// A transaction that has just begun.
    pub(super) fn new(begin: Bytes, idle_max: Duration) -> Self {
        Self {
            begin,
            begun: BytesMut::new(),
            is_counted: true,
            failed: false,
            has_read: false,
            idle_max,
            read: None,
        }
    }

    /// The status that the client knows.
    pub(super) fn status(&self) -> Status {
        match self.failed {
            true => Status::Failed,
            false => Status::Transaction,
        }
    }

    /// Puts the answer to BEGIN before the answer to the next request.
    pub(super) fn precede(&mut self, answer: &mut BytesMut) {
        if !self.begun.is_empty() {
            let begun = std::mem::take(&mut self.begun);
            let rest = std::mem::replace(answer, begun);
            answer.extend_from_slice(&rest);
        }
    }
}

/// Settings that limit the time of transactions.
pub(super) const LIMITS: [&str; 2] = ["idle_in_transaction_session_timeout", "transaction_timeout"];

const READ_ONLY: &str = "default_transaction_read_only";

pub(super) const ISOLATION: &str = "default_transaction_isolation";

/// Maximum number of bytes of a `Query` that Paceline examines.
const QUERY_BYTES_MAX: usize = 256;

/// The text of a request that is one short `Query`.
pub(super) fn query_text(bytes: &Bytes) -> Option<&str> {
    let mut frames = Frames::new(bytes);
    let is_short =
        |frame: &Frame<'_>| frame.tag == tag::QUERY && frame.bytes.len() <= QUERY_BYTES_MAX;
    let query = frames.next().filter(is_short)?;
    let text = Reader::new(query.body()).str().ok()?;
    let is_whole = query.body().len() == text.len() + 1;
    (is_whole && frames.next().is_none()).then_some(text)
}

/// Whether these messages are one `Sync`.
pub(super) fn is_sync(bytes: &[u8]) -> bool {
    bytes == [tag::SYNC, 0, 0, 0, 4]
}

/// Whether the text says that the transaction only reads, or the client has made that its default.
pub(super) fn is_read_only(begin: Begin, settings: &SessionSettings) -> bool {
    let default = || settings.sql_of(READ_ONLY).and_then(value_of);
    begin.read_only || default().is_some_and(|value| ["on", "true", "yes", "1"].contains(&&*value))
}

/// Whether a transaction that names no isolation level has this one.
pub(super) fn is_read_committed(settings: &SessionSettings, default: bool) -> bool {
    match settings.sql_of(ISOLATION) {
        Some(sql) => sql.to_ascii_lowercase().contains("read committed"),
        None => default,
    }
}

/// The value of [`READ_ONLY`] in the SQL that sets it, in lower case.
fn value_of(sql: &str) -> Option<String> {
    let sql = sql.to_ascii_lowercase();
    let words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut words = words.filter(|word| !word.is_empty());
    words.find(|word| *word == READ_ONLY)?;
    words.find(|word| *word != "to").map(str::to_owned)
}

/// Replaces the transaction status in the ReadyForQuery at the end of an answer.
pub(super) fn replace_status(answer: &mut BytesMut, status: Status) {
    let mut ready = BytesMut::new();
    Status::Idle.write(&mut ready);
    if answer.ends_with(&ready) {
        answer.truncate(answer.len() - ready.len());
        status.write(answer);
    }
}

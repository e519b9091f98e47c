//! What a relay counts for its pool's statistics. The clock is read where the relay begins, where it ends, and around the times in
//! which a client in a transaction has nothing to do: a unit that relays alone costs no further reading.

use paceline_pool::pool::Pool;
use paceline_pool::stats::Prepared;
use paceline_wire::Frame;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use std::time::Instant;

/// Counts a relay.
#[derive(Debug)]
pub(super) struct Meter {
    /// Since when the units that are not counted yet have been under way,
    since: Instant,
    /// and their transaction.
    transaction_since: Instant,
    queries: u64,
    transactions: u64,
    /// The first transaction goes on, or others have followed it.
    is_long: bool,
    received: u64,
    sent: u64,
    prepared: Prepared,
}

impl Meter {
    /// A relay begins.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            transaction_since: now,
            queries: 0,
            transactions: 0,
            is_long: false,
            received: 0,
            sent: 0,
            prepared: Prepared::default(),
        }
    }

    /// The client sent a message while the server's transaction status was this.
    pub(super) fn message(&mut self, frame: Frame<'_>, status: Status) {
        self.received += frame.bytes.len() as u64;
        self.prepared.note(frame);
        if matches!(frame.tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL) {
            self.is_long |= self.queries > 0;
            self.unit(status);
        }
    }

    /// A unit is under way.
    pub(super) fn unit(&mut self, status: Status) {
        self.queries += 1;
        self.transactions += u64::from(status == Status::Idle);
    }

    /// The client sent bytes of copied data.
    pub(super) fn copied(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// All units so far are answered and the client must say what comes next.
    pub(super) fn pause(&mut self, now: Instant, status: Status, sent: u64, pool: &Pool) {
        self.is_long = true;
        self.count(now, status == Status::Idle, sent, pool);
    }

    /// The client has said something.
    pub(super) fn go_on(&mut self, now: Instant, status: Status) {
        self.since = now;
        if status == Status::Idle {
            self.transaction_since = now;
        }
    }

    /// The relay is over. `sent`: bytes to the client in all.
    pub(super) fn end(mut self, now: Instant, sent: u64, pool: &Pool) {
        self.count(now, true, sent, pool);
    }

    fn count(&mut self, now: Instant, transaction_ends: bool, sent: u64, pool: &Pool) {
        let stats = &pool.stats;
        let queries = std::mem::take(&mut self.queries);
        if self.is_long {
            stats.served_queries(queries, now - self.since);
            if transaction_ends {
                let transactions = std::mem::take(&mut self.transactions);
                stats.served_transactions(transactions, now - self.transaction_since);
            }
        } else {
            stats.served_single(queries, now - self.since);
        }
        stats.prepared(std::mem::take(&mut self.prepared));
        let more = sent.saturating_sub(std::mem::replace(&mut self.sent, sent));
        stats.moved(std::mem::take(&mut self.received), more);
    }
}

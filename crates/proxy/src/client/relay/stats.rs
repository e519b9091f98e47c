//! Counts a relay for the statistics of its pool. The clock is read at the beginning and the end of a relay, and when a client in
//! a transaction becomes idle or active; a single request costs no further reading.

use paceline_pool::pool::Pool;
use paceline_pool::stats::PreparedCounts;
use paceline_wire::Frame;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use std::time::Instant;

/// The counts of one relay that the pool does not have yet.
#[derive(Debug)]
pub(super) struct RelayStats {
    /// Start of the queries that are not counted yet.
    since: Instant,
    /// Start of their transaction.
    transaction_since: Instant,
    queries: u64,
    transactions: u64,
    /// All transactions of the relay.
    begun: u64,
    /// Those of them that the limits of the pool count.
    charged: u64,
    /// The relay has more than one request.
    is_multiple: bool,
    received: u64,
    sent: u64,
    prepared: PreparedCounts,
}

impl RelayStats {
    /// Starts counting a relay.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            transaction_since: now,
            queries: 0,
            transactions: 0,
            begun: 0,
            // The first one was counted before it began.
            charged: 1,
            is_multiple: false,
            received: 0,
            sent: 0,
            prepared: PreparedCounts::default(),
        }
    }

    /// Counts a message that the client sent while the server was in this transaction status.
    pub(super) fn message(&mut self, frame: Frame<'_>, status: Status) {
        self.received += frame.bytes.len() as u64;
        self.prepared.note(frame);
        if matches!(frame.tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL) {
            self.is_multiple |= self.queries > 0;
            self.request(status);
        }
    }

    /// Counts a request.
    pub(super) fn request(&mut self, status: Status) {
        self.queries += 1;
        let begins = u64::from(status == Status::Idle);
        self.transactions += begins;
        self.begun += begins;
    }

    /// Counts bytes of a message body.
    pub(super) fn copied(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Counts the requests so far, which are all answered. The client is idle.
    pub(super) fn pause(&mut self, now: Instant, status: Status, sent: u64, pool: &Pool) {
        self.is_multiple = true;
        self.count(now, status == Status::Idle, sent, pool);
    }

    /// Begins the times of the next requests: the client is active again.
    pub(super) fn resume(&mut self, now: Instant, status: Status) {
        self.since = now;
        if status == Status::Idle {
            self.transaction_since = now;
        }
    }

    /// Ends the relay. `sent` is the total number of bytes sent to the client.
    pub(super) fn end(mut self, now: Instant, sent: u64, pool: &Pool) {
        self.count(now, true, sent, pool);
    }

    fn count(&mut self, now: Instant, transaction_ends: bool, sent: u64, pool: &Pool) {
        let stats = &pool.stats;
        let queries = std::mem::take(&mut self.queries);
        if self.is_multiple {
            stats.served_queries(queries, now - self.since);
            if transaction_ends {
                let transactions = std::mem::take(&mut self.transactions);
                stats.served_transactions(transactions, now - self.transaction_since);
            }
        } else {
            stats.served_single(queries, now - self.since);
        }
        if self.begun > self.charged {
            pool.begun_beside(self.begun - self.charged);
            self.charged = self.begun;
        }
        stats.prepared(std::mem::take(&mut self.prepared));
        let more = sent.saturating_sub(std::mem::replace(&mut self.sent, sent));
        stats.moved(std::mem::take(&mut self.received), more);
    }
}

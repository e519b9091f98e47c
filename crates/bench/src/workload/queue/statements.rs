//! The statements of consumers, as in the source.

use super::layout::Layout;
use crate::workload::tables::SCHEMA;

/// True for one transaction at a time; never waits.
const TRY_LOCK: &str = "pg_try_advisory_xact_lock(id)";

/// The way in which a transaction picks the order to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The first order; consumers wait for each other.
    First,
    /// The first order that is not locked.
    SkipLocked,
    /// The first order whose advisory lock is free; that writes nothing to the table.
    TryLock,
}

/// Takes up to `limit` orders that no other consumer has locked, and files them.
pub(super) fn take(layout: Layout, shard: u64, limit: u64) -> String {
    let queue = layout.queue(shard);
    let (condition, locking) = match layout.condition() {
        None => (TRY_LOCK.to_owned(), ""),
        // The planner chooses which of two conditions to evaluate first, and could try the advisory locks of orders of
        // other shards. FOR UPDATE locks a row only if all conditions hold.
        Some(condition) => (condition, " FOR UPDATE SKIP LOCKED"),
    };
    let picked =
        format!("SELECT ctid FROM {queue} WHERE {condition} ORDER BY id LIMIT {limit}{locking}");
    match limit {
        1 => file(&queue, &format!("ctid = ({picked})")),
        // The array ensures that the orders are picked once, whatever the plan.
        _ => file(&queue, &format!("ctid = ANY (ARRAY({picked}))")),
    }
}

/// Marks an order as taken.
pub(super) fn claim(layout: Layout) -> String {
    let queue = layout.queue(0);
    format!(
        "UPDATE {queue} SET status = 1, uts = now() WHERE id = (SELECT id FROM {queue} WHERE status = 0 \
         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING order_id"
    )
}

/// Returns a row if any order waits for consumers of `shard`.
pub(super) fn remaining(layout: Layout, shard: u64) -> String {
    let queue = layout.queue(shard);
    let condition = layout.condition();
    let condition = condition.map(|condition| format!(" WHERE {condition}"));
    format!(
        "SELECT 1 FROM {queue}{} LIMIT 1",
        condition.unwrap_or_default()
    )
}

/// Opens a transaction with a snapshot: PostgreSQL keeps all rows that are deleted from then on, until it ends.
pub(super) fn hold_snapshot(layout: Layout) -> String {
    let queue = layout.queue(0);
    format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM {queue} LIMIT 1")
}

/// Picks an order within a transaction.
pub(super) fn pick(layout: Layout, pick: Pick) -> String {
    let queue = layout.queue(0);
    match pick {
        Pick::First => format!("SELECT id FROM {queue} ORDER BY id FOR UPDATE LIMIT 1"),
        Pick::SkipLocked => {
            format!("SELECT id FROM {queue} ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1")
        }
        Pick::TryLock => format!("SELECT id FROM {queue} WHERE {TRY_LOCK} ORDER BY id LIMIT 1"),
    }
}

/// Files the picked order, `$1`.
pub(super) fn file_picked(layout: Layout) -> String {
    file(&layout.queue(0), "id = $1")
}

/// Moves the orders that satisfy `condition` from `queue` to the state table and returns their ids.
fn file(queue: &str, condition: &str) -> String {
    format!(
        "WITH tmp AS (DELETE FROM {queue} WHERE {condition} RETURNING order_id, cts) \
         INSERT INTO {SCHEMA}.t_order_u (order_id, cts, uts, status) \
         SELECT order_id, cts, now(), 1 FROM tmp RETURNING order_id"
    )
}

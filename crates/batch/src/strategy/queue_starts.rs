//! Chooses where the groups of a queue start to pick, so that they do not pass over the dead rows at its head.
//!
//! A *whole pass* reads the queue from its head. Every other pass starts at the position of the first row that the last
//! committed pass has found, and reads the rows before it only if the rest gives too few rows. A whole pass is due if the
//! last one began `queue_reorder_time` ago. So a row that becomes visible before the position is taken at most that much
//! later than in the queue's order. Which rows a position excludes, PostgreSQL decides.

use std::collections::HashMap;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Maximum number of queues of a template with a position. The groups of others make whole passes.
const QUEUES_MAX: usize = 256;

/// Maximum number of bytes of a position.
const POSITION_BYTES_MAX: usize = 1_024;

/// Maximum number of bytes of the values that identify a queue. The groups of others make whole passes.
const QUEUE_BYTES_MAX: usize = 1_024;

/// The values that pick rows, each with its format (true: binary). They identify the queue among those of a template.
pub(super) type QueueValues = Vec<(bool, Option<Vec<u8>>)>;

/// The values of the ORDER BY columns of a row, in binary format.
pub(super) type Position = Vec<Vec<u8>>;

/// The part of its queue that a group reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueuePass {
    /// From its head. The statement is sent after this time.
    Whole(Instant),
    /// From a position on.
    From {
        position: Position,
        /// The time before the last whole pass.
        whole_pass: Instant,
    },
}

/// The positions of the queues of a template.
#[derive(Debug, Default)]
pub(super) struct QueueStarts {
    queues: HashMap<QueueValues, QueueStart>,
}

#[derive(Debug)]
struct QueueStart {
    position: Position,
    /// The time before the last whole pass.
    whole_pass: Instant,
}

impl QueueStarts {
    /// The pass of the next group.
    pub(super) fn next_pass(
        &self,
        now: Instant,
        reorder_time: Duration,
        queue: &QueueValues,
    ) -> QueuePass {
        let due =
            |start: &QueueStart| now.saturating_duration_since(start.whole_pass) >= reorder_time;
        match self.queues.get(queue) {
            Some(start) if !due(start) => QueuePass::From {
                position: start.position.clone(),
                whole_pass: start.whole_pass,
            },
            _ => QueuePass::Whole(now),
        }
    }

    /// A pass is committed. `first` is the position of the first row that it has found.
    ///
    /// A position counts only until a later whole pass is committed: it may be behind rows that this pass has seen and left.
    pub(super) fn committed(
        &mut self,
        queue: QueueValues,
        pass: &QueuePass,
        first: Option<Position>,
    ) {
        let last = self.queues.get(&queue).map(|start| start.whole_pass);
        let whole_pass = match *pass {
            QueuePass::Whole(began) if last.is_none_or(|last| last <= began) => began,
            QueuePass::From { whole_pass, .. } if last == Some(whole_pass) => whole_pass,
            _ => return,
        };
        let values = queue.iter().filter_map(|(_, value)| value.as_ref());
        if values.map(Vec::len).sum::<usize>() > QUEUE_BYTES_MAX {
            return;
        }
        let len = |position: &Position| position.iter().map(Vec::len).sum::<usize>();
        match (first, self.queues.get_mut(&queue)) {
            (Some(first), _) if len(&first) > POSITION_BYTES_MAX => {
                self.queues.remove(&queue);
            }
            (Some(position), None) => {
                self.make_room();
                let start = QueueStart {
                    position,
                    whole_pass,
                };
                self.queues.insert(queue, start);
            }
            (Some(position), Some(start)) => {
                start.position = position;
                start.whole_pass = whole_pass;
            }
            // The next row will probably be behind those that were taken last.
            (None, Some(start)) => start.whole_pass = whole_pass,
            (None, None) => {}
        }
    }

    /// Drops the queue whose last whole pass is the oldest, if there are too many.
    fn make_room(&mut self) {
        if self.queues.len() < QUEUES_MAX {
            return;
        }
        let oldest = self.queues.iter().min_by_key(|(_, start)| start.whole_pass);
        if let Some(oldest) = oldest.map(|(queue, _)| queue.clone()) {
            self.queues.remove(&oldest);
        }
    }
}

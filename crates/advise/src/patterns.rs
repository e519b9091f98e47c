//! The patterns. Each says from which numbers on it is one, so that a busy but healthy database has none.

mod advice;
mod claim;
mod hot_row;
mod numbers;
mod pinned_horizon;
mod queue;
mod scattered_read;
mod storm;
mod upsert_store;
mod whole_scan;

use crate::evaluated::Evaluated;
use crate::finding::Finding;

/// All patterns that were found.
pub(crate) fn find(evaluated: &Evaluated<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(hot_row::find(evaluated));
    found.extend(queue::find(evaluated));
    found.extend(upsert_store::find(evaluated));
    let (scattered, explained) = scattered_read::find(evaluated);
    found.extend(scattered);
    found.extend(storm::find(evaluated, explained));
    found.extend(pinned_horizon::find(evaluated));
    found
}

//! Numbers in evidence.

use crate::finding::Evidence;
use crate::queries::COUNTERS;

/// A number per second, of counters.
pub(super) fn counted(fact: String) -> Evidence {
    Evidence {
        fact,
        query: COUNTERS.to_owned(),
    }
}

/// A counter as a number.
pub(super) fn float(count: i64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "rates need no more than 53 bits"
    )]
    let float = count as f64;
    float
}

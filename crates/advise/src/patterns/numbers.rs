//! Numbers in evidence.

use crate::evaluated::Evaluated;
use crate::finding::Evidence;
use crate::queries::{COUNTERS, SESSIONS};

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

/// The part of these samples.
pub(super) fn of_sessions(evaluated: &Evaluated<'_>, samples: usize) -> Evidence {
    let attribution = &evaluated.attribution;
    Evidence {
        fact: format!(
            "{:.0} % of the time of all sessions; {:.1} sessions on average",
            attribution.part(samples) * 100.0,
            attribution.mean(samples)
        ),
        query: SESSIONS.to_owned(),
    }
}

//! The counts of a pool when the last two periods of the averages began.

use super::totals::Totals;

/// What a pool had counted when the last two periods began.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) older: Totals,
    pub(super) newer: Totals,
}

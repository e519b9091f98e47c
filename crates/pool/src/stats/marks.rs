//! Stored counts, from which averages are computed.

use super::totals::Totals;

/// The counts of a pool when the last two periods began.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) older: Totals,
    pub(super) newer: Totals,
}

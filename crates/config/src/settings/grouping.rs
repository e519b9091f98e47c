//! Statements that travel together.

use super::form::{count, switch, time};
use super::key::{OF_A_DATABASE, section};
use crate::duration::BareUnit;
use std::time::Duration;

/// The longest time that a unit may be held back on purpose.
const HOLD_BACK_MAX: Duration = Duration::from_secs(1);

section! {
    /// Statements that travel together.
    pub struct Grouping {
        /// Statements with a hint may travel together
        hotspot: bool = true, switch();
        /// Autocommit statements without a hint may travel together, too
        hotspot_for_autocommit: bool = false, switch(), overridden(OF_A_DATABASE);
        /// How long a unit that could leave is held back for company; 0 never holds back
        hotspot_update_max_wait_time: Duration = Duration::ZERO, time(BareUnit::Microseconds, HOLD_BACK_MAX);
        /// true: updates of one row become one row version; false: they only share a commit
        hotspot_lock_type: bool = true, switch();
        /// Reads that have to wait may share a round trip (short ones) or one run (the very same question)
        pipeline: bool = true, switch();
        /// Largest number of units in a group; of upserts of several rows, about so many rows
        group_size_max: usize = 1024, count("units", 2..=10_000);
    }
}

//! Which statements Paceline groups.

use super::form::{automatic, count, switch, time};
use super::key::{DATABASES_AND_THEIR_USERS, section};
use crate::duration::BareUnit;
use std::time::Duration;

/// The longest time that a request may be held back on purpose.
const HOLD_BACK_MAX: Duration = Duration::from_secs(1);

/// The longest time that a row of a queue may wait for a pass of the whole queue.
const REORDER_MAX: Duration = Duration::from_secs(86_400);

section! {
    /// Which statements Paceline groups.
    pub struct Grouping {
        /// Paceline may group statements that carry a hint
        hotspot: bool = true, switch();
        /// Paceline may also group autocommit statements without a hint
        hotspot_for_autocommit: bool = false, switch(), overridden(DATABASES_AND_THEIR_USERS);
        /// How long a request that could start waits for others to join its group; 0 starts it at once
        hotspot_update_max_wait_time: Duration = Duration::ZERO, time(BareUnit::Microseconds, HOLD_BACK_MAX);
        /// true: updates of one row in a group become one row version; false: they only share a commit
        hotspot_lock_type: bool = true, switch();
        /// Reads that have to wait may share a round trip (short reads) or one execution (identical reads)
        pipeline: bool = true, switch();
        /// Maximum number of requests in a group; for upserts of several rows the limit applies to the total number of rows
        group_size_max: usize = 1024, count("requests", 2..=10_000);
        /// Maximum number of groups that a pool executes at once; auto: Paceline finds the number that serves clients best
        max_groups_in_flight: Option<usize> = None, automatic("groups", 1..=10_000), overridden(DATABASES_AND_THEIR_USERS);
        /// A group of consumers starts at the first row that the last group found, and reads the whole queue at least
        /// this often: a row that becomes visible before that one is taken at most this much later than in the
        /// queue's order. 0 reads the whole queue for each group
        queue_reorder_time: Duration = Duration::ZERO, time(BareUnit::Seconds, REORDER_MAX), overridden(DATABASES_AND_THEIR_USERS);
    }
}

//! What travels together.

use super::key::{Key, Kind};
use crate::config::duration::BareUnit;
use std::time::Duration;

/// The longest time that a unit may be held back on purpose.
const HOLD_BACK_MAX: Duration = Duration::from_secs(1);

/// What travels together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grouping {
    /// Whether hinted statements may travel together.
    pub(crate) hotspot: bool,
    /// Whether un-hinted autocommit statements may travel together, too.
    pub(crate) hotspot_for_autocommit: bool,
    /// How long the head of the line is held back for company although it could leave; zero never holds back.
    pub(crate) hotspot_update_max_wait_time: Duration,
    /// True: updates of one row are folded; false: they are chained only.
    pub(crate) hotspot_lock_type: bool,
    /// Whether reads that wait may share a round trip or a run.
    pub(crate) pipeline: bool,
    /// Largest number of units in a group, 2 to 10,000.
    pub(crate) group_size_max: usize,
}

impl Default for Grouping {
    fn default() -> Self {
        Self {
            hotspot: true,
            hotspot_for_autocommit: false,
            hotspot_update_max_wait_time: Duration::ZERO,
            hotspot_lock_type: true,
            pipeline: true,
            group_size_max: 1024,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "hotspot",
        meaning: "Statements with a hint may travel together",
        kind: Kind::Switch(|settings| &mut settings.grouping.hotspot),
    },
    Key {
        name: "hotspot_for_autocommit",
        meaning: "Autocommit statements without a hint may travel together, too",
        kind: Kind::Switch(|settings| &mut settings.grouping.hotspot_for_autocommit),
    },
    Key {
        name: "hotspot_update_max_wait_time",
        meaning: "How long a unit that could leave is held back for company; 0 never holds back",
        kind: Kind::Time {
            bare: BareUnit::Microseconds,
            most: HOLD_BACK_MAX,
            field: |settings| &mut settings.grouping.hotspot_update_max_wait_time,
        },
    },
    Key {
        name: "hotspot_lock_type",
        meaning: "true: updates of one row become one row version; false: they only share a commit",
        kind: Kind::Switch(|settings| &mut settings.grouping.hotspot_lock_type),
    },
    Key {
        name: "pipeline",
        meaning: "Reads that have to wait may share a round trip (short ones) or one run (the very same question)",
        kind: Kind::Switch(|settings| &mut settings.grouping.pipeline),
    },
    Key {
        name: "group_size_max",
        meaning: "Largest number of units in a group; of upserts of several rows, about so many rows",
        kind: Kind::Count {
            unit: "units",
            limits: 2..=10_000,
            field: |settings| &mut settings.grouping.group_size_max,
        },
    },
];

//! What the line must know of a unit: whom it may travel with, and what it waits for.

use crate::strategy::Strategy;
use std::sync::Arc;
use std::time::Duration;

/// A row, as far as the line can tell rows apart: two rows may share a key (they then only wait for one another).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineKey(pub u64);

impl LineKey {
    /// The cohort of units that travel with others on this row only.
    pub fn cohort(self) -> u64 {
        self.0 | 1
    }
}

/// The rows that a unit changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LineKeys {
    /// Not known: it waits for no row.
    #[default]
    Unknown,
    /// It waits for this one, and may leave with others on it.
    One(LineKey),
    /// It waits for all of these at once, and leaves with nobody else on one of them. Each is named once.
    Many(Arc<[LineKey]>),
}

impl LineKeys {
    /// Each of them.
    pub fn as_slice(&self) -> &[LineKey] {
        match self {
            Self::Unknown => &[],
            Self::One(key) => std::slice::from_ref(key),
            Self::Many(keys) => keys,
        }
    }

    /// How many there are besides the first.
    pub(super) fn further(&self) -> usize {
        self.as_slice().len().saturating_sub(1)
    }
}

impl From<Option<LineKey>> for LineKeys {
    fn from(key: Option<LineKey>) -> Self {
        key.map_or(Self::Unknown, Self::One)
    }
}

/// A table, as far as the line can tell tables apart: two may look the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u64);

/// Which units may share a trip, and which strategy carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId {
    /// How the group travels.
    pub strategy: Strategy,
    /// The template, for strategies that need the same one; else 0.
    pub template: u64,
    /// The session settings in force.
    pub settings: u64,
    /// Bit n: parameter n is in binary format.
    pub parameter_formats: u64,
    /// Bit n: result column n is in binary format.
    pub result_formats: u64,
    /// Units that came back from a failed trip travel only with those of the same cohort; 0: never came back.
    pub cohort: u64,
}

impl GroupId {
    /// A group for which only the settings of its members must be the same.
    pub fn of_settings(strategy: Strategy, settings: u64) -> Self {
        Self {
            strategy,
            template: 0,
            settings,
            parameter_formats: 0,
            result_formats: 0,
            cohort: 0,
        }
    }

    /// Whether requests of these groups may share a group on this row.
    pub(super) fn meets(self, other: Self, row: LineKey) -> bool {
        let on_row = |id: Self| Self {
            cohort: match id.cohort {
                cohort if cohort == row.cohort() => 0,
                cohort => cohort,
            },
            ..id
        };
        on_row(self) == on_row(other)
    }
}

/// Time-outs of a client that count while its request waits for a row. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientTimeouts {
    /// `lock_timeout`, from the start of the wait for the row.
    pub lock: Option<Duration>,
    /// `statement_timeout`, from the time at which PostgreSQL alone would have started the statement.
    pub statement: Option<Duration>,
    /// `transaction_timeout` (PostgreSQL 17), which ends the connection: no write travels with others under it.
    pub transaction: Option<Duration>,
}

/// What the line must know of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitSpec {
    /// Whom it may travel with; `None`: alone.
    pub group: Option<GroupId>,
    /// The rows it changes.
    pub keys: LineKeys,
    /// The table it changes.
    pub table: Option<TableId>,
    /// It changes a row of its table (of any, if that is not known), but which one is not known: nobody who came later
    /// and changes that table may leave with somebody who came earlier, and it leaves with none of those who came
    /// earlier if that means to overtake another one.
    pub barrier: bool,
    /// Set if a probe can check whether PostgreSQL would answer the request without its row lock. Requests with the same value
    /// share a probe.
    pub probe: Option<GroupId>,
    /// A server connection can wait for its row lock before its group is built.
    pub locks: bool,
    /// Time-outs of its client.
    pub timeouts: ClientTimeouts,
    /// Maximum size of a group that it is the first member of, if less than [`Limits::group_size_max`](super::Limits).
    pub size_max: Option<usize>,
}

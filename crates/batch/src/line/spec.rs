//! The properties of a request that the line uses: the group that it may join, and the rows for which it waits.

use crate::strategy::Strategy;
use std::sync::Arc;
use std::time::Duration;

/// Identifies the object for which requests wait: a row, or the queue that take statements read. Two rows may have the same key; then
/// requests on one wait for requests on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineKey(pub u64);

impl LineKey {
    /// The cohort of requests that join groups on this row only.
    pub fn cohort(self) -> u64 {
        self.0 | 1
    }
}

/// The rows or the queue for which a request waits in the line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LineKeys {
    /// The request waits for no row. The rows of a write are then not known, so that the write is a barrier
    /// ([`WaitSpec::barrier`]); a read needs none.
    #[default]
    Unknown,
    /// The request waits for this row or queue, and may join a group of requests on it.
    One(LineKey),
    /// The request waits for all of these rows at once, and joins no group with another request on one of them. Without
    /// duplicates.
    MultiRow(Arc<[LineKey]>),
}

impl LineKeys {
    /// All keys.
    pub fn as_slice(&self) -> &[LineKey] {
        match self {
            Self::Unknown => &[],
            Self::One(key) => std::slice::from_ref(key),
            Self::MultiRow(keys) => keys,
        }
    }

    /// Number of keys after the first.
    pub(super) fn further(&self) -> usize {
        self.as_slice().len().saturating_sub(1)
    }
}

impl From<Option<LineKey>> for LineKeys {
    fn from(key: Option<LineKey>) -> Self {
        key.map_or(Self::Unknown, Self::One)
    }
}

/// Identifies a table. Two tables may have the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u64);

/// Requests with the same value may share a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId {
    /// The strategy that executes the group.
    pub strategy: Strategy,
    /// Identifies the template or, for [`share`](crate::strategy::share) and similar strategies, the template and the shared
    /// values. 0 if templates may differ.
    pub template: u64,
    /// The session settings in force.
    pub settings: u64,
    /// Bit n is set if parameter n is in binary format.
    pub parameter_formats: u64,
    /// Bit n is set if result column n is in binary format.
    pub result_formats: u64,
    /// Requests that have returned from a failed group join groups of the same cohort only. 0 if the request has not returned.
    pub cohort: u64,
}

impl GroupId {
    /// A group whose members need only have the same settings.
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
    /// `transaction_timeout` (PostgreSQL 17). It ends the connection, so no write under it joins a group.
    pub transaction: Option<Duration>,
}

/// The properties of a request that the line uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitSpec {
    /// The group that it may join. `None` if it leaves alone.
    pub group: Option<GroupId>,
    /// The rows or the queue for which it waits.
    pub keys: LineKeys,
    /// The table that it changes.
    pub table: Option<TableId>,
    /// Whether it changes a row that is not known, of its table or of any table. No later request that changes the table leaves
    /// with an earlier one; and the barrier itself leaves with an earlier request only if it overtakes no other.
    pub barrier: bool,
    /// The requests with which it shares a probe: those with the same value. `None` if no probe can check whether PostgreSQL
    /// would answer the request without its row lock.
    pub probe_group: Option<GroupId>,
    /// Whether a server connection can wait for its row lock before its group is built.
    pub locks: bool,
    /// Time-outs of its client.
    pub timeouts: ClientTimeouts,
    /// Maximum size of a group of which it is the first member, if less than [`Limits::group_size_max`](super::Limits).
    pub size_max: Option<usize>,
}

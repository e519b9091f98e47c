//! The state of a line.

use super::entry::{Limits, WaitEntry, WaiterId};
use super::probe_schedule::ProbeSchedule;
use super::row_state::RowState;
use super::spec::{GroupId, LineKey};
use crate::group_limit::{GroupLimit, ServerLoad};
use foldhash::{HashMap, HashMapExt};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Waiting requests on several rows.
#[derive(Debug, Default)]
pub(super) struct MultiRowWaits {
    pub(super) waiting: BTreeSet<WaiterId>,
    /// Time of the next check of their rows. `None` if no such request waits.
    pub(super) next_check: Option<Instant>,
}

/// A request that may leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// The group of which it may be the first member.
    pub(super) group: Option<GroupId>,
    /// Whether a server connection must wait for its row lock first.
    pub(super) locks: bool,
    pub(super) since: Instant,
}

/// The line of one pool.
#[derive(Debug)]
pub struct Line<T> {
    pub(super) limits: Limits,
    pub(super) next_waiter: u64,
    pub(super) next_cohort: u64,
    /// Boxed: the map moves its entries when one leaves.
    pub(super) waiting: BTreeMap<WaiterId, Box<WaitEntry<T>>>,
    /// Requests that may leave now: their rows are not known, or they are the first on a row that is not in flight.
    pub(super) ready: BTreeMap<WaiterId, Ready>,
    /// Those of them that the limit of groups does not hold back.
    pub(super) ready_alone: BTreeSet<WaiterId>,
    pub(super) group_limit: GroupLimit,
    pub(super) group_members: FxHashMap<GroupId, BTreeSet<WaiterId>>,
    /// Requests that wait for group members until this time.
    pub(super) held: BTreeSet<(Instant, WaiterId)>,
    /// A [`LineKey`] is a hash of values that clients send. The map hashes it again with a secret, so that no client can cause
    /// collisions.
    pub(super) rows: HashMap<LineKey, RowState>,
    pub(super) barriers: BTreeSet<WaiterId>,
    pub(super) multi_row: MultiRowWaits,
    pub(super) probes: ProbeSchedule,
    pub(super) deadlines: BTreeSet<(Instant, WaiterId)>,
}

impl<T> Line<T> {
    /// An empty line in front of connections to `server`. `now` is any time before the first request.
    pub fn new(limits: Limits, server: Arc<ServerLoad>, now: Instant) -> Self {
        Self {
            limits,
            next_waiter: 0,
            next_cohort: 0,
            waiting: BTreeMap::new(),
            ready: BTreeMap::new(),
            ready_alone: BTreeSet::new(),
            group_limit: GroupLimit::new(limits.groups_max, limits.connections_max, server, now),
            group_members: FxHashMap::default(),
            held: BTreeSet::new(),
            rows: HashMap::new(),
            barriers: BTreeSet::new(),
            multi_row: MultiRowWaits::default(),
            probes: ProbeSchedule::default(),
            deadlines: BTreeSet::new(),
        }
    }
}

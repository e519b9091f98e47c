//! The state of a line.

use super::entry::{Limits, WaitEntry, WaiterId};
use super::probes::Probes;
use super::rows::RowState;
use super::spec::{GroupId, LineKey};
use foldhash::{HashMap, HashMapExt};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Units on several rows that wait.
#[derive(Debug, Default)]
pub(super) struct MultiRowWaits {
    pub(super) waiting: BTreeSet<WaiterId>,
    /// Time of the next check of the rows that they wait for. `None`: no request waits.
    pub(super) next_check: Option<Instant>,
}

/// A unit that may leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// The group that it may lead.
    pub(super) group: Option<GroupId>,
    /// A server connection waits for its row lock first.
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
    /// Units that may leave now: not keyed, or the first of a row that is not in flight.
    pub(super) ready: BTreeMap<WaiterId, Ready>,
    pub(super) group_members: FxHashMap<GroupId, BTreeSet<WaiterId>>,
    /// Units that would be ready but wait for group_members until then.
    pub(super) held: BTreeSet<(Instant, WaiterId)>,
    /// LineKeys are hashes of values that clients send. The map hashes them again with a secret, so that no client can cause collisions.
    pub(super) rows: HashMap<LineKey, RowState>,
    pub(super) barriers: BTreeSet<WaiterId>,
    pub(super) multi_row: MultiRowWaits,
    pub(super) probes: Probes,
    pub(super) deadlines: BTreeSet<(Instant, WaiterId)>,
}

impl<T> Line<T> {
    /// An empty line.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            next_waiter: 0,
            next_cohort: 0,
            waiting: BTreeMap::new(),
            ready: BTreeMap::new(),
            group_members: FxHashMap::default(),
            held: BTreeSet::new(),
            rows: HashMap::new(),
            barriers: BTreeSet::new(),
            multi_row: MultiRowWaits::default(),
            probes: Probes::default(),
            deadlines: BTreeSet::new(),
        }
    }
}

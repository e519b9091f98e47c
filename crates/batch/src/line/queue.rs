//! The state of a line.

use super::entry::{Entry, Limits, WaiterId};
use super::probes::Probes;
use super::rows::Row;
use super::spec::{GroupId, Key};
use foldhash::{HashMap, HashMapExt};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Units on several rows that wait.
#[derive(Debug, Default)]
pub(super) struct Several {
    pub(super) waiting: BTreeSet<WaiterId>,
    /// Time of the next check of the rows that they wait for. `None`: no request waits.
    pub(super) look_at: Option<Instant>,
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
    pub(super) waiting: BTreeMap<WaiterId, Box<Entry<T>>>,
    /// Units that may leave now: not keyed, or the first of a row that is not in flight.
    pub(super) ready: BTreeMap<WaiterId, Ready>,
    pub(super) mates: FxHashMap<GroupId, BTreeSet<WaiterId>>,
    /// Units that would be ready but wait for mates until then.
    pub(super) held: BTreeSet<(Instant, WaiterId)>,
    /// Keys are hashes of values that clients send. The map hashes them again with a secret, so that no client can cause collisions.
    pub(super) rows: HashMap<Key, Row>,
    pub(super) barriers: BTreeSet<WaiterId>,
    pub(super) several: Several,
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
            mates: FxHashMap::default(),
            held: BTreeSet::new(),
            rows: HashMap::new(),
            barriers: BTreeSet::new(),
            several: Several::default(),
            probes: Probes::default(),
            deadlines: BTreeSet::new(),
        }
    }
}

//! The partition key of one table and the bounds of its partitions; finds the partition of the row with a key.

use crate::hash::partition_hash;
use crate::key::KeyValue;
use crate::reason::{KeyProblem, Reason};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

#[cfg(test)]
mod tests;

/// The number of a leaf in its table, in one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeafId(pub usize);

/// The partition that has the row: a leaf, or a partition that is partitioned itself, by its place among the levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Leaf(LeafId),
    Level(usize),
}

/// One table with partitions. Key columns are places in the key of the whole tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Partitioning {
    Hash(HashPartitions),
    List(ListPartitions),
    Range(RangePartitions),
    /// Paceline does not know the partition of any row.
    Unknown(KeyProblem),
}

/// Partitions by hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HashPartitions {
    pub(crate) key: Vec<usize>,
    pub(crate) moduli: BTreeSet<u64>,
    /// By modulus and remainder.
    pub(crate) partitions: HashMap<(u64, u64), Found>,
}

/// Partitions by list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListPartitions {
    pub(crate) key: usize,
    /// NULL may be among the values.
    pub(crate) values: HashMap<KeyValue<'static>, Found>,
    pub(crate) default: Option<Found>,
}

/// Partitions by range.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RangePartitions {
    pub(crate) key: Vec<usize>,
    /// By lower bound. They do not overlap.
    pub(crate) ranges: Vec<Range>,
    pub(crate) default: Option<Found>,
}

/// A partition by range.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Included.
    pub(crate) from: Vec<Edge<'static>>,
    /// Excluded.
    pub(crate) to: Vec<Edge<'static>>,
    pub(crate) partition: Found,
}

/// The bound of a range in one column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge<'a> {
    /// MINVALUE
    Min,
    Value(KeyValue<'a>),
    /// MAXVALUE
    Max,
}

impl Partitioning {
    /// The places of the key columns.
    pub(crate) fn key(&self) -> impl Iterator<Item = usize> {
        let key: &[usize] = match self {
            Self::Hash(hash) => &hash.key,
            Self::List(list) => std::slice::from_ref(&list.key),
            Self::Range(range) => &range.key,
            Self::Unknown(_) => &[],
        };
        key.iter().copied()
    }

    /// The reason why no partition is found.
    pub(crate) fn problem(&self) -> Option<&KeyProblem> {
        match self {
            Self::Unknown(problem) => Some(problem),
            Self::Hash(_) | Self::List(_) | Self::Range(_) => None,
        }
    }

    /// The partition for this key.
    pub(crate) fn find(&self, key: &[KeyValue<'_>]) -> Result<Found, Reason> {
        let found = match self {
            Self::Hash(hash) => hash.find(key),
            Self::List(list) => key.first().and_then(|value| list.find(value)),
            Self::Range(range) => range.find(key),
            Self::Unknown(problem) => return Err(problem.clone().into()),
        };
        found.ok_or(Reason::NoPartition)
    }
}

impl HashPartitions {
    fn find(&self, key: &[KeyValue<'_>]) -> Option<Found> {
        let hash = partition_hash(key);
        let mut moduli = self.moduli.iter();
        moduli.find_map(|modulus| {
            let remainder = hash.checked_rem(*modulus)?;
            self.partitions.get(&(*modulus, remainder)).copied()
        })
    }
}

impl ListPartitions {
    fn find(&self, value: &KeyValue<'_>) -> Option<Found> {
        let found = get(&self.values, value);
        found.or(self.default)
    }
}

/// Looks up a value that was not made for the map: the lifetime of its keys is shortened to that of the value.
fn get<'v>(values: &HashMap<KeyValue<'v>, Found>, value: &KeyValue<'v>) -> Option<Found> {
    values.get(value).copied()
}

impl RangePartitions {
    /// Rows with NULL are in the default partition.
    fn find(&self, key: &[KeyValue<'_>]) -> Option<Found> {
        if key.contains(&KeyValue::Null) {
            return self.default;
        }
        let after = self
            .ranges
            .partition_point(|range| compare(&range.from, key) != Ordering::Greater);
        let range = after
            .checked_sub(1)
            .and_then(|place| self.ranges.get(place));
        let found = range.filter(|range| compare(&range.to, key) == Ordering::Greater);
        found.map(|range| range.partition).or(self.default)
    }
}

fn compare(bound: &[Edge<'_>], key: &[KeyValue<'_>]) -> Ordering {
    let mut columns = bound.iter().zip(key).map(|(edge, value)| match edge {
        Edge::Min => Ordering::Less,
        Edge::Value(edge) => edge.cmp(value),
        Edge::Max => Ordering::Greater,
    });
    columns
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

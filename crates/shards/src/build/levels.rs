//! The levels of a table's partitions, from the texts of their bounds.

use super::placement::{Shards, leaf_problem, placement};
use crate::bound::{Bound, Limit};
use crate::decode;
use crate::facts::{KeyPartFacts, PartitionFacts, PartitionKeyFacts, RootFacts};
use crate::key::{KeyType, KeyValue};
use crate::partitioning::{
    Edge, Found, HashPartitions, LeafId, ListPartitions, Partitioning, Range, RangePartitions,
};
use crate::reason::{KeyProblem, LeafProblem};
use crate::table::{KeyColumn, Leaf};
use paceline_cluster::TableName;
use std::collections::{HashMap, VecDeque};

/// The partitions of a table at all levels.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) key: Vec<KeyColumn>,
    pub(super) levels: Vec<Partitioning>,
    pub(super) leaves: Vec<Leaf>,
}

/// A table with partitions that is not in the tree yet.
struct Pending<'a> {
    oid: u32,
    name: &'a TableName,
    key: &'a PartitionKeyFacts,
    /// The problem that excludes statements from all of its leaves.
    problem: Option<LeafProblem>,
}

impl Tree {
    pub(super) fn grow(root: &RootFacts, shards: &Shards<'_>) -> Self {
        let mut children = HashMap::<u32, Vec<&PartitionFacts>>::new();
        for partition in &root.partitions {
            children
                .entry(partition.parent)
                .or_default()
                .push(partition);
        }
        let mut tree = Self::default();
        let mut pending = VecDeque::from([Pending {
            oid: root.oid,
            name: &root.name,
            key: &root.key,
            problem: None,
        }]);
        while let Some(table) = pending.pop_front() {
            let mut partitions = Vec::new();
            for child in children.remove(&table.oid).unwrap_or_default() {
                let problem = table.problem.clone().or_else(|| leaf_problem(root, child));
                let found = match &child.key {
                    Some(key) => {
                        pending.push_back(Pending {
                            oid: child.oid,
                            name: &child.name,
                            key,
                            problem,
                        });
                        // Tables leave the queue in the order of their levels.
                        Found::Level(tree.levels.len() + pending.len())
                    }
                    None => {
                        tree.leaves.push(Leaf {
                            oid: child.oid,
                            name: child.name.clone(),
                            placement: placement(root, child, problem, shards),
                        });
                        Found::Leaf(LeafId(tree.leaves.len() - 1))
                    }
                };
                partitions.push((child, found));
            }
            let level = tree.level(root, &table, &partitions);
            tree.levels
                .push(level.unwrap_or_else(Partitioning::Unknown));
        }
        tree
    }

    fn level(
        &mut self,
        root: &RootFacts,
        table: &Pending<'_>,
        partitions: &[(&PartitionFacts, Found)],
    ) -> Result<Partitioning, KeyProblem> {
        let by_range = table.key.strategy == 'r';
        let parts = table.key.parts.iter();
        let key: Vec<KeyColumn> = parts
            .map(|part| key_column(root, table.name, part, by_range))
            .collect::<Result<_, _>>()?;
        if let Some((leaving, _)) = partitions.iter().find(|(child, _)| child.detaching) {
            return Err(KeyProblem::Detaching(leaving.name.clone()));
        }
        let places: Vec<usize> = key.iter().map(|column| self.place(column)).collect();
        let bounds = partitions.iter().map(|(child, found)| {
            let bound = Bound::parse(&child.bound);
            let unreadable = || KeyProblem::Bound(child.name.clone());
            Ok((*child, bound.ok_or_else(unreadable)?, *found))
        });
        let bounds: Vec<_> = bounds.collect::<Result<_, KeyProblem>>()?;
        match (table.key.strategy, places.as_slice(), key.as_slice()) {
            ('h', _, _) => hash(places, bounds).map(Partitioning::Hash),
            ('l', [place], [column]) => {
                list(*place, column.key_type, bounds).map(Partitioning::List)
            }
            ('r', _, _) => range(places, &key, bounds).map(Partitioning::Range),
            _ => Err(KeyProblem::Bound(table.name.clone())),
        }
    }

    /// The place of a column in the key of the whole tree.
    fn place(&mut self, column: &KeyColumn) -> usize {
        let known = self.key.iter().position(|known| known == column);
        known.unwrap_or_else(|| {
            self.key.push(column.clone());
            self.key.len() - 1
        })
    }
}

fn key_column(
    root: &RootFacts,
    table: &TableName,
    part: &KeyPartFacts,
    by_range: bool,
) -> Result<KeyColumn, KeyProblem> {
    let expression = || KeyProblem::Expression(table.clone());
    let name = part.column.clone().ok_or_else(expression)?;
    let mut columns = root.columns.iter();
    let column = columns.find(|column| column.name == name);
    let column = column.ok_or_else(|| KeyProblem::Type(name.clone()))?;
    let key_type = KeyType::from_oid(column.type_oid);
    let key_type = key_type.ok_or_else(|| KeyProblem::Type(name.clone()))?;
    if column.type_modifier != -1 {
        return Err(KeyProblem::Modifier(name));
    }
    if !part.default_class {
        return Err(KeyProblem::OperatorClass(name));
    }
    if !part.deterministic {
        return Err(KeyProblem::Collation(name));
    }
    if by_range && !key_type.is_ordered() {
        return Err(KeyProblem::Order(name));
    }
    Ok(KeyColumn { name, key_type })
}

/// A partition, its bounds, and its node in the tree.
type Bounded<'a> = (&'a PartitionFacts, Bound, Found);

fn hash(key: Vec<usize>, bounds: Vec<Bounded<'_>>) -> Result<HashPartitions, KeyProblem> {
    let mut hash = HashPartitions {
        key,
        ..HashPartitions::default()
    };
    for (partition, bound, found) in bounds {
        let Bound::Hash { modulus, remainder } = bound else {
            return Err(KeyProblem::Bound(partition.name.clone()));
        };
        hash.moduli.insert(modulus);
        hash.partitions.insert((modulus, remainder), found);
    }
    Ok(hash)
}

fn list(
    key: usize,
    key_type: KeyType,
    bounds: Vec<Bounded<'_>>,
) -> Result<ListPartitions, KeyProblem> {
    let (mut values, mut default) = (HashMap::new(), None);
    for (partition, bound, found) in bounds {
        let unreadable = || KeyProblem::Bound(partition.name.clone());
        match bound {
            Bound::Default => default = Some(found),
            Bound::List(limits) => {
                for limit in limits {
                    let value = value(key_type, &limit).ok_or_else(unreadable)?;
                    values.insert(value, found);
                }
            }
            Bound::Hash { .. } | Bound::Range { .. } => return Err(unreadable()),
        }
    }
    Ok(ListPartitions {
        key,
        values,
        default,
    })
}

fn range(
    key: Vec<usize>,
    columns: &[KeyColumn],
    bounds: Vec<Bounded<'_>>,
) -> Result<RangePartitions, KeyProblem> {
    let (mut ranges, mut default) = (Vec::new(), None);
    for (partition, bound, found) in bounds {
        let unreadable = || KeyProblem::Bound(partition.name.clone());
        match bound {
            Bound::Default => default = Some(found),
            Bound::Range { from, to } => ranges.push(Range {
                from: edges(columns, &from).ok_or_else(unreadable)?,
                to: edges(columns, &to).ok_or_else(unreadable)?,
                partition: found,
            }),
            Bound::Hash { .. } | Bound::List(_) => return Err(unreadable()),
        }
    }
    ranges.sort_by(|one, other| one.from.cmp(&other.from));
    Ok(RangePartitions {
        key,
        ranges,
        default,
    })
}

fn edges(columns: &[KeyColumn], limits: &[Limit]) -> Option<Vec<Edge<'static>>> {
    if columns.len() != limits.len() {
        return None;
    }
    let edges = columns.iter().zip(limits).map(|(column, limit)| {
        Some(match limit {
            Limit::MinValue => Edge::Min,
            Limit::MaxValue => Edge::Max,
            Limit::Null | Limit::Value(_) => Edge::Value(value(column.key_type, limit)?),
        })
    });
    edges.collect()
}

fn value(key_type: KeyType, limit: &Limit) -> Option<KeyValue<'static>> {
    match limit {
        Limit::Null => Some(KeyValue::Null),
        Limit::Value(text) => decode::text(key_type, text).map(KeyValue::into_owned),
        Limit::MinValue | Limit::MaxValue => None,
    }
}

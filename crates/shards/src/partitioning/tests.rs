//! The edges of ranges, and partitions that may be missing.

use super::*;

const P: fn(usize) -> Found = |leaf| Found::Leaf(LeafId(leaf));

fn int(value: i64) -> Edge<'static> {
    Edge::Value(KeyValue::Int(value))
}

/// Two columns: below (5, 0); from (5, 0) to (5, maximum); from (7, 1) on.
fn ranges(default: Option<Found>) -> Partitioning {
    let range = |from: [Edge<'static>; 2], to: [Edge<'static>; 2], leaf| Range {
        from: from.into(),
        to: to.into(),
        partition: P(leaf),
    };
    Partitioning::Range(RangePartitions {
        key: vec![0, 1],
        ranges: vec![
            range([Edge::Min, Edge::Min], [int(5), int(0)], 0),
            range([int(5), int(0)], [int(5), Edge::Max], 1),
            range([int(7), int(1)], [Edge::Max, Edge::Max], 2),
        ],
        default,
    })
}

fn find(partitioning: &Partitioning, key: [i64; 2]) -> Option<Found> {
    partitioning.find(&key.map(KeyValue::Int)).ok()
}

#[test]
fn lower_bounds_are_included_and_upper_bounds_are_not() {
    let ranges = ranges(None);
    for (key, leaf) in [
        ([i64::MIN, i64::MAX], Some(0)),
        ([5, -1], Some(0)),
        ([5, 0], Some(1)),
        ([5, i64::MAX], Some(1)),
        ([6, 0], None),
        ([7, 0], None),
        ([7, 1], Some(2)),
        ([i64::MAX, i64::MAX], Some(2)),
    ] {
        assert_eq!(find(&ranges, key), leaf.map(P), "{key:?}");
    }
}

#[test]
fn the_default_partition_has_gaps_and_null() {
    let ranges = ranges(Some(P(9)));
    assert_eq!(find(&ranges, [6, 0]), Some(P(9)));
    let null = [KeyValue::Int(5), KeyValue::Null];
    assert_eq!(ranges.find(&null), Ok(P(9)));
}

#[test]
fn a_hash_without_partition_has_none() {
    let hash = |modulus, remainders: &[u64]| {
        let partitions = remainders.iter().zip(0..);
        let partitions = partitions.map(|(remainder, leaf)| ((modulus, *remainder), P(leaf)));
        Partitioning::Hash(HashPartitions {
            key: vec![0],
            moduli: [modulus].into(),
            partitions: partitions.collect(),
        })
    };
    // The hash of NULL is 0.
    assert_eq!(hash(4, &[0]).find(&[KeyValue::Null]), Ok(P(0)));
    let missing = hash(4, &[1, 2, 3]).find(&[KeyValue::Null]);
    assert_eq!(missing, Err(Reason::NoPartition));
}

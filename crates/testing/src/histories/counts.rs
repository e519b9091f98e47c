//! Registers show only their last value, but also the number of their writes: too few are lost writes, too many are duplicates.

use super::anomaly::{Anomaly, Name};
use super::history::{Effect, Key, Level, Outcome, State, Tick, Transaction, writes_to};
use std::collections::HashMap;

/// The times of the writes of a register, sorted.
#[derive(Default)]
struct Writes {
    /// The ends of committed writes.
    ended: Vec<Tick>,
    /// The beginnings of writes that were not rolled back.
    began: Vec<Tick>,
}

impl Writes {
    fn certainly_before(&self, tick: Tick) -> usize {
        self.ended.partition_point(|ended| *ended < tick)
    }

    fn perhaps_before(&self, tick: Tick) -> usize {
        self.began.partition_point(|began| *began < tick)
    }
}

/// Finds reads of registers whose number of writes is impossible.
pub(super) fn check(history: &[Transaction]) -> Vec<Anomaly> {
    let writes = writes(history);
    let committed = (0..)
        .zip(history)
        .filter(|(_, transaction)| transaction.outcome == Outcome::Committed);
    committed
        .flat_map(|(place, transaction)| check_reads(place, transaction, &writes))
        .collect()
}

fn writes(history: &[Transaction]) -> HashMap<Key, Writes> {
    let mut all: HashMap<Key, Writes> = HashMap::new();
    for transaction in history {
        for operation in &transaction.operations {
            let Effect::Write(key, ..) = operation.effect else {
                continue;
            };
            let writes = all.entry(key).or_default();
            match transaction.outcome {
                Outcome::Committed => {
                    writes.ended.push(transaction.ended);
                    writes.began.push(operation.began);
                }
                Outcome::Unknown => writes.began.push(operation.began),
                Outcome::Aborted => {}
            }
        }
    }
    for writes in all.values_mut() {
        writes.ended.sort_unstable();
        writes.began.sort_unstable();
    }
    all
}

/// The reads of registers that the transaction does not write itself.
fn check_reads(
    place: usize,
    transaction: &Transaction,
    writes: &HashMap<Key, Writes>,
) -> Vec<Anomaly> {
    let first = transaction.operations.first();
    let mut found = Vec::new();
    for operation in &transaction.operations {
        let Effect::Read(states) = &operation.effect else {
            continue;
        };
        let snapshot = match transaction.level {
            Level::ReadCommitted => operation.began,
            Level::RepeatableRead | Level::Serializable => {
                first.map_or(operation.began, |first| first.began)
            }
        };
        for (key, state) in states {
            let own = writes_to(&transaction.operations, *key).next().is_some();
            let (State::Register(number, _), false) = (state, own) else {
                continue;
            };
            let of_key = writes.get(key);
            let least = of_key.map_or(0, |writes| writes.certainly_before(snapshot));
            let most = of_key.map_or(0, |writes| writes.perhaps_before(operation.ended));
            let name = match number {
                number if *number < least => Name::Lost,
                number if *number > most => Name::Duplicate,
                _ => continue,
            };
            found.push(Anomaly {
                name,
                transactions: vec![place],
                description: format!(
                    "transaction {place} reads {number} writes of {key}, of {least} to {most}"
                ),
            });
        }
    }
    found
}

//! The order of the versions of each key, as the answers show it, and the anomalies that are visible without a graph.

use super::anomaly::{Anomaly, Name};
use super::history::{Effect, Key, Operation, Outcome, State, Transaction, Value, writes_to};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The place of a transaction in the history.
pub(super) type Place = usize;

/// The known versions of all keys.
pub(super) struct Versions {
    /// By key and number, from 1. Registers may have gaps.
    known: HashMap<Key, BTreeMap<usize, Value>>,
    /// The writer of each value.
    writers: HashMap<Value, Place>,
    /// Transactions that have taken effect: committed ones, and those of unknown outcome that others have seen.
    effective: HashSet<Place>,
}

/// The version of a key that a statement has seen, apart from its own transaction's writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    pub(super) key: Key,
    /// The number of the last version of another transaction; 0 if there was none.
    pub(super) number: usize,
}

/// The parts of a state: versions by number. Those after `foreign` are of the same transaction.
struct Parts {
    versions: Vec<(usize, Value)>,
    foreign: usize,
}

impl Versions {
    /// Reads a history, and finds what needs no graph.
    pub(super) fn read(history: &[Transaction]) -> (Self, Vec<Anomaly>) {
        let mut reader = Reader {
            history,
            versions: Self {
                known: HashMap::new(),
                writers: writers(history),
                effective: HashSet::new(),
            },
            places: HashMap::new(),
            anomalies: Vec::new(),
        };
        reader.read_all();
        reader.find_lost();
        (reader.versions, reader.anomalies)
    }

    pub(super) fn is_effective(&self, place: Place) -> bool {
        self.effective.contains(&place)
    }

    /// Pairs of writers of versions that follow each other, with the value of the second, of all keys.
    pub(super) fn overwrites(&self) -> impl Iterator<Item = (Place, Place, Value)> {
        let pairs = |versions: &BTreeMap<usize, Value>| {
            let values: Vec<_> = versions.values().copied().collect();
            values
                .windows(2)
                .map(|pair| (pair[0], pair[1]))
                .collect::<Vec<_>>()
        };
        let writers = |(first, second)| (self.writers[&first], self.writers[&second], second);
        let all = self.known.values().flat_map(pairs).map(writers);
        all.filter(|(first, second, _)| first != second)
    }

    /// The writer of the version that was seen; `None` if it is not known or if there is none.
    pub(super) fn writer_of(&self, sight: Sight) -> Option<Place> {
        let value = self.known.get(&sight.key)?.get(&sight.number)?;
        Some(self.writers[value])
    }

    /// The writer of the next version that is known.
    pub(super) fn overwriter_of(&self, sight: Sight) -> Option<Place> {
        let versions = self.known.get(&sight.key)?;
        let (_, value) = versions.range(sight.number + 1..).next()?;
        Some(self.writers[value])
    }
}

/// The versions of each key that the operations of a transaction have seen, by operation.
pub(super) fn sights(transaction: &Transaction) -> Vec<Vec<Sight>> {
    let sights = |number: usize| {
        states(&transaction.operations[number])
            .map(|(key, state)| {
                let own = own_writes(transaction, number, key);
                let foreign = split(state, &own).foreign;
                Sight {
                    key,
                    number: foreign,
                }
            })
            .collect()
    };
    (0..transaction.operations.len()).map(sights).collect()
}

/// The values that a transaction has written to a key when this operation of it is answered.
fn own_writes(transaction: &Transaction, operation: usize, key: Key) -> Vec<Value> {
    writes_to(&transaction.operations[..=operation], key).collect()
}

/// The states that an operation shows.
fn states(operation: &Operation) -> impl Iterator<Item = (Key, &State)> {
    let (written, read) = match &operation.effect {
        Effect::Write(key, _, state) => (state.as_ref().map(|state| (*key, state)), &[][..]),
        Effect::Read(states) => (None, &states[..]),
    };
    written
        .into_iter()
        .chain(read.iter().map(|(key, state)| (*key, state)))
}

/// Separates the versions of other transactions from `own` ones, which come last.
fn split(state: &State, own: &[Value]) -> Parts {
    match state {
        State::List(values) => Parts {
            versions: (1..).zip(values.iter().copied()).collect(),
            foreign: values.len().saturating_sub(own.len()),
        },
        State::Register(number, value) => Parts {
            versions: value.map(|value| (*number, value)).into_iter().collect(),
            foreign: number.saturating_sub(own.len()),
        },
    }
}

fn writers(history: &[Transaction]) -> HashMap<Value, Place> {
    let mut writers = HashMap::new();
    for (place, transaction) in history.iter().enumerate() {
        for operation in &transaction.operations {
            if let Effect::Write(_, value, _) = operation.effect {
                let other = writers.insert(value, place);
                assert!(other.is_none(), "{value} is written twice by clients");
            }
        }
    }
    writers
}

struct Reader<'a> {
    history: &'a [Transaction],
    versions: Versions,
    /// Key and number of each value.
    places: HashMap<Value, (Key, usize)>,
    anomalies: Vec<Anomaly>,
}

impl Reader<'_> {
    fn report(&mut self, name: Name, transactions: &[Place], description: String) {
        self.anomalies.push(Anomaly {
            name,
            transactions: transactions.to_vec(),
            description,
        });
    }

    fn read_all(&mut self) {
        for (place, transaction) in self.history.iter().enumerate() {
            if transaction.outcome == Outcome::Committed {
                self.versions.effective.insert(place);
            }
        }
        for (place, transaction) in self.history.iter().enumerate() {
            for (number, operation) in transaction.operations.iter().enumerate() {
                for (key, state) in states(operation) {
                    let own = own_writes(transaction, number, key);
                    self.read_state(place, key, state, &own);
                }
            }
        }
    }

    /// Takes in what an operation of the transaction at this place has seen of a key.
    fn read_state(&mut self, place: Place, key: Key, state: &State, own: &[Value]) {
        let parts = split(state, own);
        let is_foreign = |(number, _): &(usize, Value)| *number <= parts.foreign;
        let (foreign, last): (Vec<_>, Vec<_>) =
            parts.versions.iter().copied().partition(is_foreign);
        let expected = &own[own.len().saturating_sub(last.len())..];
        let ends_with_own = own.is_empty() || !last.is_empty();
        if !ends_with_own || last.iter().map(|(_, value)| value).ne(expected) {
            let description =
                format!("transaction {place} has written {own:?} to {key} and sees {state:?}");
            return self.report(Name::Internal, &[place], description);
        }
        for (number, value) in foreign {
            self.read_foreign(place, key, number, value, number == parts.foreign);
        }
        // Versions of a transaction that aborts are followed by others with the same numbers.
        if self.versions.effective.contains(&place) {
            for (number, value) in last {
                self.know(place, key, number, value);
            }
        }
    }

    fn read_foreign(&mut self, place: Place, key: Key, number: usize, value: Value, is_last: bool) {
        let Some(&writer) = self.versions.writers.get(&value) else {
            let description = format!("transaction {place} reads {value} of {key}");
            return self.report(Name::Unwritten, &[place], description);
        };
        let transaction = &self.history[writer];
        let seen = format!("transaction {place} reads {value} of {key}, written by {writer}");
        if writer == place {
            return self.report(Name::Internal, &[place, writer], seen);
        }
        if transaction.outcome == Outcome::Aborted {
            return self.report(Name::G1a, &[place, writer], seen);
        }
        let last_of_writer = writes_to(&transaction.operations, key).next_back();
        if is_last && last_of_writer.is_some_and(|last| last != value) {
            return self.report(Name::G1b, &[place, writer], seen);
        }
        self.versions.effective.insert(writer);
        self.know(place, key, number, value);
    }

    fn know(&mut self, reader: Place, key: Key, number: usize, value: Value) {
        let known = self.versions.known.entry(key).or_default();
        let there = *known.entry(number).or_insert(value);
        let place = *self.places.entry(value).or_insert((key, number));
        if there != value {
            let description = format!("version {number} of {key} is {there} and {value}");
            self.report(Name::IncompatibleOrder, &[reader], description);
        } else if place != (key, number) {
            let description = format!(
                "{value} is version {number} of {key}, and {} of {}",
                place.1, place.0
            );
            self.report(Name::Duplicate, &[reader], description);
        }
    }

    /// Committed values that no list contains, although it was read after the commit. The writes of registers are counted elsewhere.
    fn find_lost(&mut self) {
        let mut last_reads = HashMap::new();
        for operation in self
            .history
            .iter()
            .flat_map(|transaction| &transaction.operations)
        {
            for (key, state) in states(operation) {
                if matches!(state, State::List(_)) {
                    let last = last_reads.entry(key).or_insert(operation.began);
                    *last = operation.began.max(*last);
                }
            }
        }
        for (place, transaction) in self.history.iter().enumerate() {
            for operation in &transaction.operations {
                let Effect::Write(key, value, _) = operation.effect else {
                    continue;
                };
                let was_read = last_reads
                    .get(&key)
                    .is_some_and(|last| *last > transaction.ended);
                let committed = transaction.outcome == Outcome::Committed;
                if committed && was_read && !self.places.contains_key(&value) {
                    self.report(
                        Name::Lost,
                        &[place],
                        format!("{value} of {key}, written by {place}"),
                    );
                }
            }
        }
    }
}

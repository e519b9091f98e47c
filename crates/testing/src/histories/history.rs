//! Histories: the operations of clients and their answers.

/// A list or register.
pub type Key = u32;
/// A value that is written once, by one transaction, in the whole history.
pub type Value = u32;
/// A moment, counted by one counter for all clients.
pub type Tick = u64;

/// An isolation level of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Each statement has a snapshot.
    ReadCommitted,
    /// The transaction has a snapshot.
    RepeatableRead,
    /// The same, and the transaction's dependencies have no cycle.
    Serializable,
}

/// The end of a transaction, as far as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its commit was acknowledged.
    Committed,
    /// It was rolled back, or its COMMIT was never sent.
    Aborted,
    /// The connection was lost before the answer.
    Unknown,
}

/// The state of a key that a statement has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The list, oldest value first.
    List(Vec<Value>),
    /// The number of writes of the register, and the value of the last one. A register that was never written has no value.
    Register(usize, Option<Value>),
}

/// The effect of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Appends the value to a list, or writes it to a register. With the state after it, if the statement returns that.
    Write(Key, Value, Option<State>),
    /// Reads some keys.
    Read(Vec<(Key, State)>),
}

/// A statement. A failed one has only the value that it would have written.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Before the request was sent.
    pub began: Tick,
    /// After the answer arrived; [`Tick::MAX`] if it was lost.
    pub ended: Tick,
    /// Its effect, with the states that it returned.
    pub effect: Effect,
}

/// A transaction of one client.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Its isolation level.
    pub level: Level,
    /// Its end, as far as its client knows it.
    pub outcome: Outcome,
    /// Its statements in order, without BEGIN and its end.
    pub operations: Vec<Operation>,
    /// After the answer to its COMMIT, or to its only statement; [`Tick::MAX`] if it was lost.
    pub ended: Tick,
}

/// The values that these operations write to a key, in order.
pub(super) fn writes_to(
    operations: &[Operation],
    key: Key,
) -> impl DoubleEndedIterator<Item = Value> {
    let written = move |operation: &Operation| match &operation.effect {
        Effect::Write(to, value, _) if *to == key => Some(*value),
        Effect::Write(..) | Effect::Read(_) => None,
    };
    operations.iter().filter_map(written)
}

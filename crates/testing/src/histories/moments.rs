//! The order of moments, and of serializable transactions.

use super::anomaly::Anomaly;
use super::graph::{Edge, Graph, Moment};
use super::history::{Effect, Level, Outcome, Transaction, Value};
use super::versions::{Place, Sight, Versions, sights};
use std::collections::{BTreeSet, HashMap};

/// Cycles of moments. See the documentation of `histories`.
pub(super) fn cycles(history: &[Transaction], versions: &Versions) -> Vec<Anomaly> {
    let mut graph = Graph::default();
    add_clock(&mut graph, history);
    for (place, transaction) in history.iter().enumerate() {
        add_program(&mut graph, place, transaction, versions);
        for (number, sights) in sights(transaction).into_iter().enumerate() {
            let moment = snapshot(history, place, number);
            for sight in sights {
                add_sight(&mut graph, place, moment, sight, versions);
            }
        }
    }
    let statements = statements(history);
    for (first, second, value) in versions.overwrites() {
        let moment = snapshot(history, second, statements[&value]);
        graph.add(Moment::Commit(first), moment, Edge::WriteWrite);
    }
    graph.cycles()
}

/// The moment at which a statement sees the rows: that of the transaction's first one at REPEATABLE READ and above.
fn snapshot(history: &[Transaction], place: Place, number: usize) -> Moment {
    match history[place].level {
        Level::ReadCommitted => Moment::Statement(place, number),
        Level::RepeatableRead | Level::Serializable => Moment::Statement(place, 0),
    }
}

/// The number of the statement that writes each value.
fn statements(history: &[Transaction]) -> HashMap<Value, usize> {
    let mut statements = HashMap::new();
    for transaction in history {
        for (number, operation) in transaction.operations.iter().enumerate() {
            if let Effect::Write(_, value, _) = operation.effect {
                statements.insert(value, number);
            }
        }
    }
    statements
}

fn add_clock(graph: &mut Graph, history: &[Transaction]) {
    let mut ticks = BTreeSet::new();
    for transaction in history {
        ticks.insert(transaction.ended);
        for operation in &transaction.operations {
            ticks.extend([operation.began, operation.ended]);
        }
    }
    for (earlier, later) in ticks.iter().zip(ticks.iter().skip(1)) {
        graph.add(Moment::Tick(*earlier), Moment::Tick(*later), Edge::Time);
    }
}

/// Each statement is executed between its request and its answer; the commit follows the last one.
fn add_program(graph: &mut Graph, place: Place, transaction: &Transaction, versions: &Versions) {
    let mut before = None;
    for (number, operation) in transaction.operations.iter().enumerate() {
        let moment = Moment::Statement(place, number);
        graph.add(Moment::Tick(operation.began), moment, Edge::Time);
        graph.add(moment, Moment::Tick(operation.ended), Edge::Time);
        if let Some(before) = before {
            graph.add(before, moment, Edge::Time);
        }
        before = Some(moment);
    }
    let Some(last) = before.filter(|_| versions.is_effective(place)) else {
        return;
    };
    let commit = Moment::Commit(place);
    graph.add(last, commit, Edge::Time);
    // An unknown outcome may be a commit at any later time.
    if transaction.outcome == Outcome::Committed {
        graph.add(commit, Moment::Tick(transaction.ended), Edge::Time);
    }
}

fn add_sight(graph: &mut Graph, place: Place, moment: Moment, sight: Sight, versions: &Versions) {
    if let Some(writer) = versions.writer_of(sight).filter(|writer| *writer != place) {
        graph.add(Moment::Commit(writer), moment, Edge::WriteRead);
    }
    let next = versions.overwriter_of(sight);
    if let Some(writer) = next.filter(|writer| *writer != place) {
        graph.add(moment, Moment::Commit(writer), Edge::ReadWrite);
    }
}

/// Cycles of dependencies among the serializable transactions that have committed.
pub(super) fn dependency_cycles(history: &[Transaction], versions: &Versions) -> Vec<Anomaly> {
    let counts =
        |place: Place| history[place].level == Level::Serializable && versions.is_effective(place);
    let mut graph = Graph::default();
    let mut add = |from: Place, to: Place, edge| {
        if from != to && counts(from) && counts(to) {
            graph.add(Moment::Commit(from), Moment::Commit(to), edge);
        }
    };
    for (first, second, _) in versions.overwrites() {
        add(first, second, Edge::WriteWrite);
    }
    for (place, transaction) in history.iter().enumerate() {
        for sight in sights(transaction).into_iter().flatten() {
            if let Some(writer) = versions.writer_of(sight) {
                add(writer, place, Edge::WriteRead);
            }
            if let Some(writer) = versions.overwriter_of(sight) {
                add(place, writer, Edge::ReadWrite);
            }
        }
    }
    graph.cycles()
}

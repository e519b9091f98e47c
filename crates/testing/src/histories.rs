//! A checker for histories of transactions: whether they show something that their isolation levels forbid in PostgreSQL.
//!
//! The histories are those of Elle ("Elle: Inferring Isolation Anomalies from Experimental Observations", Kingsbury and Alvaro,
//! VLDB 2020): transactions append unique values to lists and read lists, so each list shows the order of its versions. Registers
//! that count their versions serve as well. Anomalies have the names of Adya ("Weak Consistency", 1999).
//!
//! PostgreSQL promises more than Adya's levels, so the checker does not look for cycles of transactions alone, but of moments. A
//! statement sees what was committed before a moment between its request and its answer; at REPEATABLE READ and above, all
//! statements of a transaction see the moment of the first one. A row that a transaction changes was committed before that. A
//! history is possible if some order of all these moments agrees with each of them: if their graph has no cycle. Stale reads
//! are cycles, too. Serializable transactions are also checked by Adya's definition: their dependencies have no cycle.

mod anomaly;
mod counts;
mod graph;
mod history;
mod moments;
mod versions;

#[cfg(test)]
mod tests;

pub use anomaly::{Anomaly, Name};
pub use history::{Effect, Key, Level, Operation, Outcome, State, Tick, Transaction, Value};
use versions::Versions;

/// All anomalies of a history that their levels forbid; of each cycle of moments the shortest. Empty if the history is possible.
///
/// # Panics
/// If two operations write the same value: then the history is none of this checker.
#[must_use]
pub fn check(history: &[Transaction]) -> Vec<Anomaly> {
    let (versions, mut anomalies) = Versions::read(history);
    // Without an order of versions, cycles say nothing.
    if anomalies.is_empty() {
        anomalies.extend(moments::cycles(history, &versions));
        anomalies.extend(moments::dependency_cycles(history, &versions));
    }
    anomalies.extend(counts::check(history));
    anomalies
}

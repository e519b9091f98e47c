//! The workloads: the five scenarios and the failover, a file or folder each, and their common parts.

mod bench_lock;
mod edges;
pub(crate) mod failover;
mod hot_row;
mod interface;
mod keyed_read;
mod known;
mod queue;
mod scenario;
pub(crate) mod schema;
mod storm;
mod tables;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use interface::{AnyClient, AnyWorkload, Client, Outcome, Turn, Workload};
pub(crate) use known::CheckedReads;
pub use scenario::{Scenario, Sizes, Topology, Variant};
pub(crate) use tables::SCHEMA;

/// The scenarios, in the order in which they run.
pub const SCENARIOS: [Scenario; 5] = [
    hot_row::SCENARIO,
    queue::SCENARIO,
    edges::SCENARIO,
    storm::SCENARIO,
    keyed_read::SCENARIO,
];

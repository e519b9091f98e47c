//! The line without a socket: each rule, and generated histories against a simple model.

mod fixture;
mod group_limit;
mod histories;
mod model;
mod rules;
mod simulation;
mod specified;
mod waits;

use super::{GroupId, Limits, LineKey, LineKeys, WaitSpec};
use crate::group_limit::GroupsMax;
use crate::strategy::Strategy;
use std::time::Duration;

/// A group; `template` distinguishes groups of a strategy.
fn group(strategy: Strategy, template: u64) -> GroupId {
    GroupId {
        strategy,
        template,
        settings: 0,
        parameter_formats: 0,
        result_formats: 0,
        cohort: 0,
    }
}

/// The spec of a fold on a row.
fn fold(row: u64) -> WaitSpec {
    WaitSpec {
        group: Some(group(Strategy::Fold, 1)),
        keys: LineKeys::One(LineKey(row)),
        ..WaitSpec::default()
    }
}

/// The spec of an upsert of several rows.
fn upsert(rows: &[u64]) -> WaitSpec {
    WaitSpec {
        group: Some(group(Strategy::Merge, 1)),
        keys: LineKeys::MultiRow(rows.iter().copied().map(LineKey).collect()),
        ..WaitSpec::default()
    }
}

/// The spec of a read in a pipeline.
fn read() -> WaitSpec {
    WaitSpec {
        group: Some(group(Strategy::Pipeline, 0)),
        ..WaitSpec::default()
    }
}

fn limits(group_size_max: usize, pipeline_depth_max: usize, max_wait_micros: u64) -> Limits {
    Limits {
        group_size_max,
        pipeline_depth_max,
        groups_max: GroupsMax::Fixed(usize::MAX),
        connections_max: 1,
        max_wait: Duration::from_micros(max_wait_micros),
        query_timeout: Duration::ZERO,
    }
}

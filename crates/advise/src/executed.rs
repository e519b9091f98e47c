//! Executions of statements between the two readings, by `pg_stat_statements`.

use crate::finding::Evidence;
use crate::observation::{Observation, StatementCounters};
use crate::queries::STATEMENTS_MAX;
use crate::statements::Statements;
use std::collections::HashMap;

/// The executions of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Executed {
    calls: f64,
    milliseconds: f64,
    rows: f64,
}

impl Executed {
    /// Executions.
    pub(crate) fn calls(&self) -> f64 {
        self.calls
    }

    /// Mean number of rows that an execution returned or changed.
    pub(crate) fn rows_per_call(&self) -> f64 {
        self.rows / self.calls
    }

    /// The numbers, for a time in seconds.
    pub(crate) fn evidence(&self, seconds: f64) -> Evidence {
        Evidence {
            fact: format!(
                "pg_stat_statements: {:.0} executions per second, {:.1} ms and {:.1} rows each",
                self.calls / seconds,
                self.milliseconds / self.calls,
                self.rows_per_call()
            ),
            query: "SELECT calls, total_exec_time, rows, query FROM pg_stat_statements".to_owned(),
        }
    }
}

/// The statements that were executed, by their texts without values.
pub(crate) fn executed(observation: &Observation) -> HashMap<String, Executed> {
    let before: HashMap<&str, &StatementCounters> = observation
        .statements_before
        .iter()
        .filter_map(|statement| Some((statement.id.as_deref()?, statement)))
        .collect();
    // Of more statements, one that was not read first may be older.
    let reads_all = observation.statements_before.len() < STATEMENTS_MAX;
    let mut statements = Statements::default();
    let mut found: HashMap<String, Executed> = HashMap::new();
    for now in &observation.statements_after {
        let (Some(id), Some(text)) = (now.id.as_deref(), now.text.as_deref()) else {
            continue;
        };
        let then = before.get(id).copied();
        if then.is_none() && !reads_all {
            continue;
        }
        let calls = now.calls - then.map_or(0, |then| then.calls);
        if calls <= 0 {
            continue;
        }
        let sums = found.entry(statements.of(text).text.clone()).or_default();
        sums.calls += float(calls);
        sums.milliseconds += now.milliseconds - then.map_or(0.0, |then| then.milliseconds);
        sums.rows += float(now.rows - then.map_or(0, |then| then.rows));
    }
    found
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates need no more than 53 bits"
)]
fn float(count: i64) -> f64 {
    count as f64
}

//! The input of the patterns.

use crate::attribution::Attribution;
use crate::executed::Executed;
use crate::observation::Observation;
use std::collections::HashMap;

/// A pattern that costs a smaller part of the database's time is not printed.
pub(crate) const SHARE_MIN: f64 = 0.05;

/// An observation, and the pattern of each of its samples.
#[derive(Debug)]
pub(crate) struct Evaluated<'a> {
    pub(crate) observation: &'a Observation,
    pub(crate) attribution: Attribution,
    /// Executions by the text of the statement without values; empty without `pg_stat_statements`.
    pub(crate) executed: HashMap<String, Executed>,
}

//! Whether the figures of a run are valid. A run can end without having measured anything. Its record is kept unchanged,
//! but tables, the report and comparisons show no rate or latency of it.

use crate::record::{Errors, Ran, Record, RunResult};
use crate::show;
use std::collections::BTreeMap;

/// SQLSTATEs for a prepared statement that does not exist or already exists.
const NOT_PREPARED: [&str; 2] = ["26000", "42P05"];
/// A run that lasted less than this share of the requested time ended early.
const EARLY: f64 = 0.99;

impl Record {
    /// The figures, if they are valid. A record whose check does not hold always returns its figures.
    ///
    /// # Errors
    /// The reason why there are no valid figures: the run could not be executed, or it measured nothing.
    pub fn figures(&self) -> Result<&Ran, String> {
        let ran = match &self.result {
            RunResult::Failed { why } => return Err(why.clone()),
            RunResult::Ran(ran) if ran.broken().is_some() => return Ok(ran),
            RunResult::Ran(ran) => ran,
        };
        let why = self.lost_prepared_statements(ran);
        why.or_else(|| measured_nothing(ran)).map_or(Ok(ran), Err)
    }

    /// The reason if a pooler switches server connections between transactions without support for prepared statements.
    /// Most turns fail then, and the latency of the others is meaningless.
    fn lost_prepared_statements(&self, ran: &Ran) -> Option<String> {
        let is_prepared = self.conditions.protocol == "prepared";
        let mut kinds = NOT_PREPARED.iter();
        let kind = kinds.find(|kind| is_prepared && ran.errors.contains_key(**kind))?;
        Some(format!(
            "this pooler keeps no prepared statements: use --protocol extended or simple (SQLSTATE {kind})"
        ))
    }

    /// Whether no work was left before the time was over.
    pub(crate) fn ended_early(&self) -> bool {
        let asked = self.conditions.duration_seconds;
        self.figures()
            .is_ok_and(|ran| !ran.interrupted && ran.seconds < asked * EARLY)
    }
}

/// Number of failed turns, and the most frequent message: `12 turns failed: deadlock detected (SQLSTATE 40P01)`.
pub(crate) fn failed_turns(errors: &BTreeMap<String, Errors>) -> Option<String> {
    let all: u64 = errors.values().map(|errors| errors.count).sum();
    let largest = errors.values().max_by_key(|errors| errors.count)?;
    let turns = match all {
        1 => "1 turn failed".to_owned(),
        _ => format!("{} turns failed", show::count(all)),
    };
    let most = match errors.len() {
        1 => "",
        _ => ", most of them",
    };
    Some(format!("{turns}{most}: {}", largest.first))
}

/// The reason if nothing was measured.
fn measured_nothing(ran: &Ran) -> Option<String> {
    let failed = failed_turns(&ran.errors);
    let failed = failed.map_or_else(String::new, |failed| format!("; {failed}"));
    if ran.seconds <= 0.0 && ran.interrupted {
        return Some("interrupted before anything was measured".to_owned());
    }
    if ran.seconds <= 0.0 {
        return Some(format!(
            "nothing was left to do when the warm-up was over: give it more (--rows) or a shorter --warmup{failed}"
        ));
    }
    let time = show::duration(ran.seconds * 1e6);
    (ran.units == 0).then(|| format!("no unit was done in {time}{failed}"))
}

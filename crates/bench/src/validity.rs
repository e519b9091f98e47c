//! Whether the figures of a run mean anything. A run can come to its end and have measured nothing: its record is kept as it is,
//! but no table, page or comparison takes a rate or a latency from it.

use crate::record::{Errors, Ran, Record, RunResult};
use crate::show;
use std::collections::BTreeMap;

/// What a server says of a statement that its connection has not prepared, or has prepared already.
const NOT_PREPARED: [&str; 2] = ["26000", "42P05"];
/// A run that was measured for less than this share of the time asked for has ended early.
const EARLY: f64 = 0.99;

impl Record {
    /// What was measured.
    ///
    /// # Errors
    /// Why there is nothing: it could not run, or nothing came of it. A check that does not hold is never passed over so.
    pub fn figures(&self) -> Result<&Ran, String> {
        match &self.result {
            RunResult::Failed { why } => Err(why.clone()),
            RunResult::Ran(ran) if ran.broken().is_some() => Ok(ran),
            RunResult::Ran(ran) => match self.forgotten(ran).or_else(|| nothing(ran)) {
                Some(why) => Err(why),
                None => Ok(ran),
            },
        }
    }

    /// A pooler that gives each transaction another connection and keeps no prepared statements: most turns fail, and
    /// what the others cost says nothing.
    fn forgotten(&self, ran: &Ran) -> Option<String> {
        let is_prepared = self.conditions.protocol == "prepared";
        let mut kinds = NOT_PREPARED.iter();
        let kind = kinds.find(|kind| is_prepared && ran.errors.contains_key(**kind))?;
        Some(format!(
            "this pooler keeps no prepared statements: use --protocol extended or simple (SQLSTATE {kind})"
        ))
    }

    /// Whether nothing was left to do before its time was over.
    pub(crate) fn ended_early(&self) -> bool {
        let asked = self.conditions.duration_seconds;
        self.figures()
            .is_ok_and(|ran| !ran.interrupted && ran.seconds < asked * EARLY)
    }
}

/// How many turns failed, and in which words most of them: `12 turns failed: deadlock detected (SQLSTATE 40P01)`.
pub(crate) fn failed_turns(errors: &BTreeMap<String, Errors>) -> Option<String> {
    let all: u64 = errors.values().map(|errors| errors.count).sum();
    let largest = errors.values().max_by_key(|errors| errors.count)?;
    let turns = match all {
        1 => "1 turn failed".to_owned(),
        _ => format!("{} turns failed", show::count(all)),
    };
    let most = if errors.len() > 1 {
        ", most of them"
    } else {
        ""
    };
    Some(format!("{turns}{most}: {}", largest.first))
}

/// Why nothing was measured, if nothing was.
fn nothing(ran: &Ran) -> Option<String> {
    let failed = failed_turns(&ran.errors);
    let failed = failed.map_or_else(String::new, |failed| format!("; {failed}"));
    match ran.units {
        _ if ran.seconds <= 0.0 && ran.interrupted => {
            Some("interrupted before anything was measured".to_owned())
        }
        _ if ran.seconds <= 0.0 => Some(format!(
            "nothing was left to do when the warm-up was over: give it more (--rows) or a shorter --warmup{failed}"
        )),
        0 => Some(format!(
            "no unit was done in {}{failed}",
            show::duration(ran.seconds * 1e6)
        )),
        _ => None,
    }
}

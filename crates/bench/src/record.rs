//! What is known of one run: a line of `results.jsonl`. Everything that is shown is made from these.

use crate::groups::GroupSample;
use crate::load::Measured;
use crate::machine::{Machine, ServerFacts};
use crate::server_stats::Cost;
use crate::show;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Add;

/// Of this format; another number is not read.
pub const VERSION: u32 = 1;

/// One run of one variant by so many clients against one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// When the run began, in seconds since 1970.
    pub at_unix_seconds: u64,
    /// The scenario, as on the command line.
    pub scenario: String,
    /// Its variant.
    pub variant: String,
    /// The target's name.
    pub target: String,
    /// Its address, without a password.
    pub address: String,
    /// Clients at the same time.
    pub clients: usize,
    /// From 1; runs of the same kind alternate between targets, round by round.
    pub round: usize,
    /// What was asked for besides.
    pub conditions: Conditions,
    /// What came of it.
    pub result: RunResult,
    /// Where the load ran.
    pub machine: Machine,
    /// What was behind the target.
    pub server: ServerFacts,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Before anything was measured.
    pub warmup_seconds: f64,
    /// Asked to measure.
    pub duration_seconds: f64,
    /// Turns per second of all clients together, if they came at a fixed rate.
    pub rate: Option<f64>,
    /// Pause of each client between turns.
    pub think_seconds: f64,
    /// `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// Rows asked for.
    pub rows: Option<u64>,
    /// Sizes of the sources.
    pub full: bool,
    /// Seed of all that was drawn.
    pub seed: u64,
    /// Threads of the load.
    pub threads: usize,
    /// Settings of the Paceline of the stand; empty if targets were named, or in a record that is older than this field.
    #[serde(default)]
    pub stand: Vec<String>,
    /// The command that asked for it, without passwords.
    pub command: String,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunResult {
    /// It ran.
    Ran(Box<Ran>),
    /// It could not run at all.
    Failed {
        /// Why, in the target's own words.
        why: String,
    },
}

/// Figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Was measured; less than asked for if the run was interrupted.
    pub seconds: f64,
    /// Units of work done in that time.
    pub units: u64,
    /// Per second.
    pub rate: f64,
    /// How long they took.
    pub latency: Latency,
    /// Turns that failed, by SQLSTATE (or `lost`, `unreachable`).
    pub errors: BTreeMap<String, Errors>,
    /// Whether nothing was lost and nothing done twice. `None`: nobody looked, as only its author knows what a script should do.
    pub check: Option<CheckResult>,
    /// Per unit of work.
    pub cost: Cost,
    /// Sizes of groups while it lasted; empty if the target forms none.
    pub groups: Vec<GroupSample>,
    /// Stopped before its time.
    pub interrupted: bool,
    /// Whether the target kept up, if turns came at a fixed rate.
    #[serde(default)]
    pub open_loop: Option<OpenLoop>,
}

/// Turns that came at a fixed rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Fell due in the time measured.
    pub offered: u64,
    /// Had fallen due, and had no answer at its end. Their age then is among the latencies: the least that they would have taken.
    pub behind: u64,
}

impl Add for OpenLoop {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            behind: self.behind + other.behind,
        }
    }
}

/// `5 of 100 due had no answer at the end`
impl fmt::Display for OpenLoop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (behind, offered) = (show::count(self.behind), show::count(self.offered));
        write!(out, "{behind} of {offered} due had no answer at the end")
    }
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half of all took less.
    pub p50: u64,
    /// 95 of 100 took less.
    pub p95: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// So many.
    pub count: u64,
    /// The first, in the target's own words.
    pub first: String,
}

/// What the check after a run found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Nothing was lost, nothing done twice.
    pub holds: bool,
    /// In a sentence, with the figures.
    pub says: String,
}

impl Latency {
    pub(crate) fn of(measured: &Measured) -> Self {
        let latency = &measured.latency;
        let at = |quantile| latency.value_at_quantile(quantile);
        if latency.is_empty() {
            return Self::default();
        }
        Self {
            mean: latency.mean(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: latency.max(),
        }
    }
}

impl Ran {
    /// What the check says that was made and does not hold.
    pub fn broken(&self) -> Option<&str> {
        let broken = self.check.as_ref().filter(|check| !check.holds);
        broken.map(|check| check.says.as_str())
    }
}

impl Record {
    /// The figures, if it ran.
    pub fn ran(&self) -> Option<&Ran> {
        match &self.result {
            RunResult::Ran(ran) => Some(ran),
            RunResult::Failed { .. } => None,
        }
    }

    /// As a line of `results.jsonl`, without its end.
    ///
    /// # Errors
    /// None that a record of this crate can cause.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// Reads `results.jsonl`; empty lines are passed over.
///
/// # Errors
/// The number of the first line that is not a record, and why.
pub fn read_lines(text: &str) -> Result<Vec<Record>, (usize, String)> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(
            |(number, line)| match serde_json::from_str::<Record>(line) {
                Ok(record) if record.version == VERSION => Ok(record),
                Ok(record) => Err((
                    number,
                    format!(
                        "version {} of the format; {VERSION} is read",
                        record.version
                    ),
                )),
                Err(error) => Err((number, error.to_string())),
            },
        )
        .collect()
}

//! The record of one run: a line of `results.jsonl`. All output is made from records.

use crate::machine::{Machine, ServerFacts};
use crate::show;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the format. Records of other versions are rejected.
pub const VERSION: u32 = 1;

/// One run of one variant with a number of clients against one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// The time at which the run began, in seconds since 1970.
    pub at_unix_seconds: u64,
    /// Name of the scenario on the command line.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// Name of the target.
    pub target: String,
    /// Address of the target, without a password.
    pub address: String,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of the round, counted from 1; targets alternate round by round.
    pub round: usize,
    /// The parameters of the run.
    pub conditions: Conditions,
    /// The result of the run.
    pub result: RunResult,
    /// The machine that ran the load.
    pub machine: Machine,
    /// The server behind the target.
    pub server: ServerFacts,
}

/// The parameters of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Time before the measurement began.
    pub warmup_seconds: f64,
    /// Requested time of the measurement.
    pub duration_seconds: f64,
    /// Turns per second of all clients together; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Pause of each client between turns.
    pub think_seconds: f64,
    /// `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// Requested number of rows.
    pub rows: Option<u64>,
    /// Whether the tables had the sizes of the sources.
    pub full: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of threads of the load.
    pub threads: usize,
    /// Settings of the Paceline of the demonstration. Empty if targets were named, and in older records.
    #[serde(default)]
    pub stand: Vec<String>,
    /// The command line, without passwords.
    pub command: String,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunResult {
    /// The run was executed.
    Ran(Box<Ran>),
    /// The run could not be executed.
    Failed {
        /// The error message.
        why: String,
    },
}

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Measured time; less than requested if the run was interrupted or no work was left.
    pub seconds: f64,
    /// Number of completed units of work.
    pub units: u64,
    /// Units per second.
    pub rate: f64,
    /// Latencies of the units.
    pub latency: Latency,
    /// Failed turns by SQLSTATE (or `lost`, `unreachable`).
    pub errors: BTreeMap<String, Errors>,
    /// The result of the check; `None` for a script, which has no check.
    pub check: Option<CheckResult>,
    /// Cost per unit.
    pub cost: Cost,
    /// Sizes of groups during the run; empty if the target forms none.
    pub groups: Vec<GroupSample>,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Late turns; `None` for a closed loop.
    #[serde(default)]
    pub open_loop: Option<OpenLoop>,
    /// Requests that were answered within a deadline; `None` without one.
    #[serde(default)]
    pub within_deadline: Option<WithinDeadline>,
    /// The result of a failover; `None` if there was none.
    #[serde(default)]
    pub failover: Option<FailoverResult>,
    /// The reads that were compared with what their clients know; `None` if there are none.
    #[serde(default)]
    pub reads: Option<ReadsResult>,
    /// The beginning and the end of the measured time; `None` unless units cost more or less the longer a run lasts.
    #[serde(default)]
    pub trend: Option<Trend>,
}

/// The first and the last tenth of the requested time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The first tenth.
    pub first: TrendPart,
    /// The last tenth.
    pub last: TrendPart,
}

/// A part of the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TrendPart {
    /// Units per second.
    pub rate: f64,
    /// 99th percentile of the latency in microseconds; `None` if no unit was completed or due.
    pub p99: Option<u64>,
}

/// Turns at a fixed rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Number of turns that were due within the measured time.
    pub offered: u64,
    /// Number of turns that were due but not answered at the end of the measured time. The latencies contain their age at
    /// that time, which is the minimum of their latency.
    pub behind: u64,
}

impl OpenLoop {
    pub(crate) fn add(&mut self, other: Self) {
        self.offered += other.offered;
        self.behind += other.behind;
    }
}

/// Formats `5 of 100 due had no answer at the end`.
impl fmt::Display for OpenLoop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (behind, offered) = (show::count(self.behind), show::count(self.offered));
        write!(out, "{behind} of {offered} due had no answer at the end")
    }
}

/// Requests with a deadline within the measured time. A request is a turn, and it begins when it was due or, in a closed
/// loop, when it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WithinDeadline {
    /// The deadline, counted from the beginning of a request.
    pub seconds: f64,
    /// Number of requests.
    pub requests: u64,
    /// Number of those that were answered without an error within the deadline.
    pub answered: u64,
}

impl WithinDeadline {
    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.answered += other.answered;
    }

    /// The share of requests that were answered in time, in percent; `None` without requests.
    pub(crate) fn percent(&self) -> Option<f64> {
        (self.requests > 0).then(|| 100.0 * self.answered as f64 / self.requests as f64)
    }
}

/// Formats `98.72 % of 4,000 requests were answered without an error within 1 s`.
impl fmt::Display for WithinDeadline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, limit) = (
            show::count(self.requests),
            show::duration(self.seconds * 1e6),
        );
        match self.percent() {
            Some(percent) => {
                let percent = show::fixed(percent, 2);
                write!(
                    out,
                    "{percent} % of {requests} requests were answered without an error within {limit}"
                )
            }
            None => write!(
                out,
                "the measured time has no request with a deadline of {limit} in it"
            ),
        }
    }
}

/// The result of a failover. Times are in microseconds and end with an acknowledged write after the failover began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailoverResult {
    /// Maximum time between two acknowledged writes of any clients.
    pub pause: u64,
    /// Maximum time that one client waited for an acknowledged write, from its first attempt, with all repetitions.
    pub longest_wait: u64,
    /// Number of acknowledged writes in the whole run.
    pub acknowledged: u64,
    /// Minimum number of acknowledged writes that the new primary does not have.
    pub missing: u64,
    /// Minimum number of writes that were executed twice, or executed although an error said that they were not.
    pub twice: u64,
    /// Number of writes that may have been executed when their connection was lost.
    pub in_doubt: u64,
}

/// Reads that were compared with what their clients know. Numbers are those of the whole run, including the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadsResult {
    /// Number of reads.
    pub checked: u64,
    /// Number of those that returned an older state than their client had written or read before.
    pub stale: u64,
    /// Number of reads that replicas answered; `None` if unknown.
    pub on_replicas: Option<u64>,
    /// Microseconds of processor time of the primary's own processes in the measured time, for reads and writes, by the number of
    /// reads in that time. `None` if unknown.
    pub primary_cpu_micros: Option<f64>,
}

/// Cost per unit of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Bytes of write-ahead log, including those of other activity on the server.
    pub wal_bytes: Option<f64>,
    /// Row versions of the lab's tables that became dead by updates and deletes.
    pub dead_rows: Option<f64>,
    /// Microseconds of processor time on the machine of the target, without those of the load itself.
    pub cpu_micros: Option<f64>,
}

/// The mean size of groups in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupSample {
    /// Seconds since the run began.
    pub second: f64,
    /// Mean number of units per group since the previous sample.
    pub mean: f64,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Number of failures.
    pub count: u64,
    /// Message of the first failure.
    pub first: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Whether nothing was lost and nothing was done twice.
    pub holds: bool,
    /// The result in one sentence, with the figures.
    pub says: String,
}

impl Ran {
    /// The result of the check if it does not hold.
    pub fn broken(&self) -> Option<&str> {
        let broken = self.check.as_ref().filter(|check| !check.holds);
        broken.map(|check| check.says.as_str())
    }
}

impl Record {
    /// The figures, if the run was executed.
    pub fn ran(&self) -> Option<&Ran> {
        match &self.result {
            RunResult::Ran(ran) => Some(ran),
            RunResult::Failed { .. } => None,
        }
    }

    /// Formats the record as a line of `results.jsonl`, without the line break.
    ///
    /// # Errors
    /// None for a record of this crate.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// Reads `results.jsonl`; skips empty lines.
///
/// # Errors
/// The number of the first line that is not a record, and the reason.
pub fn read_lines(text: &str) -> Result<Vec<Record>, (usize, String)> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| read_line(line).map_err(|why| (number, why)))
        .collect()
}

fn read_line(line: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match record.version {
        VERSION => Ok(record),
        other => Err(format!("version {other} of the format; {VERSION} is read")),
    }
}

//! The ledger of the clients: which writes were acknowledged, when, and which are in doubt. Has no access to the database.

use super::replication::Replication;
use crate::connection::{Failure, Result};
use crate::record::{CheckResult, FailoverResult};
use crate::show;
use crate::workload::edges::Edge;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Records the writes of all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    edges: HashMap<Edge, Writes>,
    /// Since when clients wait for an acknowledged write, by their number.
    waiting: HashMap<usize, Instant>,
    /// The time at which the failover began.
    began: Option<Instant>,
    /// The time at which the last write was acknowledged.
    last: Option<Instant>,
    /// Whether a write was acknowledged after the failover began.
    is_served: bool,
    /// The times of the failover so far and, after the check, its other figures.
    result: FailoverResult,
}

/// Numbers of writes to one edge.
#[derive(Debug, Default)]
struct Writes {
    acknowledged: u64,
    /// Sent and not answered; they may have been executed.
    open: u64,
}

impl Ledger {
    /// Records that the failover begins.
    pub(super) fn begin_failover(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// Records that a client waits for an acknowledged write, unless it has already been waiting.
    pub(super) fn waits(&mut self, client: usize, now: Instant) {
        self.waiting.entry(client).or_insert(now);
    }

    /// Records a write before a client sends it. It is open until it is [answered](Self::answered).
    pub(super) fn sent(&mut self, edge: Edge) {
        self.edges.entry(edge).or_default().open += 1;
    }

    /// Records the answer to a write. If the result is in doubt, the write remains open.
    pub(super) fn answered(
        &mut self,
        client: usize,
        edge: Edge,
        answer: &Result<()>,
        now: Instant,
    ) {
        if answer.as_ref().is_err_and(Failure::is_in_doubt) {
            return;
        }
        let writes = self.edges.entry(edge).or_default();
        writes.open = writes.open.saturating_sub(1);
        if answer.is_ok() {
            writes.acknowledged += 1;
            self.acknowledged(client, now);
        }
    }

    fn acknowledged(&mut self, client: usize, now: Instant) {
        let began_waiting = self.waiting.remove(&client);
        if self.began.is_some() {
            self.is_served = true;
            self.count_pause(now);
            self.count_wait(began_waiting.unwrap_or(now), now);
        }
        self.last = Some(now);
    }

    /// Counts the time since the last acknowledged write.
    fn count_pause(&mut self, now: Instant) {
        let before = self.last.or(self.began).unwrap_or(now);
        self.result.pause = self
            .result
            .pause
            .max(micros(now.saturating_duration_since(before)));
    }

    fn count_wait(&mut self, since: Instant, now: Instant) {
        let waited = micros(now.saturating_duration_since(since));
        self.result.longest_wait = self.result.longest_wait.max(waited);
    }

    /// The result of the failover; `None` if there was none.
    pub(super) fn result(&self) -> Option<FailoverResult> {
        self.began.map(|_| self.result)
    }

    /// Compares the answers with the rows of the table on the last primary: the number of writes of each edge. Call it once.
    pub(super) fn check(
        &mut self,
        replication: Replication,
        rows: Vec<(Edge, i64)>,
        now: Instant,
    ) -> CheckResult {
        if self.began.is_some() {
            if !self.is_served {
                self.count_pause(now);
            }
            for since in std::mem::take(&mut self.waiting).into_values() {
                self.count_wait(since, now);
            }
        }
        self.compare(rows);
        let is_lossless = self.result.missing == 0 || replication == Replication::Asynchronous;
        let is_served = self.began.is_none() || self.is_served;
        CheckResult {
            holds: is_lossless && self.result.twice == 0 && is_served,
            says: self.says(),
        }
    }

    fn compare(&mut self, rows: Vec<(Edge, i64)>) {
        let mut edges = std::mem::take(&mut self.edges);
        let result = &mut self.result;
        for (edge, found) in rows {
            let found = found.unsigned_abs();
            let Writes { acknowledged, open } = edges.remove(&edge).unwrap_or_default();
            result.acknowledged += acknowledged;
            result.in_doubt += open;
            result.missing += acknowledged.saturating_sub(found);
            result.twice += found.saturating_sub(acknowledged + open);
        }
        for Writes { acknowledged, open } in edges.into_values() {
            result.acknowledged += acknowledged;
            result.in_doubt += open;
            result.missing += acknowledged;
        }
    }

    /// The result in one sentence, with the figures.
    fn says(&self) -> String {
        let [acknowledged, missing, twice] = [
            self.result.acknowledged,
            self.result.missing,
            self.result.twice,
        ]
        .map(show::count);
        let in_doubt = match self.result.in_doubt {
            0 => String::new(),
            open => format!(
                ", {} more may have been executed when their connection was lost",
                show::count(open)
            ),
        };
        let failover = match (self.began, self.is_served) {
            (None, _) => ", there was no failover",
            (Some(_), false) => ", no write was acknowledged after the failover began",
            (Some(_), true) => "",
        };
        format!(
            "{acknowledged} writes were acknowledged, {missing} of them are missing, {twice} were executed twice{in_doubt}{failover}"
        )
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

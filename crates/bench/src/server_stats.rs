//! The cost of a unit of work on the server: write-ahead log, dead row versions, processor time. The counters are read
//! twice while the load runs, because backends report theirs with a delay of up to a second. A counter that cannot be read
//! is `None`.

use crate::connection::Connection;
use crate::load::{LoadOptions, RunStatus};
use crate::record::Cost;
use crate::target::Target;
use std::sync::atomic::Ordering;

/// `USER_HZ`: /proc counts processor time in hundredths of a second.
const TICKS_PER_SECOND: u64 = 100;

/// Values of the counters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerStats {
    wal_bytes: Option<i64>,
    dead_rows: Option<i64>,
    cpu_micros: Option<i64>,
}

impl ServerStats {
    /// Reads all counters.
    async fn read(conn: &mut Connection, target: &Target) -> Self {
        Self {
            cpu_micros: target.is_local().then(others_cpu_micros).flatten(),
            // Fails on a standby.
            wal_bytes: conn
                .number("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
                .await
                .ok(),
            dead_rows: conn
                .number(
                    "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint \
                     FROM pg_catalog.pg_stat_user_tables WHERE schemaname = 'paceline_lab'",
                )
                .await
                .ok(),
        }
    }

    /// The cost per unit since `before`, for `units` units.
    fn since(&self, before: &Self, units: u64) -> Cost {
        let each = |after: Option<i64>, before: Option<i64>| {
            let spent = after?.checked_sub(before?)?;
            (units > 0 && spent >= 0).then(|| spent as f64 / units as f64)
        };
        Cost {
            wal_bytes: each(self.wal_bytes, before.wal_bytes),
            dead_rows: each(self.dead_rows, before.dead_rows),
            cpu_micros: each(self.cpu_micros, before.cpu_micros),
        }
    }
}

/// The counters at the beginning and at the end of the measured time, each with the number of completed turns.
#[derive(Debug, Default)]
pub(crate) struct StatsReadings(Vec<(ServerStats, u64)>);

impl StatsReadings {
    /// Reads the counters when the measured time begins and when it ends. Returns then, or if it cannot connect.
    pub(crate) async fn watch(&mut self, target: &Target, status: &RunStatus, load: &LoadOptions) {
        let Ok(mut conn) = Connection::open(target).await else {
            return;
        };
        let started = status.start_time().await;
        for after in [load.warmup, load.warmup + load.duration] {
            tokio::time::sleep_until((started + after).into()).await;
            self.read(&mut conn, target, status).await;
        }
    }

    async fn read(&mut self, conn: &mut Connection, target: &Target, status: &RunStatus) {
        let stats = ServerStats::read(conn, target).await;
        self.0.push((stats, status.done.load(Ordering::Relaxed)));
    }

    /// The cost between the two readings. If the load ended early, reads the counters once more.
    pub(crate) async fn cost(mut self, target: &Target, status: &RunStatus) -> Cost {
        if self.0.len() == 1
            && let Ok(mut conn) = Connection::open(target).await
        {
            self.read(&mut conn, target, status).await;
        }
        match self.0.as_slice() {
            [(before, done_before), (after, done)] => after.since(before, done - done_before),
            _ => Cost::default(),
        }
    }
}

/// Processor time of this machine, without that of this process.
fn others_cpu_micros() -> Option<i64> {
    let all = std::fs::read_to_string("/proc/stat").ok()?;
    // user, nice, system, idle, iowait, irq, softirq; proc_stat(5).
    let times = numbers(all.lines().next()?, 1, 7);
    let idle: u64 = times.iter().skip(3).take(2).sum();
    let busy = times.iter().sum::<u64>() - idle;
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process may contain spaces; utime and stime are the 12th and 13th field after it.
    let own: u64 = numbers(own.rsplit_once(')')?.1, 11, 2).iter().sum();
    i64::try_from(busy.saturating_sub(own) * (1_000_000 / TICKS_PER_SECOND)).ok()
}

/// The `count` fields of a line after the first `skipped`.
fn numbers(line: &str, skipped: usize, count: usize) -> Vec<u64> {
    let fields = line.split_whitespace().skip(skipped).take(count);
    fields.map_while(|field| field.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_per_unit_and_need_both_readings() {
        let before = ServerStats {
            wal_bytes: Some(1_000),
            dead_rows: None,
            cpu_micros: Some(500),
        };
        let after = ServerStats {
            wal_bytes: Some(3_000),
            dead_rows: Some(7),
            // A counter that was reset, as after a crash.
            cpu_micros: Some(100),
        };
        let cost = after.since(&before, 10);
        assert_eq!(cost.wal_bytes, Some(200.0));
        assert_eq!((cost.dead_rows, cost.cpu_micros), (None, None));
        assert_eq!(after.since(&before, 0).wal_bytes, None);
    }
}

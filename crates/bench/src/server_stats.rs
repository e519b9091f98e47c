//! The cost of a unit of work on the server: write-ahead log, dead row versions, processor time; and that of a read on the
//! primary. The counters are read
//! twice while the load runs, because backends report theirs with a delay of up to a second. A counter that cannot be read
//! is `None`.

use crate::connection::Connection;
use crate::load::{LoadOptions, RunStatus};
use crate::record::Cost;
use crate::replicated_servers::ReplicatedServers;
use crate::target::Target;
use crate::workload::CheckedReads;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

/// The source of the counters.
pub(crate) struct StatsSource<'a> {
    /// The server whose counters are read, or a proxy in front of it.
    pub(crate) server: &'a Target,
    pub(crate) status: &'a RunStatus,
    /// The reads of the workload, if it counts them.
    pub(crate) reads: Option<&'a CheckedReads>,
    /// The servers of the run, if it has its own.
    pub(crate) own: Option<&'a ReplicatedServers>,
}

/// The values of all counters at one moment.
#[derive(Debug)]
struct StatsReading {
    stats: ServerStats,
    /// Number of completed turns.
    done: u64,
    /// Number of checked reads.
    reads: u64,
    /// Processor time of the primary's own processes.
    primary_cpu: Option<Duration>,
}

impl StatsReading {
    async fn now(conn: &mut Connection, source: &StatsSource<'_>) -> Self {
        Self {
            primary_cpu: source.own.and_then(ReplicatedServers::primary_cpu_time),
            reads: source.reads.map_or(0, CheckedReads::checked),
            stats: ServerStats::read(conn, source.server).await,
            done: source.status.done.load(Ordering::Relaxed),
        }
    }

    /// Microseconds of the primary's processor time per read since `before`.
    fn primary_cpu_micros(&self, before: &Self) -> Option<f64> {
        let spent = self.primary_cpu?.checked_sub(before.primary_cpu?)?;
        let reads = self.reads - before.reads;
        (reads > 0).then(|| spent.as_secs_f64() * 1e6 / reads as f64)
    }
}

/// The counters at the beginning and at the end of the measured time.
#[derive(Debug, Default)]
pub(crate) struct StatsReadings(Vec<StatsReading>);

impl StatsReadings {
    /// Reads the counters when the measured time begins and when it ends. Returns then, or if it cannot connect.
    pub(crate) async fn watch(&mut self, source: &StatsSource<'_>, load: &LoadOptions) {
        let Ok(mut conn) = Connection::open(source.server).await else {
            return;
        };
        let started = source.status.start_time().await;
        for after in [load.warmup, load.warmup + load.duration] {
            tokio::time::sleep_until((started + after).into()).await;
            self.0.push(StatsReading::now(&mut conn, source).await);
        }
    }

    /// Reads the counters once more if the load ended early.
    pub(crate) async fn complete(&mut self, source: &StatsSource<'_>) {
        if self.0.len() == 1
            && let Ok(mut conn) = Connection::open(source.server).await
        {
            self.0.push(StatsReading::now(&mut conn, source).await);
        }
    }

    /// The cost per unit between the two readings.
    pub(crate) fn cost(&self) -> Cost {
        match self.0.as_slice() {
            [before, after] => after.stats.since(&before.stats, after.done - before.done),
            _ => Cost::default(),
        }
    }

    /// Microseconds of processor time of the primary of the run, per read; `None` if it has none, or no reads.
    pub(crate) fn primary_cpu_micros(&self) -> Option<f64> {
        match self.0.as_slice() {
            [before, after] => after.primary_cpu_micros(before),
            _ => None,
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

    #[test]
    fn the_time_of_the_primary_is_per_read() {
        let reading = |reads, cpu: Option<u64>| StatsReading {
            stats: ServerStats::default(),
            done: 2 * reads,
            reads,
            primary_cpu: cpu.map(Duration::from_millis),
        };
        let micros = |before, after| StatsReadings(vec![before, after]).primary_cpu_micros();
        assert_eq!(
            micros(reading(10, Some(500)), reading(110, Some(700))),
            Some(2_000.0)
        );
        assert_eq!(micros(reading(10, Some(500)), reading(10, Some(700))), None);
        assert_eq!(micros(reading(10, None), reading(110, None)), None);
    }
}

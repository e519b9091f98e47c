//! Statistics.

use super::averages::average;
use super::errors::{ErrorCounts, OTHER_CODES};
use super::*;
use crate::pool::Pool;
use crate::testing;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::{self, Status};
use std::sync::Arc;
use std::time::Instant;

const MS: Duration = Duration::from_millis(1);

fn pool() -> Arc<Pool> {
    testing::pool()
}

/// Each duration is in the first bucket whose bound it does not exceed.
#[test]
fn durations_fall_into_their_buckets() {
    let counts = DurationCounts::default();
    for micros in [0, 10, 11, 1_000, 100_000_001] {
        counts.count(2, micros);
    }
    let read = counts.read();
    let filled: Vec<(usize, u64)> = (0..)
        .zip(read.counts)
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(filled, [(0, 4), (1, 2), (6, 2), (BOUNDS_MICROS.len(), 2)]);
    assert_eq!(read.micros, 2 * (10 + 11 + 1_000 + 100_000_001));
    assert_eq!(read.count(), 10);
}

#[test]
fn single_requests_are_queries_and_transactions() {
    let pool = pool();
    let stats = &pool.stats;
    stats.assigned_at_once();
    stats.served_single(1, 3 * MS);
    stats.assigned_at_once();
    stats.served_queries(3, 6 * MS);
    stats.served_transactions(1, 10 * MS);
    stats.assigned([MS, 2 * MS, 3 * MS].into_iter());
    stats.served_single(3, 2 * MS);
    stats.moved(70, 500);
    let [
        assignments,
        transactions,
        queries,
        received,
        sent,
        in_transactions,
        in_queries,
        waits,
        ..,
    ] = pool.stats.totals().values;
    assert_eq!((assignments, transactions, queries), (3, 5, 7));
    assert_eq!((received, sent), (70, 500));
    assert_eq!((in_transactions, in_queries), (19_000, 15_000));
    assert_eq!((waits, pool.stats.totals().waits), (6_000, 5));
}

#[test]
fn averages_are_per_second_and_per_query() {
    let pool = pool();
    pool.stats.assigned([MS, 3 * MS].into_iter());
    pool.stats.served_single(2, 4 * MS);
    pool.stats.moved(1_000, 10_000);
    let delta = pool.stats.totals();
    let average = average(&delta, Duration::from_secs(2)).values;
    assert_eq!(average[..8], [0, 1, 1, 500, 5_000, 4_000, 4_000, 2_000]);
}

/// Averages cover the previous period and the present one, nothing earlier.
#[test]
fn averages_span_two_periods() {
    let pool = pool();
    let pools = [&*pool.stats];
    let start = Instant::now();
    let periods = Periods::new(start);
    let minute = Duration::from_secs(60);
    let queries = |at: Instant| periods.averages(at, &pools).values[2];
    pool.stats.served_single(600, MS);
    assert_eq!(queries(start + minute), 10);
    periods.next_period(start + minute / 2, minute, &pools);
    assert_eq!(queries(start + minute), 10, "too early");
    periods.next_period(start + minute, minute, &pools);
    assert_eq!(queries(start + 2 * minute), 5);
    periods.next_period(start + 2 * minute, minute, &pools);
    assert_eq!(queries(start + 3 * minute), 0);
}

#[test]
fn further_sqlstates_are_counted_together() {
    let counts = ErrorCounts::default();
    for n in 0..CODES_MAX + 3 {
        let code = format!("{n:05}");
        counts.count(code.as_bytes().try_into().unwrap());
    }
    counts.count(*b"00000");
    let read = counts.read();
    assert_eq!(read.len(), CODES_MAX + 1);
    assert_eq!(read.first(), Some(&("00000".to_owned(), 2)));
    assert_eq!(read.last(), Some(&(OTHER_CODES.to_owned(), 3)));
}

#[test]
fn the_sqlstate_of_an_answer_is_found() {
    let mut fine = bytes::BytesMut::new();
    backend::write_row(&mut fine, [Some(&b"\0\0"[..])].into_iter());
    let mut failed = fine.clone();
    backend::write_command_complete(&mut fine, "SELECT 1");
    ErrorResponse::error("22012", "division by zero").write(&mut failed);
    for answer in [&mut fine, &mut failed] {
        Status::Idle.write(answer);
    }
    assert_eq!(state_of(&fine), None);
    assert_eq!(state_of(&failed), Some(*b"22012"));
    assert_eq!(first_state(&failed), Some(*b"22012"));
    assert_eq!(state_of(b""), None);
}

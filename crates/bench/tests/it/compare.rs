//! Comparisons: faster, slower, or within noise.

use crate::sample::{Changed, ran, rounds};
use paceline_bench::{Record, compare};

/// Rounds with these rates.
fn at(rates: &[f64]) -> Vec<Record> {
    let rounds = (1..).zip(rates);
    rounds
        .map(|(round, rate)| ran("paceline", 64, round, *rate))
        .collect()
}

/// The line about `hot-row hinted`.
fn line_of(before: &[Record], after: &[Record]) -> String {
    let text = compare(before, after).to_string();
    let line = text
        .lines()
        .find(|line| line.starts_with("hot-row hinted, 64 clients, paceline"));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn a_change_exceeds_the_differences_between_rounds() {
    let cases: [(&[f64], &[f64], &str, bool); 9] = [
        (
            &[990.0, 1_000.0, 1_010.0],
            &[1_900.0, 2_000.0, 2_100.0],
            "2.00 ×  faster",
            false,
        ),
        (
            &[1_900.0, 2_000.0, 2_100.0],
            &[990.0, 1_000.0, 1_010.0],
            "0.50 ×  SLOWER",
            true,
        ),
        // The ranges overlap.
        (
            &[900.0, 1_000.0, 1_900.0],
            &[1_800.0, 2_000.0, 2_100.0],
            "within noise",
            false,
        ),
        // The ranges are disjoint, but with so few rounds that may be chance: the gap is not larger than the ranges.
        (
            &[1_000.0, 1_100.0],
            &[1_150.0, 1_250.0],
            "within noise",
            false,
        ),
        // The ranges are disjoint with a larger gap, or with more rounds.
        (
            &[1_000.0, 1_100.0],
            &[1_201.0, 1_250.0],
            "1.17 ×  faster",
            false,
        ),
        (
            &[1_250.0, 1_150.0, 1_160.0, 1_170.0],
            &[1_000.0, 1_100.0, 1_010.0, 1_020.0],
            "0.87 ×  SLOWER",
            true,
        ),
        // The ranges are disjoint, but the medians hardly differ.
        (
            &[999.0, 1_000.0, 1_001.0],
            &[1_048.0, 1_049.0, 1_050.0],
            "within noise",
            false,
        ),
        (
            &[1_000.0],
            &[100.0, 110.0],
            "one round: cannot tell noise",
            false,
        ),
        (
            &[1_000.0, 1_001.0],
            &[100.0],
            "one round: cannot tell noise",
            false,
        ),
    ];
    for (before, after, verdict, slower) in cases {
        let (before, after) = (at(before), at(after));
        let line = line_of(&before, &after);
        assert!(line.ends_with(verdict), "{line}");
        assert_eq!(compare(&before, &after).is_slower(), slower, "{line}");
    }
}

#[test]
fn a_line_shows_both_medians() {
    let line = line_of(
        &at(&[990.0, 1_000.0, 1_010.0]),
        &at(&[118_000.0, 118_001.0]),
    );
    assert!(line.contains("1,000/s      118,000/s  118.00 ×"), "{line}");
}

#[test]
fn runs_at_a_fixed_rate_are_compared_by_latency() {
    let open = |slowed: f64| -> Vec<Record> {
        let mut records = at(&[1_000.0 / slowed, 1_001.0 / slowed]);
        for record in &mut records {
            record.conditions.rate = Some(1_000.0);
        }
        records
    };
    let (before, after) = (open(1.0), open(3.0));
    let line = line_of(&before, &after);
    assert!(line.contains("p99") && line.ends_with("SLOWER"), "{line}");
    assert!(line_of(&after, &before).ends_with("faster"));
}

#[test]
fn a_failed_check_or_a_missing_run_is_worse_than_any_rate() {
    let before = at(&[1_000.0, 1_001.0]);
    let mut after = at(&[9_000.0, 9_001.0]);
    after.push(ran("paceline", 64, 3, 9_000.0).broken("one is lost"));
    assert!(line_of(&before, &after).ends_with("CHECK FAILS in the second file"));
    assert!(compare(&before, &after).is_slower());
    assert!(!compare(&after, &before).is_slower());

    let refused = [ran("paceline", 64, 1, 1.0).refused("no such host")];
    assert!(line_of(&before, &refused).ends_with("RUNS NO MORE: no such host"));
    assert!(compare(&before, &refused).is_slower());
    assert!(line_of(&refused, &before).ends_with("runs now, did not run before"));
    assert!(!compare(&refused, &before).is_slower());
}

#[test]
fn runs_in_one_file_only_are_listed() {
    let (before, after) = (rounds("direct", 8, 100.0), rounds("direct", 1, 100.0));
    let text = compare(&before, &after).to_string();
    assert!(text.contains("no run in common"), "{text}");
    assert!(
        text.contains("only in the first file: hot-row hinted, 8 clients, direct\n"),
        "{text}"
    );
    assert!(
        text.contains("only in the second file: hot-row hinted, 1 client, direct\n"),
        "{text}"
    );
}

#[test]
fn different_circumstances_cause_a_warning() {
    let before = at(&[1_000.0, 1_001.0]);
    assert!(!compare(&before, &before).to_string().contains("WARNING"));
    type Change = fn(&mut Record);
    let changes: [(Change, &str); 5] = [
        (|record| record.machine.cores = 2, "cores: 8 -> 2"),
        (
            |record| record.server.version = "18.1".to_owned(),
            "PostgreSQL: 15.18 -> 18.1",
        ),
        (
            |record| {
                drop(
                    record
                        .server
                        .settings
                        .insert("fsync".to_owned(), "off".to_owned()),
                )
            },
            "setting fsync: on -> off",
        ),
        (
            |record| {
                drop(
                    record
                        .server
                        .settings
                        .insert("work_mem".to_owned(), "4MB".to_owned()),
                )
            },
            "setting work_mem: unknown -> 4MB",
        ),
        (
            |record| record.conditions.duration_seconds = 1.5,
            "measured per run: 10 s -> 1.5 s",
        ),
    ];
    for (change, warning) in changes {
        let mut after = before.clone();
        after.iter_mut().for_each(change);
        let text = compare(&before, &after).to_string();
        assert!(text.starts_with("WARNING"), "{text}");
        assert!(text.contains(&format!("  {warning}\n")), "{text}");
    }
}

#[test]
fn failed_turns_are_compared() {
    let before = at(&[1_000.0, 1_001.0]);
    let mut after = before.clone();
    after[1] = after[1].clone().with_errors("40P01", 30, "deadlock");
    let text = "within noise; failed turns per round: 0 -> 15";
    assert!(line_of(&before, &after).ends_with(text));
    assert!(line_of(&after, &after).ends_with("within noise"));
}

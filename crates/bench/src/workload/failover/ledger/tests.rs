//! Ledgers, and tables that they do or do not allow.

use super::*;

const EDGE: Edge = (1, 7);
const OTHER: Edge = (2, 7);

fn lost() -> Result<()> {
    Err(Failure::Lost("it broke".to_owned()))
}

fn refused() -> Result<()> {
    Err(Failure::refused("25006", "read only"))
}

/// A ledger with one write for each of these answers, after a failover.
fn ledger(answers: &[(Edge, Result<()>)]) -> Ledger {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.begin_failover(now);
    for (edge, answer) in answers {
        ledger.waits(0, now);
        ledger.sent(*edge);
        ledger.answered(0, *edge, answer, now);
    }
    ledger
}

/// Whether the check holds, and the numbers of acknowledged, missing, doubled and doubtful writes.
fn check(mut ledger: Ledger, replication: Replication, rows: &[(Edge, i64)]) -> (bool, [u64; 4]) {
    let check = ledger.check(replication, rows.to_vec(), Instant::now());
    let result = ledger.result().unwrap_or_default();
    let numbers = [
        result.acknowledged,
        result.missing,
        result.twice,
        result.in_doubt,
    ];
    (check.holds, numbers)
}

#[test]
fn a_table_with_every_write_once_holds() {
    let ledger = ledger(&[(EDGE, Ok(())), (EDGE, Ok(())), (OTHER, Ok(()))]);
    let rows = [(EDGE, 2), (OTHER, 1)];
    let checked = check(ledger, Replication::Synchronous, &rows);
    assert_eq!(checked, (true, [3, 0, 0, 0]));
}

#[test]
fn missing_writes_are_allowed_only_without_synchronous_replication() {
    let answers = [(EDGE, Ok(())), (EDGE, Ok(())), (OTHER, Ok(()))];
    for (replication, allowed) in [
        (Replication::Synchronous, false),
        (Replication::Asynchronous, true),
    ] {
        // One write of an edge is missing, and the other edge as a whole.
        let checked = check(ledger(&answers), replication, &[(EDGE, 1)]);
        assert_eq!(checked, (allowed, [3, 2, 0, 0]));
    }
}

#[test]
fn no_replication_allows_a_write_twice() {
    for replication in [Replication::Synchronous, Replication::Asynchronous] {
        let checked = check(ledger(&[(EDGE, Ok(()))]), replication, &[(EDGE, 2)]);
        assert_eq!(checked, (false, [1, 0, 1, 0]));
    }
}

#[test]
fn a_write_in_doubt_may_be_executed_once_and_a_refused_one_may_not() {
    for (found, allowed) in [(1, true), (2, true), (3, false)] {
        let ledger = ledger(&[(EDGE, lost()), (EDGE, Ok(()))]);
        let (holds, numbers) = check(ledger, Replication::Synchronous, &[(EDGE, found)]);
        assert_eq!((holds, numbers[3]), (allowed, 1), "{found}");
    }
    let ledger = ledger(&[(OTHER, Ok(())), (EDGE, refused())]);
    let rows = [(OTHER, 1), (EDGE, 1)];
    let checked = check(ledger, Replication::Synchronous, &rows);
    assert_eq!(checked, (false, [1, 0, 1, 0]));
}

#[test]
fn the_times_are_those_around_the_failover() {
    let (start, mut ledger) = (Instant::now(), Ledger::default());
    let at = |ms| start + Duration::from_millis(ms);
    let write = |ledger: &mut Ledger, client, sent, answered, answer: Result<()>| {
        ledger.waits(client, at(sent));
        ledger.sent(EDGE);
        ledger.answered(client, EDGE, &answer, at(answered));
    };
    // A pause before the failover does not count.
    write(&mut ledger, 1, 0, 5_000, Ok(()));
    write(&mut ledger, 2, 5_000, 5_001, Ok(()));
    write(&mut ledger, 2, 5_010, 5_100, lost());
    ledger.begin_failover(at(5_100));
    write(&mut ledger, 1, 5_500, 6_001, Ok(()));
    // The second client waits since its first attempt.
    write(&mut ledger, 2, 6_000, 6_500, Ok(()));
    let result = ledger.result().unwrap();
    assert_eq!((result.pause, result.longest_wait), (1_000_000, 1_490_000));
}

#[test]
fn a_failover_without_a_later_write_fails_the_check() {
    let mut ledger = ledger(&[]);
    let began = Instant::now();
    ledger.waits(3, began);
    let rows = Vec::new();
    let ended = began + Duration::from_secs(9);
    let check = ledger.check(Replication::Asynchronous, rows, ended);
    assert!(!check.holds, "{}", check.says);
    assert_eq!(ledger.result().unwrap().longest_wait, 9_000_000);
    // Without a failover, as after an interrupt, there is nothing to serve.
    let mut without = Ledger::default();
    assert!(
        without
            .check(Replication::Synchronous, Vec::new(), ended)
            .holds
    );
    assert_eq!(without.result(), None);
}

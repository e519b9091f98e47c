//! Rows that keep requests waiting: probes, the wait for a lock, limits.

use super::fixture::{LineFixture, word};
use super::{fold, group, limits, upsert};
use crate::line::{ClientTimeouts, ExpiredLimit, LineKey, LockOutcome, WaitSpec};
use crate::strategy::Strategy;
use std::time::Duration;

/// A fold with a probe and a lock that can be requested separately.
fn patient(row: u64) -> WaitSpec {
    WaitSpec {
        probe_group: Some(group(Strategy::Fold, 1)),
        locks: true,
        ..fold(row)
    }
}

fn limited(row: u64, lock: Option<u64>, statement: Option<u64>) -> WaitSpec {
    WaitSpec {
        timeouts: ClientTimeouts {
            lock: lock.map(Duration::from_millis),
            statement: statement.map(Duration::from_millis),
            transaction: None,
        },
        ..patient(row)
    }
}

impl LineFixture {
    /// Moves the clock by milliseconds and does what is due; returns requests with an expired limit.
    fn tick(&mut self, millis: u64) -> String {
        self.pass(millis * 1_000);
        let late = self.line.tick(self.now);
        let letter = |why| match why {
            ExpiredLimit::Lock => 'l',
            ExpiredLimit::Statement => 's',
            ExpiredLimit::Query => 'q',
        };
        late.iter()
            .flat_map(|(entry, why)| [entry.request, letter(*why)])
            .collect()
    }

    /// The lock of a row is granted; returns the requests that leave with it.
    fn granted(&mut self, row: u64) -> String {
        word(&self.line.take_locked(self.now, LineKey(row), &patient(row)))
    }
}

#[test]
fn a_request_that_waits_for_long_is_probed_once() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(patient(1), "b");
    fixture.submit(fold(1), "c");
    fixture.tick(19);
    assert!(!fixture.line.has_ready(), "not for long yet");
    assert!(fixture.line.due().is_some_and(|due| due > fixture.now));
    fixture.tick(1);
    assert_eq!(
        (fixture.line.has_ready(), fixture.line.ready_len()),
        (true, 1)
    );
    assert_eq!(fixture.probes(), "b", "nothing can be asked about c");
    fixture.tick(100);
    assert!(!fixture.line.has_ready(), "once is enough");
    fixture.submit(patient(1), "de");
    assert_eq!(fixture.probes(), "de", "a later request is probed at once");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "bcde", "they have their old places");
}

#[test]
fn a_failed_probe_is_repeated_later() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    let waiters = fixture.submit(patient(1), "b");
    fixture.tick(20);
    assert_eq!(fixture.probes(), "b");
    fixture.line.probe_failed(fixture.now, &waiters);
    assert!(!fixture.line.has_ready());
    fixture.tick(20);
    assert_eq!(fixture.probes(), "b");
}

#[test]
fn another_flight_of_the_row_causes_another_probe() {
    let mut fixture = LineFixture::new(limits(1, 4, 0));
    fixture.submit(patient(1), "abc");
    assert_eq!(fixture.leaves(), "a");
    fixture.tick(20);
    assert_eq!(
        (fixture.probes(), fixture.probes()),
        ("b".into(), "c".into())
    );
    fixture.pass(1);
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "b");
    fixture.tick(20);
    assert_eq!(fixture.probes(), "c");
}

#[test]
fn a_detached_request_leaves_alone_and_holds_up_no_other() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    let waiters = fixture.submit(patient(1), "bc");
    fixture.line.detach(fixture.now, waiters[0]);
    assert_eq!(fixture.leaves(), "b");
    assert_eq!(fixture.leaves(), "");
    fixture.release_rows(&[1]);
    fixture.line.detach(fixture.now, waiters[1]);
    assert_eq!(fixture.leaves(), "c", "it has its row already");
    assert!(!fixture.starts(&fold(1)), "and keeps it");
}

/// The lock is requested first. All requests that are in the line when it is granted leave with it.
#[test]
fn a_group_without_its_lock_waits_for_it_in_the_line() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(patient(1), "ab");
    assert_eq!(fixture.blocked(), "ab");
    assert_eq!(fixture.probes(), "ab", "before anything else");
    assert_eq!(fixture.locks(), "a");
    assert_eq!(fixture.leaves(), "", "the row is taken");
    let waiters = fixture.submit(patient(1), "cd");
    fixture.line.withdraw(fixture.now, waiters[0]);
    fixture.submit(fold(2), "x");
    assert_eq!(fixture.probes(), "d", "it has come before x");
    assert_eq!(fixture.leaves(), "x");
    assert_eq!(fixture.granted(1), "abd");
    fixture.submit(patient(1), "e");
    assert_eq!(fixture.probes(), "e");
    fixture
        .line
        .release_rows(fixture.now, LineKey(1), LockOutcome::Contended);
    assert_eq!(
        fixture.locks(),
        "e",
        "a row that was waited for long is so again"
    );
    assert_eq!(fixture.granted(1), "e");
    fixture.submit(patient(1), "f");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "f", "that was quick");
}

#[test]
fn if_the_lock_does_not_help_the_first_request_leaves_alone() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(patient(1), "abc");
    assert_eq!(fixture.blocked(), "abc");
    assert_eq!(fixture.probes(), "abc");
    assert_eq!(fixture.locks(), "a");
    fixture
        .line
        .release_rows(fixture.now, LineKey(1), LockOutcome::Blocked);
    assert_eq!(fixture.leaves(), "a");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "bc", "that was enough");
    // The same happens if the lock cannot be requested separately.
    fixture.release_rows(&[1]);
    fixture.submit(fold(1), "de");
    assert_eq!(fixture.blocked(), "de");
    assert_eq!(fixture.leaves(), "d");
}

#[test]
fn a_granted_lock_is_not_used_by_another_group() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let first = fixture.submit(patient(1), "a");
    let other = WaitSpec {
        group: Some(group(Strategy::Fold, 2)),
        ..patient(1)
    };
    fixture.submit(other, "b");
    assert_eq!(fixture.blocked(), "a");
    assert_eq!(fixture.probes(), "ab");
    assert_eq!(fixture.locks(), "a");
    fixture.line.withdraw(fixture.now, first[0]);
    assert!(fixture.line.is_awaited(LineKey(1)));
    assert_eq!(fixture.granted(1), "");
    fixture
        .line
        .release_rows(fixture.now, LineKey(1), LockOutcome::Contended);
    assert_eq!(fixture.locks(), "b");
}

/// A request that may join groups on its own row only leaves with requests that arrived later.
#[test]
fn a_granted_lock_ignores_cohorts() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let mut own = patient(1);
    own.group.as_mut().unwrap().cohort = LineKey(1).cohort();
    fixture.submit(own, "a");
    assert_eq!(fixture.blocked(), "a");
    assert_eq!(fixture.probes(), "a");
    assert_eq!(fixture.locks(), "a");
    fixture.submit(patient(1), "b");
    assert_eq!(fixture.granted(1), "ab");
}

#[test]
fn lock_timeout_counts_from_the_start_of_the_wait_for_the_row() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(limited(1, Some(50), None), "a");
    assert_eq!(fixture.tick(100), "", "it waits for a connection");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(limited(1, Some(50), None), "b");
    fixture.submit(limited(1, None, None), "c");
    assert_eq!(fixture.tick(49), "");
    fixture.submit(limited(1, Some(50), None), "d");
    assert_eq!(
        fixture.line.due(),
        Some(fixture.now + Duration::from_millis(1))
    );
    assert_eq!(fixture.tick(1), "bl");
    assert_eq!(fixture.tick(48), "");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.tick(100), "", "they wait for a connection");
    assert_eq!(fixture.leaves(), "cd");
}

#[test]
fn the_time_for_which_a_group_waited_for_a_lock_counts() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(limited(1, Some(50), None), "a");
    let mut entries = fixture.next().unwrap().entries;
    fixture.pass(30_000);
    fixture.line.put_back(
        fixture.now,
        entries.split_off(0),
        [(LineKey(1), LockOutcome::Blocked)],
    );
    assert_eq!(fixture.tick(19), "");
    assert_eq!(fixture.tick(1), "al");
}

#[test]
fn statement_timeout_counts_until_the_request_is_answered() {
    let mut fixture = LineFixture::new(limits(1, 4, 0));
    fixture.submit(limited(1, None, Some(50)), "ab");
    assert_eq!(fixture.leaves(), "a");
    fixture.tick(30);
    assert_eq!(fixture.probes(), "b");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.tick(19), "");
    assert_eq!(
        fixture.tick(1),
        "bs",
        "though it waits for a connection only"
    );
}

/// The duration of a group does not count for its members.
#[test]
fn the_time_of_an_undone_group_does_not_count() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(limited(1, None, Some(50)), "ab");
    let mut entries = fixture.next().unwrap().entries;
    fixture.pass(60_000);
    entries
        .iter_mut()
        .for_each(super::super::WaitEntry::restart);
    fixture
        .line
        .put_back(fixture.now, entries, [(LineKey(1), LockOutcome::Free)]);
    assert_eq!(fixture.tick(0), "");
    assert_eq!(fixture.leaves(), "ab");
}

#[test]
fn query_timeout_ends_every_wait_for_a_row() {
    let mut limits = limits(8, 4, 0);
    limits.query_timeout = Duration::from_millis(40);
    let mut fixture = LineFixture::new(limits);
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(upsert(&[1, 2]), "b");
    assert_eq!(fixture.tick(40), "bq");
}

#[test]
fn the_first_member_limits_the_size_of_the_group() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let small = WaitSpec {
        size_max: Some(2),
        ..patient(1)
    };
    fixture.submit(small, "abcde");
    assert_eq!(fixture.leaves(), "ab");
}

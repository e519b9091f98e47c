//! Rows that keep units waiting: probes, the wait for a lock, time-outs.

use super::fixture::{LineFixture, word};
use super::{fold, group, limits, upsert};
use crate::line::{ClientTimeouts, ExpiredLimit, LineKey, LockOutcome, WaitSpec};
use crate::strategy::Strategy;
use std::time::Duration;

/// A fold that can be asked about, and whose row's lock can be waited for.
fn patient(row: u64) -> WaitSpec {
    WaitSpec {
        probe: Some(group(Strategy::Fold, 1)),
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
    /// So many milliseconds pass, and what is due is done; returns those whose time is up.
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

    /// The lock of a row is granted: who leaves with it?
    fn granted(&mut self, row: u64) -> String {
        word(&self.line.take_locked(self.now, LineKey(row), &patient(row)))
    }
}

#[test]
fn who_waits_behind_a_row_for_long_is_asked_about_once() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(patient(1), "b");
    fixture.come(fold(1), "c");
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
    fixture.come(patient(1), "de");
    assert_eq!(
        fixture.probes(),
        "de",
        "who comes later is asked about at once"
    );
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "bcde", "they have kept their places");
}

#[test]
fn a_probe_that_failed_is_repeated_a_little_later() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    let waiters = fixture.come(patient(1), "b");
    fixture.tick(20);
    assert_eq!(fixture.probes(), "b");
    fixture.line.probe_failed(fixture.now, &waiters);
    assert!(!fixture.line.has_ready());
    fixture.tick(20);
    assert_eq!(fixture.probes(), "b");
}

#[test]
fn another_flight_of_the_row_is_another_reason_to_ask() {
    let mut fixture = LineFixture::new(limits(1, 4, 0));
    fixture.come(patient(1), "abc");
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
fn who_is_detached_leaves_by_itself_and_holds_up_nobody() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    let waiters = fixture.come(patient(1), "bc");
    fixture.line.detach(fixture.now, waiters[0]);
    assert_eq!(fixture.leaves(), "b");
    assert_eq!(fixture.leaves(), "");
    fixture.release_rows(&[1]);
    fixture.line.detach(fixture.now, waiters[1]);
    assert_eq!(fixture.leaves(), "c", "it has its row already");
    assert!(
        !fixture.line.start_at_once(fixture.now, &fold(1)),
        "and keeps it"
    );
}

/// First the lock is waited for; whoever is there when it is granted leaves with it.
#[test]
fn a_group_that_could_not_have_its_row_waits_for_the_lock_in_the_line() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(patient(1), "ab");
    assert_eq!(fixture.blocked(), "ab");
    assert_eq!(fixture.probes(), "ab", "before anything else");
    assert_eq!(fixture.locks(), "a");
    assert_eq!(fixture.leaves(), "", "the row is taken");
    let waiters = fixture.come(patient(1), "cd");
    fixture.line.withdraw(fixture.now, waiters[0]);
    fixture.come(fold(2), "x");
    assert_eq!(fixture.probes(), "d", "it has come before x");
    assert_eq!(fixture.leaves(), "x");
    assert_eq!(fixture.granted(1), "abd");
    fixture.come(patient(1), "e");
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
    fixture.come(patient(1), "f");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "f", "that was quick");
}

#[test]
fn where_the_lock_does_not_help_the_first_leaves_alone() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(patient(1), "abc");
    assert_eq!(fixture.blocked(), "abc");
    assert_eq!(fixture.probes(), "abc");
    assert_eq!(fixture.locks(), "a");
    fixture
        .line
        .release_rows(fixture.now, LineKey(1), LockOutcome::Blocked);
    assert_eq!(fixture.leaves(), "a");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "bc", "that was enough");
    // And so it does where the lock cannot be waited for.
    fixture.release_rows(&[1]);
    fixture.come(fold(1), "de");
    assert_eq!(fixture.blocked(), "de");
    assert_eq!(fixture.leaves(), "d");
}

#[test]
fn a_lock_is_of_no_use_to_another_group() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let first = fixture.come(patient(1), "a");
    let other = WaitSpec {
        group: Some(group(Strategy::Fold, 2)),
        ..patient(1)
    };
    fixture.come(other, "b");
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

/// Units that travel on their own row only leave with those that came later.
#[test]
fn a_granted_lock_does_not_ask_for_cohorts() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let mut own = patient(1);
    own.group.as_mut().unwrap().cohort = LineKey(1).cohort();
    fixture.come(own, "a");
    assert_eq!(fixture.blocked(), "a");
    assert_eq!(fixture.probes(), "a");
    assert_eq!(fixture.locks(), "a");
    fixture.come(patient(1), "b");
    assert_eq!(fixture.granted(1), "ab");
}

#[test]
fn lock_timeout_counts_from_when_the_row_is_waited_for() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(limited(1, Some(50), None), "a");
    assert_eq!(fixture.tick(100), "", "it waits for a connection");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(limited(1, Some(50), None), "b");
    fixture.come(limited(1, None, None), "c");
    assert_eq!(fixture.tick(49), "");
    fixture.come(limited(1, Some(50), None), "d");
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
fn what_a_group_has_waited_for_a_lock_counts() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(limited(1, Some(50), None), "a");
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
fn statement_timeout_goes_on_until_the_unit_is_served() {
    let mut fixture = LineFixture::new(limits(1, 4, 0));
    fixture.come(limited(1, None, Some(50)), "ab");
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

/// The length of a group is not its members' fault.
#[test]
fn what_a_group_has_taken_in_vain_does_not_count() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(limited(1, None, Some(50)), "ab");
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
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(upsert(&[1, 2]), "b");
    assert_eq!(fixture.tick(40), "bq");
}

#[test]
fn a_group_has_no_more_members_than_its_first_one_bears() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let small = WaitSpec {
        size_max: Some(2),
        ..patient(1)
    };
    fixture.come(small, "abcde");
    assert_eq!(fixture.leaves(), "ab");
}

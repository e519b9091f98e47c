//! Requests that get another spec while they wait.

use super::fixture::{LineFixture, word};
use super::{fold, group, limits, upsert};
use crate::line::{ClientTimeouts, LineKey, LockOutcome, WaitSpec, WaiterId};
use crate::strategy::Strategy;
use std::time::Duration;

/// A write whose row is not known.
fn unknown() -> WaitSpec {
    WaitSpec {
        barrier: true,
        ..WaitSpec::default()
    }
}

impl LineFixture {
    fn specify(&mut self, waiter: WaiterId, spec: WaitSpec) -> Option<char> {
        self.line.specify(self.now, waiter, spec).copied()
    }
}

#[test]
fn a_request_keeps_its_place() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    test.submit(fold(1), "a");
    let open = test.submit(unknown(), "bc");
    test.submit(fold(1), "d");
    test.submit(fold(2), "e");
    assert_eq!(test.specify(open[1], fold(2)), Some('c'));
    assert_eq!(test.specify(open[0], fold(1)), Some('b'));
    assert_eq!(test.leaves(), "abcde", "they are no barriers any more");
}

/// Both were ready; only the one that arrived first still is.
#[test]
fn a_request_that_arrived_later_waits_for_its_row() {
    let other = WaitSpec {
        group: Some(group(Strategy::Fold, 2)),
        ..fold(1)
    };
    for later in [other, upsert(&[1, 2])] {
        let mut test = LineFixture::new(limits(10, 10, 0));
        let open = test.submit(unknown(), "a");
        test.submit(later, "b");
        test.specify(open[0], fold(1));
        assert_eq!(test.line.ready_len(), 1);
        assert_eq!((test.leaves(), test.leaves()), ("a".into(), String::new()));
        test.release_rows(&[1]);
        assert_eq!(test.leaves(), "b");
    }
}

/// It has overtaken them as a member of a group.
#[test]
fn a_request_that_returns_waits_behind_those_that_arrived_earlier() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    test.submit(fold(2), "a");
    let open = test.submit(WaitSpec::default(), "b");
    test.submit(fold(1), "c");
    let mut entries = test.next().expect("a group leaves").entries;
    assert_eq!(word(&entries), "ac");
    assert!(test.specify(open[0], fold(1)).is_some());
    let returned = entries.split_off(1);
    let released = [1, 2].map(|row| (LineKey(row), LockOutcome::Free));
    test.line.put_back(test.now, returned, released);
    assert_eq!(test.leaves(), "bc");
}

#[test]
fn a_request_on_rows_or_in_flight_keeps_its_spec() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    let on_row = test.submit(fold(1), "a");
    let open = test.submit(unknown(), "b");
    assert_eq!(test.specify(on_row[0], fold(2)), None);
    assert_eq!((test.leaves(), test.leaves()), ("a".into(), "b".into()));
    assert_eq!(test.specify(open[0], fold(2)), None);
    assert!(test.starts(&fold(2)));
}

/// Until then the request has waited only for a server connection.
#[test]
fn time_outs_begin_when_the_request_begins_to_wait_for_a_row() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    test.submit(fold(1), "a");
    assert_eq!(test.leaves(), "a");
    let open = test.submit(unknown(), "b");
    test.pass(50_000);
    let limited = WaitSpec {
        timeouts: ClientTimeouts {
            lock: Some(Duration::from_millis(100)),
            ..ClientTimeouts::default()
        },
        ..fold(1)
    };
    test.specify(open[0], limited);
    test.pass(99_000);
    assert!(test.line.tick(test.now).is_empty());
    test.pass(1_000);
    assert_eq!(test.line.tick(test.now).len(), 1);
}

/// `query_wait_timeout` counts from then.
#[test]
fn a_request_that_stays_ready_is_ready_since_it_arrived() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    let arrived = test.now;
    let open = test.submit(unknown(), "a");
    test.pass(1_000);
    test.specify(open[0], fold(1));
    assert_eq!(test.line.oldest_ready(), Some(arrived));
}

/// Those that waited for the row were probed when its lock was not granted.
#[test]
fn a_request_that_becomes_the_first_on_a_locked_row_is_probed() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    let probed = WaitSpec {
        probe_group: Some(group(Strategy::Fold, 1)),
        locks: true,
        ..fold(1)
    };
    test.submit(probed.clone(), "a");
    assert_eq!(test.leaves(), "a");
    let open = test.submit(WaitSpec::default(), "b");
    test.submit(probed.clone(), "c");
    test.pass(20_000);
    test.line
        .release_rows(test.now, LineKey(1), LockOutcome::Blocked);
    test.specify(open[0], probed);
    assert_eq!((test.probes(), test.locks()), ("bc".into(), "b".into()));
}

/// Its row was in flight before, for others. Since then the first request on the row waits only for a server connection.
#[test]
fn a_wait_behind_a_request_that_waits_for_a_connection_is_no_wait_for_the_row() {
    let mut test = LineFixture::new(limits(10, 10, 0));
    test.submit(fold(1), "a");
    assert_eq!(test.leaves(), "a");
    let open = test.submit(unknown(), "bc");
    test.submit(fold(1), "d");
    test.pass(1_000);
    test.release_rows(&[1]);
    let limited = WaitSpec {
        timeouts: ClientTimeouts {
            statement: Some(Duration::from_millis(100)),
            ..ClientTimeouts::default()
        },
        ..fold(1)
    };
    test.specify(open[1], limited);
    test.specify(open[0], fold(1));
    test.pass(200_000);
    assert!(test.line.tick(test.now).is_empty());
    assert_eq!(test.leaves(), "bcd");
}

//! The rules of the line, one by one.

use super::fixture::{LineFixture, word};
use super::{fold, group, limits, read, upsert};
use crate::line::{GroupId, LineKey, ROW_AWAITED_MAX, WaitSpec};
use crate::strategy::Strategy;
use std::time::Duration;

fn alone(row: Option<u64>) -> WaitSpec {
    WaitSpec {
        keys: row.map(LineKey).into(),
        ..WaitSpec::default()
    }
}

/// A read that can be shared.
fn ask_for(question: u64) -> WaitSpec {
    WaitSpec {
        group: Some(group(Strategy::Share, question)),
        ..alone(None)
    }
}

/// An update of a row that is not known.
fn barrier(group: Option<GroupId>) -> WaitSpec {
    WaitSpec {
        group,
        barrier: true,
        ..WaitSpec::default()
    }
}

#[test]
fn a_row_in_flight_holds_up_only_requests_on_it() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "ab");
    assert_eq!(fixture.leaves(), "ab");
    fixture.submit(fold(1), "c");
    fixture.submit(fold(2), "d");
    assert_eq!(fixture.line.ready_len(), 1);
    assert_eq!(fixture.leaves(), "d");
    assert_eq!(fixture.leaves(), "");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn a_group_leaves_from_all_rows_in_order_of_arrival() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    fixture.submit(alone(None), "b");
    fixture.submit(fold(2), "c");
    fixture.submit(fold(1), "d");
    assert_eq!(fixture.leaves(), "acd");
    assert_eq!(fixture.leaves(), "b");
}

/// New limits also apply to requests that wait for group members; a request that leaves the line no longer waits for them.
#[test]
fn new_limits_apply_at_once() {
    let mut fixture = LineFixture::new(limits(8, 4, 1_000_000));
    fixture.submit(fold(1), "a");
    fixture.submit(fold(2), "b");
    assert_eq!(fixture.leaves(), "");
    let held_until = fixture.line.held_until().unwrap();
    fixture.line.set_limits(limits(1, 4, 10));
    assert!(fixture.line.held_until().unwrap() < held_until);
    fixture.line.release_held(held_until);
    assert_eq!(fixture.leaves(), "a");
    assert_eq!(fixture.leaves(), "b");
    assert!(fixture.line.is_empty() && fixture.line.held_until().is_none());
}

#[test]
fn identical_reads_leave_together_and_do_not_wait_for_more() {
    let mut fixture = LineFixture::new(limits(3, 2, 10));
    fixture.submit(ask_for(1), "a");
    fixture.submit(ask_for(2), "b");
    fixture.submit(ask_for(1), "cde");
    assert_eq!(fixture.line.ready_len(), 2);
    assert_eq!(
        (fixture.leaves(), fixture.leaves()),
        ("acd".into(), "b".into())
    );
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn a_read_without_a_duplicate_leaves_alone() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(ask_for(1), "ab");
    assert_eq!(fixture.line.oldest_ready_alone(8), None);
    fixture.submit(ask_for(2), "c");
    assert!(fixture.line.oldest_ready_alone(8).is_some());
    assert_eq!(
        fixture.line.oldest_ready_alone(2),
        None,
        "it does not look so far"
    );
}

#[test]
fn groups_and_pipelines_have_their_own_limits() {
    let mut fixture = LineFixture::new(limits(3, 2, 0));
    fixture.submit(fold(1), "abcde");
    fixture.submit(read(), "xyz");
    assert_eq!(
        (fixture.leaves(), fixture.leaves()),
        ("abc".into(), "xy".into())
    );
    assert_eq!(
        (fixture.leaves(), fixture.leaves()),
        ("z".into(), String::new())
    );
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "de");
}

#[test]
fn a_request_of_another_group_on_the_row_is_not_overtaken() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    fixture.submit(alone(Some(1)), "b");
    fixture.submit(fold(1), "c");
    for expected in ["a", "b", "c"] {
        assert_eq!(fixture.leaves(), expected);
        assert_eq!(fixture.leaves(), "");
        fixture.release_rows(&[1]);
    }
}

#[test]
fn no_request_joins_a_group_across_a_barrier() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    let waiters = fixture.submit(barrier(None), "bc");
    fixture.submit(fold(2), "d");
    fixture.submit(fold(1), "e");
    assert_eq!(fixture.leaves(), "a");
    assert_eq!(fixture.leaves(), "b");
    assert!(fixture.line.withdraw(fixture.now, waiters[1]).is_some());
    fixture.submit(fold(3), "f");
    assert_eq!(fixture.leaves(), "df");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "e");
    assert!(fixture.line.barriers.is_empty());
}

#[test]
fn barriers_of_one_group_leave_together_in_order() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    fixture.submit(barrier(Some(chain)), "abc");
    fixture.submit(barrier(None), "d");
    fixture.submit(barrier(Some(chain)), "e");
    assert_eq!(fixture.leaves(), "abc");
    assert_eq!(fixture.leaves(), "d");
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn a_request_on_an_unknown_row_overtakes_no_other_by_joining_a_group() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    fixture.submit(barrier(Some(chain)), "a");
    fixture.submit(read(), "r");
    fixture.submit(barrier(Some(chain)), "b");
    fixture.submit(fold(1), "c");
    fixture.submit(barrier(Some(chain)), "d");
    fixture.submit(fold(2), "e");
    assert_eq!(fixture.leaves(), "ab");
    assert_eq!(fixture.leaves(), "r");
    assert_eq!(fixture.leaves(), "c");
    assert_eq!(fixture.leaves(), "d");
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn a_request_on_a_row_does_not_displace_a_barrier_of_its_group() {
    let mut fixture = LineFixture::new(limits(4, 4, 0));
    let chain = group(Strategy::Chain, 0);
    let keyed = WaitSpec {
        group: Some(chain),
        ..alone(Some(1))
    };
    fixture.submit(keyed.clone(), "a");
    fixture.submit(barrier(Some(chain)), "b");
    fixture.submit(keyed, "cdefg");
    assert_eq!(fixture.leaves(), "ab");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "cdef");
}

#[test]
fn other_settings_formats_or_cohorts_make_another_group() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let id = group(Strategy::Chain, 0);
    let mut others = [id; 5];
    others[0].settings = 1;
    others[1].parameter_formats = 1;
    others[2].result_formats = 1;
    others[3].cohort = 1;
    others[4].template = 1;
    for (other, request) in others.into_iter().zip(["a", "b", "c", "d", "e"]) {
        let spec = WaitSpec {
            group: Some(other),
            ..WaitSpec::default()
        };
        fixture.submit(spec, request);
    }
    assert_eq!(fixture.line.ready_len(), 5);
    for expected in ["a", "b", "c", "d", "e", ""] {
        assert_eq!(fixture.leaves(), expected);
    }
}

#[test]
fn a_request_starts_at_once_only_if_it_overtakes_no_other() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    assert!(fixture.starts(&fold(1)));
    assert!(!fixture.starts(&fold(1)), "its row is in flight");
    assert!(fixture.starts(&fold(2)), "another row");
    fixture.release_rows(&[1]);
    assert!(fixture.starts(&fold(1)), "the row is free again");
    fixture.submit(fold(1), "a");
    assert!(
        fixture.starts(&alone(None)),
        "a request that waits for a row holds up no other"
    );
    fixture.submit(alone(None), "b");
    assert!(!fixture.starts(&alone(None)), "a request could leave");
}

#[test]
fn with_max_wait_no_request_of_a_group_starts_at_once() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    assert!(!fixture.starts(&fold(1)));
    assert!(fixture.starts(&alone(Some(1))));
}

#[test]
fn a_request_waits_for_group_members_for_max_wait() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    let due = fixture.now + Duration::from_micros(50);
    fixture.submit(fold(1), "a");
    assert_eq!(
        (fixture.line.held_until(), fixture.line.has_ready()),
        (Some(due), false)
    );
    fixture.pass(30);
    fixture.submit(fold(1), "b");
    fixture.submit(alone(None), "c");
    assert_eq!(
        fixture.leaves(),
        "c",
        "a request that joins no group does not wait for one"
    );
    assert_eq!(fixture.leaves(), "");
    fixture.pass(19);
    assert_eq!(fixture.leaves(), "");
    fixture.pass(1);
    assert_eq!(fixture.leaves(), "ab");
    assert_eq!(fixture.line.held_until(), None);
}

#[test]
fn reads_and_returned_requests_do_not_wait_for_group_members() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    fixture.submit(read(), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(fold(1), "b");
    fixture.pass(40);
    fixture.submit(fold(1), "c");
    fixture.pass(10);
    let mut returned = fixture
        .next()
        .expect("the time of the first has come")
        .entries;
    assert_eq!(word(&returned), "bc");
    returned.remove(0);
    for id in returned.iter_mut().filter_map(|e| e.spec.group.as_mut()) {
        id.cohort = 7;
    }
    fixture.line.put_back(fixture.now, returned, []);
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn a_request_that_waits_for_group_members_can_be_withdrawn() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    let waiters = fixture.submit(fold(1), "ab");
    let withdrawn = fixture.line.withdraw(fixture.now, waiters[0]);
    assert_eq!(withdrawn.map(|e| e.request), Some('a'));
    fixture.pass(50);
    assert_eq!(fixture.leaves(), "b");
    assert!(fixture.line.is_empty() && fixture.line.held_until().is_none());
}

#[test]
fn a_returned_request_has_its_old_place() {
    let mut fixture = LineFixture::new(limits(3, 4, 0));
    fixture.submit(fold(1), "abcd");
    let mut returned = fixture.next().expect("three leave").entries;
    fixture.submit(fold(1), "e");
    // The first request was answered, the second runs alone, the third leaves after it.
    returned.remove(0);
    returned[0].spec.group = None;
    returned.reverse();
    fixture.line.put_back(fixture.now, returned, []);
    assert_eq!((fixture.line.len(), fixture.leaves()), (4, String::new()));
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "b");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "cde");
}

#[test]
fn returned_halves_leave_one_after_the_other() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "ab");
    fixture.submit(fold(2), "cd");
    let mut returned = fixture.next().expect("all leave").entries;
    for (n, entry) in returned.iter_mut().enumerate() {
        let id = entry.spec.group.as_mut().expect("a fold");
        id.cohort = 1 + u64::from(n >= 2);
    }
    fixture.line.put_back(fixture.now, returned, []);
    fixture.release_rows(&[1, 2]);
    fixture.submit(fold(3), "x");
    assert_eq!(fixture.leaves(), "ab");
    assert_eq!(fixture.leaves(), "cd");
    assert_eq!(fixture.leaves(), "x");
}

#[test]
fn withdrawing_the_first_request_on_a_row_lets_the_next_one_leave() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let waiters = fixture.submit(alone(Some(1)), "abc");
    assert!(fixture.line.withdraw(fixture.now, waiters[1]).is_some());
    assert!(fixture.line.withdraw(fixture.now, waiters[0]).is_some());
    assert!(
        fixture.line.withdraw(fixture.now, waiters[0]).is_none(),
        "only once"
    );
    assert_eq!(fixture.leaves(), "c");
    assert!(
        fixture.line.withdraw(fixture.now, waiters[2]).is_none(),
        "it has left"
    );
}

#[test]
fn expire_takes_exactly_the_requests_that_were_ready_at_the_deadline() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(alone(Some(1)), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(alone(Some(1)), "bc");
    fixture.submit(read(), "x");
    fixture.pass(10);
    let deadline = fixture.now;
    fixture.submit(read(), "y");
    fixture.pass(10);
    fixture.submit(read(), "z");
    assert_eq!(
        fixture.line.oldest_ready(),
        Some(deadline - Duration::from_micros(10))
    );
    assert_eq!(word(&fixture.line.expire(fixture.now, deadline)), "xy");
    assert_eq!(word(&fixture.line.expire(fixture.now, deadline)), "");
    // A request that waits for a row is not late, however long it waits. Its time starts when it has the row.
    let released = fixture.now;
    fixture.release_rows(&[1]);
    fixture.pass(5);
    assert_eq!(word(&fixture.line.expire(fixture.now, released)), "bz");
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn draining_leaves_rows_in_flight_as_they_are() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(fold(1), "b");
    fixture.submit(read(), "c");
    assert_eq!(word(&fixture.line.drain(fixture.now)), "bc");
    fixture.submit(fold(1), "d");
    assert_eq!(fixture.leaves(), "");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "d");
}

#[test]
fn an_unused_row_is_forgotten() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    for row in 0..100 {
        fixture.submit(fold(row), "a");
        assert_eq!(fixture.leaves(), "a");
        fixture.release_rows(&[row]);
        let waiters = fixture.submit(fold(row), "b");
        fixture.line.withdraw(fixture.now, waiters[0]);
    }
    assert!(fixture.line.rows.is_empty() && fixture.line.group_members.is_empty());
}

#[test]
fn a_multi_row_request_waits_for_all_its_rows_in_each_rows_order() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(upsert(&[1, 2]), "a");
    fixture.submit(upsert(&[2, 3]), "b");
    fixture.submit(upsert(&[4, 5]), "c");
    fixture.submit(fold(3), "d");
    fixture.submit(fold(6), "e");
    assert_eq!(
        fixture.leaves(),
        "ac",
        "no two requests have a row in common"
    );
    assert_eq!(fixture.leaves(), "e");
    assert_eq!(fixture.leaves(), "", "what is behind keeps its place");
    fixture.release_rows(&[1, 2]);
    fixture.submit(upsert(&[1, 5]), "f");
    assert_eq!(fixture.leaves(), "b", "5 is in flight");
    fixture.release_rows(&[4, 5]);
    assert_eq!(fixture.leaves(), "f");
    fixture.release_rows(&[2, 3]);
    assert_eq!(fixture.leaves(), "d");
    assert!(!fixture.starts(&upsert(&[7, 3])));
    assert!(fixture.starts(&upsert(&[7, 8])));
    assert!(!fixture.starts(&fold(8)));
}

#[test]
fn a_returned_multi_row_request_has_its_old_places() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(upsert(&[1, 2]), "a");
    fixture.submit(upsert(&[3, 4]), "b");
    let mut returned = fixture.next().expect("both leave").entries;
    fixture.submit(fold(2), "c");
    let late = fixture.submit(upsert(&[2, 4]), "d");
    for (cohort, entry) in (1..).zip(&mut returned) {
        let id = entry.spec.group.as_mut().expect("an upsert");
        id.cohort = cohort;
    }
    fixture.line.put_back(fixture.now, returned, []);
    fixture.release_rows(&[1, 2, 3, 4]);
    assert_eq!(
        (fixture.leaves(), fixture.leaves()),
        ("a".into(), "b".into())
    );
    fixture.release_rows(&[1, 2, 3, 4]);
    assert_eq!(fixture.leaves(), "c");
    fixture.line.withdraw(fixture.now, late[0]);
    fixture.release_rows(&[2]);
    assert!(fixture.line.rows.is_empty() && fixture.line.multi_row_check_at().is_some());
    fixture.pass(100_000);
    fixture.line.expire_multi_row(fixture.now);
    assert_eq!(fixture.line.multi_row_check_at(), None);
}

/// Requests behind it may not need the row for which it waits.
#[test]
fn a_multi_row_request_does_not_wait_for_a_row_in_flight_for_long() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(upsert(&[1, 2]), "b");
    fixture.submit(upsert(&[2, 3]), "c");
    fixture.submit(fold(3), "d");
    let look = |fixture: &mut LineFixture| {
        fixture.pass(u64::try_from(ROW_AWAITED_MAX.as_micros()).unwrap_or(u64::MAX));
        fixture.line.expire_multi_row(fixture.now);
    };
    fixture.pass(90_000);
    fixture.line.expire_multi_row(fixture.now);
    assert_eq!(fixture.leaves(), "", "not for long yet");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "b", "it has released, and is not late");
    fixture.pass(90_000);
    fixture.line.expire_multi_row(fixture.now);
    assert_eq!(fixture.leaves(), "");
    look(&mut fixture);
    assert_eq!(
        fixture.leaves(),
        "c",
        "alone, like one whose rows are not known"
    );
    assert_eq!(
        fixture.leaves(),
        "d",
        "no request is in front of it any more"
    );
    assert_eq!(fixture.line.multi_row_check_at(), None);
}

/// Each of them would block the second row for as long as the first one did.
#[test]
fn rows_released_early_detach_the_multi_row_requests_behind() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.submit(upsert(&[1, 2]), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(upsert(&[1, 2]), "b");
    fixture.submit(upsert(&[2, 3]), "c");
    fixture.submit(upsert(&[4, 5]), "d");
    fixture.submit(fold(2), "e");
    fixture
        .line
        .release_rows_early(fixture.now, &[LineKey(1), LineKey(2)]);
    assert_eq!(fixture.leaves(), "b", "by itself");
    assert_eq!(fixture.leaves(), "c");
    assert_eq!(fixture.leaves(), "d", "it is elsewhere in the line");
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn the_size_limit_of_a_group_applies_to_its_rows() {
    let mut fixture = LineFixture::new(limits(5, 4, 0));
    fixture.submit(upsert(&[1, 2, 3]), "a");
    fixture.submit(upsert(&[4, 5, 6]), "b");
    fixture.submit(upsert(&[7, 8]), "c");
    fixture.submit(upsert(&[9, 10, 11, 12, 13, 14]), "d");
    assert_eq!(fixture.leaves(), "ab", "more than five rows are enough");
    assert_eq!(fixture.leaves(), "cd");
}

#[test]
fn a_barrier_joins_no_group_past_a_multi_row_request() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    let keyed = WaitSpec {
        group: Some(chain),
        ..alone(Some(1))
    };
    fixture.submit(barrier(Some(chain)), "a");
    fixture.submit(upsert(&[1, 2]), "b");
    fixture.submit(keyed, "c");
    fixture.submit(barrier(Some(chain)), "d");
    assert_eq!(fixture.leaves(), "a");
    assert_eq!(fixture.leaves(), "b");
    assert_eq!(
        fixture.leaves(),
        "d",
        "its row is not known: it waits for none"
    );
    fixture.release_rows(&[1, 2]);
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn late_requests_are_ready_requests() {
    let mut fixture = LineFixture::new(limits(8, 8, 0));
    fixture.submit(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.submit(fold(1), "b");
    fixture.submit(alone(None), "xy");
    fixture.pass(1_000);
    let deadline = fixture.now;
    fixture.pass(1_000);
    fixture.submit(alone(None), "z");
    let late = |fixture: &mut LineFixture| {
        fixture
            .line
            .late_mut(deadline)
            .map(|request| *request)
            .collect::<String>()
    };
    assert_eq!(
        late(&mut fixture),
        "xy",
        "b waits for its row, z has come after"
    );
    fixture.release_rows(&[1]);
    assert_eq!(late(&mut fixture), "bxy");
}

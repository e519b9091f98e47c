//! The line's rules, one by one.

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

/// A read that may be shared.
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
fn a_row_in_flight_holds_up_its_own_units_only() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "ab");
    assert_eq!(fixture.leaves(), "ab");
    fixture.come(fold(1), "c");
    fixture.come(fold(2), "d");
    assert_eq!(fixture.line.ready_len(), 1);
    assert_eq!(fixture.leaves(), "d");
    assert_eq!(fixture.leaves(), "");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn whoever_leaves_takes_its_group_along_from_all_rows_in_order_of_arrival() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    fixture.come(alone(None), "b");
    fixture.come(fold(2), "c");
    fixture.come(fold(1), "d");
    assert_eq!(fixture.leaves(), "acd");
    assert_eq!(fixture.leaves(), "b");
}

/// For those who are held already, too; and who leaves the line is held no longer.
#[test]
fn other_limits_hold_at_once() {
    let mut fixture = LineFixture::new(limits(8, 4, 1_000_000));
    fixture.come(fold(1), "a");
    fixture.come(fold(2), "b");
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
fn the_same_question_leaves_with_all_its_twins_and_is_not_held_for_more() {
    let mut fixture = LineFixture::new(limits(3, 2, 10));
    fixture.come(ask_for(1), "a");
    fixture.come(ask_for(2), "b");
    fixture.come(ask_for(1), "cde");
    assert_eq!(fixture.line.ready_len(), 2);
    assert_eq!(
        (fixture.leaves(), fixture.leaves()),
        ("acd".into(), "b".into())
    );
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn a_question_that_nobody_else_asks_travels_alone() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(ask_for(1), "ab");
    assert_eq!(fixture.line.oldest_ready_alone(8), None);
    fixture.come(ask_for(2), "c");
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
    fixture.come(fold(1), "abcde");
    fixture.come(read(), "xyz");
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
fn a_stranger_on_the_row_is_not_overtaken() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    fixture.come(alone(Some(1)), "b");
    fixture.come(fold(1), "c");
    for expected in ["a", "b", "c"] {
        assert_eq!(fixture.leaves(), expected);
        assert_eq!(fixture.leaves(), "");
        fixture.release_rows(&[1]);
    }
}

#[test]
fn nobody_leaves_with_others_across_a_barrier() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    let waiters = fixture.come(barrier(None), "bc");
    fixture.come(fold(2), "d");
    fixture.come(fold(1), "e");
    assert_eq!(fixture.leaves(), "a");
    assert_eq!(fixture.leaves(), "b");
    assert!(fixture.line.withdraw(fixture.now, waiters[1]).is_some());
    fixture.come(fold(3), "f");
    assert_eq!(fixture.leaves(), "df");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "e");
    assert!(fixture.line.barriers.is_empty());
}

#[test]
fn barriers_of_one_group_travel_together_in_order() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    fixture.come(barrier(Some(chain)), "abc");
    fixture.come(barrier(None), "d");
    fixture.come(barrier(Some(chain)), "e");
    assert_eq!(fixture.leaves(), "abc");
    assert_eq!(fixture.leaves(), "d");
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn who_may_be_on_any_row_overtakes_nobody_by_leaving_with_others() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    fixture.come(barrier(Some(chain)), "a");
    fixture.come(read(), "r");
    fixture.come(barrier(Some(chain)), "b");
    fixture.come(fold(1), "c");
    fixture.come(barrier(Some(chain)), "d");
    fixture.come(fold(2), "e");
    assert_eq!(fixture.leaves(), "ab");
    assert_eq!(fixture.leaves(), "r");
    assert_eq!(fixture.leaves(), "c");
    assert_eq!(fixture.leaves(), "d");
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn who_is_on_a_row_does_not_take_the_place_of_a_barrier_of_its_group() {
    let mut fixture = LineFixture::new(limits(4, 4, 0));
    let chain = group(Strategy::Chain, 0);
    let keyed = WaitSpec {
        group: Some(chain),
        ..alone(Some(1))
    };
    fixture.come(keyed.clone(), "a");
    fixture.come(barrier(Some(chain)), "b");
    fixture.come(keyed, "cdefg");
    assert_eq!(fixture.leaves(), "ab");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "cdef");
}

#[test]
fn other_settings_formats_or_cohorts_are_another_group() {
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
        fixture.come(spec, request);
    }
    assert_eq!(fixture.line.ready_len(), 5);
    for expected in ["a", "b", "c", "d", "e", ""] {
        assert_eq!(fixture.leaves(), expected);
    }
}

#[test]
fn a_unit_starts_at_once_only_where_it_passes_nobody() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    assert!(fixture.line.start_at_once(fixture.now, &fold(1)));
    assert!(
        !fixture.line.start_at_once(fixture.now, &fold(1)),
        "its row is in flight"
    );
    assert!(
        fixture.line.start_at_once(fixture.now, &fold(2)),
        "another row"
    );
    fixture.release_rows(&[1]);
    assert!(
        fixture.line.start_at_once(fixture.now, &fold(1)),
        "the row is free again"
    );
    fixture.come(fold(1), "a");
    assert!(
        fixture.line.start_at_once(fixture.now, &alone(None)),
        "who waits for a row holds up nobody"
    );
    fixture.come(alone(None), "b");
    assert!(
        !fixture.line.start_at_once(fixture.now, &alone(None)),
        "somebody could leave"
    );
}

#[test]
fn with_a_wait_for_mates_no_group_starts_at_once() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    assert!(!fixture.line.start_at_once(fixture.now, &fold(1)));
    assert!(fixture.line.start_at_once(fixture.now, &alone(Some(1))));
}

#[test]
fn a_unit_waits_for_mates_until_its_time_and_they_come_along() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    let due = fixture.now + Duration::from_micros(50);
    fixture.come(fold(1), "a");
    assert_eq!(
        (fixture.line.held_until(), fixture.line.has_ready()),
        (Some(due), false)
    );
    fixture.pass(30);
    fixture.come(fold(1), "b");
    fixture.come(alone(None), "c");
    assert_eq!(
        fixture.leaves(),
        "c",
        "who cannot travel with others does not wait for them"
    );
    assert_eq!(fixture.leaves(), "");
    fixture.pass(19);
    assert_eq!(fixture.leaves(), "");
    fixture.pass(1);
    assert_eq!(fixture.leaves(), "ab");
    assert_eq!(fixture.line.held_until(), None);
}

#[test]
fn reads_and_units_that_came_back_do_not_wait_for_mates() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    fixture.come(read(), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(fold(1), "b");
    fixture.pass(40);
    fixture.come(fold(1), "c");
    fixture.pass(10);
    let mut back = fixture
        .next()
        .expect("the time of the first has come")
        .entries;
    assert_eq!(word(&back), "bc");
    back.remove(0);
    for id in back.iter_mut().filter_map(|e| e.spec.group.as_mut()) {
        id.cohort = 7;
    }
    fixture.line.put_back(fixture.now, back, []);
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn a_unit_that_waits_for_mates_can_be_withdrawn() {
    let mut fixture = LineFixture::new(limits(8, 4, 50));
    let waiters = fixture.come(fold(1), "ab");
    let withdrawn = fixture.line.withdraw(fixture.now, waiters[0]);
    assert_eq!(withdrawn.map(|e| e.request), Some('a'));
    fixture.pass(50);
    assert_eq!(fixture.leaves(), "b");
    assert!(fixture.line.is_empty() && fixture.line.held_until().is_none());
}

#[test]
fn who_comes_back_stands_where_it_stood() {
    let mut fixture = LineFixture::new(limits(3, 4, 0));
    fixture.come(fold(1), "abcd");
    let mut back = fixture.next().expect("three leave").entries;
    fixture.come(fold(1), "e");
    // The first was served, the second runs alone, the third goes on after it.
    back.remove(0);
    back[0].spec.group = None;
    back.reverse();
    fixture.line.put_back(fixture.now, back, []);
    assert_eq!((fixture.line.len(), fixture.leaves()), (4, String::new()));
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "b");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "cde");
}

#[test]
fn halves_that_come_back_travel_one_after_the_other() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "ab");
    fixture.come(fold(2), "cd");
    let mut back = fixture.next().expect("all leave").entries;
    for (n, entry) in back.iter_mut().enumerate() {
        let id = entry.spec.group.as_mut().expect("a fold");
        id.cohort = 1 + u64::from(n >= 2);
    }
    fixture.line.put_back(fixture.now, back, []);
    fixture.release_rows(&[1, 2]);
    fixture.come(fold(3), "x");
    assert_eq!(fixture.leaves(), "ab");
    assert_eq!(fixture.leaves(), "cd");
    assert_eq!(fixture.leaves(), "x");
}

#[test]
fn withdrawing_the_first_of_a_row_lets_the_next_one_leave() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let waiters = fixture.come(alone(Some(1)), "abc");
    assert!(fixture.line.withdraw(fixture.now, waiters[1]).is_some());
    assert!(fixture.line.withdraw(fixture.now, waiters[0]).is_some());
    assert!(
        fixture.line.withdraw(fixture.now, waiters[0]).is_none(),
        "only once"
    );
    assert_eq!(fixture.leaves(), "c");
    assert!(
        fixture.line.withdraw(fixture.now, waiters[2]).is_none(),
        "it has departed"
    );
}

#[test]
fn expiry_takes_those_who_could_have_left_by_the_deadline_and_nobody_else() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(alone(Some(1)), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(alone(Some(1)), "bc");
    fixture.come(read(), "x");
    fixture.pass(10);
    let deadline = fixture.now;
    fixture.come(read(), "y");
    fixture.pass(10);
    fixture.come(read(), "z");
    assert_eq!(
        fixture.line.oldest_ready(),
        Some(deadline - Duration::from_micros(10))
    );
    assert_eq!(word(&fixture.line.expire(fixture.now, deadline)), "xy");
    assert_eq!(word(&fixture.line.expire(fixture.now, deadline)), "");
    // Who waits for a row is not late, however long that takes; from then on its time runs.
    let landed = fixture.now;
    fixture.release_rows(&[1]);
    fixture.pass(5);
    assert_eq!(word(&fixture.line.expire(fixture.now, landed)), "bz");
    assert_eq!(fixture.leaves(), "c");
}

#[test]
fn draining_leaves_rows_in_flight_as_they_are() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(fold(1), "b");
    fixture.come(read(), "c");
    assert_eq!(word(&fixture.line.drain(fixture.now)), "bc");
    fixture.come(fold(1), "d");
    assert_eq!(fixture.leaves(), "");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "d");
}

#[test]
fn a_row_that_nobody_uses_is_forgotten() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    for row in 0..100 {
        fixture.come(fold(row), "a");
        assert_eq!(fixture.leaves(), "a");
        fixture.release_rows(&[row]);
        let waiters = fixture.come(fold(row), "b");
        fixture.line.withdraw(fixture.now, waiters[0]);
    }
    assert!(fixture.line.rows.is_empty() && fixture.line.group_members.is_empty());
}

#[test]
fn who_is_on_several_rows_waits_for_all_of_them_in_each_rows_order() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(upsert(&[1, 2]), "a");
    fixture.come(upsert(&[2, 3]), "b");
    fixture.come(upsert(&[4, 5]), "c");
    fixture.come(fold(3), "d");
    fixture.come(fold(6), "e");
    assert_eq!(fixture.leaves(), "ac", "nobody meets another one on a row");
    assert_eq!(fixture.leaves(), "e");
    assert_eq!(fixture.leaves(), "", "what is behind keeps its place");
    fixture.release_rows(&[1, 2]);
    fixture.come(upsert(&[1, 5]), "f");
    assert_eq!(fixture.leaves(), "b", "5 is in flight");
    fixture.release_rows(&[4, 5]);
    assert_eq!(fixture.leaves(), "f");
    fixture.release_rows(&[2, 3]);
    assert_eq!(fixture.leaves(), "d");
    assert!(!fixture.line.start_at_once(fixture.now, &upsert(&[7, 3])));
    assert!(fixture.line.start_at_once(fixture.now, &upsert(&[7, 8])));
    assert!(!fixture.line.start_at_once(fixture.now, &fold(8)));
}

#[test]
fn who_comes_back_to_several_rows_stands_where_it_stood() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(upsert(&[1, 2]), "a");
    fixture.come(upsert(&[3, 4]), "b");
    let mut back = fixture.next().expect("both leave").entries;
    fixture.come(fold(2), "c");
    let late = fixture.come(upsert(&[2, 4]), "d");
    for (cohort, entry) in (1..).zip(&mut back) {
        let id = entry.spec.group.as_mut().expect("an upsert");
        id.cohort = cohort;
    }
    fixture.line.put_back(fixture.now, back, []);
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

/// What it waits for may be of no concern to those behind it: in PostgreSQL they would perhaps not meet.
#[test]
fn who_is_on_several_rows_waits_for_none_that_is_in_flight_for_long() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(upsert(&[1, 2]), "b");
    fixture.come(upsert(&[2, 3]), "c");
    fixture.come(fold(3), "d");
    let look = |fixture: &mut LineFixture| {
        fixture.pass(u64::try_from(ROW_AWAITED_MAX.as_micros()).unwrap_or(u64::MAX));
        fixture.line.expire_multi_row(fixture.now);
    };
    fixture.pass(90_000);
    fixture.line.expire_multi_row(fixture.now);
    assert_eq!(fixture.leaves(), "", "not for long yet");
    fixture.release_rows(&[1]);
    assert_eq!(fixture.leaves(), "b", "it has landed, and is not late");
    fixture.pass(90_000);
    fixture.line.expire_multi_row(fixture.now);
    assert_eq!(fixture.leaves(), "");
    look(&mut fixture);
    assert_eq!(
        fixture.leaves(),
        "c",
        "alone, like one whose rows are not known"
    );
    assert_eq!(fixture.leaves(), "d", "nobody is in front of it any more");
    assert_eq!(fixture.line.multi_row_check_at(), None);
}

/// Each of them would keep the second row from those behind it for as long as the first one did.
#[test]
fn nobody_takes_the_place_of_who_has_been_on_its_rows_for_long() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    fixture.come(upsert(&[1, 2]), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(upsert(&[1, 2]), "b");
    fixture.come(upsert(&[2, 3]), "c");
    fixture.come(upsert(&[4, 5]), "d");
    fixture.come(fold(2), "e");
    fixture
        .line
        .release_rows_early(fixture.now, &[LineKey(1), LineKey(2)]);
    assert_eq!(fixture.leaves(), "b", "by itself");
    assert_eq!(fixture.leaves(), "c");
    assert_eq!(fixture.leaves(), "d", "it stands elsewhere");
    assert_eq!(fixture.leaves(), "e");
}

#[test]
fn a_group_has_no_more_rows_than_units_it_may_have() {
    let mut fixture = LineFixture::new(limits(5, 4, 0));
    fixture.come(upsert(&[1, 2, 3]), "a");
    fixture.come(upsert(&[4, 5, 6]), "b");
    fixture.come(upsert(&[7, 8]), "c");
    fixture.come(upsert(&[9, 10, 11, 12, 13, 14]), "d");
    assert_eq!(fixture.leaves(), "ab", "more than five rows are enough");
    assert_eq!(fixture.leaves(), "cd");
}

#[test]
fn a_barrier_does_not_leave_with_others_past_who_is_on_several_rows() {
    let mut fixture = LineFixture::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    let keyed = WaitSpec {
        group: Some(chain),
        ..alone(Some(1))
    };
    fixture.come(barrier(Some(chain)), "a");
    fixture.come(upsert(&[1, 2]), "b");
    fixture.come(keyed, "c");
    fixture.come(barrier(Some(chain)), "d");
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
fn the_late_are_those_who_could_have_left() {
    let mut fixture = LineFixture::new(limits(8, 8, 0));
    fixture.come(fold(1), "a");
    assert_eq!(fixture.leaves(), "a");
    fixture.come(fold(1), "b");
    fixture.come(alone(None), "xy");
    fixture.pass(1_000);
    let deadline = fixture.now;
    fixture.pass(1_000);
    fixture.come(alone(None), "z");
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

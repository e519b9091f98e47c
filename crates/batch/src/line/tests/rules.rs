//! The line's rules, one by one.

use super::scene::{Scene, word};
use super::{fold, group, limits, read, upsert};
use crate::line::{GroupId, LineKey, ROW_AWAITED_MAX, Strategy, WaitSpec};
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
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "ab");
    assert_eq!(scene.leaves(), "ab");
    scene.come(fold(1), "c");
    scene.come(fold(2), "d");
    assert_eq!(scene.line.ready_len(), 1);
    assert_eq!(scene.leaves(), "d");
    assert_eq!(scene.leaves(), "");
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "c");
}

#[test]
fn whoever_leaves_takes_its_group_along_from_all_rows_in_order_of_arrival() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "a");
    scene.come(alone(None), "b");
    scene.come(fold(2), "c");
    scene.come(fold(1), "d");
    assert_eq!(scene.leaves(), "acd");
    assert_eq!(scene.leaves(), "b");
}

/// For those who are held already, too; and who leaves the line is held no longer.
#[test]
fn other_limits_hold_at_once() {
    let mut scene = Scene::new(limits(8, 4, 1_000_000));
    scene.come(fold(1), "a");
    scene.come(fold(2), "b");
    assert_eq!(scene.leaves(), "");
    let held_until = scene.line.held_until().unwrap();
    scene.line.set_limits(limits(1, 4, 10));
    assert!(scene.line.held_until().unwrap() < held_until);
    scene.line.release_held(held_until);
    assert_eq!(scene.leaves(), "a");
    assert_eq!(scene.leaves(), "b");
    assert!(scene.line.is_empty() && scene.line.held_until().is_none());
}

#[test]
fn the_same_question_leaves_with_all_its_twins_and_is_not_held_for_more() {
    let mut scene = Scene::new(limits(3, 2, 10));
    scene.come(ask_for(1), "a");
    scene.come(ask_for(2), "b");
    scene.come(ask_for(1), "cde");
    assert_eq!(scene.line.ready_len(), 2);
    assert_eq!((scene.leaves(), scene.leaves()), ("acd".into(), "b".into()));
    assert_eq!(scene.leaves(), "e");
}

#[test]
fn a_question_that_nobody_else_asks_travels_alone() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(ask_for(1), "ab");
    assert_eq!(scene.line.oldest_ready_alone(8), None);
    scene.come(ask_for(2), "c");
    assert!(scene.line.oldest_ready_alone(8).is_some());
    assert_eq!(
        scene.line.oldest_ready_alone(2),
        None,
        "it does not look so far"
    );
}

#[test]
fn groups_and_pipelines_have_their_own_limits() {
    let mut scene = Scene::new(limits(3, 2, 0));
    scene.come(fold(1), "abcde");
    scene.come(read(), "xyz");
    assert_eq!(
        (scene.leaves(), scene.leaves()),
        ("abc".into(), "xy".into())
    );
    assert_eq!(
        (scene.leaves(), scene.leaves()),
        ("z".into(), String::new())
    );
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "de");
}

#[test]
fn a_stranger_on_the_row_is_not_overtaken() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "a");
    scene.come(alone(Some(1)), "b");
    scene.come(fold(1), "c");
    for expected in ["a", "b", "c"] {
        assert_eq!(scene.leaves(), expected);
        assert_eq!(scene.leaves(), "");
        scene.release_rows(&[1]);
    }
}

#[test]
fn nobody_leaves_with_others_across_a_barrier() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "a");
    let waiters = scene.come(barrier(None), "bc");
    scene.come(fold(2), "d");
    scene.come(fold(1), "e");
    assert_eq!(scene.leaves(), "a");
    assert_eq!(scene.leaves(), "b");
    assert!(scene.line.withdraw(scene.now, waiters[1]).is_some());
    scene.come(fold(3), "f");
    assert_eq!(scene.leaves(), "df");
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "e");
    assert!(scene.line.barriers.is_empty());
}

#[test]
fn barriers_of_one_group_travel_together_in_order() {
    let mut scene = Scene::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    scene.come(barrier(Some(chain)), "abc");
    scene.come(barrier(None), "d");
    scene.come(barrier(Some(chain)), "e");
    assert_eq!(scene.leaves(), "abc");
    assert_eq!(scene.leaves(), "d");
    assert_eq!(scene.leaves(), "e");
}

#[test]
fn who_may_be_on_any_row_overtakes_nobody_by_leaving_with_others() {
    let mut scene = Scene::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    scene.come(barrier(Some(chain)), "a");
    scene.come(read(), "r");
    scene.come(barrier(Some(chain)), "b");
    scene.come(fold(1), "c");
    scene.come(barrier(Some(chain)), "d");
    scene.come(fold(2), "e");
    assert_eq!(scene.leaves(), "ab");
    assert_eq!(scene.leaves(), "r");
    assert_eq!(scene.leaves(), "c");
    assert_eq!(scene.leaves(), "d");
    assert_eq!(scene.leaves(), "e");
}

#[test]
fn who_is_on_a_row_does_not_take_the_place_of_a_barrier_of_its_group() {
    let mut scene = Scene::new(limits(4, 4, 0));
    let chain = group(Strategy::Chain, 0);
    let keyed = WaitSpec {
        group: Some(chain),
        ..alone(Some(1))
    };
    scene.come(keyed.clone(), "a");
    scene.come(barrier(Some(chain)), "b");
    scene.come(keyed, "cdefg");
    assert_eq!(scene.leaves(), "ab");
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "cdef");
}

#[test]
fn other_settings_formats_or_cohorts_are_another_group() {
    let mut scene = Scene::new(limits(8, 4, 0));
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
        scene.come(spec, request);
    }
    assert_eq!(scene.line.ready_len(), 5);
    for expected in ["a", "b", "c", "d", "e", ""] {
        assert_eq!(scene.leaves(), expected);
    }
}

#[test]
fn a_unit_starts_at_once_only_where_it_passes_nobody() {
    let mut scene = Scene::new(limits(8, 4, 0));
    assert!(scene.line.start_at_once(scene.now, &fold(1)));
    assert!(
        !scene.line.start_at_once(scene.now, &fold(1)),
        "its row is in flight"
    );
    assert!(scene.line.start_at_once(scene.now, &fold(2)), "another row");
    scene.release_rows(&[1]);
    assert!(
        scene.line.start_at_once(scene.now, &fold(1)),
        "the row is free again"
    );
    scene.come(fold(1), "a");
    assert!(
        scene.line.start_at_once(scene.now, &alone(None)),
        "who waits for a row holds up nobody"
    );
    scene.come(alone(None), "b");
    assert!(
        !scene.line.start_at_once(scene.now, &alone(None)),
        "somebody could leave"
    );
}

#[test]
fn with_a_wait_for_mates_no_group_starts_at_once() {
    let mut scene = Scene::new(limits(8, 4, 50));
    assert!(!scene.line.start_at_once(scene.now, &fold(1)));
    assert!(scene.line.start_at_once(scene.now, &alone(Some(1))));
}

#[test]
fn a_unit_waits_for_mates_until_its_time_and_they_come_along() {
    let mut scene = Scene::new(limits(8, 4, 50));
    let due = scene.now + Duration::from_micros(50);
    scene.come(fold(1), "a");
    assert_eq!(
        (scene.line.held_until(), scene.line.has_ready()),
        (Some(due), false)
    );
    scene.pass(30);
    scene.come(fold(1), "b");
    scene.come(alone(None), "c");
    assert_eq!(
        scene.leaves(),
        "c",
        "who cannot travel with others does not wait for them"
    );
    assert_eq!(scene.leaves(), "");
    scene.pass(19);
    assert_eq!(scene.leaves(), "");
    scene.pass(1);
    assert_eq!(scene.leaves(), "ab");
    assert_eq!(scene.line.held_until(), None);
}

#[test]
fn reads_and_units_that_came_back_do_not_wait_for_mates() {
    let mut scene = Scene::new(limits(8, 4, 50));
    scene.come(read(), "a");
    assert_eq!(scene.leaves(), "a");
    scene.come(fold(1), "b");
    scene.pass(40);
    scene.come(fold(1), "c");
    scene.pass(10);
    let mut back = scene
        .next()
        .expect("the time of the first has come")
        .entries;
    assert_eq!(word(&back), "bc");
    back.remove(0);
    for id in back.iter_mut().filter_map(|e| e.spec.group.as_mut()) {
        id.cohort = 7;
    }
    scene.line.put_back(scene.now, back, []);
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "c");
}

#[test]
fn a_unit_that_waits_for_mates_can_be_withdrawn() {
    let mut scene = Scene::new(limits(8, 4, 50));
    let waiters = scene.come(fold(1), "ab");
    let withdrawn = scene.line.withdraw(scene.now, waiters[0]);
    assert_eq!(withdrawn.map(|e| e.request), Some('a'));
    scene.pass(50);
    assert_eq!(scene.leaves(), "b");
    assert!(scene.line.is_empty() && scene.line.held_until().is_none());
}

#[test]
fn who_comes_back_stands_where_it_stood() {
    let mut scene = Scene::new(limits(3, 4, 0));
    scene.come(fold(1), "abcd");
    let mut back = scene.next().expect("three leave").entries;
    scene.come(fold(1), "e");
    // The first was served, the second runs alone, the third goes on after it.
    back.remove(0);
    back[0].spec.group = None;
    back.reverse();
    scene.line.put_back(scene.now, back, []);
    assert_eq!((scene.line.len(), scene.leaves()), (4, String::new()));
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "b");
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "cde");
}

#[test]
fn halves_that_come_back_travel_one_after_the_other() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "ab");
    scene.come(fold(2), "cd");
    let mut back = scene.next().expect("all leave").entries;
    for (n, entry) in back.iter_mut().enumerate() {
        let id = entry.spec.group.as_mut().expect("a fold");
        id.cohort = 1 + u64::from(n >= 2);
    }
    scene.line.put_back(scene.now, back, []);
    scene.release_rows(&[1, 2]);
    scene.come(fold(3), "x");
    assert_eq!(scene.leaves(), "ab");
    assert_eq!(scene.leaves(), "cd");
    assert_eq!(scene.leaves(), "x");
}

#[test]
fn withdrawing_the_first_of_a_row_lets_the_next_one_leave() {
    let mut scene = Scene::new(limits(8, 4, 0));
    let waiters = scene.come(alone(Some(1)), "abc");
    assert!(scene.line.withdraw(scene.now, waiters[1]).is_some());
    assert!(scene.line.withdraw(scene.now, waiters[0]).is_some());
    assert!(
        scene.line.withdraw(scene.now, waiters[0]).is_none(),
        "only once"
    );
    assert_eq!(scene.leaves(), "c");
    assert!(
        scene.line.withdraw(scene.now, waiters[2]).is_none(),
        "it has departed"
    );
}

#[test]
fn expiry_takes_those_who_could_have_left_by_the_deadline_and_nobody_else() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(alone(Some(1)), "a");
    assert_eq!(scene.leaves(), "a");
    scene.come(alone(Some(1)), "bc");
    scene.come(read(), "x");
    scene.pass(10);
    let deadline = scene.now;
    scene.come(read(), "y");
    scene.pass(10);
    scene.come(read(), "z");
    assert_eq!(
        scene.line.oldest_ready(),
        Some(deadline - Duration::from_micros(10))
    );
    assert_eq!(word(&scene.line.expire(scene.now, deadline)), "xy");
    assert_eq!(word(&scene.line.expire(scene.now, deadline)), "");
    // Who waits for a row is not late, however long that takes; from then on its time runs.
    let landed = scene.now;
    scene.release_rows(&[1]);
    scene.pass(5);
    assert_eq!(word(&scene.line.expire(scene.now, landed)), "bz");
    assert_eq!(scene.leaves(), "c");
}

#[test]
fn draining_leaves_rows_in_flight_as_they_are() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "a");
    assert_eq!(scene.leaves(), "a");
    scene.come(fold(1), "b");
    scene.come(read(), "c");
    assert_eq!(word(&scene.line.drain(scene.now)), "bc");
    scene.come(fold(1), "d");
    assert_eq!(scene.leaves(), "");
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "d");
}

#[test]
fn a_row_that_nobody_uses_is_forgotten() {
    let mut scene = Scene::new(limits(8, 4, 0));
    for row in 0..100 {
        scene.come(fold(row), "a");
        assert_eq!(scene.leaves(), "a");
        scene.release_rows(&[row]);
        let waiters = scene.come(fold(row), "b");
        scene.line.withdraw(scene.now, waiters[0]);
    }
    assert!(scene.line.rows.is_empty() && scene.line.group_members.is_empty());
}

#[test]
fn who_is_on_several_rows_waits_for_all_of_them_in_each_rows_order() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(upsert(&[1, 2]), "a");
    scene.come(upsert(&[2, 3]), "b");
    scene.come(upsert(&[4, 5]), "c");
    scene.come(fold(3), "d");
    scene.come(fold(6), "e");
    assert_eq!(scene.leaves(), "ac", "nobody meets another one on a row");
    assert_eq!(scene.leaves(), "e");
    assert_eq!(scene.leaves(), "", "what is behind keeps its place");
    scene.release_rows(&[1, 2]);
    scene.come(upsert(&[1, 5]), "f");
    assert_eq!(scene.leaves(), "b", "5 is in flight");
    scene.release_rows(&[4, 5]);
    assert_eq!(scene.leaves(), "f");
    scene.release_rows(&[2, 3]);
    assert_eq!(scene.leaves(), "d");
    assert!(!scene.line.start_at_once(scene.now, &upsert(&[7, 3])));
    assert!(scene.line.start_at_once(scene.now, &upsert(&[7, 8])));
    assert!(!scene.line.start_at_once(scene.now, &fold(8)));
}

#[test]
fn who_comes_back_to_several_rows_stands_where_it_stood() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(upsert(&[1, 2]), "a");
    scene.come(upsert(&[3, 4]), "b");
    let mut back = scene.next().expect("both leave").entries;
    scene.come(fold(2), "c");
    let late = scene.come(upsert(&[2, 4]), "d");
    for (cohort, entry) in (1..).zip(&mut back) {
        let id = entry.spec.group.as_mut().expect("an upsert");
        id.cohort = cohort;
    }
    scene.line.put_back(scene.now, back, []);
    scene.release_rows(&[1, 2, 3, 4]);
    assert_eq!((scene.leaves(), scene.leaves()), ("a".into(), "b".into()));
    scene.release_rows(&[1, 2, 3, 4]);
    assert_eq!(scene.leaves(), "c");
    scene.line.withdraw(scene.now, late[0]);
    scene.release_rows(&[2]);
    assert!(scene.line.rows.is_empty() && scene.line.multi_row_check_at().is_some());
    scene.pass(100_000);
    scene.line.expire_multi_row(scene.now);
    assert_eq!(scene.line.multi_row_check_at(), None);
}

/// What it waits for may be of no concern to those behind it: in PostgreSQL they would perhaps not meet.
#[test]
fn who_is_on_several_rows_waits_for_none_that_is_in_flight_for_long() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(fold(1), "a");
    assert_eq!(scene.leaves(), "a");
    scene.come(upsert(&[1, 2]), "b");
    scene.come(upsert(&[2, 3]), "c");
    scene.come(fold(3), "d");
    let look = |scene: &mut Scene| {
        scene.pass(u64::try_from(ROW_AWAITED_MAX.as_micros()).unwrap_or(u64::MAX));
        scene.line.expire_multi_row(scene.now);
    };
    scene.pass(90_000);
    scene.line.expire_multi_row(scene.now);
    assert_eq!(scene.leaves(), "", "not for long yet");
    scene.release_rows(&[1]);
    assert_eq!(scene.leaves(), "b", "it has landed, and is not late");
    scene.pass(90_000);
    scene.line.expire_multi_row(scene.now);
    assert_eq!(scene.leaves(), "");
    look(&mut scene);
    assert_eq!(
        scene.leaves(),
        "c",
        "alone, like one whose rows are not known"
    );
    assert_eq!(scene.leaves(), "d", "nobody is in front of it any more");
    assert_eq!(scene.line.multi_row_check_at(), None);
}

/// Each of them would keep the second row from those behind it for as long as the first one did.
#[test]
fn nobody_takes_the_place_of_who_has_been_on_its_rows_for_long() {
    let mut scene = Scene::new(limits(8, 4, 0));
    scene.come(upsert(&[1, 2]), "a");
    assert_eq!(scene.leaves(), "a");
    scene.come(upsert(&[1, 2]), "b");
    scene.come(upsert(&[2, 3]), "c");
    scene.come(upsert(&[4, 5]), "d");
    scene.come(fold(2), "e");
    scene
        .line
        .release_rows_early(scene.now, &[LineKey(1), LineKey(2)]);
    assert_eq!(scene.leaves(), "b", "by itself");
    assert_eq!(scene.leaves(), "c");
    assert_eq!(scene.leaves(), "d", "it stands elsewhere");
    assert_eq!(scene.leaves(), "e");
}

#[test]
fn a_group_has_no_more_rows_than_units_it_may_have() {
    let mut scene = Scene::new(limits(5, 4, 0));
    scene.come(upsert(&[1, 2, 3]), "a");
    scene.come(upsert(&[4, 5, 6]), "b");
    scene.come(upsert(&[7, 8]), "c");
    scene.come(upsert(&[9, 10, 11, 12, 13, 14]), "d");
    assert_eq!(scene.leaves(), "ab", "more than five rows are enough");
    assert_eq!(scene.leaves(), "cd");
}

#[test]
fn a_barrier_does_not_leave_with_others_past_who_is_on_several_rows() {
    let mut scene = Scene::new(limits(8, 4, 0));
    let chain = group(Strategy::Chain, 0);
    let keyed = WaitSpec {
        group: Some(chain),
        ..alone(Some(1))
    };
    scene.come(barrier(Some(chain)), "a");
    scene.come(upsert(&[1, 2]), "b");
    scene.come(keyed, "c");
    scene.come(barrier(Some(chain)), "d");
    assert_eq!(scene.leaves(), "a");
    assert_eq!(scene.leaves(), "b");
    assert_eq!(
        scene.leaves(),
        "d",
        "its row is not known: it waits for none"
    );
    scene.release_rows(&[1, 2]);
    assert_eq!(scene.leaves(), "c");
}

#[test]
fn the_late_are_those_who_could_have_left() {
    let mut scene = Scene::new(limits(8, 8, 0));
    scene.come(fold(1), "a");
    assert_eq!(scene.leaves(), "a");
    scene.come(fold(1), "b");
    scene.come(alone(None), "xy");
    scene.pass(1_000);
    let deadline = scene.now;
    scene.pass(1_000);
    scene.come(alone(None), "z");
    let late = |scene: &mut Scene| {
        scene
            .line
            .late_mut(deadline)
            .map(|request| *request)
            .collect::<String>()
    };
    assert_eq!(
        late(&mut scene),
        "xy",
        "b waits for its row, z has come after"
    );
    scene.release_rows(&[1]);
    assert_eq!(late(&mut scene), "bxy");
}

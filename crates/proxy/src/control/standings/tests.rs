//! Standings, without a pool.

use super::Standings;
use crate::pool::Hold;
use paceline_wire::ErrorResponse;

fn told<T: std::fmt::Debug>(outcome: Result<T, ErrorResponse>) -> String {
    let error = outcome.expect_err("it is refused");
    assert_eq!((error.sqlstate, error.severity), ("08P01", "ERROR"));
    error.message
}

#[test]
fn one_database_is_paused_and_resumed() {
    let mut standings = Standings::default();
    let token = standings.pause(Some("a")).unwrap();
    assert_eq!(standings.hold("a"), Hold::Paused);
    assert_eq!(standings.hold("b"), Hold::Open);
    assert!(standings.holds(token));
    let refusal = told(standings.resume(Some("b")));
    assert_eq!(refusal, "database b is not paused");
    standings.resume(Some("a")).unwrap();
    assert_eq!(standings.hold("a"), Hold::Open);
    assert!(!standings.holds(token));
}

#[test]
fn all_are_paused_or_suspended_once() {
    for suspend in [false, true] {
        let mut standings = Standings::default();
        let token = match suspend {
            true => standings.suspend(),
            false => standings.pause(None),
        };
        let hold = if suspend {
            Hold::Suspended
        } else {
            Hold::Paused
        };
        assert_eq!(standings.hold("a"), hold);
        assert!(standings.holds(token.unwrap()));
        for refusal in [
            told(standings.pause(None)),
            told(standings.pause(Some("a"))),
            told(standings.suspend()),
            told(standings.pause_each(["a"])),
        ] {
            assert_eq!(refusal, "already suspended/paused");
        }
        standings.resume(None).unwrap();
        assert_eq!(standings.hold("a"), Hold::Open);
        let refusal = told(standings.resume(None));
        assert_eq!(refusal, "pooler is not paused/suspended");
    }
}

#[test]
fn resuming_all_resumes_each() {
    let mut standings = Standings::default();
    standings.pause_each(["a", "b"]).unwrap();
    assert_eq!(
        told(standings.suspend()),
        "cannot suspend with paused databases"
    );
    standings.resume(None).unwrap();
    assert_eq!(standings.hold("a"), Hold::Open);
    assert_eq!(standings.hold("b"), Hold::Open);
}

#[test]
fn an_order_is_taken_back_only_by_whoever_gave_it() {
    let mut standings = Standings::default();
    let first = standings.pause(None).unwrap();
    standings.resume(None).unwrap();
    let second = standings.pause(None).unwrap();
    standings.take_back(first);
    assert_eq!(standings.hold("a"), Hold::Paused);
    standings.take_back(second);
    assert_eq!(standings.hold("a"), Hold::Open);
    let of_one = standings.pause(Some("a")).unwrap();
    standings.take_back(of_one);
    assert_eq!(standings.hold("a"), Hold::Open);
}

#[test]
fn a_disabled_database_lets_nobody_in() {
    let mut standings = Standings::default();
    standings.disable("a", true);
    let refusal = standings.admit("a").unwrap_err();
    assert_eq!(refusal.message, "database \"a\" is disabled");
    assert_eq!((refusal.sqlstate, refusal.severity), ("08P01", "FATAL"));
    assert!(standings.admit("b").is_ok());
    // Whether it is paused is another matter.
    standings.pause(Some("a")).unwrap();
    standings.resume(Some("a")).unwrap();
    assert!(standings.admit("a").is_err());
    standings.disable("a", false);
    assert!(standings.admit("a").is_ok());
}

#[test]
fn the_end_is_not_taken_back() {
    let mut standings = Standings::default();
    let token = standings.pause(None).unwrap();
    standings.close();
    standings.take_back(token);
    assert_eq!(told(standings.resume(None)), "pooler is shutting down");
    assert_eq!(told(standings.pause(None)), "already suspended/paused");
    assert_eq!(standings.hold("a"), Hold::Closing);
}

/// Who waits for the end of its PAUSE is not told that it was resumed because somebody else pauses or kills, too.
#[test]
fn a_second_order_leaves_the_first_in_force() {
    let mut standings = Standings::default();
    let first = standings.pause(Some("a")).unwrap();
    let second = standings.pause(Some("a")).unwrap();
    standings.pause_each(["a"]).unwrap();
    assert!(standings.holds(first) && standings.holds(second));
    standings.take_back(first);
    assert!(!standings.holds(first) && standings.holds(second));
    standings.take_back(second);
    assert_eq!(standings.hold("a"), Hold::Paused, "KILL holds it");
    standings.resume(Some("a")).unwrap();
    assert_eq!(standings.hold("a"), Hold::Open);
    // One that is carried out stays when another one is taken back.
    let first = standings.pause(Some("a")).unwrap();
    let second = standings.pause(Some("a")).unwrap();
    standings.carried_out(first);
    standings.take_back(second);
    assert_eq!(standings.hold("a"), Hold::Paused);
    standings.resume(None).unwrap();
    assert!(!standings.names("a"));
}

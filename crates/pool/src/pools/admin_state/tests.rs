//! The orders of operators, without a pool.

use super::{AdminError, AdminState};
use crate::pool::PoolState;

fn message<T: std::fmt::Debug>(outcome: Result<T, AdminError>) -> String {
    let error = outcome.expect_err("it is refused");
    error.to_string()
}

#[test]
fn one_database_is_paused_and_resumed() {
    let mut admin = AdminState::default();
    let order = admin.pause(Some("a")).unwrap();
    assert_eq!(admin.state("a"), PoolState::Paused);
    assert_eq!(admin.state("b"), PoolState::Active);
    assert!(admin.is_in_force(order));
    let refusal = message(admin.resume(Some("b")));
    assert_eq!(refusal, "database b is not paused");
    admin.resume(Some("a")).unwrap();
    assert_eq!(admin.state("a"), PoolState::Active);
    assert!(!admin.is_in_force(order));
}

#[test]
fn all_are_paused_or_suspended_once() {
    for suspend in [false, true] {
        let mut admin = AdminState::default();
        let order = match suspend {
            true => admin.suspend(),
            false => admin.pause(None),
        };
        let hold = if suspend {
            PoolState::Suspended
        } else {
            PoolState::Paused
        };
        assert_eq!(admin.state("a"), hold);
        assert!(admin.is_in_force(order.unwrap()));
        for refusal in [
            message(admin.pause(None)),
            message(admin.pause(Some("a"))),
            message(admin.suspend()),
            message(admin.pause_each(["a"])),
        ] {
            assert_eq!(refusal, "already suspended/paused");
        }
        admin.resume(None).unwrap();
        assert_eq!(admin.state("a"), PoolState::Active);
        let refusal = message(admin.resume(None));
        assert_eq!(refusal, "pooler is not paused/suspended");
    }
}

#[test]
fn resuming_all_resumes_each() {
    let mut admin = AdminState::default();
    admin.pause_each(["a", "b"]).unwrap();
    assert_eq!(
        message(admin.suspend()),
        "cannot suspend with paused databases"
    );
    admin.resume(None).unwrap();
    assert_eq!(admin.state("a"), PoolState::Active);
    assert_eq!(admin.state("b"), PoolState::Active);
}

#[test]
fn an_order_is_taken_back_only_by_its_operator() {
    let mut admin = AdminState::default();
    let first = admin.pause(None).unwrap();
    admin.resume(None).unwrap();
    let second = admin.pause(None).unwrap();
    admin.take_back(first);
    assert_eq!(admin.state("a"), PoolState::Paused);
    admin.take_back(second);
    assert_eq!(admin.state("a"), PoolState::Active);
    let of_one = admin.pause(Some("a")).unwrap();
    admin.take_back(of_one);
    assert_eq!(admin.state("a"), PoolState::Active);
}

#[test]
fn a_disabled_database_rejects_logins() {
    let mut admin = AdminState::default();
    admin.disable("a", true);
    let refusal = admin.admit("a").unwrap_err();
    assert_eq!(refusal.message, "database \"a\" is disabled");
    assert_eq!((refusal.sqlstate, refusal.severity), ("08P01", "FATAL"));
    assert!(admin.admit("b").is_ok());
    // Whether it is paused is another matter.
    admin.pause(Some("a")).unwrap();
    admin.resume(Some("a")).unwrap();
    assert!(admin.admit("a").is_err());
    admin.disable("a", false);
    assert!(admin.admit("a").is_ok());
}

#[test]
fn shutdown_is_final() {
    let mut admin = AdminState::default();
    let order = admin.pause(None).unwrap();
    admin.close();
    admin.take_back(order);
    assert_eq!(message(admin.resume(None)), "pooler is shutting down");
    assert_eq!(message(admin.pause(None)), "already suspended/paused");
    assert_eq!(admin.state("a"), PoolState::ShuttingDown);
}

/// An operator that waits for the end of PAUSE gets no error about RESUME because another operator pauses or kills, too.
#[test]
fn a_second_order_leaves_the_first_in_force() {
    let mut admin = AdminState::default();
    let first = admin.pause(Some("a")).unwrap();
    let second = admin.pause(Some("a")).unwrap();
    admin.pause_each(["a"]).unwrap();
    assert!(admin.is_in_force(first) && admin.is_in_force(second));
    admin.take_back(first);
    assert!(!admin.is_in_force(first) && admin.is_in_force(second));
    admin.take_back(second);
    assert_eq!(admin.state("a"), PoolState::Paused, "KILL holds it");
    admin.resume(Some("a")).unwrap();
    assert_eq!(admin.state("a"), PoolState::Active);
    // A complete order remains in force when another one is withdrawn.
    let first = admin.pause(Some("a")).unwrap();
    let second = admin.pause(Some("a")).unwrap();
    admin.complete(first);
    admin.take_back(second);
    assert_eq!(admin.state("a"), PoolState::Paused);
    admin.resume(None).unwrap();
    assert!(!admin.has_orders("a"));
}

//! Faults that the check finds, and the statements of consumers.

use super::*;

const ORDERS: u64 = 130;

fn set(orders: impl IntoIterator<Item = u64>) -> OrderSet {
    let mut set = OrderSet::new(ORDERS);
    for order in orders {
        set.add(Some(order));
    }
    set
}

/// Tables and answers after a run. The sound state: orders 1 to 9 were taken one by one and acknowledged.
struct Scene {
    waiting: OrderSet,
    taken: OrderSet,
    verifier: Verifier,
    limit: u64,
    outcome: Outcome,
}

impl Scene {
    fn sound() -> Self {
        Self::with(10..=ORDERS, 1..=9, 1..=9)
    }

    fn with(
        waiting: impl IntoIterator<Item = u64>,
        taken: impl IntoIterator<Item = u64>,
        returned: impl IntoIterator<Item = u64>,
    ) -> Self {
        let mut verifier = Verifier::new(ORDERS);
        verifier.returned = set(returned);
        Self {
            waiting: set(waiting),
            taken: set(taken),
            verifier,
            limit: 1,
            outcome: Outcome {
                acknowledged: 9,
                unknown: 0,
            },
        }
    }

    fn check(&self) -> CheckResult {
        let (waiting, taken) = (&self.waiting, &self.taken);
        self.verifier
            .check(waiting, taken, self.limit, self.outcome)
    }

    #[track_caller]
    fn expect_fault(&self, fault: &str) {
        let CheckResult { holds, says } = self.check();
        let (_, faults) = says.rsplit_once(": ").unwrap_or_default();
        assert!(!holds, "{says}");
        assert_eq!(faults, fault);
    }
}

#[test]
fn a_sound_run_holds() {
    let check = Scene::sound().check();
    assert!(check.holds, "{}", check.says);
    assert_eq!(
        check.says,
        "of 130 orders 9 were taken and 121 wait; consumers received 9 in 9 takes, each once, the oldest first"
    );
}

#[test]
fn each_fault_is_named() {
    Scene::with(11..=ORDERS, 1..=9, 1..=9).expect_fault("1 are lost");
    Scene::with(9..=ORDERS, 1..=9, 1..=9).expect_fault("1 were taken and still wait");
    Scene::with(9..=ORDERS, 1..=8, 1..=9)
        .expect_fault("1 were returned to a consumer but not taken");
    Scene::with(11..=ORDERS, 1..=10, 1..=9)
        .expect_fault("1 were taken but returned to no consumer");
    let fault = |spoil: fn(&mut Scene)| {
        let mut scene = Scene::sound();
        spoil(&mut scene);
        scene
    };
    fault(|scene| scene.taken.add(Some(9))).expect_fault("1 are duplicates");
    fault(|scene| scene.taken.add(None)).expect_fault("1 differ from what was inserted");
    fault(|scene| scene.waiting.add(Some(ORDERS + 1)))
        .expect_fault("1 differ from what was inserted");
    fault(|scene| scene.verifier.out_of_order += 1)
        .expect_fault("1 takes got an order older than the one before");
    fault(|scene| scene.verifier.returned.add(Some(9))).expect_fault(
        "1 were returned to a second consumer, 1 were returned by no acknowledged take",
    );
    fault(|scene| scene.verifier.returned.add(None)).expect_fault(
        "1 were returned but never inserted, 1 were returned by no acknowledged take",
    );
}

#[test]
fn a_lost_order_and_a_duplicate_do_not_cancel_each_other_out() {
    let mut scene = Scene::with((10..=ORDERS).filter(|order| *order != 50), 1..=9, 1..=9);
    scene.waiting.add(Some(60));
    scene.expect_fault("1 are lost, 1 are duplicates");
}

#[test]
fn takes_and_orders_must_correspond() {
    let mut scene = Scene::sound();
    scene.outcome.acknowledged = 10;
    scene.expect_fault("1 takes were acknowledged without an order");
    scene.outcome.acknowledged = 1;
    scene.expect_fault("8 were returned by no acknowledged take");
    // With up to ten orders per take, one take is enough.
    scene.limit = 10;
    assert!(scene.check().holds);
}

#[test]
fn a_take_in_doubt_may_have_taken_its_orders() {
    let mut scene = Scene::with(13..=ORDERS, 1..=12, 1..=9);
    scene.outcome.unknown = 3;
    assert!(scene.check().holds);
    scene.outcome.unknown = 2;
    scene.expect_fault("1 were taken but returned to no consumer");
    scene.limit = 2;
    assert!(scene.check().holds);
}

/// The order that a failed take had picked is at the head again, so the next order is older.
#[test]
fn a_failure_explains_an_older_order() {
    let mut scene = Scene::sound();
    scene.verifier.out_of_order += 1;
    scene.verifier.failed = true;
    let check = scene.check();
    assert!(
        check.holds && check.says.ends_with("each once"),
        "{}",
        check.says
    );
}

#[test]
fn an_order_id_ends_with_its_number() {
    let id = b"8f14e45f-ceea-167a-5a36-0000000186a0";
    assert_eq!(layout::number_of(id), Some(100_000));
    assert_eq!(layout::number_of(b"186a0"), None);
    assert_eq!(
        layout::number_of(b"8f14e45f-ceea-167a-5a36-00000001--a0"),
        None
    );
}

/// Paceline groups statements of exactly this form.
#[test]
fn statements_are_those_of_the_source() {
    assert_eq!(
        statements::take(Layout::Single, 0, 1),
        "WITH tmp AS (DELETE FROM paceline_lab.t_order_q WHERE ctid = (SELECT ctid FROM paceline_lab.t_order_q \
         WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1) RETURNING order_id, cts) \
         INSERT INTO paceline_lab.t_order_u (order_id, cts, uts, status) \
         SELECT order_id, cts, now(), 1 FROM tmp RETURNING order_id"
    );
    let sharded = statements::take(Layout::Sharded, 3, 1);
    assert!(
        sharded.contains("WHERE id % 16 = $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"),
        "{sharded}"
    );
    let partitioned = statements::take(Layout::Partitioned, 3, 1);
    assert_eq!(
        partitioned.matches("t_order_q_3 ").count(),
        2,
        "{partitioned}"
    );
}

//! What a check finds, fault by fault, and what consumers send.

use super::*;

const ORDERS: u64 = 130;

fn set(orders: impl IntoIterator<Item = u64>) -> OrderSet {
    let set = OrderSet::new(ORDERS);
    for order in orders {
        set.add(Some(order));
    }
    set
}

/// What is there after a run; it is sound if orders 1 to 9 were taken one by one, and told.
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
        told: impl IntoIterator<Item = u64>,
    ) -> Self {
        let verifier = Verifier::new(ORDERS);
        told.into_iter()
            .for_each(|order| verifier.told.add(Some(order)));
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

    fn check(&self) -> Check {
        let found = QueueState {
            orders: ORDERS,
            waiting: &self.waiting,
            taken: &self.taken,
            verifier: &self.verifier,
            limit: self.limit,
        };
        found.check(self.outcome)
    }

    #[track_caller]
    fn expect_fault(&self, fault: &str) {
        let Check { holds, says } = self.check();
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
        "of 130 orders 9 were taken and 121 wait; consumers were told of 9 in 9 takes, each once, the oldest first"
    );
}

#[test]
fn each_fault_is_named() {
    Scene::with(11..=ORDERS, 1..=9, 1..=9).expect_fault("1 are lost");
    Scene::with(9..=ORDERS, 1..=9, 1..=9).expect_fault("1 were taken and wait still");
    Scene::with(9..=ORDERS, 1..=8, 1..=9).expect_fault("1 were told to a consumer but not taken");
    Scene::with(11..=ORDERS, 1..=10, 1..=9).expect_fault("1 were taken but told to nobody");
    let fault = |spoil: fn(&Scene)| {
        let scene = Scene::sound();
        spoil(&scene);
        scene
    };
    fault(|scene| scene.taken.add(Some(9))).expect_fault("1 are there once more");
    fault(|scene| scene.taken.add(None)).expect_fault("1 are not as they were put in");
    fault(|scene| scene.waiting.add(Some(ORDERS + 1)))
        .expect_fault("1 are not as they were put in");
    fault(|scene| scene.verifier.note_backwards())
        .expect_fault("1 takes got an order older than the one before");
    fault(|scene| scene.verifier.told.add(Some(9))).expect_fault(
        "1 were told to a second consumer, 1 were told by no take that was acknowledged",
    );
    fault(|scene| scene.verifier.told.add(None))
        .expect_fault("1 were told but never put in, 1 were told by no take that was acknowledged");
}

#[test]
fn an_order_lost_and_one_doubled_do_not_make_up_for_each_other() {
    let scene = Scene::with((10..=ORDERS).filter(|order| *order != 50), 1..=9, 1..=9);
    scene.waiting.add(Some(60));
    scene.expect_fault("1 are lost, 1 are there once more");
}

#[test]
fn takes_and_orders_must_agree() {
    let mut scene = Scene::sound();
    scene.outcome.acknowledged = 10;
    scene.expect_fault("1 takes were acknowledged without an order");
    scene.outcome.acknowledged = 1;
    scene.expect_fault("8 were told by no take that was acknowledged");
    // Up to ten orders in a take: one was enough.
    scene.limit = 10;
    assert!(scene.check().holds);
}

#[test]
fn a_take_that_was_cut_off_may_have_got_its_orders() {
    let mut scene = Scene::with(13..=ORDERS, 1..=12, 1..=9);
    scene.outcome.unknown = 3;
    assert!(scene.check().holds);
    scene.outcome.unknown = 2;
    scene.expect_fault("1 were taken but told to nobody");
    scene.limit = 2;
    assert!(scene.check().holds);
}

/// What a failed take had picked is at the head again: the next one is older.
#[test]
fn a_failure_explains_an_order_out_of_turn() {
    let scene = Scene::sound();
    scene.verifier.note_backwards();
    scene.verifier.note_failure();
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

/// The shapes that Paceline takes together, word for word.
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

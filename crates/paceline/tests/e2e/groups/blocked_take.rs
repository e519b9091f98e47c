//! A consumer that waits inside PostgreSQL for what an outsider holds: the other consumers of its queue, which would not
//! wait if they ran alone, are answered meanwhile.

use crate::harness::gate::lock_waiters;
use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

const SETUP: &str = "
    CREATE TABLE q (id int PRIMARY KEY);
    CREATE TABLE done (id int PRIMARY KEY)";
const FILL: &str = "DELETE FROM q; DELETE FROM done; INSERT INTO q SELECT generate_series(1, 12)";
const MOVE: &str = "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id) \
    INSERT INTO done SELECT id FROM t RETURNING id";

fn stage() -> Stage {
    let stage = Stage::on_shared()
        .set("default_pool_size=3")
        .set("hotspot_for_autocommit=true")
        .open();
    stage.direct().ok(SETUP);
    // Paceline analyzes the template.
    stage.client().ask(&unit(MOVE, &[]));
    stage.direct().ok(FILL);
    stage
}

/// Holds the lock for which the consumer of the first order waits.
fn outsider(stage: &Stage) -> RawClient {
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; INSERT INTO done VALUES (1)");
    outsider
}

fn await_blocked(stage: &Stage) {
    let mut observer = stage.direct();
    until("a consumer waits for the outsider", || {
        lock_waiters(&mut observer) >= 1
    });
}

fn ids(consumers: &mut [RawClient]) -> Vec<i64> {
    let reply = |client: &mut RawClient| client.reply().expect_ok("a consumer").value();
    let mut ids: Vec<i64> = consumers
        .iter_mut()
        .map(|client| reply(client).parse().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_consumer_that_started_at_once_delays_no_other() {
    let stage = stage();
    let mut outsider = outsider(&stage);
    let mut blocked = stage.clients(1);
    blocked[0].send(&unit(MOVE, &[]));
    await_blocked(&stage);
    let mut others = stage.clients(5);
    for client in &mut others {
        client.send(&unit(MOVE, &[]));
    }
    assert_eq!(ids(&mut others), [2, 3, 4, 5, 6]);
    outsider.ok("ROLLBACK");
    assert_eq!(ids(&mut blocked), [1]);
}

/// Their group is undone after a moment, and they run one at a time: one of them waits.
#[test]
fn a_consumer_whose_group_was_undone_delays_no_other() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let mut outsider = outsider(&stage);
    let mut gate = Gate::close_all(&stage, 3);
    let mut consumers = stage.clients(6);
    for client in &mut consumers {
        gate.submit(client, &unit(MOVE, &[]));
    }
    gate.open();
    await_blocked(&stage);
    let mut blocked = consumers.drain(..1).collect::<Vec<_>>();
    assert_eq!(ids(&mut consumers), [2, 3, 4, 5, 6]);
    outsider.ok("ROLLBACK");
    assert_eq!(ids(&mut blocked), [1]);
}

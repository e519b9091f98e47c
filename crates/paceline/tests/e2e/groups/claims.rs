//! Claims (UPDATEs of the rows that a sub-select picks) whose rows depend on one another: what succeeds only as a group
//! must fail as it does one at a time.

use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, assert_same};

const CLAIM: &str = "UPDATE seat SET place = place - 1, taken = true \
    WHERE id = (SELECT id FROM seat WHERE NOT taken ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id, place";
/// TRUNCATE would lock out the question about the template, which is not asked again before the next claim.
const FILL: &str =
    "DELETE FROM seat; INSERT INTO seat SELECT i, 10 - i, false FROM generate_series(1, 6) i";
const CLIENTS: usize = 6;

/// Claims by a group and one at a time; true if a group left.
fn check(constraint: &str) -> bool {
    println!("{constraint}");
    let stage = Stage::for_groups();
    let mut bare = stage.direct();
    bare.ok("CREATE TABLE seat (id int PRIMARY KEY, place int NOT NULL, taken bool NOT NULL)");
    bare.ok(constraint);
    // Paceline analyzes the template from a claim that succeeds.
    bare.ok("INSERT INTO seat VALUES (1, 1, false)");
    stage.client().ask(&unit(CLAIM, &[])).expect_ok(CLAIM);
    bare.ok(FILL);
    let mut clients = stage.clients(CLIENTS);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &unit(CLAIM, &[]));
    }
    gate.open();
    let together: Vec<_> = clients.iter_mut().map(RawClient::reply).collect();
    bare.ok(FILL);
    for (number, reply) in together.iter().enumerate() {
        let alone = bare.ask(&unit(CLAIM, &[]));
        assert_same(&format!("client {number}"), &alone.0, &reply.0);
    }
    stage.target() == Target::Paceline && stage.counters().groups > 0
}

#[test]
fn an_update_of_a_unique_column_is_claimed_one_at_a_time() {
    for constraint in [
        "ALTER TABLE seat ADD UNIQUE (place) DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE seat ADD UNIQUE (place)",
        "ALTER TABLE seat ADD EXCLUDE USING btree (place WITH =) DEFERRABLE INITIALLY DEFERRED",
        "CREATE UNIQUE INDEX ON seat ((place + 0))",
        "CREATE UNIQUE INDEX ON seat ((true)) WHERE place > 8",
    ] {
        assert!(!check(constraint), "{constraint}");
    }
}

#[test]
fn other_indexes_are_no_hindrance() {
    for index in [
        "CREATE INDEX ON seat (place, taken)",
        "CREATE INDEX ON seat (id) WHERE NOT taken",
        "CREATE UNIQUE INDEX ON seat (id) INCLUDE (place)",
    ] {
        let together = check(index);
        assert!(together || Target::chosen() == Target::Bare, "{index}");
    }
}

//! The length of a group is not charged to its members' time-outs.

use super::*;

/// Each takes a few milliseconds, far less than its limit; all together take longer.
#[test]
fn members_of_a_long_group_do_not_time_out() {
    let slow = |id: usize| {
        format!(
            "UPDATE stock SET qty = qty + 1 WHERE id = {id} AND length(repeat(repeat('x', 1000) || qty, 3000)) > 0"
        )
    };
    let stage = stage(1, &[&slow(SPARE)]);
    let client = || {
        let mut client = stage.client();
        client.ok("SET statement_timeout = '150ms'");
        client
    };
    client().ok(&slow(SPARE));
    stage.await_learning();
    let mut clients: Vec<RawClient> = (0..60).map(|_| client()).collect();
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &query(&slow(1)));
    }
    gate.open();
    all_get(&mut clients, "UPDATE 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        60
    );
}

//! The length of a group is not charged to its members' time-outs.

use super::*;

/// Each changes a row of its own and takes a few milliseconds, far less than its limit; all together take longer.
#[test]
fn members_of_a_long_group_do_not_time_out() {
    let slow = |id: usize| {
        format!(
            "UPDATE stock SET qty = qty + 1 WHERE id = {id} AND length(repeat(repeat('x', 1000) || qty, 3000)) > 0"
        )
    };
    let stage = stage(1, &[&slow(SPARE)]);
    let mut direct = stage.direct();
    direct.ok("INSERT INTO stock SELECT i, 0 FROM generate_series(101, 160) i");
    let client = || {
        let mut client = stage.client();
        client.ok("SET statement_timeout = '150ms'");
        client
    };
    client().ok(&slow(SPARE));
    stage.await_analysis();
    let mut clients: Vec<RawClient> = (0..60).map(|_| client()).collect();
    let mut gate = Gate::close(&stage);
    for (client, id) in clients.iter_mut().zip(101..) {
        gate.submit(client, &query(&slow(id)));
    }
    gate.open();
    all_get(&mut clients, "UPDATE 1");
    assert_eq!(
        direct.number("SELECT sum(qty) FROM stock WHERE id > 100"),
        60
    );
}

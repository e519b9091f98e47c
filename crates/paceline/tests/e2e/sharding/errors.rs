//! Errors of shards, in the coordinator's terms.

use super::ShardedAccounts;
use crate::harness::assert_same;
use crate::harness::until;

#[test]
fn errors_are_those_of_one_server() {
    let sharded = ShardedAccounts::serving("");
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    for sql in [
        "INSERT INTO accounts (id, owner) VALUES (7, 'twice')",
        "INSERT INTO accounts (id, balance) VALUES (7000, -500)",
        "INSERT INTO accounts (id, balance) VALUES (7001, NULL)",
        "UPDATE accounts SET balance = balance - 100000 WHERE id = 7",
        "UPDATE accounts SET balance = NULL WHERE id = 7 RETURNING *",
        "UPDATE accounts SET note = 'longer than twelve' WHERE id = 7",
        "SELECT 1 / (balance - balance) FROM accounts WHERE id = 7",
        "SELECT owner, note FROM accounts WHERE balance > 'ä' AND id = 7",
    ] {
        until(&format!("a shard answers {sql}"), || {
            let before = sharded.on_shards();
            let (here, there) = (client.simple(sql), whole.simple(sql));
            let was_on_shard = sharded.on_shards() > before;
            if was_on_shard {
                assert_same(sql, &there.0, &here.0);
            } else {
                assert_eq!(here.sqlstate(), there.sqlstate(), "{sql}");
            }
            was_on_shard
        });
    }
}

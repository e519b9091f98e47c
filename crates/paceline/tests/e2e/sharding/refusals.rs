//! Sessions and statements that no shard serves, although the text has a key.

use super::{ShardedAccounts, on_shards};
use crate::harness::assert_same;
use crate::harness::raw::RawClient;
use crate::harness::until;

const ADD: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = 9";

/// Runs a statement until a shard has executed it.
#[track_caller]
fn assert_on_shard(client: &mut RawClient, sql: &str) {
    until(&format!("a shard executes {sql}"), || {
        let before = on_shards(client);
        client.ok(sql);
        on_shards(client) > before
    });
}

/// Runs a statement several times, and returns the last SQLSTATE.
#[track_caller]
fn on_coordinator(client: &mut RawClient, sql: &str) -> String {
    let before = on_shards(client);
    let states = (0..3).map(|_| client.simple(sql).sqlstate().to_owned());
    let last = states.last().unwrap();
    assert_eq!(on_shards(client), before, "{sql}");
    last
}

#[test]
fn sessions_of_another_isolation_level_or_encoding_use_the_coordinator() {
    let sharded = ShardedAccounts::serving("");
    let mut client = sharded.client();
    assert_on_shard(&mut client, ADD);
    for (set, reset) in [
        (
            "SET default_transaction_isolation = 'repeatable read'",
            "RESET default_transaction_isolation",
        ),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "RESET default_transaction_isolation",
        ),
        ("SET client_encoding = 'LATIN1'", "RESET client_encoding"),
    ] {
        client.ok(set);
        assert_eq!(on_coordinator(&mut client, ADD), "", "{set}");
        client.ok(reset);
        assert_on_shard(&mut client, ADD);
    }
}

#[test]
fn functions_with_privileges_of_their_own_use_the_coordinator() {
    let sharded = ShardedAccounts::serving("");
    let mut admin = sharded.coordinator.client("postgres");
    admin.ok("REVOKE EXECUTE ON FUNCTION pg_catalog.upper(text), pg_catalog.int8mi(bigint, bigint) FROM PUBLIC");
    let mut client = sharded.client();
    for sql in [
        "SELECT upper(owner) FROM accounts WHERE id = 7",
        "SELECT id - 1::bigint FROM accounts WHERE id = 7",
    ] {
        assert_eq!(on_coordinator(&mut client, sql), "");
    }
    assert_on_shard(
        &mut client,
        "SELECT lower(owner) FROM accounts WHERE id = 7",
    );
}

#[test]
fn a_parameter_of_a_simple_query_is_rejected_as_by_one_server() {
    let sharded = ShardedAccounts::serving("");
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    for sql in [
        "SELECT $1 FROM accounts WHERE id = 7",
        "SELECT owner FROM accounts WHERE id = $1",
    ] {
        assert_eq!(on_coordinator(&mut client, sql), "42P02");
        assert_same(sql, &whole.simple(sql).0, &client.simple(sql).0);
    }
}

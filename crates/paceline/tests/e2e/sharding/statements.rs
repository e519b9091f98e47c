//! Statements by key, by each form of the protocol.

use super::ShardedAccounts;
use crate::harness::assert_same;
use crate::harness::message::{bind, bind_formats, describe, execute, parse, query, sync};
use crate::harness::until;

/// Runs a request until a shard has answered it, each time also on the server with all partitions, and compares the answers.
#[track_caller]
fn assert_on_shard(sharded: &ShardedAccounts, what: &str, request: &[u8]) {
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    until(&format!("a shard answers {what}"), || {
        let before = sharded.on_shards();
        let (here, there) = (client.ask(request), whole.ask(request));
        assert_same(what, &there.0, &here.0);
        sharded.on_shards() > before
    });
}

#[test]
fn statements_by_key_run_on_the_shard_of_their_row() {
    let sharded = ShardedAccounts::serving("");
    for sql in [
        "SELECT * FROM accounts WHERE id = 7",
        "SELECT a.owner, a.balance * 2 AS twice, 'literal' FROM accounts AS a WHERE a.id = 8 ORDER BY twice",
        "SELECT count(*), max(balance) FROM public.accounts WHERE id = 1000",
        "UPDATE accounts SET balance = balance + 1.5, note = 'x' WHERE id = 9 RETURNING id, accounts.balance",
        "UPDATE accounts SET tags = tags || 5 WHERE id = 3 AND owner = 'nobody'",
        "DELETE FROM accounts WHERE id = 2000 RETURNING *",
        "INSERT INTO accounts (id, owner) VALUES (5, 'again') ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, balance = accounts.balance + 1 RETURNING *",
        "INSERT INTO accounts (id, owner) VALUES (5, 'again') ON CONFLICT DO NOTHING",
    ] {
        assert_on_shard(&sharded, sql, &query(sql));
    }
    let read = "SELECT id, owner, at FROM accounts WHERE id = $1";
    let unnamed = [
        parse("", read, &[]),
        bind("", "", &[Some("11")]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    assert_on_shard(&sharded, "an unnamed statement", &unnamed.concat());
}

#[test]
fn prepared_statements_run_on_shards() {
    let sharded = ShardedAccounts::serving("");
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    let statements = [
        (
            "read",
            "SELECT id, owner, balance FROM accounts WHERE id = $1",
        ),
        (
            "add",
            "UPDATE accounts SET balance = balance + $2 WHERE id = $1 RETURNING balance",
        ),
        (
            "put",
            "INSERT INTO accounts (id, owner) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING",
        ),
    ];
    for (name, sql) in statements {
        let request = [parse(name, sql, &[]), describe(b'S', name), sync()].concat();
        let (here, there) = (client.ask(&request), whole.ask(&request));
        assert_same(sql, &there.0, &here.0);
    }
    let binary = 12_i64.to_be_bytes();
    let requests = [
        vec![bind("", "read", &[Some("12")]), execute("", 0), sync()],
        vec![
            bind_formats("", "read", &[1], &[Some(binary.to_vec())], &[1]),
            execute("", 0),
            sync(),
        ],
        vec![bind("", "read", &[None]), execute("", 0), sync()],
        vec![
            bind("", "add", &[Some("12"), Some("0.25")]),
            execute("", 0),
            sync(),
        ],
        vec![
            bind("", "put", &[Some("77"), Some("new")]),
            execute("", 0),
            sync(),
        ],
    ];
    let before = sharded.on_shards();
    for round in 0..20 {
        for request in &requests {
            let request = request.concat();
            let (here, there) = (client.ask(&request), whole.ask(&request));
            assert_same(&format!("round {round}"), &there.0, &here.0);
        }
    }
    assert!(sharded.on_shards() - before > 40);
}

#[test]
fn other_statements_run_on_the_coordinator() {
    let sharded = ShardedAccounts::serving("");
    let mut client = sharded.client();
    for sql in [
        "SELECT count(*) FROM accounts",
        "SELECT * FROM accounts WHERE id IN (1, 2) ORDER BY id",
        "SELECT tableoid::regclass FROM accounts WHERE id = 1",
        "SELECT accounts FROM accounts WHERE id = 1",
        "UPDATE accounts SET balance = 3 WHERE owner = 'o3'",
        "SELECT owner FROM accounts WHERE id = 1 AND current_user = 'postgres'",
        "SELECT owner FROM ONLY accounts WHERE id = 1",
        "BEGIN; SELECT * FROM accounts WHERE id = 1; COMMIT",
    ] {
        let before = sharded.on_shards();
        for _ in 0..5 {
            client.ok(sql);
        }
        assert_eq!(sharded.on_shards(), before, "{sql}");
    }
}

#[test]
fn settings_of_the_client_hold_on_shards() {
    let sharded = ShardedAccounts::serving("");
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    for set in [
        "SET TimeZone TO 'Asia/Tokyo'",
        "SET DateStyle TO 'German'",
        "SET search_path TO public",
        "SET extra_float_digits TO 0",
    ] {
        for session in [&mut client, &mut whole] {
            session.ok(set);
        }
        let sql = "SELECT at, at::date, balance::float8 / 3 FROM accounts WHERE id = 13";
        until(&format!("a shard answers after {set}"), || {
            let before = sharded.on_shards();
            let (here, there) = (client.simple(sql), whole.simple(sql));
            assert_same(set, &there.0, &here.0);
            sharded.on_shards() > before
        });
    }
    // Another role's privileges are the coordinator's business.
    client.ok("CREATE ROLE other; GRANT SELECT ON accounts TO other; SET ROLE other");
    let before = sharded.on_shards();
    for _ in 0..5 {
        client.simple("SELECT owner FROM accounts WHERE id = 13");
    }
    assert_eq!(sharded.on_shards(), before);
}

//! Changes of tables and partitions while statements run on shards.

use super::{COLUMNS, PARTITIONS, ShardedAccounts, on_shards};
use crate::harness::assert_same;
use crate::harness::message::{bind, describe, execute, parse, sync};
use crate::harness::raw::RawClient;
use crate::harness::until;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

/// The rows that clients change.
const ROWS: usize = 40;

/// Adds 1 to rows, one after the other, until `over`. Counts what was acknowledged.
fn add(sharded: &ShardedAccounts, first: usize, over: &AtomicBool, added: &AtomicI64) {
    let mut client = sharded.client();
    let mut row = first;
    while !over.load(Ordering::Relaxed) {
        row = row % ROWS + 1;
        let sql = format!("UPDATE accounts SET balance = balance + 1 WHERE id = {row}");
        let reply = client.simple(&sql);
        if reply.sqlstate() == "40001" {
            // On the coordinator, where a transaction on a shard is REPEATABLE READ. It has done nothing.
            continue;
        }
        assert_eq!(reply.tag(), "UPDATE 1", "{reply:#?}");
        let sql = format!("SELECT id FROM accounts WHERE id = {row}");
        assert_eq!(client.value(&sql), row.to_string());
        added.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs clients while `change` changes something, and until they have run for a while after it. All that was acknowledged must be in
/// the table once.
fn under_load(sharded: &ShardedAccounts, change: impl FnOnce()) {
    let mut coordinator = sharded.coordinator.client("postgres");
    let total = "SELECT sum(balance)::bigint FROM accounts";
    let before = coordinator.number(total);
    let (over, added) = (AtomicBool::new(false), AtomicI64::new(0));
    thread::scope(|scope| {
        for number in 0..8 {
            let (over, added) = (&over, &added);
            scope.spawn(move || add(sharded, number * 5, over, added));
        }
        let progress = |what: &str| {
            let now = added.load(Ordering::Relaxed);
            until(what, || added.load(Ordering::Relaxed) > now + 200);
        };
        progress("the clients run");
        change();
        progress("the clients run after the change");
        over.store(true, Ordering::Relaxed);
    });
    let after = coordinator.number(total);
    assert_eq!(after - before, added.load(Ordering::Relaxed));
}

/// Returns when a shard has answered this statement.
fn await_answer(client: &mut RawClient, sql: &str) {
    until("a shard answers", || {
        let before = on_shards(client);
        client.ok(sql);
        on_shards(client) > before
    });
}

/// Moves the partition with this number to the other shard, by the procedure in docs/shards.md.
fn move_partition(sharded: &ShardedAccounts, number: usize) {
    let from = number % sharded.shards.len();
    let to = 1 - from;
    let mut coordinator = sharded.coordinator.client("postgres");
    let mut old = sharded.shards[from].client("postgres");
    let mut new = sharded.shards[to].client("postgres");
    let table = format!("store.a{number}");
    coordinator.ok("BEGIN");
    coordinator.ok("LOCK TABLE ONLY accounts IN ACCESS EXCLUSIVE MODE");
    old.ok("BEGIN");
    old.ok(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"));
    new.ok(&format!(
        "CREATE TABLE {table} ({COLUMNS}, PRIMARY KEY (id))"
    ));
    copy(&mut old, &mut new, &table);
    old.ok(&format!("DROP TABLE {table}"));
    old.ok("COMMIT");
    coordinator.ok(&format!(
        "ALTER TABLE accounts DETACH PARTITION accounts_{number}; DROP FOREIGN TABLE accounts_{number}; \
         CREATE FOREIGN TABLE accounts_{number} PARTITION OF accounts \
           FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number}) \
           SERVER shard{to} OPTIONS (schema_name 'store', table_name 'a{number}')"
    ));
    coordinator.ok("COMMIT");
}

fn copy(old: &mut RawClient, new: &mut RawClient, table: &str) {
    let rows = old.ok(&format!("SELECT r::text FROM {table} r")).rows();
    for row in rows {
        let row = row[0].as_deref().unwrap().replace('\'', "''");
        new.ok(&format!(
            "INSERT INTO {table} SELECT (r).* FROM (SELECT '{row}'::{table} AS r) AS rows"
        ));
    }
}

#[test]
fn moving_partitions_under_load_loses_and_doubles_nothing() {
    let sharded = ShardedAccounts::serving("hotspot_for_autocommit = true\ndefault_pool_size = 4");
    under_load(&sharded, || {
        (0..PARTITIONS).for_each(|number| move_partition(&sharded, number));
    });
    // The map follows.
    let mut client = sharded.client();
    for row in 1..=ROWS {
        let sql = format!("SELECT owner FROM accounts WHERE id = {row}");
        await_answer(&mut client, &sql);
    }
}

#[test]
fn a_change_of_a_shards_table_is_noticed() {
    let sharded = ShardedAccounts::serving("hotspot_for_autocommit = true\ndefault_pool_size = 4");
    under_load(&sharded, || {
        let mut shard = sharded.shards[0].client("postgres");
        for number in (0..PARTITIONS).step_by(2) {
            shard.ok(&format!(
                "ALTER TABLE store.a{number} ADD COLUMN more int DEFAULT 5"
            ));
        }
    });
    let mut client = sharded.client();
    // The coordinator does not have the column, and statements stay there.
    let columns = client.ok("SELECT * FROM accounts WHERE id = 1").0[0].columns();
    assert!(!columns.contains(&"more".to_owned()));
}

/// Between the change and the next map, a statement finds the changed table.
#[test]
fn a_changed_table_gives_no_answer() {
    let sharded = ShardedAccounts::serving("");
    let mut client = sharded.client();
    let statements = [
        "SELECT * FROM accounts WHERE id = 1",
        "UPDATE accounts SET balance = balance + 1 WHERE id = 1 RETURNING *",
        "INSERT INTO accounts (id) VALUES (1) ON CONFLICT DO NOTHING RETURNING *",
    ];
    let change = |what: &str| {
        for (place, shard) in sharded.shards.iter().enumerate() {
            let mut shard = shard.client("postgres");
            for number in (place..PARTITIONS).step_by(2) {
                shard.ok(&format!("ALTER TABLE store.a{number} {what}"));
            }
        }
    };
    for sql in statements {
        await_answer(&mut client, sql);
        let columns = client.ok(sql).0[0].columns();
        change("ADD COLUMN more int");
        assert_eq!(client.ok(sql).0[0].columns(), columns, "{sql}");
        change("DROP COLUMN more");
    }
    let mut coordinator = sharded.coordinator.client("postgres");
    let balance = "SELECT balance FROM accounts WHERE id = 1";
    assert_eq!(client.value(balance), coordinator.value(balance));
}

#[test]
fn a_client_that_was_told_other_columns_gets_no_rows() {
    let sharded = ShardedAccounts::serving("");
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    let statements = [
        ("read", "SELECT * FROM accounts WHERE id = $1"),
        (
            "write",
            "UPDATE accounts SET owner = owner WHERE id = $1 RETURNING *",
        ),
    ];
    let prepare =
        statements.map(|(name, sql)| [parse(name, sql, &[]), describe(b'S', name)].concat());
    let prepare = [prepare.concat(), sync()].concat();
    let run = |name| [bind("", name, &[Some("7")]), execute("", 0), sync()].concat();
    assert_same("prepared", &whole.ask(&prepare).0, &client.ask(&prepare).0);
    for (name, _) in statements {
        until("a shard answers", || {
            let before = on_shards(&mut client);
            assert_same(name, &whole.ask(&run(name)).0, &client.ask(&run(name)).0);
            on_shards(&mut client) > before
        });
    }
    let alter = |table: &str| format!("ALTER TABLE {table} ADD COLUMN more text DEFAULT 'm'");
    sharded.whole().ok(&alter("accounts"));
    sharded
        .coordinator
        .client("postgres")
        .ok(&alter("accounts"));
    for number in 0..PARTITIONS {
        let shard = &sharded.shards[number % sharded.shards.len()];
        shard
            .client("postgres")
            .ok(&alter(&format!("store.a{number}")));
    }
    let mut other = sharded.client();
    for sql in [
        "SELECT more FROM accounts WHERE id = 7",
        // On the same connections as the first client's statements.
        "SELECT * FROM accounts WHERE id = 7",
    ] {
        until("the map has the new column", || {
            let before = on_shards(&mut other);
            other.ok(sql);
            on_shards(&mut other) > before
        });
    }
    for (name, _) in statements {
        let here = client.ask(&run(name));
        assert_eq!(here.sqlstate(), "0A000", "{name}");
        assert_same(name, &whole.ask(&run(name)).0, &here.0);
    }
}

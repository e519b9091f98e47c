//! Statements on shards leave in groups like any other.

use super::ShardedAccounts;
use crate::harness::raw::RawClient;
use crate::harness::stage::REASON;
use std::thread;

/// The place of the column `on_shards` in `SHOW GROUPS`.
const ON_SHARDS: usize = REASON + 1;

/// The units of a template that left with this strategy.
fn units(sharded: &ShardedAccounts, template: &str, strategy: &str) -> i64 {
    let reply = sharded.client().ok("SHOW GROUPS");
    let rows = reply.rows();
    let mut found = rows.iter().filter(|row| {
        row[0]
            .as_deref()
            .is_some_and(|text| text.starts_with(template))
            && row[1].as_deref() == Some(strategy)
    });
    let units = found.next().and_then(|row| row[2].as_deref());
    units.map_or(0, |units| units.parse().unwrap())
}

const ADD: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = 21";

/// Many clients add to one row on a shard. Returns how many of them were folded.
#[track_caller]
fn folded(sharded: &ShardedAccounts) -> i64 {
    const CLIENTS: usize = 32;
    const EACH: usize = 50;
    let mut first = sharded.client();
    (0..5).for_each(|_| drop(first.ok(ADD)));
    let before = first.value("SELECT balance FROM accounts WHERE id = 21");
    let before: f64 = before.parse().unwrap();
    let folded = units(sharded, "UPDATE accounts SET balance", "fold");
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = sharded.client();
                (0..EACH).for_each(|_| assert_eq!(client.ok(ADD).tag(), "UPDATE 1"));
            });
        }
    });
    let after = first.value("SELECT balance FROM accounts WHERE id = 21");
    let after: f64 = after.parse().unwrap();
    assert_eq!(after - before, (CLIENTS * EACH) as f64);
    units(sharded, "UPDATE accounts SET balance", "fold") - folded
}

#[test]
fn a_hot_row_on_a_shard_is_folded() {
    let sharded = ShardedAccounts::serving("hotspot_for_autocommit = true");
    assert!(folded(&sharded) > 0);
}

/// Operators name the table of the coordinator.
#[test]
fn a_denied_table_is_not_grouped_on_its_shards() {
    let sharded =
        ShardedAccounts::serving("hotspot_for_autocommit = true\nadmin_users = \"postgres\"");
    let login = [("user", "postgres"), ("database", "pgbouncer")];
    let mut operator = RawClient::connect(sharded.paceline.port(), &login);
    operator.ok("DENY GROUPING postgres public.accounts");
    let on_shards = |sharded: &ShardedAccounts| {
        let rows = sharded.client().ok("SHOW GROUPS").rows();
        let is_add = |row: &&Vec<Option<String>>| {
            let text = row[0].as_deref();
            text.is_some_and(|text| text.starts_with("UPDATE accounts SET balance"))
        };
        let on_shards = rows.iter().filter(is_add);
        let on_shards = on_shards.filter_map(|row| row[ON_SHARDS].as_ref()?.parse::<i64>().ok());
        on_shards.sum::<i64>()
    };
    assert_eq!(folded(&sharded), 0);
    assert!(on_shards(&sharded) > 0);
    operator.ok("RESET GROUPING postgres public.accounts");
    assert!(folded(&sharded) > 0);
}

#[test]
fn reads_and_inserts_travel_together() {
    const CLIENTS: usize = 32;
    const EACH: usize = 40;
    let sharded = ShardedAccounts::serving("hotspot_for_autocommit = true\ndefault_pool_size = 2");
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let sharded = &sharded;
            scope.spawn(move || {
                let mut client = sharded.client();
                for round in 0..EACH {
                    let id = 10_000 + number * EACH + round;
                    let sql = format!("INSERT INTO accounts (id, owner) VALUES ({id}, 'i')");
                    assert_eq!(client.ok(&sql).tag(), "INSERT 0 1");
                    let sql = format!("SELECT owner FROM accounts WHERE id = {id}");
                    assert_eq!(client.value(&sql), "i");
                }
            });
        }
    });
    let mut whole = sharded.coordinator.client("postgres");
    let found = whole.number("SELECT count(*) FROM accounts WHERE id >= 10000");
    assert_eq!(found, (CLIENTS * EACH) as i64);
    assert!(units(&sharded, "SELECT owner", "pipeline") > 0);
    assert!(units(&sharded, "INSERT INTO accounts", "merge") > 0);
}

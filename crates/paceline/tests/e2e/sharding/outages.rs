//! Shards that do not answer: only statements on their own rows suffer.

use super::{ShardedAccounts, await_shard, on_shards};
use crate::harness::raw::RawClient;
use crate::harness::until;

/// A row of each shard.
fn rows(sharded: &ShardedAccounts) -> [i64; 2] {
    [0, 1].map(|place| {
        let mut shard = sharded.shards[place].client("postgres");
        shard.number(&format!(
            "SELECT min(id) FROM (SELECT id FROM store.a{place} UNION SELECT id FROM store.a{}) AS rows",
            place + 2
        ))
    })
}

fn add(row: i64) -> String {
    format!("UPDATE accounts SET balance = balance + 1 WHERE id = {row}")
}

#[test]
fn a_shard_that_is_killed_fails_only_statements_on_its_rows() {
    let sharded = ShardedAccounts::serving("");
    let mut client = sharded.client();
    let [lost, kept] = rows(&sharded);
    await_shard(&mut client, &add(lost));
    await_shard(&mut client, &add(kept));
    sharded.shards[0].kill();
    for _ in 0..3 {
        let mut other = sharded.client();
        // On the shard it fails with the connection, on the coordinator with postgres_fdw's error.
        other.send(&crate::harness::message::query(&add(lost)));
        let failed = other.receive_until(b"E");
        let state = failed.last().unwrap().fields().sqlstate().to_owned();
        assert!(["08006", "08001"].contains(&state.as_str()), "{state}");
        assert_eq!(client.ok(&add(kept)).tag(), "UPDATE 1");
    }
    sharded.shards[0].restart();
    let mut again = sharded.client();
    until("the shard is back", || {
        again.simple(&add(lost)).error().is_none()
    });
}

#[test]
fn a_shard_that_is_stopped_delays_only_statements_on_its_rows() {
    let sharded = ShardedAccounts::serving("");
    let mut client = sharded.client();
    let [lost, kept] = rows(&sharded);
    await_shard(&mut client, &add(lost));
    await_shard(&mut client, &add(kept));
    let mut waiting = sharded.client();
    sharded.shards[0].signal_all("STOP");
    waiting.send(&crate::harness::message::query(&add(lost)));
    for _ in 0..20 {
        assert_eq!(client.ok(&add(kept)).tag(), "UPDATE 1");
    }
    sharded.shards[0].signal_all("CONT");
    assert_eq!(waiting.reply().tag(), "UPDATE 1");
}

#[test]
fn a_statement_that_waits_on_a_shard_can_be_cancelled_and_times_out() {
    let sharded = ShardedAccounts::serving("hotspot_for_autocommit = true");
    let mut client = sharded.client();
    let [row, _] = rows(&sharded);
    await_shard(&mut client, &add(row));
    let mut outsider = sharded.shards[0].client("postgres");
    let number = outsider.number(&format!("SELECT count(*) FROM store.a0 WHERE id = {row}"));
    let table = if number == 1 { "a0" } else { "a2" };
    outsider.ok("BEGIN");
    outsider.ok(&format!(
        "SELECT FROM store.{table} WHERE id = {row} FOR UPDATE"
    ));
    client.ok("SET statement_timeout TO '200ms'");
    client.simple(&add(row)).expect_error("57014");
    client.ok("RESET statement_timeout");
    client.send(&crate::harness::message::query(&add(row)));
    let activity = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let mut observer = sharded.shards[0].client("postgres");
    until("the statement waits", || observer.number(activity) > 0);
    client.cancel();
    client.reply().expect_error("57014");
    // A guard that is false on the committed version is answered at once.
    let guarded = format!("UPDATE accounts SET balance = 0 WHERE id = {row} AND balance < -99");
    assert_eq!(client.ok(&guarded).tag(), "UPDATE 0");
    outsider.ok("ROLLBACK");
    assert_eq!(client.ok(&add(row)).tag(), "UPDATE 1");
}

#[test]
fn a_role_needs_the_privileges_on_the_coordinator() {
    let sharded = ShardedAccounts::serving("");
    let mut admin = sharded.coordinator.client("postgres");
    admin
        .ok("CREATE ROLE app LOGIN; GRANT SELECT (id, owner), UPDATE (balance) ON accounts TO app");
    for place in 0..sharded.shards.len() {
        admin.ok(&format!(
            "ALTER USER MAPPING FOR PUBLIC SERVER shard{place} OPTIONS (ADD password_required 'false')"
        ));
    }
    let port = sharded.coordinator.port();
    let text = std::fs::read_to_string(sharded.paceline.file()).unwrap();
    let text = text.replace(
        &format!("postgres@127.0.0.1:{port}"),
        &format!("127.0.0.1:{port}"),
    );
    let text = text.replace(
        "shards = \"auto\"",
        "shards = \"auto\"\nmonitor_user = \"postgres\"",
    );
    sharded.paceline.reload(&text, "Reload: done");
    let parameters = [("user", "app"), ("database", "postgres")];
    let mut client = RawClient::connect(sharded.paceline.port(), &parameters);
    await_shard(&mut client, "SELECT owner FROM accounts WHERE id = 1");
    for sql in [
        "SELECT balance FROM accounts WHERE id = 1",
        "SELECT * FROM accounts WHERE id = 1",
        "UPDATE accounts SET owner = 'x' WHERE id = 1",
        "DELETE FROM accounts WHERE id = 1",
        "INSERT INTO accounts (id) VALUES (5000)",
    ] {
        let before = on_shards(&mut client);
        (0..3).for_each(|_| drop(client.simple(sql).expect_error("42501")));
        assert_eq!(on_shards(&mut client), before, "{sql}");
    }
    // An error would show the whole row to a role that may not read it.
    let before = on_shards(&mut client);
    let failing = "UPDATE accounts SET balance = -500 WHERE id = 1";
    client.simple(failing).expect_error("23514");
    assert_eq!(on_shards(&mut client), before);
}

#[test]
fn a_shard_that_is_stopped_leaves_the_coordinator_to_others() {
    let sharded =
        ShardedAccounts::serving("default_pool_size = 6\nserver_connect_timeout = \"1s\"");
    let mut client = sharded.client();
    let [lost, kept] = rows(&sharded);
    await_shard(&mut client, &add(lost));
    await_shard(&mut client, &add(kept));
    sharded.shards[0].signal_all("STOP");
    // From now on, statements for the shard are not sent to it.
    until("the outage is noticed", || {
        sharded.paceline.logged("a shard executes no statements")
    });
    let (sent, states) = std::sync::mpsc::channel();
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let (mut client, sent) = (sharded.client(), sent.clone());
            std::thread::spawn(move || {
                let state = client.simple(&add(lost)).sqlstate().to_owned();
                sent.send(state).unwrap();
            })
        })
        .collect();
    until("a statement for the shard is refused", || {
        states.try_iter().any(|state| state == "08001")
    });
    // It is analyzed on the coordinator first.
    client.ok(&format!("SELECT owner, 7 FROM accounts WHERE id = {kept}"));
    sharded.shards[0].signal_all("CONT");
    waiting
        .into_iter()
        .for_each(|client| client.join().unwrap());
}

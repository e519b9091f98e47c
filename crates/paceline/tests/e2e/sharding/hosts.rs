//! A shard with several hosts: Paceline finds its primary, and only statements on its rows wait while there is none.

use super::{await_shard, on_shards};
use crate::failover::{console, shown, shown_in};
use crate::harness::cluster::Cluster;
use crate::harness::load::{Load, ROWS};
use crate::harness::message::query;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::{Sharded, until};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first shard has a replica, which is the first host of the foreign server.
pub(super) struct Hosts {
    /// Ends before the servers.
    pub(super) paceline: Paceline,
    pub(super) sharded: Sharded,
    pub(super) replica: Arc<Cluster>,
}

impl Hosts {
    /// `None`: the machine cannot make a replica.
    pub(super) fn start(settings: &str) -> Option<Self> {
        let sharded = Sharded::alone();
        sharded.hash_table("t", "id int NOT NULL, n int NOT NULL", "", "id", 8);
        let fill = "INSERT INTO t SELECT i, 0 FROM generate_series(1, 40) i";
        sharded.on_coordinator().ok(fill);
        let replica = sharded.shards[0].replica()?;
        let (first, second) = (replica.port(), sharded.shards[0].port());
        sharded.on_coordinator().ok(&format!(
            "ALTER SERVER s0 OPTIONS (SET host '127.0.0.1,127.0.0.1', SET port '{first},{second}', ADD target_session_attrs 'read-write')"
        ));
        let paceline = sharded.paceline(settings).spawn();
        let hosts = Self {
            paceline,
            sharded,
            replica,
        };
        let mut client = hosts.client();
        for row in hosts.rows() {
            await_shard(&mut client, &add(row));
        }
        Some(hosts)
    }

    pub(super) fn primary(&self) -> &Cluster {
        &self.sharded.shards[0]
    }

    pub(super) fn client(&self) -> RawClient {
        let database = self.sharded.database.as_str();
        let parameters = [("user", "postgres"), ("database", database)];
        RawClient::connect(self.paceline.port(), &parameters)
    }

    /// A row of each shard.
    pub(super) fn rows(&self) -> [i64; 2] {
        [0, 1].map(|shard| {
            let first = format!(
                "SELECT min(id) FROM (SELECT id FROM t_{shard} UNION SELECT id FROM t_{}) rows",
                shard + 2
            );
            self.sharded.on_coordinator().number(&first)
        })
    }

    /// The replica has the whole log of the primary.
    pub(super) fn await_replay(&self) {
        let mut primary = self.primary().client("postgres");
        let mut replica = self.replica.client("postgres");
        let end = primary.value("SELECT pg_current_wal_insert_lsn()");
        until("the replica has replayed all", || {
            replica.value(&format!("SELECT pg_last_wal_replay_lsn() >= '{end}'")) == "t"
        });
    }

    fn await_loss(&self) {
        until("the loss is noticed", || {
            self.paceline.logged("the primary is lost")
        });
    }

    /// Returns when the map was read so often.
    fn await_readings(&self, count: usize) {
        let mut other = self.sharded.shards[1].client("postgres");
        let mut seen = BTreeSet::new();
        until("the map is read", || {
            let reply = other.ok(
                "SELECT query_start FROM pg_stat_activity WHERE application_name = 'paceline: monitor' AND query = 'COMMIT'",
            );
            seen.extend(reply.rows());
            seen.len() > count
        });
    }

    /// The loss of the failover, once it was compared.
    fn missing(&self, column: &str) -> String {
        until("the failover was compared", || {
            let failovers = console(&self.paceline).ok("SHOW FAILOVERS");
            !failovers.rows().is_empty()
        });
        let host = ("database", self.sharded.database.as_str());
        shown_in(&self.paceline, "SHOW FAILOVERS", host, &[column])
    }

    fn promote(&self) {
        self.replica.client("postgres").ok("SELECT pg_promote()");
    }
}

pub(super) fn add(row: i64) -> String {
    format!("UPDATE t SET n = n + 1 WHERE id = {row}")
}

#[test]
fn the_promoted_replica_of_a_shard_executes_its_statements() {
    let Some(hosts) = Hosts::start("shard_map_max_age = \"1s\"") else {
        return;
    };
    let [row, other] = hosts.rows();
    let (mut client, mut reader) = (hosts.client(), hosts.client());
    let database = hosts.sharded.database.clone();
    let columns = ["database", "shard", "role", "timeline"];
    let state = |server: &Cluster| shown(&hosts.paceline, server.port(), &columns);
    assert_eq!(state(hosts.primary()), format!("{database} s0 primary 1"));
    until("the replica is in use", || {
        state(&hosts.replica) == format!("{database} s0 replica 1")
    });
    let before = hosts
        .sharded
        .on_coordinator()
        .number(&format!("SELECT n FROM t WHERE id = {row}"));
    // A statement that is not known yet may use the coordinator.
    let read = format!("SELECT count(*) FROM t WHERE id = {row}");
    await_shard(&mut reader, &read);
    hosts.await_replay();
    hosts.primary().kill();
    hosts.await_loss();
    // Also by a map without an answer of this shard, its statements wait.
    hosts.await_readings(3);
    client.send(&query(&add(row)));
    reader.send(&query(&read));
    let mut beside = hosts.client();
    for _ in 0..10 {
        assert_eq!(beside.ok(&add(other)).tag(), "UPDATE 1");
    }
    hosts.promote();
    assert_eq!(client.reply().tag(), "UPDATE 1");
    assert_eq!(reader.reply().value(), "1");
    assert_eq!(state(&hosts.replica), format!("{database} s0 primary 2"));
    let mut direct = hosts.replica.client(&database);
    let found = direct.number(&format!(
        "SELECT n FROM (TABLE t_0 UNION TABLE t_2) rows WHERE id = {row}"
    ));
    assert_eq!(found, before + 1);
    await_shard(&mut client, &add(row));
    assert_eq!(hosts.missing("missing_max"), "0");
}

#[test]
fn the_commits_that_a_failover_of_a_shard_has_lost_are_counted() {
    let Some(hosts) = Hosts::start("") else {
        return;
    };
    let [row, other] = hosts.rows();
    let mut client = hosts.client();
    let group = format!("UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + 1 WHERE id = {row}");
    let read = format!("SELECT n FROM t WHERE id = {row}");
    for sql in [&group, &read] {
        await_shard(&mut client, sql);
    }
    hosts.await_replay();
    let mut replica = hosts.replica.client("postgres");
    replica.ok("ALTER SYSTEM SET primary_conninfo = ''");
    replica.ok("SELECT pg_reload_conf()");
    until("the replica is detached", || {
        replica.value("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
    });
    let before = on_shards(&mut client);
    for _ in 0..10 {
        client.ok(&add(row));
        client.ok(&group);
        client.ok(&add(other));
        client.ok(&read);
    }
    assert_eq!(on_shards(&mut client), before + 40);
    hosts.primary().kill();
    hosts.await_loss();
    hosts.promote();
    assert_eq!(hosts.missing("missing_max"), "20");
    let at_least: i64 = hosts.missing("missing_min").parse().unwrap();
    assert!(at_least <= 20, "{at_least}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failover_of_a_shard_loses_and_repeats_nothing_under_load() {
    let start = || Hosts::start("hotspot_for_autocommit = true");
    let Some(hosts) = tokio::task::block_in_place(start) else {
        return;
    };
    tokio::task::block_in_place(|| {
        hosts.sharded.on_coordinator().ok("UPDATE t SET n = 0");
        let mut primary = hosts.primary().client("postgres");
        primary.ok("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.ok("SELECT pg_reload_conf()");
        let state = "SELECT coalesce(string_agg(sync_state, ','), '') FROM pg_stat_replication";
        until("the replica is synchronous", || {
            primary.value(state) == "sync"
        });
        let mut on_first = hosts.primary().client(&hosts.sharded.database);
        let of_load = format!(
            "SELECT count(*) FROM (TABLE t_0 UNION TABLE t_2 UNION TABLE t_4 UNION TABLE t_6) r WHERE id <= {ROWS}"
        );
        assert!((1..ROWS as i64).contains(&on_first.number(&of_load)));
    });
    let url = format!(
        "postgres://postgres@127.0.0.1:{}/{}",
        hosts.paceline.port(),
        hosts.sharded.database
    );
    let load = Load::start(&url, 12);
    load.progress(300).await;
    tokio::task::block_in_place(|| {
        hosts.primary().kill();
        hosts.await_loss();
        hosts.promote();
        let columns = ["role", "timeline"];
        until("the new primary is known", || {
            shown(&hosts.paceline, hosts.replica.port(), &columns) == "primary 2"
        });
    });
    load.progress(600).await;
    let tally = load.stop().await;
    tokio::task::block_in_place(|| tally.check(&mut hosts.sharded.on_coordinator()));
}

#[test]
fn the_coordinator_executes_statements_of_a_shard_that_has_no_primary_for_too_long() {
    let Some(hosts) = Hosts::start("failover_timeout = \"1s\"\nshard_map_max_age = \"1s\"") else {
        return;
    };
    let [row, other] = hosts.rows();
    hosts.primary().kill();
    hosts.await_loss();
    let mut client = hosts.client();
    // The coordinator finds the replica, and no server that writes.
    let state = client.simple(&add(row)).sqlstate().to_owned();
    assert_eq!(state, "08001");
    let mut beside = hosts.client();
    assert_eq!(beside.ok(&add(other)).tag(), "UPDATE 1");
    hosts.promote();
    let mut again = hosts.client();
    until("the shard is back", || {
        again.simple(&add(row)).error().is_none()
    });
    await_shard(&mut again, &add(row));
}

/// A statement waits for the primary of the first shard, and the configuration is read again with another text in place of this one.
fn reload_while_waiting(before: &str, after: &str) -> Option<(Hosts, RawClient)> {
    let hosts = Hosts::start("failover_timeout = \"40s\"")?;
    let [row, _] = hosts.rows();
    let mut client = hosts.client();
    hosts.await_replay();
    hosts.primary().kill();
    hosts.await_loss();
    client.send(&query(&add(row)));
    until("the statement waits", || {
        let user = ("user", "postgres");
        shown_in(&hosts.paceline, "SHOW CLIENTS", user, &["state"]) == "waiting"
    });
    let text = std::fs::read_to_string(hosts.paceline.file()).unwrap();
    let text = text.replace(before, after);
    hosts.paceline.reload(&text, "Reload: done");
    Some((hosts, client))
}

#[test]
fn a_reload_while_a_shard_has_no_primary_forgets_neither_statements_nor_hosts() {
    let Some((hosts, mut client)) = reload_while_waiting("40s", "50s") else {
        return;
    };
    hosts.promote();
    assert_eq!(client.reply().tag(), "UPDATE 1");
    assert_eq!(hosts.missing("missing_max"), "0");
}

#[test]
fn the_coordinator_executes_statements_that_wait_when_shards_are_turned_off() {
    let turned_off = reload_while_waiting("shards = \"auto\"", "shards = \"off\"");
    let Some((_hosts, mut client)) = turned_off else {
        return;
    };
    client.reply().expect_error("08001");
}

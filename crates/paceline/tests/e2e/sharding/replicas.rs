//! Reads on the replicas of a shard: a client never reads a state older than it may, whichever server has changed the shard.

use super::hosts::{Hosts, add};
use super::{await_shard, on_shards};
use crate::failover::shown;
use crate::harness::cluster::Cluster;
use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::reply::assert_same;
use crate::harness::until;
use crate::reads::pairs::{FILL, Lab, Reader, do_not_sync, run_in};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

fn read(row: i64) -> String {
    format!("SELECT n FROM t WHERE id = {row}")
}

impl Hosts {
    /// With these settings, when the replica may serve reads.
    fn reading(settings: &str) -> Option<Self> {
        let hosts = Self::start(settings)?;
        until("the replica may serve reads", || {
            shown(&hosts.paceline, hosts.replica.port(), &["serves_reads"]) == "1"
        });
        Some(hosts)
    }

    /// Reads that the replica has answered.
    fn replica_reads(&self) -> i64 {
        self.reads(&self.replica)
    }

    /// Runs this read until the replica answers it.
    fn await_replica(&self, client: &mut RawClient, sql: &str) {
        until("the replica answers", || {
            let before = self.replica_reads();
            client.ok(sql);
            self.replica_reads() > before
        });
    }

    /// A client whose read of this row the replica has answered.
    fn reader(&self, row: i64) -> RawClient {
        let mut client = self.client();
        self.await_replica(&mut client, &read(row));
        client
    }

    fn pause_replay(&self) {
        let mut replica = self.replica.client("postgres");
        replica.ok("SELECT pg_wal_replay_pause()");
        until("replay is paused", || {
            replica.value("SELECT pg_get_wal_replay_pause_state()") == "paused"
        });
    }

    fn resume_replay(&self) {
        let mut replica = self.replica.client("postgres");
        replica.ok("SELECT pg_wal_replay_resume()");
    }
}

impl Lab for Hosts {
    fn client(&self) -> RawClient {
        Self::client(self)
    }

    fn replicas(&self) -> Vec<&Cluster> {
        vec![&self.replica]
    }

    fn reads(&self, replica: &Cluster) -> i64 {
        let reads = shown(&self.paceline, replica.port(), &["reads"]);
        reads.parse().unwrap()
    }
}

#[test]
fn a_replica_answers_as_the_coordinator_does() {
    let Some(hosts) = Hosts::reading("reads = \"session\"") else {
        return;
    };
    let [row, other] = hosts.rows();
    let mut client = hosts.reader(row);
    let (before, shards) = (hosts.replica_reads(), on_shards(&mut client));
    let mut coordinator = hosts.sharded.on_coordinator();
    for _ in 0..10 {
        let (expected, answer) = (coordinator.ok(&read(row)), client.ok(&read(row)));
        assert_same("a simple query", &expected.0, &answer.0);
    }
    assert_eq!(hosts.replica_reads(), before + 10);
    // Another template, in the other protocol.
    let extended = unit(
        "SELECT id, n FROM t WHERE id = $1::int",
        &[Some(&row.to_string())],
    );
    until("the replica answers", || {
        let before = hosts.replica_reads();
        let (expected, answer) = (coordinator.ask(&extended), client.ask(&extended));
        assert_same("the extended protocol", &expected.0, &answer.0);
        hosts.replica_reads() > before
    });
    let answered = hosts.replica_reads();
    assert!(on_shards(&mut client) >= shards + 11);
    // The primaries serve what is not for replicas.
    let on_primary = format!("SELECT /*+ PRIMARY */ n FROM t WHERE id = {row}");
    await_shard(&mut client, &on_primary);
    await_shard(&mut client, &read(other));
    client.ok("SET paceline.reads = 'primary'");
    await_shard(&mut client, &read(row));
    assert_eq!(hosts.replica_reads(), answered);
}

#[test]
fn a_hint_chooses_the_replica_of_a_shard() {
    let Some(hosts) = Hosts::reading("") else {
        return;
    };
    let [row, _] = hosts.rows();
    let mut client = hosts.client();
    (0..5).for_each(|_| await_shard(&mut client, &read(row)));
    assert_eq!(hosts.replica_reads(), 0);
    let hinted = format!("SELECT /*+ REPLICA */ n FROM t WHERE id = {row}");
    hosts.await_replica(&mut client, &hinted);
}

#[test]
fn a_client_reads_what_it_wrote_on_a_shard_or_through_the_coordinator() {
    let Some(hosts) = Hosts::reading("reads = \"session\"\nmax_lag = \"1h\"") else {
        return;
    };
    let [row, second] = hosts.rows();
    let mut writer = hosts.reader(row);
    await_shard(&mut writer, &add(row));
    let first = writer.number(&read(row));
    let writes = [
        add(row),
        format!("BEGIN; {}; COMMIT", add(row)),
        format!("UPDATE t SET n = n + 1 WHERE id IN ({row}, {second})"),
        format!("UPDATE t SET n = n + 1 WHERE id = {row} + 0"),
        format!("DO $$BEGIN {}; END$$", add(row)),
    ];
    for (before, write) in (first..).zip(&writes) {
        // Both have seen the present state there.
        let mut other = hosts.reader(row);
        hosts.await_replica(&mut writer, &read(row));
        hosts.pause_replay();
        writer.ok(write);
        let answered = hosts.replica_reads();
        for _ in 0..3 {
            assert_eq!(writer.number(&read(row)), before + 1, "{write}");
        }
        assert_eq!(hosts.replica_reads(), answered, "{write}");
        assert_eq!(other.number(&read(row)), before, "{write}");
        assert_eq!(hosts.replica_reads(), answered + 1, "{write}");
        // A client sees again the state that the primary has shown it.
        other.ok(&format!("SELECT /*+ PRIMARY */ n FROM t WHERE id = {row}"));
        assert_eq!(other.number(&read(row)), before + 1, "{write}");
        other.ok("SET paceline.reads = 'global'");
        assert_eq!(other.number(&read(row)), before + 1, "{write}");
        hosts.resume_replay();
        hosts.await_replica(&mut writer, &read(row));
    }
}

#[test]
fn a_global_read_sees_what_others_wrote_on_a_shard() {
    let Some(hosts) = Hosts::reading("reads = \"global\"\nmax_lag = \"1h\"") else {
        return;
    };
    let [row, _] = hosts.rows();
    let (mut reader, mut writer) = (hosts.reader(row), hosts.client());
    let before = reader.number(&read(row));
    hosts.pause_replay();
    writer.ok(&add(row));
    assert_eq!(reader.number(&read(row)), before + 1);
    hosts.sharded.on_coordinator().ok(&add(row));
    assert_eq!(reader.number(&read(row)), before + 2);
    hosts.resume_replay();
    hosts.await_replica(&mut reader, &read(row));
}

/// The rows of a table have been on the coordinator until they are moved to the shard, whose replica has the table, but not the rows.
fn a_replica_does_not_hide_moved_rows(reads: &str) {
    let settings = format!("reads = \"{reads}\"\nmax_lag = \"1h\"\nshard_map_max_age = \"1s\"");
    let Some(hosts) = Hosts::reading(&settings) else {
        return;
    };
    let [row, _] = hosts.rows();
    let mut coordinator = hosts.sharded.on_coordinator();
    coordinator.ok("CREATE TABLE moved (id int NOT NULL, n int NOT NULL) PARTITION BY LIST (id)");
    coordinator.ok("CREATE TABLE local PARTITION OF moved FOR VALUES IN (1)");
    coordinator.ok("INSERT INTO moved VALUES (1, 7)");
    let mut shard = hosts.sharded.on_shard(0);
    shard.ok("CREATE TABLE moved_1 (id int NOT NULL, n int NOT NULL)");
    let mut client = hosts.reader(row);
    let sql = "SELECT n FROM moved WHERE id = 1";
    assert_eq!(client.value(sql), "7");
    hosts.await_replica(&mut client, &read(row));
    hosts.await_replay();
    hosts.pause_replay();
    shard.ok("INSERT INTO moved_1 VALUES (1, 7)");
    coordinator.ok("BEGIN; DROP TABLE local; CREATE FOREIGN TABLE moved_1 PARTITION OF moved FOR VALUES IN (1) SERVER s0; COMMIT");
    // The first client has a position on the shard, the other has none.
    let mut fresh = hosts.client();
    for client in [&mut client, &mut fresh] {
        await_shard(client, sql);
        let before = on_shards(client);
        for _ in 0..20 {
            assert_eq!(client.value(sql), "7");
        }
        assert_eq!(on_shards(client), before + 20);
    }
    hosts.resume_replay();
    hosts.await_replica(&mut client, sql);
    assert_eq!(client.value(sql), "7");
}

#[test]
fn a_replica_does_not_hide_moved_rows_in_session() {
    a_replica_does_not_hide_moved_rows("session");
}

#[test]
fn a_replica_does_not_hide_moved_rows_in_any() {
    a_replica_does_not_hide_moved_rows("any");
}

#[test]
fn a_changed_table_is_noticed_on_a_replica_too() {
    let Some(hosts) =
        Hosts::reading("reads = \"any\"\nmax_lag = \"1h\"\nshard_map_max_age = \"1h\"")
    else {
        return;
    };
    let [row, _] = hosts.rows();
    let mut client = hosts.reader(row);
    let answered = hosts.replica_reads();
    hosts.sharded.on_shard(0).ok(
        "ALTER TABLE t_0 RENAME TO old_0; ALTER TABLE t_2 RENAME TO old_2; ALTER TABLE t_4 RENAME TO old_4; ALTER TABLE t_6 RENAME TO old_6;
         CREATE TABLE t_0 AS SELECT id, -1 AS n FROM old_0; CREATE TABLE t_2 AS SELECT id, -1 AS n FROM old_2;
         CREATE TABLE t_4 AS SELECT id, -1 AS n FROM old_4; CREATE TABLE t_6 AS SELECT id, -1 AS n FROM old_6",
    );
    hosts.await_replay();
    assert_eq!(client.value(&read(row)), "-1");
    assert_eq!(hosts.replica_reads(), answered);
}

#[test]
fn reads_continue_when_the_replica_of_a_shard_is_killed() {
    const CLIENTS: usize = 12;
    let Some(hosts) = Hosts::reading("reads = \"session\"") else {
        return;
    };
    let [row, _] = hosts.rows();
    drop(hosts.reader(row));
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for place in 0..CLIENTS {
            let (hosts, done, reads) = (&hosts, &done, &reads);
            scope.spawn(move || {
                let mut client = hosts.client();
                let mut last = 0;
                while !done.load(Ordering::SeqCst) {
                    if place == 0 {
                        assert_eq!(client.ok(&add(row)).tag(), "UPDATE 1");
                    }
                    let now = client.number(&read(row));
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let more = || {
            let before = reads.load(Ordering::SeqCst);
            until("reads go on", || {
                reads.load(Ordering::SeqCst) > before + 500
            });
        };
        more();
        let before = hosts.replica_reads();
        assert!(before > 0);
        hosts.replica.kill();
        more();
        until("the loss is noticed", || {
            shown(&hosts.paceline, hosts.replica.port(), &["serves_reads"]) == "0"
        });
        hosts.replica.restart();
        until("the replica answers again", || {
            hosts.replica_reads() > before + 1_000
        });
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_read_on_a_frozen_replica_of_a_shard_moves_to_the_primary() {
    let Some(hosts) = Hosts::reading("reads = \"session\"") else {
        return;
    };
    let [row, _] = hosts.rows();
    let mut client = hosts.reader(row);
    let value = client.number(&read(row));
    hosts.replica.signal_all("STOP");
    assert_eq!(client.number(&read(row)), value);
    hosts.replica.signal_all("CONT");
    hosts.await_replica(&mut client, &read(row));
}

#[test]
fn reads_of_a_shard_fail_without_a_replica_if_configured() {
    let settings = "reads = \"session\"\nreplicas_gone = \"error\"";
    let Some(hosts) = Hosts::reading(settings) else {
        return;
    };
    let [row, other] = hosts.rows();
    let mut client = hosts.reader(row);
    hosts.replica.kill();
    until("the replica is gone", || {
        client.simple(&read(row)).error().is_some()
    });
    client.simple(&read(row)).expect_error("57P03");
    await_shard(&mut client, &read(other));
    await_shard(&mut client, &add(row));
}

fn run_pairs(reader: Reader, reads: &str) {
    let settings = format!(
        "reads = \"{reads}\"\nreplica_wait = \"100ms\"\ndefault_pool_size = 3\nhotspot_for_autocommit = true"
    );
    let Some(hosts) = Hosts::reading(&settings) else {
        return;
    };
    do_not_sync(hosts.primary());
    do_not_sync(&hosts.replica);
    let mut coordinator = hosts.sharded.on_coordinator();
    coordinator.ok("DELETE FROM t");
    coordinator.ok(FILL);
    run_in(&hosts, reader);
}

#[test]
fn pairs_of_one_client_in_session() {
    run_pairs(Reader::Writer, "session");
}

#[test]
fn pairs_of_two_clients_in_global() {
    run_pairs(Reader::Other, "global");
}

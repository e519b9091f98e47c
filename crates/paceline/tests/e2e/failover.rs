//! A database with several hosts: Paceline finds the primary, and requests wait while there is none.

mod cut_off;
mod missing;
mod names;
mod orders;
mod patroni;
mod patroni_api;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::harness::cluster::Cluster;
use crate::harness::load::{Load, Tally};
use crate::harness::message::query;
use crate::harness::paceline::{Builder, Paceline};
use crate::harness::raw::RawClient;
use crate::harness::{Rng, until};

pub(crate) const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
    INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i";

const ADD: &str = "UPDATE t SET n = n + 1 WHERE id = 1";

/// A primary, a replica, and Paceline in front of both. The replica is the first host.
pub(crate) struct Pair {
    pub(crate) primary: Arc<Cluster>,
    pub(crate) replica: Arc<Cluster>,
    pub(crate) paceline: Paceline,
}

impl Pair {
    /// `None`: the machine cannot make a replica.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        Self::with(|servers| Some(start(&servers, settings)))
    }

    /// The same with a configuration file, for [`Pair::reload`].
    pub(crate) fn configured() -> Option<Self> {
        Self::with(|servers| Some(Paceline::configured(&file(servers, "")).spawn()))
    }

    /// The same with these lines at the end of the configuration file.
    pub(crate) fn with_lines(settings: &str, lines: &str) -> Option<Self> {
        Self::with(|servers| {
            let text = format!("{}\n{lines}", file(servers, settings));
            Some(Paceline::configured(&text).spawn())
        })
    }

    fn with(start: impl FnOnce([&Arc<Cluster>; 2]) -> Option<Paceline>) -> Option<Self> {
        let primary = Cluster::private();
        primary.client("postgres").ok(SETUP);
        let replica = primary.replica()?;
        let paceline = start([&replica, &primary])?;
        Some(Self {
            primary,
            replica,
            paceline,
        })
    }

    pub(crate) fn client(&self) -> RawClient {
        client(&self.paceline)
    }

    /// Adds these settings to the configuration file.
    pub(crate) fn reload(&self, settings: &str) {
        let text = file([&self.replica, &self.primary], settings);
        self.paceline.reload(&text, "Reload: done");
    }

    /// The same with the primary as the only host.
    pub(crate) fn reload_without_replica(&self, settings: &str) {
        let text = file([&self.replica, &self.primary], settings);
        let replica = format!("127.0.0.1:{},", self.replica.port());
        self.paceline
            .reload(&text.replace(&replica, ""), "Reload: done");
    }

    /// Returns when Paceline has noticed that the primary does not answer.
    fn await_loss(&self) {
        until("Paceline has noticed", || {
            self.paceline.logged("the primary is lost")
        });
    }

    /// Returns when the replica may serve reads.
    pub(crate) fn await_readable(&self) {
        until("the replica may serve reads", || {
            shown(&self.paceline, self.replica.port(), &["serves_reads"]) == "1"
        });
    }

    pub(crate) fn url(&self) -> String {
        let port = self.paceline.port();
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// Returns when Paceline uses the promoted replica.
    pub(crate) fn await_promotion(&self) {
        until("the promotion is known", || {
            shown(&self.paceline, self.replica.port(), &["role", "timeline"]) == "primary 2"
        });
    }

    /// Makes the replica a primary, and returns when it is one.
    pub(crate) fn promote(&self) {
        self.replica.client("postgres").ok("SELECT pg_promote()");
    }

    /// The primary acknowledges only commits that the replica has.
    fn replicate_synchronously(&self) {
        let mut primary = self.primary.client("postgres");
        primary.ok("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.ok("SELECT pg_reload_conf()");
        until("the replica is synchronous", || {
            primary
                .value("SELECT coalesce(string_agg(sync_state, ','), '') FROM pg_stat_replication")
                == "sync"
        });
    }

    /// Fails unless the new primary has every acknowledged write, and none twice.
    fn check(&self, tally: &Tally) {
        tally.check(&mut self.replica.client("postgres"));
    }
}

/// Paceline in front of these servers.
pub(crate) fn start(servers: &[&Arc<Cluster>], settings: &[&str]) -> Paceline {
    let hosts = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()));
    before(&hosts.collect::<Vec<_>>(), settings).spawn()
}

/// Paceline in front of these hosts.
fn before(hosts: &[String], settings: &[&str]) -> Builder {
    let url = format!("postgres://postgres@{}/postgres", hosts.join(","));
    let builder = Paceline::start(&url).set("hotspot_for_autocommit=true");
    settings
        .iter()
        .fold(builder, |builder, set| builder.set(set))
}

pub(crate) fn client(paceline: &Paceline) -> RawClient {
    RawClient::connect(
        paceline.port(),
        &[("user", "postgres"), ("database", "postgres")],
    )
}

pub(crate) fn console(paceline: &Paceline) -> RawClient {
    let parameters = [("user", "postgres"), ("database", "paceline")];
    RawClient::connect(paceline.port(), &parameters)
}

/// The SQLSTATE with which the connection ends.
#[track_caller]
fn end_of(mut client: RawClient) -> String {
    let messages = client.receive_to_end();
    let error = messages.iter().find(|message| message.tag == b'E');
    error.unwrap().fields().sqlstate().to_owned()
}

/// These columns of `SHOW HOSTS`, joined by a space, for the host at this port.
pub(crate) fn shown(paceline: &Paceline, port: u16, columns: &[&str]) -> String {
    shown_of(paceline, ("port", &port.to_string()), columns)
}

/// The same for the host with this value in a column.
fn shown_of(paceline: &Paceline, host: (&str, &str), columns: &[&str]) -> String {
    shown_in(paceline, "SHOW HOSTS", host, columns)
}

/// These columns of the first row of a table with this value in a column.
pub(crate) fn shown_in(
    paceline: &Paceline,
    show: &str,
    host: (&str, &str),
    columns: &[&str],
) -> String {
    let reply = console(paceline).ok(show);
    let names = reply.0[0].columns();
    let place = |column: &str| names.iter().position(|name| name == column).unwrap();
    let rows = reply.rows();
    let is_it = |row: &&Vec<Option<String>>| row[place(host.0)].as_deref() == Some(host.1);
    let row = rows.iter().find(is_it).unwrap();
    let values = columns
        .iter()
        .map(|column| row[place(column)].as_deref().unwrap_or("-"));
    values.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_primary_is_found_whatever_its_place_in_the_list() {
    let Some(pair) = Pair::start(&[]) else { return };
    let mut client = pair.client();
    client.ok(ADD);
    assert_eq!(client.value("SELECT pg_is_in_recovery()"), "f");
    let columns = ["database", "host", "role", "timeline"];
    let role = |server: &Cluster| shown(&pair.paceline, server.port(), &columns);
    assert_eq!(role(&pair.primary), "* 127.0.0.1 primary 1");
    until("the replica is in use", || {
        role(&pair.replica) == "* 127.0.0.1 replica 1"
    });
}

/// The client keeps its connection, its prepared statement and its settings.
#[test]
fn a_request_waits_until_a_replica_is_promoted() {
    let Some(pair) = Pair::start(&[]) else { return };
    let mut client = pair.client();
    client.ok("SET application_name = 'kept'");
    client.ok("PREPARE add AS UPDATE t SET n = n + $1 WHERE id = 1");
    client.ok("EXECUTE add(1)");
    until("the replica has the update", || {
        pair.replica
            .client("postgres")
            .number("SELECT n FROM t WHERE id = 1")
            == 1
    });
    pair.primary.kill();
    pair.await_loss();
    client.send(&query("EXECUTE add(10)"));
    let mut other = pair.client();
    other.send(&query(ADD));
    pair.promote();
    client.reply().expect_ok("after the promotion");
    other
        .reply()
        .expect_ok("a client that came during the failover");
    assert_eq!(client.value("SHOW application_name"), "kept");
    assert_eq!(client.number("SELECT n FROM t WHERE id = 1"), 12);
}

#[test]
fn an_old_primary_that_comes_back_gets_no_request() {
    let Some(pair) = Pair::start(&[]) else { return };
    let mut client = pair.client();
    client.ok(ADD);
    pair.primary.kill();
    pair.promote();
    client.ok(ADD);
    pair.primary.restart();
    let old = || shown(&pair.paceline, pair.primary.port(), &["role", "reason"]);
    until("the old primary is seen", || {
        old() == "rejected primary timeline 1 is lower than 2, the highest seen"
    });
    client.ok(ADD);
    let counted = pair
        .primary
        .client("postgres")
        .number("SELECT n FROM t WHERE id = 1");
    assert!(counted <= 1, "it was used");
}

#[test]
fn clients_get_an_error_after_failover_timeout() {
    let Some(pair) = Pair::start(&["failover_timeout=1s"]) else {
        return;
    };
    let mut client = pair.client();
    client.ok(ADD);
    pair.primary.kill();
    pair.await_loss();
    client.send(&query(ADD));
    assert_eq!(end_of(client), "57P03");
    let mut late = pair.client();
    late.send(&query(ADD));
    assert_eq!(end_of(late), "57P03");
    // When the server is back, clients are served again.
    pair.primary.restart();
    until("the primary is back", || {
        shown(&pair.paceline, pair.primary.port(), &["role"]) == "primary"
    });
    pair.client().ok(ADD);
}

/// Its clients cannot know whether their statements are committed, and nothing of theirs is tried again.
#[test]
fn connections_to_a_frozen_primary_are_cut_after_a_promotion() {
    let Some(pair) = Pair::start(&["default_pool_size=2"]) else {
        return;
    };
    let (mut in_transaction, mut waiting) = (pair.client(), pair.client());
    in_transaction.ok("BEGIN");
    in_transaction.ok(ADD);
    waiting.ok("SELECT 1");
    pair.primary.signal_all("STOP");
    in_transaction.send(&query("COMMIT"));
    pair.await_loss();
    waiting.send(&query("UPDATE t SET n = 5 WHERE id = 2"));
    pair.promote();
    waiting.reply().expect_ok("a request that was not sent");
    assert_eq!(end_of(in_transaction), "08006");
    let mut promoted = pair.replica.client("postgres");
    assert_eq!(promoted.number("SELECT n FROM t WHERE id = 2"), 5);
    pair.primary.signal_all("CONT");
}

/// An attempt to connect that began before the failover does not hold up connections to the new primary.
#[test]
fn an_attempt_to_reach_a_frozen_primary_ends_with_its_role() {
    let Some(pair) = Pair::start(&["server_connect_timeout=10min"]) else {
        return;
    };
    let (mut in_transaction, mut waiting) = (pair.client(), pair.client());
    in_transaction.ok("BEGIN");
    pair.primary.signal_all("STOP");
    waiting.send(&query(ADD));
    pair.await_loss();
    pair.promote();
    // The attempt alone would last for longer than the test waits for an answer.
    waiting.reply().expect_ok("after the promotion");
    pair.primary.signal_all("CONT");
}

/// A configuration file with these servers.
fn file(servers: [&Arc<Cluster>; 2], settings: &str) -> String {
    let hosts = servers.map(|server| format!("127.0.0.1:{}", server.port()));
    let hosts = hosts.join(",");
    format!(
        "[paceline]\n{settings}\n[databases.postgres]\nprimary = \"postgres://postgres@{hosts}\""
    )
}

#[test]
fn a_reload_of_the_hosts_does_not_end_transactions() {
    let Some(pair) = Pair::configured() else {
        return;
    };
    let (mut in_transaction, mut idle) = (pair.client(), pair.client());
    in_transaction.ok("BEGIN");
    in_transaction.ok(ADD);
    idle.ok("SELECT 1");
    pair.reload("failover_timeout = \"20s\"");
    idle.ok("SELECT 1");
    in_transaction.ok("COMMIT");
    assert_eq!(idle.number("SELECT n FROM t WHERE id = 1"), 1);
}

/// The new primary cannot be reached when the configuration is read again.
#[test]
fn a_reload_of_the_hosts_does_not_return_an_old_primary() {
    let Some(pair) = Pair::configured() else {
        return;
    };
    pair.client().ok(ADD);
    pair.promote();
    pair.await_promotion();
    pair.replica.signal_all("STOP");
    pair.reload("failover_timeout = \"5s\"");
    let mut late = pair.client();
    late.send(&query(ADD));
    assert_eq!(end_of(late), "57P03");
    let mut old = pair.primary.client("postgres");
    assert_eq!(old.number("SELECT n FROM t WHERE id = 1"), 1);
    pair.replica.signal_all("CONT");
}

/// The monitor may read the timelines, but not the files of their histories.
#[test]
fn the_monitor_causes_no_errors_on_the_server() {
    let Some(pair) = Pair::start(&["monitor_user=mon", "failover_timeout=60s"]) else {
        return;
    };
    until("Paceline has noticed", || {
        pair.paceline.logged("no host is the primary")
            && pair.paceline.logged("a host is not the primary")
    });
    let mut primary = pair.primary.client("postgres");
    primary.ok("CREATE ROLE mon LOGIN; GRANT pg_monitor TO mon");
    pair.client().ok(ADD);
    pair.promote();
    pair.await_promotion();
    let mut promoted = pair.replica.client("postgres");
    let failed = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let before = promoted.number(failed);
    let mut probes = BTreeSet::new();
    until("Paceline has asked several times", || {
        let asked = "SELECT coalesce(max(query_start)::text, '') FROM pg_stat_activity WHERE application_name = 'paceline: monitor'";
        probes.insert(promoted.value(asked));
        probes.len() > 4
    });
    assert_eq!(promoted.number(failed), before);
}

#[test]
fn a_server_of_another_cluster_is_not_used() {
    let (one, other) = (Cluster::private(), Cluster::private());
    one.client("postgres").ok(SETUP);
    let paceline = start(&[&one, &other], &[]);
    client(&paceline).ok(ADD);
    let shown = shown(&paceline, other.port(), &["role", "reason"]);
    assert!(
        shown.contains("the server belongs to another cluster"),
        "{shown}"
    );
}

/// With synchronous replication nothing that was acknowledged is missing, and nothing is made twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_goes_on_after_a_failover() {
    let Some(pair) = tokio::task::block_in_place(|| Pair::start(&[])) else {
        return;
    };
    pair.replicate_synchronously();
    let load = Load::start(&pair.url(), 16);
    load.progress(300).await;
    pair.primary.kill();
    pair.promote();
    load.progress(300).await;
    let tally = load.stop().await;
    pair.check(&tally);
}

/// The old primary is stopped in an orderly way before the replica is promoted: nothing is missing without synchronous replication.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_goes_on_after_a_switchover() {
    let Some(pair) = tokio::task::block_in_place(|| Pair::start(&[])) else {
        return;
    };
    let load = Load::start(&pair.url(), 16);
    load.progress(300).await;
    pair.primary.stop();
    pair.promote();
    load.progress(300).await;
    let tally = load.stop().await;
    pair.check(&tally);
}

/// An operator may pause the database, and change the primary meanwhile.
#[test]
fn clients_of_a_paused_database_wait_for_the_operator() {
    let settings = ["failover_timeout=0", "admin_users=postgres"];
    let Some(pair) = Pair::start(&settings) else {
        return;
    };
    until("the primary is known", || {
        shown(&pair.paceline, pair.primary.port(), &["role"]) == "primary"
    });
    let mut client = pair.client();
    client.ok(ADD);
    let mut console = console(&pair.paceline);
    console.ok("PAUSE");
    pair.primary.stop();
    pair.await_loss();
    client.send(&query(ADD));
    until("the client waits", || {
        let pools = console.ok("SHOW POOLS");
        let names = pools.0[0].columns();
        let waiting = names.iter().position(|name| name == "cl_waiting").unwrap();
        let rows = pools.rows();
        rows.iter().any(|row| row[waiting].as_deref() == Some("1"))
    });
    pair.promote();
    until("the promotion is known", || {
        shown(&pair.paceline, pair.replica.port(), &["role"]) == "primary"
    });
    console.ok("RESUME");
    client.reply().expect_ok("after RESUME");
    assert_eq!(client.number("SELECT n FROM t WHERE id = 1"), 2);
}

/// The fault of a primary.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Killed,
    Frozen,
    Stopped,
    /// It serves on while another server is promoted.
    Alive,
}

impl Fate {
    fn befall(self, primary: &Cluster) {
        match self {
            Self::Killed => primary.kill(),
            Self::Frozen => primary.signal_all("STOP"),
            Self::Stopped => primary.stop(),
            Self::Alive => {}
        }
    }
}

/// Two servers change their roles again and again under load, with synchronous replication. `make failover` does it more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failovers_lose_and_double_nothing() {
    let times = std::env::var("PACELINE_FAILOVERS").map_or(2, |times| times.parse().unwrap());
    let seed = paceline_testing::seed();
    let mut rng = Rng::new(seed);
    let Some(mut pair) = tokio::task::block_in_place(|| Pair::start(&[])) else {
        return;
    };
    let load = Load::start(&pair.url(), 12);
    for number in 0..times {
        pair.replicate_synchronously();
        load.progress(rng.between(1, 400)).await;
        let fate = *rng.pick(&[Fate::Killed, Fate::Killed, Fate::Frozen, Fate::Stopped]);
        println!("{number}: the primary is {fate:?}");
        fate.befall(&pair.primary);
        pair.promote();
        load.progress(rng.between(1, 200)).await;
        let paused = load.pause().await;
        pair.check(&load.tally);
        let (missing, _) =
            tokio::task::block_in_place(|| missing::bounds(&pair.paceline, number + 2));
        assert_eq!(missing, 0, "reported as missing");
        drop(paused);
        tokio::task::block_in_place(|| pair.primary.follow(&pair.replica));
        std::mem::swap(&mut pair.primary, &mut pair.replica);
    }
    let tally = load.stop().await;
    std::mem::swap(&mut pair.primary, &mut pair.replica);
    pair.check(&tally);
}

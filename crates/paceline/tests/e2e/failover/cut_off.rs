//! A server that the network cuts off: packets are lost without an error, on open connections and on new ones.

use super::{ADD, Pair, before, client, end_of, shown};
use crate::harness::cluster::Cluster;
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::remote::{PORT, Remote};
use crate::harness::until;

const N: &str = "SELECT n FROM t WHERE id = 1";

/// Statements since this time, of others than the monitor and the caller, and connections that began since.
fn uses_since(server: &Cluster, time: &str) -> i64 {
    server.client("postgres").number(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
         AND application_name <> 'paceline: monitor' AND greatest(query_start, backend_start) > '{time}'"
    ))
}

/// A pair whose primary can be cut off.
fn pair(settings: &[&str]) -> Option<(Pair, Remote)> {
    let mut remote = None;
    let pair = Pair::with(|[replica, primary]| {
        remote = Some(Remote::start(primary)?);
        let hosts = [
            format!("127.0.0.1:{}", replica.port()),
            remote.as_ref()?.host(),
        ];
        Some(before(&hosts, settings).spawn())
    })?;
    Some((pair, remote?))
}

/// Paceline cannot know whether the cut-off server receives the sent requests when the network works again, so clients get an error, and
/// nothing is tried again. The old primary receives nothing any more: neither the bytes that Paceline wrote while packets were lost, nor
/// new requests.
#[test]
fn a_primary_that_is_cut_off_is_replaced() {
    // An attempt to connect alone would last for longer than the test waits for an answer.
    let settings = ["reads=session", "server_connect_timeout=10min"];
    let Some((pair, remote)) = pair(&settings) else {
        return;
    };
    let (mut in_transaction, mut blocked, mut waiting) =
        (pair.client(), pair.client(), pair.client());
    let mut locker = pair.primary.client("postgres");
    locker.ok("BEGIN; SELECT FROM t WHERE id = 2 FOR UPDATE");
    in_transaction.ok("BEGIN; UPDATE t SET n = n + 1 WHERE id = 3");
    blocked.send(&query("UPDATE t SET n = n + 1 WHERE id = 2"));
    until("the request waits on the server", || {
        locker.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
    });
    remote.cut();
    in_transaction.send(&query("COMMIT"));
    waiting.send(&query(ADD));
    pair.await_loss();
    let mut late = pair.client();
    late.send(&query(ADD));
    pair.promote();
    waiting.reply().expect_ok("a request that was not sent");
    late.reply().expect_ok("a request of a new client");
    assert_eq!(end_of(in_transaction), "08006");
    assert_eq!(end_of(blocked), "08006");

    let time = locker.value("SELECT clock_timestamp()");
    remote.restore();
    let old = || shown(&pair.paceline, PORT, &["role", "reason"]);
    until("the old primary is seen", || {
        old() == "rejected primary timeline 1 is lower than 2, the highest seen"
    });
    let mut reader = pair.client();
    for n in 3..8 {
        reader.ok(ADD);
        assert_eq!(reader.number(N), n);
    }
    until("nothing is on its way to the old primary", || {
        !remote.owes()
    });
    assert_eq!(uses_since(&pair.primary, &time), 0);
    let committed = "SELECT sum(n) FROM t WHERE id IN (1, 3)";
    assert_eq!(locker.number(committed), 0);
    let mut promoted = pair.replica.client("postgres");
    assert_eq!(
        promoted.number("SELECT sum(n) FROM t WHERE id IN (2, 3)"),
        0
    );
}

/// The network is back before any replica is promoted.
#[test]
fn a_primary_that_is_cut_off_for_a_while_stays_the_primary() {
    let Some((pair, remote)) = pair(&[]) else {
        return;
    };
    let (mut in_transaction, mut waiting) = (pair.client(), pair.client());
    in_transaction.ok("BEGIN; UPDATE t SET n = n + 1 WHERE id = 3");
    remote.cut();
    in_transaction.send(&query("COMMIT"));
    pair.await_loss();
    waiting.send(&query(ADD));
    remote.restore();
    waiting.reply().expect_ok("a request that was not sent");
    in_transaction
        .reply()
        .expect_ok("a request that was under way");
    assert_eq!(
        waiting.value("SELECT string_agg(n::text, ' ' ORDER BY id) FROM t"),
        "1 0 1 0 0"
    );
    assert_eq!(
        shown(&pair.paceline, PORT, &["role", "timeline"]),
        "primary 1"
    );
}

/// Reads that wait for it run on the primary.
#[test]
fn reads_go_on_when_a_replica_is_cut_off() {
    let mut remote = None;
    let pair = Pair::with(|[replica, primary]| {
        remote = Some(Remote::start(replica)?);
        let hosts = [
            remote.as_ref()?.host(),
            format!("127.0.0.1:{}", primary.port()),
        ];
        Some(before(&hosts, &["reads=session"]).spawn())
    });
    let (Some(pair), Some(remote)) = (pair, remote) else {
        return;
    };
    let mut client = client(&pair.paceline);
    await_reads(&pair, &mut client);
    remote.cut();
    until("the loss is noticed", || {
        assert_eq!(client.number(N), 0);
        shown(&pair.paceline, PORT, &["serves_reads"]) == "0"
    });
    for n in 1..=5 {
        client.ok(ADD);
        assert_eq!(client.number(N), n);
    }
    remote.restore();
    await_reads(&pair, &mut client);
    assert_eq!(client.number(N), 5);
}

/// Reads until the replica answers.
fn await_reads(pair: &Pair, client: &mut RawClient) {
    let reads = || shown(&pair.paceline, PORT, &["reads"]);
    let before = reads();
    until("the replica answers", || {
        client.ok(N);
        reads() != before
    });
}

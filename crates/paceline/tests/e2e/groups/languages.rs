//! PostgreSQL in another language: nothing is decided by the text of its messages.

use crate::harness::cluster::Cluster;
use crate::harness::message::{bind, execute, parse, query, sync};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage};

fn run(name: &str) -> Vec<u8> {
    [bind("", name, &[]), execute("", 0), sync()].concat()
}

/// "cached plan must not change result type"
#[test]
fn a_stale_plan_heals() {
    let Some(cluster) = Cluster::in_german() else {
        return;
    };
    let stage = Stage::on(cluster).set("default_pool_size=1").open();
    if stage.target() == Target::Bare {
        return;
    }
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let mut client = stage.client();
    let prepare = [parse("s", "SELECT * FROM t", &[]), sync()].concat();
    client.ask(&prepare).expect_ok("prepare");
    assert_eq!(client.ask(&run("s")).rows()[0].len(), 1);
    direct.ok("ALTER TABLE t ADD COLUMN b int");
    let healed = client.ask(&run("s")).expect_ok("the plan is made again");
    assert_eq!(healed.rows()[0].len(), 2);
}

/// "canceling statement due to lock timeout", and a culprit that is found in halves.
#[test]
fn a_group_that_times_out_is_distinguished_from_one_that_fails() {
    let Some(cluster) = Cluster::in_german() else {
        return;
    };
    let stage = Stage::on(cluster)
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true")
        .open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n < 9))");
    let insert = |id: usize, n: usize| query(&format!("INSERT INTO t VALUES ({id}, {n})"));
    stage.client().ask(&insert(100, 1)).expect_ok("a lesson");
    stage.await_analysis();
    let mut clients = stage.clients(4);
    let gate = |clients: &mut Vec<RawClient>, first: usize, n: usize| {
        let mut gate = Gate::close(&stage);
        for (id, client) in clients.iter_mut().enumerate() {
            gate.submit(client, &insert(first + id, if id == 2 { n } else { 1 }));
        }
        gate
    };
    let opened = gate(&mut clients, 0, 9);
    opened.open();
    let replies: Vec<Reply> = clients.iter_mut().map(RawClient::reply).collect();
    let failed: Vec<bool> = replies.iter().map(|r| r.error().is_some()).collect();
    assert_eq!(failed, [false, false, true, false]);
    assert_ne!(replies[2].sqlstate(), "57014");
    // An outsider is about to insert one of the keys.
    let opened = gate(&mut clients, 10, 1);
    direct.ok("BEGIN; INSERT INTO t VALUES (11, 1)");
    opened.open();
    clients[0].reply().expect_ok("not the outsider's key");
    direct.ok("ROLLBACK");
    for client in &mut clients[1..] {
        client.reply().expect_ok("its own key");
    }
    if stage.target() == Target::Paceline {
        let groups = format!("{:?}", stage.client().ok("SHOW GROUPS").rows());
        assert!(groups.contains("timeout=4"), "{groups}");
    }
}

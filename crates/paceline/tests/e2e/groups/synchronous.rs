//! Synchronous replication: if an administrator ends the wait for the replica, every member learns that its change is committed on
//! the primary only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::harness::cluster::Cluster;
use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::{Gate, Stage, assert_same, until};

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL);
    INSERT INTO stock SELECT i, 0 FROM generate_series(1, 9) i;
    CREATE TABLE note (id int PRIMARY KEY, text text)";

const ADD: &str = "UPDATE stock SET qty = qty + 1 WHERE id = 1";
const MISS: &str = "UPDATE stock SET qty = qty + 1 WHERE id = 99";
const ADD_TO: &str = "UPDATE stock SET qty = qty + 1 WHERE id = $1";
const PUT: &str =
    "INSERT INTO note VALUES ($1, 'a') ON CONFLICT (id) DO UPDATE SET text = excluded.text";

/// Ends each wait for the replica, of which there is none, while `act` runs.
fn while_waits_end<T>(stage: &Stage, act: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    let mut observer = stage.direct();
    thread::scope(|scope| {
        scope.spawn(|| {
            until("the test is over", || {
                observer.ok("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
                ended.load(Ordering::SeqCst)
            });
        });
        let result = act();
        ended.store(true, Ordering::SeqCst);
        result
    })
}

#[test]
fn members_learn_that_their_change_is_not_replicated() {
    let stage = Stage::for_groups_on(Cluster::private());
    let mut direct = stage.direct();
    direct.ok(SETUP);
    let (add_to, put) = (unit(ADD_TO, &[Some("1")]), unit(PUT, &[Some("1")]));
    for request in [&query(ADD), &add_to, &put] {
        stage.client().ask(request).expect_ok("the first request");
    }
    stage.await_analysis();
    let requests = [
        query(ADD),
        query(MISS),
        query(ADD),
        add_to.clone(),
        add_to,
        put.clone(),
        put,
    ];
    let mut clients = stage.clients(requests.len());
    let mut gate = Gate::close(&stage);
    direct.ok("ALTER SYSTEM SET synchronous_standby_names = 'none'");
    direct.ok("SELECT pg_reload_conf()");
    for (client, request) in clients.iter_mut().zip(&requests) {
        gate.submit(client, request);
    }
    let replies: Vec<_> = while_waits_end(&stage, || {
        gate.open();
        clients.iter_mut().map(RawClient::reply).collect()
    });
    let alone: Vec<_> = while_waits_end(&stage, || {
        requests.iter().map(|request| direct.ask(request)).collect()
    });
    for (reply, alone) in replies.iter().zip(&alone) {
        assert_same("alone and in a group", &alone.0, &reply.0);
    }
    let warned = replies.iter().filter(|reply| reply.tags().contains('N'));
    assert_eq!(warned.count(), 6);
    stage.assert_grouped(7, 2);
}

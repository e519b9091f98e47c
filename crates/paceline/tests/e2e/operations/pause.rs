//! PAUSE and RESUME (SIGUSR1, SIGUSR2).

use super::{await_line, scene, server_connections, table};
use crate::harness::load::Load;
use crate::harness::message::query;
use crate::harness::until;
use std::sync::atomic::Ordering;

#[test]
fn a_pause_waits_for_transactions_and_holds_up_what_comes_next() {
    let Some(scene) = scene("", |builder| builder) else {
        return;
    };
    let mut status = scene.client();
    let mut at_work = scene.client();
    let mut next = scene.client();
    at_work.ok("BEGIN; SELECT 1");
    scene.paceline.signal_and_hear("USR1", "Pause(None)");
    next.send(&query("SELECT 7"));
    await_line(&mut status, 1);
    let mut newcomer = scene.client();
    newcomer.send(&query("SELECT 8"));
    await_line(&mut status, 2);
    assert_eq!(scene.paceline.heard("Pause(None): done"), 0);
    at_work.ok("SELECT 2");
    at_work.ok("COMMIT");
    until("the pause is complete", || {
        scene.paceline.heard("Pause(None): done") == 1
    });
    let mut direct = scene.direct();
    until("its server connections are closed", || {
        server_connections(&mut direct) == 0
    });
    await_line(&mut status, 2);
    scene
        .paceline
        .signal_and_hear("USR1", "already suspended/paused");
    scene.paceline.signal_and_hear("USR2", "Resume(None): done");
    assert_eq!(next.reply().value(), "7");
    assert_eq!(newcomer.reply().value(), "8");
    at_work.ok("SELECT 3");
    let refusal = "pooler is not paused/suspended";
    scene.paceline.signal_and_hear("USR2", refusal);
}

/// Who is served again before a pause is complete has not been paused.
#[test]
fn a_pause_that_is_ended_early_says_so() {
    let Some(scene) = scene("", |builder| builder) else {
        return;
    };
    let mut at_work = scene.client();
    at_work.ok("BEGIN; SELECT 1");
    scene.paceline.signal_and_hear("USR1", "Pause(None)");
    let paused = "resumed before all server connections were free";
    scene.paceline.signal_and_hear("USR2", paused);
    scene.client().ok("SELECT 1");
    at_work.ok("COMMIT");
    assert_eq!(scene.paceline.heard("Pause(None): done"), 0);
}

#[test]
fn who_waits_in_a_pause_waits_no_longer_than_elsewhere() {
    let Some(scene) = scene("query_wait_timeout = \"2s\"", |builder| builder) else {
        return;
    };
    let mut client = scene.client();
    scene.paceline.signal_and_hear("USR1", "Pause(None): done");
    client.send(&query("SELECT 1"));
    let told = client.receive_to_end();
    assert_eq!(told[0].fields().text(), "query_wait_timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_under_load_lose_nothing() {
    let Some(scene) = scene("hotspot_for_autocommit = true", |builder| builder) else {
        return;
    };
    let mut direct = scene.direct();
    table(&mut direct);
    let load = Load::start(&scene.url(), 16);
    for _ in 0..5 {
        load.progress(200).await;
        scene.paceline.signal_and_hear("USR1", "Pause(None): done");
        until("nobody is at work", || server_connections(&mut direct) == 0);
        scene.paceline.signal_and_hear("USR2", "Resume(None): done");
    }
    load.progress(200).await;
    let tally = load.stop().await;
    let unknown = tally.unknown.iter().map(|row| row.load(Ordering::SeqCst));
    assert_eq!(unknown.sum::<i64>(), 0);
    assert!(tally.refused.lock().unwrap().is_empty());
    assert_eq!(direct.number("SELECT sum(n) FROM t"), tally.acknowledged());
}

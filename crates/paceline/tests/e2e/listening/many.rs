//! Many listeners on many channels.

use super::{connections, payloads, receive, shared};
use crate::harness::Stage;
use std::time::{Duration, Instant};

/// Each listens on one channel, and gets all of its notifications and no other.
fn listen(stage: &Stage, listeners: usize, channels: usize, rounds: usize) {
    let mut clients: Vec<_> = (0..listeners).map(|_| stage.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&crate::harness::message::query(&format!(
            "LISTEN c{}",
            number % channels
        )));
    }
    for client in &mut clients {
        client.reply().expect_ok("listen");
    }
    let mut notifier = stage.client();
    for round in 0..rounds {
        notifier.ok(&format!(
            "SELECT pg_notify('c' || g, g || '/{round}') FROM generate_series(0, {}) g",
            channels - 1
        ));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let channel = number % channels;
        let expected: Vec<_> = (0..rounds)
            .map(|round| format!("{channel}/{round}"))
            .collect();
        assert_eq!(payloads(&receive(client, rounds)), expected);
    }
    assert_eq!(connections(&mut stage.direct()), 1);
}

#[test]
fn five_hundred_listeners_receive_their_notifications() {
    listen(&shared(), 500, 100, 5);
}

/// 20,000 file descriptors here, and as many there.
#[test]
fn ten_thousand_listeners_on_a_hundred_channels() {
    let stage = Stage::on_shared()
        .set("listen_mode=shared")
        .set("max_client_conn=10100")
        .open();
    let began = Instant::now();
    listen(&stage, 10_000, 100, 3);
    println!("{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(120));
}

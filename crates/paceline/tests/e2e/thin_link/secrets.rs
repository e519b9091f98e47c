//! The lengths of one client's messages depend on no other client: the window ends with each exchange.

use super::wire::Wire;
use super::{Link, far, near};
use crate::harness::Rng;
use crate::harness::cluster;
use crate::harness::raw::RawClient;

/// Random digits, as text of a query.
fn text(rng: &mut Rng) -> String {
    let digits = (0..3_000).map(|_| char::from(b'0' + rng.below(10) as u8));
    digits.collect()
}

/// The transmitted bytes of the same statement, to the server and back, for a first client and for another one, on one connection.
fn lengths(link: &Link) -> [[u64; 2]; 2] {
    let mut rng = Rng::new(paceline_testing::seed());
    let mut clients: [RawClient; 2] = [(); 2].map(|()| link.client());
    // The first statements prepare those that later ones use.
    for client in &mut clients {
        for _ in 0..5 {
            client.ok(&format!("SELECT '{}'", text(&mut rng)));
        }
    }
    let secret = text(&mut rng);
    clients.each_mut().map(|client| {
        let before = link.wire.bytes();
        client.ok(&format!("SELECT '{secret}'"));
        let after = link.wire.bytes();
        [after[0] - before[0], after[1] - before[1]]
    })
}

#[test]
fn what_another_client_has_sent_makes_nothing_shorter() {
    let link = Link::with(&["default_pool_size=1"]);
    let [first, other] = lengths(&link);
    for (first, other) in first.into_iter().zip(other) {
        // Digits compress to less than half, so this limit can fail.
        assert!(first < 1_800, "{first}");
        assert_eq!(first, other);
    }
}

#[test]
fn a_shared_window_makes_it_shorter() {
    let cluster = cluster::shared();
    let shared = "compression_shared_window=true";
    let far = far(&cluster).set(shared).spawn();
    let wire = Wire::to(far.port());
    let near = near(wire.port())
        .set(shared)
        .set("default_pool_size=1")
        .spawn();
    let link = Link {
        database: cluster.database(),
        cluster,
        near,
        wire,
        far,
    };
    let [first, other] = lengths(&link);
    for (first, other) in first.into_iter().zip(other) {
        assert!(other < first / 4, "{first} {other}");
    }
}

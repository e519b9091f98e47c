//! Tests of all scenarios.

use super::*;
use crate::statement::Protocol;

#[test]
fn a_rate_is_divided_among_active_clients() {
    let sizes = Sizes {
        rows: None,
        full: false,
        protocol: Protocol::Prepared,
        seed: 1,
    };
    for scenario in SCENARIOS {
        for variant in scenario.variants {
            let workers = (variant.build)(&sizes).active_clients(64);
            let expected = match (scenario.name, variant.name) {
                ("storm", "idle") => 10,
                // One client holds the snapshot.
                ("queue", "pinned") => 63,
                // Every 16th client changes rows; only reads are units.
                ("keyed-read", "updates") => 60,
                _ => 64,
            };
            assert_eq!(workers, expected, "{} {}", scenario.name, variant.name);
        }
    }
}

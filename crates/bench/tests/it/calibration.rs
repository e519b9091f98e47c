//! The load generator with a server that does no work.

use crate::support::block_on;
use paceline_bench::{Calibration, Protocol};
use std::time::Duration;

#[test]
fn every_client_gets_answers() {
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let calibration = Calibration {
            clients: vec![1, 300],
            warmup: Some(Duration::ZERO),
            duration: Some(Duration::from_millis(500)),
            protocol,
            threads: 2,
            seed: 1,
        };
        let ceilings = block_on(paceline_bench::calibrate(&calibration)).unwrap();
        let clients: Vec<usize> = ceilings.iter().map(|ceiling| ceiling.clients).collect();
        assert_eq!(clients, [1, 300]);
        assert!(ceilings.iter().all(|ceiling| ceiling.rate > 0.0));
        let table = paceline_bench::ceilings(&ceilings);
        assert_eq!(table.lines().count(), 4, "{table}");
    }
}

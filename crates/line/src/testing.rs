//! What the tests of this crate share: seeds, messages as text, units and tables to fold on.

pub(crate) mod folding;
pub(crate) mod messages;
pub(crate) mod read_out;
pub(crate) mod travelling;
pub(crate) mod trip;

use proptest::test_runner::{Config, RngSeed};

/// The seed of generated tests unless `PACELINE_SEED` (decimal, or hexadecimal after `0x`) says otherwise.
const SEED_DEFAULT: u64 = 0x5eed_11e5;

/// How a property test runs; says its seed first, so that a failure can be had again.
pub(crate) fn generated(cases: u32) -> Config {
    let seed = match std::env::var("PACELINE_SEED") {
        Ok(text) => read_seed(&text),
        Err(_) => SEED_DEFAULT,
    };
    println!("seed {seed:#x} (PACELINE_SEED sets another)");
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    }
}

fn read_seed(text: &str) -> u64 {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.unwrap_or_else(|error| panic!("PACELINE_SEED={text}: {error}"))
}

//! Helpers for the unit tests of several crates: messages, messages as text, files that are generated from the code ([`kept`]), a checker
//! for [`histories`] of transactions, and seeds of generated tests. Each run draws a new seed and prints it first; `PACELINE_SEED`
//! (decimal, or hexadecimal after `0x`) repeats a run.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot run says so"
)]

pub mod histories;
pub mod messages;
pub mod read_out;

mod files;

pub use files::kept;

use proptest::test_runner::{Config, RngSeed};
use std::hash::{BuildHasher, RandomState};

/// The variable that repeats a run.
const VARIABLE: &str = "PACELINE_SEED";

/// The seed of this test: the one in `PACELINE_SEED`, or a new one. Prints it.
///
/// # Panics
/// If the variable is no number.
#[must_use]
pub fn seed() -> u64 {
    let seed = match std::env::var(VARIABLE) {
        Ok(text) => read(&text).unwrap_or_else(|| panic!("{VARIABLE}={text} is no number")),
        Err(_) => RandomState::new().hash_one(()),
    };
    println!("{VARIABLE}={seed:#x}");
    seed
}

/// The configuration of a property test with this number of cases, from [`seed`].
#[must_use]
pub fn cases(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        ..Config::default()
    }
}

fn read(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_as_it_is_printed() {
        for seed in [0, 42, u64::MAX] {
            assert_eq!(read(&format!("{seed:#x}")), Some(seed));
            assert_eq!(read(&seed.to_string()), Some(seed));
        }
        assert_eq!(read("seed"), None);
    }

    #[test]
    fn each_seed_is_new() {
        if std::env::var(VARIABLE).is_err() {
            assert_ne!(seed(), seed());
        }
    }
}

//! The lab as others use it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod browser;
mod compare;
mod report;
mod sample;

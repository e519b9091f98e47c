//! The lab against a real PostgreSQL: every check holds when nothing is wrong, and fails when something is.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod calibration;
mod keyed_read;
mod script;
mod support;

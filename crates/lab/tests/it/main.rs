//! The lab's scenarios against a real PostgreSQL: what they do is checked, and their checks are put to the test.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod edges;
mod storm;
mod trial;

//! The lab against a real PostgreSQL: every variant of every scenario runs, and its check holds, or fails when it should.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod queue;

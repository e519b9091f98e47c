//! Tests of the public interface: scenarios with a real PostgreSQL, the faults that their checks detect, and the output.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod bench_lock;
mod browser;
mod calibration;
mod compare;
mod edges;
mod faults;
mod hot_row;
mod keyed_read;
mod open_loop;
mod queue;
mod report;
mod sample;
mod script;
mod storm;
mod support;
mod table;
mod trial;
mod validity;

//! Tests of the embedded server with the PostgreSQL of this machine and with one fetched from the network. They never sleep
//! to wait for an event, and leave no process running.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod fault;
mod fetched;
mod life;
mod refusal;
mod replication;
mod support;

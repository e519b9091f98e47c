//! The embedded server against the real PostgreSQL of this machine, and against one fetched from the network.
//! It never sleeps to wait for anything, and leaves nothing running.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod fault;
mod fetched;
mod life;
mod refusal;
mod support;

//! End-to-end tests: the binary `paceline` in front of a real PostgreSQL, seen from the client's socket.
//!
//! If a comparison is possible, the answers are compared with those of bare PostgreSQL, message by message. Groups are forced, not hoped
//! for: see [`harness::gate`]. With `PACELINE_E2E_TARGET=bare` in the environment every client connects to PostgreSQL directly instead,
//! which tests the tests. A test that runs for longer than its limit ends the run: [`harness::watchdog`]. Failures print the server's and
//! Paceline's logs where they help.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that meets the unexpected has failed"
)]

mod chaos;
mod clients;
mod command_line;
mod drivers;
mod failover;
mod from_pgbouncer;
mod fuzz;
mod groups;
mod harness;
mod histories;
mod listening;
mod login;
mod operations;
mod pipelines;
mod pooling;
mod prepared;
mod reads;
mod replication;
mod scripts;
mod session;
mod sharding;
mod thin_link;
mod tidy;
